//! nanoGPT as PyTorch runs it: the same programs, with PyTorch's ops and PyTorch's lifetimes.
//!
//! Nothing here is run. The programs are counted by [`crate::memory::profile`] with the target
//! [`CachingAllocator`], like those of our own engine, so that what PyTorch needs is never a
//! formula: it is the sum of the tensors that are alive at an op.
//!
//! Counted are tensors, each rounded up to 512 bytes. Not counted are the CUDA context, library
//! workspaces, temporaries inside a kernel's launcher, and fragmentation.

mod attention;
mod backward;
mod compiled;
mod eager;
mod loss;
mod pass;
mod resume;
mod tape;
#[cfg(test)]
mod tests;
mod update;

use self::tape::Held;
use crate::{
    memory::{Limits, Target},
    model::Model,
    program::{Op, Program},
    units::{Bytes, DType},
};

/// How the run computes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// Everything in float32.
    F32,
    /// Autocast: float32 weights, bfloat16 products.
    #[default]
    Bf16,
    /// Autocast: float32 weights, float16 products.
    F16,
}

impl Precision {
    /// The type of matrix products and of logits.
    pub const fn dtype(self) -> DType {
        match self {
            Self::F32 => DType::F32,
            Self::Bf16 => DType::Bf16,
            Self::F16 => DType::F16,
        }
    }
}

/// What autocast does with half logits on their way into `cross_entropy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Loss {
    /// A float32 copy of the logits, and a float32 softmax.
    #[default]
    Float32,
    /// A half softmax, and a float32 copy of its result: what PyTorch's list of CUDA ops gives
    /// since `cross_entropy_loss` names its own type.
    HalfSoftmax,
}

/// Everything about a run that shapes what PyTorch holds. [`Default`] is nanoGPT's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TorchOptions {
    /// Sequences of a micro-batch.
    pub batch: u64,
    /// Tokens of a sequence.
    pub seq: u64,
    /// Micro-batches of a step on one worker.
    pub accumulation: u64,
    /// Sequences of an evaluation's batch.
    pub eval_batch: u64,
    /// Tokens of an evaluation's sequence.
    pub eval_seq: u64,
    /// How it computes.
    pub precision: Precision,
    /// Whether `torch.compile` runs the model.
    pub compile: bool,
    /// Whether the model drops anything out; the rate does not matter.
    pub dropout: bool,
    /// Whether `torch.utils.checkpoint` wraps every block.
    pub checkpoint_blocks: bool,
    /// Whether attention is one kernel (PyTorch 2) or score by score.
    pub fused_attention: bool,
    /// Data-parallel workers; above 1 gradients are also kept in flat buckets.
    pub ddp_world: u64,
    /// Whether AdamW is one kernel, or a list of ops over all parameters (`foreach`).
    pub fused_adam: bool,
    /// How the loss is computed under autocast.
    pub loss: Loss,
    /// Whether the run began from a checkpoint: it is loaded onto the device, and the global
    /// `state_dict` holds its weights to the end of the run.
    pub resumed: bool,
    /// A patch: `loss = model(X, Y)[1]`, so that no name holds the logits. (`_, loss = …` would
    /// not do: `_` is a name like any other.)
    pub drop_stale_logits: bool,
    /// A patch: head and loss for so many rows at a time, each piece checkpointed.
    pub chunked_loss_rows: Option<u64>,
}

impl TorchOptions {
    /// Whether the name `logits` outlives the pass that made them.
    fn names_logits(&self) -> bool {
        !self.drop_stale_logits && self.chunked_loss_rows.is_none()
    }
}

impl Default for TorchOptions {
    fn default() -> Self {
        Self {
            batch: 12,
            seq: 1024,
            accumulation: 40,
            eval_batch: 12,
            eval_seq: 1024,
            precision: Precision::Bf16,
            compile: true,
            dropout: false,
            checkpoint_blocks: false,
            fused_attention: true,
            ddp_world: 1,
            fused_adam: true,
            loss: Loss::Float32,
            resumed: false,
            drop_stale_logits: false,
            chunked_loss_rows: None,
        }
    }
}

/// A part of a run with a peak of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// The checkpoint is loaded; only in a resumed run.
    Resume,
    /// `estimate_loss` at iteration 0.
    EvaluateFirst,
    /// Forward and backward of a micro-batch, once Adam's state is there.
    Train,
    /// Clipping and AdamW.
    Update,
    /// `estimate_loss` after training has begun.
    Evaluate,
    /// `sample.py`, at the end of a block.
    Sample,
}

impl Phase {
    /// The key of reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Resume => "resume",
            Self::EvaluateFirst => "evaluate_first",
            Self::Train => "train",
            Self::Update => "update",
            Self::Evaluate => "evaluate",
            Self::Sample => "sample",
        }
    }
}

type Train = fn(&Model, &TorchOptions) -> Program;
type Evaluate = fn(Phase, &Model, &TorchOptions, Held) -> Program;

/// The programs of a run, in the order in which they happen.
pub fn phases(model: &Model, options: &TorchOptions) -> Vec<(Phase, Program)> {
    let (first, later) = (Held::first(options), Held::later(options));
    let (train, evaluate): (Train, Evaluate) = if options.compile {
        (compiled::train, compiled::evaluate)
    } else {
        (eager::train, eager::evaluate)
    };
    let mut phases = Vec::with_capacity(6);
    if options.resumed {
        phases.push((Phase::Resume, resume::resume(model)));
    }
    phases.push((Phase::EvaluateFirst, evaluate(Phase::EvaluateFirst, model, options, first)));
    phases.push((Phase::Train, train(model, options)));
    phases.push((Phase::Update, update::update(model, options)));
    phases.push((Phase::Evaluate, evaluate(Phase::Evaluate, model, options, later)));
    // `sample.py` is compiled only on demand.
    phases.push((Phase::Sample, eager::sample(model, options)));
    phases
}

/// PyTorch's caching allocator: every tensor is rounded up to 512 bytes. Kernels take their own
/// temporaries behind its back, and those are not counted.
#[derive(Clone, Copy, Debug, Default)]
pub struct CachingAllocator;

impl Target for CachingAllocator {
    fn limits(&self) -> Limits {
        Limits { alignment: 512, ..Limits::HOST }
    }

    fn scratch(&self, _: &Program, _: &Op) -> Bytes {
        Bytes::ZERO
    }
}
