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
mod report;
mod resume;
mod tape;
#[cfg(test)]
mod tests;
mod update;

pub use self::report::{overhead, overhead_of, torch_report, torch_timelines};
use self::tape::HeldState;
use crate::{
    config::{self, Config, GradCheckpoint, InitFrom},
    memory::{Limits, Target},
    model::Model,
    program::{Names, Op, Program},
    units::{Bytes, DType},
};

/// How the run computes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TorchPrecision {
    /// Everything in float32.
    F32,
    /// Autocast: float32 weights, bfloat16 products.
    #[default]
    Bf16,
    /// Autocast: float32 weights, float16 products.
    F16,
}

impl TorchPrecision {
    /// The type of matrix products and of logits.
    pub const fn dtype(self) -> DType {
        match self {
            Self::F32 => DType::F32,
            Self::Bf16 => DType::Bf16,
            Self::F16 => DType::F16,
        }
    }
}

impl From<config::Precision> for TorchPrecision {
    fn from(precision: config::Precision) -> Self {
        match precision {
            config::Precision::Float32 => Self::F32,
            config::Precision::Bfloat16 => Self::Bf16,
            config::Precision::Float16 => Self::F16,
        }
    }
}

/// Which of PyTorch's devices runs the ops. Kernels and autocast's lists of ops differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Rules {
    /// An NVIDIA card.
    #[default]
    Cuda,
    /// The host.
    Cpu,
}

/// What autocast does with half logits on their way into `cross_entropy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LossForm {
    /// A float32 copy of the logits and a float32 softmax: the CPU, and CUDA before PyTorch 1.10.
    Float32,
    /// A half softmax and a float32 copy of its result. `cross_entropy` passes the logits' own
    /// type to `log_softmax`, so CUDA's float32 rule for `log_softmax` does not apply.
    #[default]
    HalfSoftmax,
}

/// Everything about a run that shapes what PyTorch holds. [`Default`] is nanoGPT's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
    pub precision: TorchPrecision,
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
    /// Whose kernels run.
    pub rules: Rules,
    /// How the loss is computed under autocast.
    pub loss: LossForm,
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
    /// nanoGPT's defaults under the rules of a device.
    #[must_use]
    pub fn on(rules: Rules) -> Self {
        let loss = match rules {
            Rules::Cuda => LossForm::HalfSoftmax,
            Rules::Cpu => LossForm::Float32,
        };
        Self { rules, loss, ..Self::default() }
    }

    /// How PyTorch runs `config` on CUDA by default: one worker, fused kernels.
    pub fn from_config(config: &Config, precision: config::Precision) -> Self {
        Self::default().of_config(config, precision)
    }

    /// The same kernels and workers with what `config` says of everything else.
    ///
    /// Keys that nanoGPT does not have count as if it were patched to read them.
    /// `grad_checkpoint = 'auto'` is nobody's decision yet: nothing is checkpointed.
    #[must_use]
    pub fn of_config(self, config: &Config, precision: config::Precision) -> Self {
        Self {
            batch: config.batch_size().into(),
            seq: config.block_size().into(),
            accumulation: config.gradient_accumulation_steps().into(),
            eval_batch: config.eval_batch_size().into(),
            eval_seq: config.eval_block_size().into(),
            precision: precision.into(),
            compile: config.compile(),
            dropout: config.dropout() > 0.0,
            checkpoint_blocks: config.grad_checkpoint() == GradCheckpoint::Every,
            resumed: *config.init_from() == InitFrom::Resume,
            drop_stale_logits: config.drop_stale_logits(),
            chunked_loss_rows: Some(config.loss_chunk_rows().into()).filter(|rows| *rows > 0),
            ..self
        }
    }

    /// The same for every run whose `phase` is the same program: what it does not read is set
    /// to one value.
    #[must_use]
    pub fn read_by(self, phase: TorchPhase) -> Self {
        let plain = Self::default();
        let mut read = self;
        if phase != TorchPhase::Train {
            read.accumulation = plain.accumulation;
            read.dropout = plain.dropout;
            read.checkpoint_blocks = plain.checkpoint_blocks;
        }
        if !matches!(phase, TorchPhase::EvaluateFirst | TorchPhase::Evaluate) {
            read.eval_batch = plain.eval_batch;
            read.eval_seq = plain.eval_seq;
        }
        // Whether earlier micro-batches left gradients, not how many there were.
        read.accumulation = read.accumulation.min(2);
        read
    }

    /// Whether Adam counts its steps in device memory. As lists of ops on CUDA it counts them in
    /// the host's, unless a checkpoint brought them to the device.
    fn counts_steps_on_device(&self) -> bool {
        self.fused_adam || self.resumed || self.rules == Rules::Cpu
    }

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
            precision: TorchPrecision::Bf16,
            compile: true,
            dropout: false,
            checkpoint_blocks: false,
            fused_attention: true,
            ddp_world: 1,
            fused_adam: true,
            rules: Rules::Cuda,
            loss: LossForm::HalfSoftmax,
            resumed: false,
            drop_stale_logits: false,
            chunked_loss_rows: None,
        }
    }
}

/// A part of a run with a peak of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TorchPhase {
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

impl TorchPhase {
    /// The phases of a run, in the order in which they happen.
    pub fn of_run(options: &TorchOptions) -> Vec<Self> {
        let resume = options.resumed.then_some(Self::Resume);
        let rest = [Self::EvaluateFirst, Self::Train, Self::Update, Self::Evaluate, Self::Sample];
        resume.into_iter().chain(rest).collect()
    }

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

/// The programs of a run, in the order in which they happen.
pub fn phases(model: &Model, options: &TorchOptions) -> Vec<(TorchPhase, Program)> {
    let phases = TorchPhase::of_run(options).into_iter();
    phases.map(|phase| (phase, program(phase, model, options))).collect()
}

/// The program of one phase.
pub fn program(phase: TorchPhase, model: &Model, options: &TorchOptions) -> Program {
    write(phase, &ProgramSpec { model, options, names: Names::Kept })
}

/// The same to be counted and forgotten: its tensors have no names.
pub(crate) fn unnamed_program(phase: TorchPhase, model: &Model, options: &TorchOptions) -> Program {
    write(phase, &ProgramSpec { model, options, names: Names::Left })
}

/// What a program is written from.
#[derive(Clone, Copy)]
struct ProgramSpec<'a> {
    model: &'a Model,
    options: &'a TorchOptions,
    names: Names,
}

fn write(phase: TorchPhase, sheet: &ProgramSpec<'_>) -> Program {
    let options = sheet.options;
    let evaluate = if options.compile { compiled::evaluate } else { eager::evaluate };
    match phase {
        TorchPhase::Resume => resume::resume(sheet),
        TorchPhase::EvaluateFirst => evaluate(phase, sheet, HeldState::first(options)),
        TorchPhase::Train if options.compile => compiled::train(sheet),
        TorchPhase::Train => eager::train(sheet),
        TorchPhase::Update => update::update(sheet),
        TorchPhase::Evaluate => evaluate(phase, sheet, HeldState::later(options)),
        // `sample.py` is compiled only on demand.
        TorchPhase::Sample => eager::sample(sheet),
    }
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
