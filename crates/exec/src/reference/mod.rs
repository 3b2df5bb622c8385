//! The definition of every op: plain loops in float64, rounded once to the stored type.
//!
//! Slow on purpose. Kernels of other backends may only be faster; `conformance` judges them
//! by this one. Each file holds the maths of one family as functions over f64 slices, whose
//! gradients are checked against finite differences, and the op that loads, calls and stores.
//!
//! A consumer reads a value as it is stored: what passes between two ops, or is kept for a
//! backward, is rounded before it is used, also inside a fused op.

mod attention;
mod cache;
#[cfg(test)]
mod differences;
mod dropout;
mod embed;
mod gelu;
mod linear;
mod loss;
mod muon;
mod norm;
mod rotary;
mod update;
mod update_8bit;
mod values;

use fitgpt_plan::{
    memory::{Limits, Target, VerifiedPlan},
    program::{Op, Program},
    units::{Bytes, OpIndex, TensorId},
};

use self::values::Values;
pub(crate) use self::{
    attention::{Causal, joined_channels},
    norm::{Centre, statistics},
    update_8bit::decoded,
    values::{narrow, widen},
};
use crate::{Arguments, Backend, BackendError, Watch, arena::Operands, backend::Host};

/// What the reference asks of a planner: no scratch at all.
#[derive(Clone, Copy, Debug)]
pub struct Device(pub Limits);

impl Target for Device {
    fn limits(&self) -> Limits {
        self.0
    }

    fn scratch(&self, _: &Program, _: &Op) -> Bytes {
        Bytes::ZERO
    }
}

/// The backend that defines the others.
#[derive(Debug)]
pub struct Reference {
    host: Host,
}

impl Reference {
    /// A backend for the programs of `plan`, which was made within `limits`.
    pub fn new(plan: VerifiedPlan, limits: Limits, watch: Watch) -> Result<Self, BackendError> {
        Ok(Self { host: Host::new(plan, limits, watch)? })
    }
}

impl Backend for Reference {
    fn plan(&self) -> &VerifiedPlan {
        self.host.plan()
    }

    fn run_op_by_op(
        &mut self,
        program: usize,
        arguments: &Arguments,
        ended: &mut dyn FnMut(OpIndex),
    ) -> Result<(), BackendError> {
        self.host
            .run(program, ended, |program, op, operands| run(program, arguments, op, operands));
        Ok(())
    }

    fn write(
        &mut self,
        program: usize,
        tensor: TensorId,
        start: Bytes,
        values: &[u8],
    ) -> Result<(), BackendError> {
        self.host.write(program, tensor, start, values);
        Ok(())
    }

    fn read(
        &mut self,
        program: usize,
        tensor: TensorId,
        start: Bytes,
        values: &mut [u8],
    ) -> Result<(), BackendError> {
        self.host.read(program, tensor, start, values);
        Ok(())
    }
}

fn run(program: &Program, arguments: &Arguments, op: &Op, operands: &mut Operands<'_>) {
    let mut values = Values { program, arguments, operands };
    let family = match op {
        Op::Embed { .. } | Op::EmbedBackward { .. } => embed::run,
        Op::Norm { .. }
        | Op::NormAgain { .. }
        | Op::NormBackward { .. }
        | Op::NormBackwardAdd { .. } => norm::run,
        Op::Rotary { .. } => rotary::run,
        Op::Linear { .. }
        | Op::LinearGelu { .. }
        | Op::LinearSwiGlu { .. }
        | Op::LinearResidual { .. }
        | Op::LinearBackwardInput { .. }
        | Op::LinearBackwardInputAdd { .. }
        | Op::LinearBackwardSwiGlu { .. }
        | Op::LinearBackwardGelu { .. }
        | Op::LinearBackwardWeight { .. } => linear::run,
        Op::Attention { .. } | Op::AttentionBackward { .. } => attention::run,
        Op::CrossEntropy { .. } | Op::CrossEntropyBackward { .. } => loss::run,
        Op::Dropout { .. } => dropout::run,
        Op::GradientNorm { .. } | Op::AdamW { .. } => update::run,
        Op::AdamW8bit { .. } => update_8bit::run,
        Op::Muon { .. } => muon::run,
        Op::StoreCache { .. } | Op::CachedAttention { .. } | Op::LastRow { .. } => cache::run,
        Op::Named { name, .. } => {
            panic!("`{name}` is an op of another engine: it is planned, never run")
        }
    };
    family(op, &mut values);
}

/// What a family says to an op of another one: `run` above sent it to the wrong file.
fn misplaced(op: &Op) -> ! {
    unreachable!("`{}` was sent to another family's file", op.name())
}

#[cfg(test)]
mod tests {
    use fitgpt_plan::{
        memory::{place, verify},
        program::ProgramKind,
    };

    use super::*;

    #[test]
    #[should_panic(expected = "`aten::add` is an op of another engine")]
    fn an_op_of_another_engine_is_never_run() {
        let mut program = Program::new(ProgramKind::Train, Vec::new());
        program.op(Op::Named { name: "aten::add", operands: Vec::new() });
        let device = Device(Limits::HOST);
        let plan = verify(place(vec![program], &device).unwrap(), &device).unwrap();
        let mut backend = Reference::new(plan, Limits::HOST, Watch::Off).unwrap();
        backend.run(0, &Arguments::default()).unwrap();
    }
}
