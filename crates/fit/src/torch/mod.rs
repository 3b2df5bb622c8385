//! nanoGPT as PyTorch runs it: programs with PyTorch's ops and PyTorch's lifetimes.
//!
//! These programs never run. [`fitgpt_program::memory::profile`] counts them with the target
//! [`CachingAllocator`], like FitGPT's programs. So PyTorch's memory is not a formula but the sum of
//! the tensors alive at each op.
//!
//! Counted are tensors, each rounded up to 512 bytes. Not counted are the CUDA context, library
//! workspaces, temporaries inside a kernel's launcher, and fragmentation.
//!
//! Promise: plans match counted peaks on CUDA and on a CPU: eager to the byte (also with dropout on
//! a CPU), compiled within 3 %. Test: `crates/fit/tests/torch_peaks.rs`; the rules of CUDA are
//! traced by `tools/trace_cuda_rules.py`.

mod report;
mod tape;
mod pass;
mod compiled_attention;
mod compiled;
mod math_attention;
mod attention;
mod eager;
mod backward;
mod loss;
mod resume;
mod update;
#[cfg(test)]
mod tests;

use fitgpt_config::{Config, GradCheckpoint, InitFrom, Precision};
use fitgpt_model::Model;
use fitgpt_program::{
    Names, Op, Program,
    memory::{Limits, Target},
    units::{Bytes, DType},
};

pub use self::report::{overhead, overhead_of, overhead_with, torch_report, torch_timelines};
use self::{pass::PreviousPass, tape::HeldState};

/// The types of a run.
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

impl From<Precision> for TorchPrecision {
    fn from(precision: Precision) -> Self {
        match precision {
            Precision::Float32 => Self::F32,
            Precision::Bfloat16 => Self::Bf16,
            Precision::Float16 => Self::F16,
        }
    }
}

/// The kind of PyTorch device. Kernels and autocast's lists of ops differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Rules {
    /// An NVIDIA card.
    #[default]
    Cuda,
    /// The host.
    Cpu,
}

/// How `cross_entropy` computes with half logits under autocast.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LossForm {
    /// A float32 copy of the logits and a float32 softmax: the CPU, and CUDA before PyTorch 1.10.
    Float32,
    /// A half softmax and a float32 copy of its result. `cross_entropy` passes the logits' own
    /// type to `log_softmax`, so CUDA's float32 rule for `log_softmax` does not apply.
    #[default]
    HalfSoftmax,
}

/// The settings that determine PyTorch's memory. [`Default`] is nanoGPT's.
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
    /// Its types.
    pub precision: TorchPrecision,
    /// Whether `torch.compile` runs the model.
    pub compile: bool,
    /// Whether `torch.compile` works on the device: without Triton it stops the run.
    pub has_triton: bool,
    /// Whether the run ends after its first evaluation.
    pub eval_only: bool,
    /// Whether the model has dropout; the rate does not matter.
    pub dropout: bool,
    /// Whether `torch.utils.checkpoint` wraps every block.
    pub checkpoint_blocks: bool,
    /// Whether attention is one kernel (PyTorch 2) or explicit scores.
    pub fused_attention: bool,
    /// Data-parallel workers; above 1 gradients are also kept in flat buckets.
    pub ddp_world: u64,
    /// Whether AdamW is one kernel, or a list of ops over all parameters (`foreach`).
    pub fused_adam: bool,
    /// The kind of device.
    pub rules: Rules,
    /// How the loss is computed under autocast.
    pub loss: LossForm,
    /// Whether the run began from a checkpoint: it is loaded onto the device, and the global
    /// `state_dict` holds its weights to the end of the run.
    pub resumed: bool,
    /// A patch: `loss = model(X, Y)[1]`, so that no variable holds the logits. (`_, loss = …` would
    /// not do: `_` is a variable too.)
    pub drop_stale_logits: bool,
    /// A patch: `forward` returns no logits while training, only the loss.
    pub loss_alone: bool,
    /// A patch: head and loss for this many rows at a time, each chunk checkpointed.
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
    pub fn from_config(config: &Config, precision: Precision) -> Self {
        Self::default().of_config(config, precision)
    }

    /// Keeps kernels and workers, and takes everything else from `config`.
    ///
    /// Keys that nanoGPT does not have count as if it were patched to read them.
    /// With `grad_checkpoint = 'auto'` nothing is checkpointed: nanoGPT has no such value.
    #[must_use]
    pub fn of_config(self, config: &Config, precision: Precision) -> Self {
        Self {
            batch: config.batch_size().into(),
            seq: config.block_size().into(),
            accumulation: (u64::from(config.gradient_accumulation_steps()) / self.ddp_world.max(1))
                .max(1),
            eval_batch: config.eval_batch_size().into(),
            eval_seq: config.eval_block_size().into(),
            precision: precision.into(),
            compile: config.compile() && self.has_triton,
            eval_only: config.eval_only(),
            dropout: config.dropout() > 0.0,
            checkpoint_blocks: config.grad_checkpoint() == GradCheckpoint::Every,
            resumed: *config.init_from() == InitFrom::Resume,
            drop_stale_logits: config.drop_stale_logits(),
            loss_alone: config.loss_alone(),
            chunked_loss_rows: Some(config.loss_chunk_rows().into()).filter(|rows| *rows > 0),
            ..self
        }
    }

    /// Normalises the options that `phase` does not depend on, so that equal programs have equal
    /// options.
    #[must_use]
    pub(crate) fn read_by(self, phase: TorchPhase) -> Self {
        let plain = Self::default();
        let mut read = self;
        read.eval_only = plain.eval_only;
        read.has_triton = plain.has_triton;
        if phase != TorchPhase::Train {
            read.accumulation = plain.accumulation;
            read.dropout = plain.dropout;
            read.checkpoint_blocks = plain.checkpoint_blocks;
        }
        if !matches!(phase, TorchPhase::EvaluateFirst | TorchPhase::Evaluate) {
            read.eval_batch = plain.eval_batch;
            read.eval_seq = plain.eval_seq;
        }
        // Only whether there are earlier micro-batches matters, not how many.
        read.accumulation = read.accumulation.min(2);
        read
    }

    /// Whether Adam counts its steps in device memory. With `foreach` on CUDA it counts them in
    /// host memory, unless a checkpoint loaded them to the device.
    fn counts_steps_on_device(&self) -> bool {
        self.fused_adam || self.resumed || self.rules == Rules::Cpu
    }

    /// Whether `forward` returns logits while training.
    pub fn returns_logits(&self) -> bool {
        !self.loss_alone && self.chunked_loss_rows.is_none()
    }

    /// Whether the variable `logits` of a pass outlives it.
    fn names_logits(&self, of: PreviousPass) -> bool {
        let is_returned = match of {
            PreviousPass::MicroBatch => self.returns_logits(),
            PreviousPass::Batch => self.chunked_loss_rows.is_none(),
        };
        is_returned && !self.drop_stale_logits
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
            has_triton: true,
            eval_only: false,
            dropout: false,
            checkpoint_blocks: false,
            fused_attention: true,
            ddp_world: 1,
            fused_adam: true,
            rules: Rules::Cuda,
            loss: LossForm::HalfSoftmax,
            resumed: false,
            drop_stale_logits: false,
            loss_alone: false,
            chunked_loss_rows: None,
        }
    }
}

/// A part of a run with a separate peak.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TorchPhase {
    /// The checkpoint is loaded; only in a resumed run.
    Resume,
    /// `estimate_loss` at iteration 0.
    EvaluateFirst,
    /// Forward and backward of a micro-batch, after Adam's state exists.
    Train,
    /// Clipping and AdamW.
    Update,
    /// `estimate_loss` after training has begun.
    Evaluate,
    /// `sample.py`, at the end of a block.
    Sample,
}

impl TorchPhase {
    /// The phases of a run, in the order in which they happen, and the one of `sample.py`.
    pub fn of_run(options: &TorchOptions) -> Vec<Self> {
        let resume = options.resumed.then_some(Self::Resume);
        let first = [Self::EvaluateFirst];
        let training = [Self::Train, Self::Update, Self::Evaluate];
        let training = training.into_iter().filter(|_| !options.eval_only);
        resume.into_iter().chain(first).chain(training).chain([Self::Sample]).collect()
    }

    /// Its name in reports.
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
    phases.map(|phase| (phase, program(phase, model, options, Names::Kept))).collect()
}

/// The program of one phase; without tensor names it is only good for counting.
pub fn program(phase: TorchPhase, model: &Model, options: &TorchOptions, names: Names) -> Program {
    write(phase, &ProgramSpec { model, options, names })
}

/// The inputs of a program's construction.
#[derive(Clone, Copy)]
struct ProgramSpec<'a> {
    model: &'a Model,
    options: &'a TorchOptions,
    names: Names,
}

fn write(phase: TorchPhase, spec: &ProgramSpec<'_>) -> Program {
    let options = spec.options;
    let evaluate = if options.compile { compiled::evaluate } else { eager::evaluate };
    match phase {
        TorchPhase::Resume => resume::resume(spec),
        TorchPhase::EvaluateFirst => evaluate(phase, spec, HeldState::first(options)),
        TorchPhase::Train if options.compile => compiled::train(spec),
        TorchPhase::Train => eager::train(spec),
        TorchPhase::Update => update::update(spec),
        TorchPhase::Evaluate => evaluate(phase, spec, HeldState::later(options)),
        // `sample.py` does not compile by default.
        TorchPhase::Sample => eager::sample(spec),
    }
}

/// PyTorch's caching allocator: every tensor is rounded up to 512 bytes. Temporaries inside
/// kernels are not counted.
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
