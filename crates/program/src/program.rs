//! A program: ops in order over named tensors, and nothing else.
//!
//! A program is data that can be printed, counted, planned for any device, and run. There is no
//! autograd: a builder adds the backward ops like the forward ones.

use std::fmt;

use crate::{
    op::{Access, Op},
    rope::Rope,
    units::{Bytes, DType, TensorId},
};

/// What a tensor is for; reports sum bytes by class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TensorClass {
    /// Learned weights.
    Parameter,
    /// Their gradients.
    Gradient,
    /// What an optimizer keeps between steps.
    Optimizer,
    /// Values between ops, their gradients, and the cache of sampling.
    Activation,
    /// Logits over the vocabulary.
    Logits,
    /// Memory that an op needs only while it runs, and a few counters of the run.
    Scratch,
    /// Tokens and targets, and tables of constants.
    Input,
}

impl TensorClass {
    /// All of them, in the order of reports.
    pub const ALL: [Self; 7] = [
        Self::Parameter,
        Self::Gradient,
        Self::Optimizer,
        Self::Activation,
        Self::Logits,
        Self::Scratch,
        Self::Input,
    ];

    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Parameter => "parameters",
            Self::Gradient => "gradients",
            Self::Optimizer => "optimizer",
            Self::Activation => "activations",
            Self::Logits => "logits",
            Self::Scratch => "scratch",
            Self::Input => "inputs",
        }
    }
}

/// Which tensor of PyTorch's run it is, for the doctor: a name is text for reports, and no code
/// decides by it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TensorRole {
    /// Its class and its shape say enough.
    #[default]
    General,
    /// A copy of a parameter in another type.
    ParameterCopy,
    /// A weight of a loaded checkpoint that a variable still holds.
    LoadedWeight,
    /// Adam's first moment.
    FirstMoment,
    /// Adam's second moment.
    SecondMoment,
    /// The square root of the second moment.
    SecondMomentRoot,
    /// (B, H, T, T): a score for every pair of tokens, or its gradient.
    AttentionScores,
    /// The softmax of those, its dropout, or a gradient of these.
    AttentionSoftmax,
    /// The logits of a whole batch.
    Logits,
    /// The softmax of the logits, or its gradient.
    LogSoftmax,
    /// The first gradient of a backward pass.
    LossGradient,
    /// The logits of the previous evaluation batch.
    LastBatchLogits,
    /// The logits of the previous micro-batch.
    LastMicroBatchLogits,
    /// What the training loop's variables hold during another phase.
    TrainingVariable,
}

/// How long a tensor holds a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Life {
    /// Before, during and after every program: state.
    Always,
    /// Filled by the host before the first op, until its last read.
    Input,
    /// From its first write to its last read.
    Inner,
    /// From its first write until the host has read it, after the last op.
    Output,
}

/// A named, shaped value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// Unique in its program.
    pub name: String,
    /// Outermost first.
    pub shape: Vec<u64>,
    /// How an element is stored.
    pub dtype: DType,
    /// What it is for.
    pub class: TensorClass,
    /// How long it holds a value.
    pub life: Life,
    /// Which tensor of PyTorch's run it is.
    pub role: TensorRole,
}

impl Tensor {
    /// Elements.
    pub fn count(&self) -> u64 {
        self.shape.iter().product()
    }

    /// Its size. Configs whose sizes overflow 64 bits are refused earlier.
    pub fn bytes(&self) -> Bytes {
        Bytes::of(self.count(), self.dtype).expect("the config's sizes fit 64 bits")
    }

    /// The last axis.
    pub fn columns(&self) -> u64 {
        self.shape.last().copied().unwrap_or(1)
    }

    /// All axes but the last, as one.
    pub fn rows(&self) -> u64 {
        self.count().checked_div(self.columns()).unwrap_or(0)
    }
}

/// Whether tensors get names. Building a name takes longer than counting its tensor, so programs
/// that are only counted have no names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// Every tensor has one.
    Kept,
    /// None has.
    Left,
}

impl Names {
    /// The name, or none.
    pub fn of(self, name: impl fmt::Display) -> String {
        match self {
            Self::Kept => name.to_string(),
            Self::Left => String::new(),
        }
    }
}

/// What a program is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProgramKind {
    /// Forward, loss and backward of one micro-batch.
    Train,
    /// The optimizer's step.
    Update,
    /// The losses of some sequences.
    Evaluate,
    /// A prompt of any length up to a whole block.
    Prefill,
    /// One more token of every sequence.
    Decode,
    /// A program of another engine, or of a test.
    Other(&'static str),
}

impl ProgramKind {
    /// As in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::Update => "update",
            Self::Evaluate => "evaluate",
            Self::Prefill => "prefill",
            Self::Decode => "decode",
            Self::Other(name) => name,
        }
    }
}

/// A constant table of rotary positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Constant {
    /// The tensor that holds it.
    pub tensor: TensorId,
    rope: Rope,
    positions: u32,
    channels: u32,
}

impl Constant {
    /// Its rows, first to last.
    pub fn rows(&self) -> impl Iterator<Item = Vec<f32>> {
        self.rope.rows(self.positions, self.channels)
    }
}

/// Ops in order, with their tensors.
///
/// State tensors come first in the table, in the same order in every program of
/// a plan, so that one [`TensorId`] names the same state in all of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    kind: ProgramKind,
    tensors: Vec<Tensor>,
    ops: Vec<Op>,
}

impl Program {
    /// A program with `state` and no ops.
    pub fn new(kind: ProgramKind, state: Vec<Tensor>) -> Self {
        assert!(state.iter().all(|t| t.life == Life::Always), "state has the life `Always`");
        Self { kind, tensors: state, ops: Vec::new() }
    }

    /// Adds a tensor that is not state.
    pub fn tensor(&mut self, tensor: Tensor) -> TensorId {
        assert!(tensor.life != Life::Always, "state is given when the program is made");
        self.tensors.push(tensor);
        TensorId(self.tensors.len() as u32 - 1)
    }

    /// States which tensor of PyTorch's run it is.
    pub fn set_role(&mut self, tensor: TensorId, role: TensorRole) {
        self.tensors[tensor.index()].role = role;
    }

    /// Adds an op at the end.
    pub fn op(&mut self, op: Op) {
        self.ops.push(op);
    }

    /// What it is for.
    pub fn kind(&self) -> ProgramKind {
        self.kind
    }

    /// Its name in reports.
    pub fn name(&self) -> &'static str {
        self.kind.name()
    }

    /// Constant state. A backend fills it from [`Constant::rows`] when it allocates its arena.
    pub fn constants(&self) -> Vec<Constant> {
        let mut found: Vec<Constant> = Vec::new();
        for op in &self.ops {
            if let Op::Rotary { table, rope, .. } = *op
                && found.iter().all(|constant| constant.tensor != table)
            {
                let &[positions, channels] = &self.get(table).shape[..] else {
                    panic!("a rotary table has a row for each position");
                };
                let [positions, channels] = [positions, channels].map(|size| size as u32);
                found.push(Constant { tensor: table, rope, positions, channels });
            }
        }
        found
    }

    /// The table of tensors, state first.
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    /// The ops, first to last.
    pub fn ops(&self) -> &[Op] {
        &self.ops
    }

    /// One tensor.
    pub fn get(&self, id: TensorId) -> &Tensor {
        &self.tensors[id.index()]
    }

    /// The tensor of that name.
    pub fn find(&self, name: &str) -> Option<TensorId> {
        let index = self.tensors.iter().position(|t| t.name == name)?;
        Some(TensorId(index as u32))
    }

    /// The state tensors.
    pub fn state(&self) -> &[Tensor] {
        let count = self.tensors.iter().take_while(|t| t.life == Life::Always).count();
        &self.tensors[..count]
    }
}

impl fmt::Display for Program {
    /// One op per line: `out, … = name reads …`, with `~` before tensors that are changed in place.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, op) in self.ops.iter().enumerate() {
            let (mut results, mut sources) = (Vec::new(), Vec::new());
            for operand in op.operands() {
                let name = &self.get(operand.tensor).name;
                match operand.access {
                    Access::Reads => sources.push(name.clone()),
                    Access::Writes => results.push(name.clone()),
                    Access::Updates => results.push(format!("~{name}")),
                }
            }
            let (results, sources) = (results.join(", "), sources.join(", "));
            writeln!(f, "{index:4}  {results} = {} {sources}", op.name())?;
        }
        Ok(())
    }
}
