//! The definition of every op: plain loops in float64, rounded once to the stored type.
//!
//! Slow on purpose. `conformance` compares other backends with this one. Each file has the maths of
//! a group of ops as functions over f64 slices, whose gradients are checked against finite
//! differences, and a `run` that loads operands, calls them and stores results.
//!
//! Ops read values as they are stored: a value that passes between two ops, or is kept for the
//! backward, is rounded before it is used, even inside a fused op.
//!
//! Promise: the gradients are correct. Test: finite differences in
//! `crates/exec/src/reference/differences.rs`, PyTorch's in `tests/library/pytorch/steps.rs`.

pub mod bfloat16;
mod gelu;
mod values;
mod attention;
mod cache;
mod dropout;
mod embed;
mod linear;
mod loss;
mod norm;
mod rotary;
mod update;
mod muon;
mod update_8bit;
#[cfg(test)]
mod differences;

use std::ops::Range;

use fitgpt_program::{
    Op, Program,
    memory::{Limits, Target, VerifiedPlan},
    units::{Bytes, OpIndex, ProgramId, TensorId},
};

use self::values::OpValues;
pub use self::{
    attention::{CausalAttention, joined_channels},
    norm::{Centre, statistics},
    update_8bit::decoded,
    values::{narrow, widen},
};
use crate::{Arguments, Backend, BackendError, Watch, arena::Operands, backend::WatchedArena};

/// The reference as a planning target: it needs no scratch.
#[derive(Clone, Copy, Debug)]
pub struct ReferenceTarget(pub Limits);

impl Target for ReferenceTarget {
    fn limits(&self) -> Limits {
        self.0
    }

    fn scratch(&self, _: &Program, _: &Op) -> Bytes {
        Bytes::ZERO
    }
}

/// The backend that defines every op.
#[derive(Debug)]
pub struct Reference {
    host: WatchedArena,
}

impl Reference {
    /// A backend for the programs of `plan`, which was made within `limits`.
    pub fn new(plan: VerifiedPlan, limits: Limits, watch: Watch) -> Result<Self, BackendError> {
        Ok(Self { host: WatchedArena::new(plan, limits, watch, &mut |_| Ok(()))? })
    }
}

impl Backend for Reference {
    fn plan(&self) -> &VerifiedPlan {
        self.host.plan()
    }

    fn run_part(
        &mut self,
        program: ProgramId,
        ops: Range<usize>,
        arguments: &Arguments,
    ) -> Result<(), BackendError> {
        let kernel = |program: &Program, op: &Op, operands: &mut Operands<'_>| {
            run(program, arguments, op, operands);
        };
        self.host.run(program, ops, &mut |_| {}, kernel);
        Ok(())
    }

    fn run_op_by_op(
        &mut self,
        program: ProgramId,
        arguments: &Arguments,
        ended: &mut dyn FnMut(OpIndex),
    ) -> Result<(), BackendError> {
        let all = self.host.all_ops(program);
        let kernel = |program: &Program, op: &Op, operands: &mut Operands<'_>| {
            run(program, arguments, op, operands);
        };
        self.host.run(program, all, ended, kernel);
        Ok(())
    }

    fn write(
        &mut self,
        program: ProgramId,
        tensor: TensorId,
        start: Bytes,
        values: &[u8],
    ) -> Result<(), BackendError> {
        self.host.write(program, tensor, start, values);
        Ok(())
    }

    fn read(
        &mut self,
        program: ProgramId,
        tensor: TensorId,
        start: Bytes,
        values: &mut [u8],
    ) -> Result<(), BackendError> {
        self.host.read(program, tensor, start, values);
        Ok(())
    }
}

fn run(program: &Program, arguments: &Arguments, op: &Op, operands: &mut Operands<'_>) {
    let mut values = OpValues { program, arguments, operands };
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
        Op::GradientNorm { .. } | Op::Update { .. } => update::run,
        Op::AdamW8bit { .. } => update_8bit::run,
        Op::Muon { .. } => muon::run,
        Op::StoreCache { .. } | Op::CachedAttention { .. } | Op::LastRow { .. } => cache::run,
        Op::Named { name, .. } => {
            panic!("`{name}` is an op of another engine: it is planned, never run")
        }
    };
    family(op, &mut values);
}

/// Panics for an op that `run` above passed to the wrong file.
fn misplaced(op: &Op) -> ! {
    unreachable!("`{}` was sent to the wrong file", op.name())
}

#[cfg(test)]
mod tests {
    use fitgpt_program::{
        ProgramKind,
        memory::{place, verify},
    };

    use super::*;

    #[test]
    #[should_panic(expected = "`aten::add` is an op of another engine")]
    fn an_op_of_another_engine_is_never_run() {
        let mut program = Program::new(ProgramKind::Train, Vec::new());
        program.op(Op::Named { name: "aten::add", operands: Vec::new() });
        let device = ReferenceTarget(Limits::HOST);
        let plan = verify(place(vec![program], &device).unwrap(), &device).unwrap();
        let mut backend = Reference::new(plan, Limits::HOST, Watch::Off).unwrap();
        backend.run(ProgramId(0), &Arguments::default()).unwrap();
    }
}
