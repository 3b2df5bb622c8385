//! The diagnosis as data. The sentences are in the root crate's `src/words`.

use fitgpt_config::{Config, ConfigError, EffectiveBatch};
use fitgpt_fit::fit::{Change, Patch};
use fitgpt_model::report::Verdict;
use fitgpt_program::{Tensor, TensorRole};
use serde::{Serialize, Serializer};

use crate::{
    cause::Cause,
    parse::{HarmlessLine, PrintedSize},
    playbook::{Question, Remedy},
};

/// Which memory ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MemoryKind {
    /// GPU memory.
    GpuMemory,
    /// Host memory (RAM).
    HostMemory,
    /// Shared memory of a multiprocessor, which does not depend on the batch size.
    SharedMemory,
    /// The log shows no failure.
    None,
    /// The log does not say which memory ran out.
    Unknown,
}

/// How certain a statement is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Certainty {
    /// Possible.
    Unknown,
    /// The best explanation of the evidence.
    Likely,
    /// Stated by the log.
    Certain,
}

/// A phase of a run in which memory can run out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PhaseName {
    /// The forward pass of a micro-batch.
    TrainForward,
    /// The backward pass of a micro-batch.
    TrainBackward,
    /// Gradient clipping and the optimizer step.
    Update,
    /// `estimate_loss` or another evaluation.
    Evaluate,
    /// Moving the model to the device.
    Load,
    /// Loading a checkpoint.
    Resume,
    /// `torch.compile` or another compiler.
    Compile,
    /// Data preparation.
    Prepare,
    /// Writing a checkpoint.
    Save,
    /// Generating text or images.
    Sample,
    /// A server handling a request.
    Serve,
    /// Start-up: devices, communicators, an engine's profiling run.
    Start,
    /// Not known.
    Unknown,
}

/// The phase in which memory ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct FailurePhase {
    /// The phase.
    pub name: PhaseName,
    /// How certain it is.
    pub certainty: Certainty,
}

impl FailurePhase {
    /// No evidence of a phase.
    pub const UNKNOWN: Self = Self { name: PhaseName::Unknown, certainty: Certainty::Unknown };
}

/// The numbers of the message and values derived from them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryFacts {
    /// Size of the failed request.
    pub requested: Option<PrintedSize>,
    /// Capacity of the card.
    pub total: Option<PrintedSize>,
    /// Free memory.
    pub free: Option<PrintedSize>,
    /// Memory held by tensors.
    pub allocated: Option<PrintedSize>,
    /// Memory that the framework had reserved from the driver.
    pub reserved: Option<PrintedSize>,
    /// Total memory of this process.
    pub process: Option<PrintedSize>,
    /// Memory of other processes.
    pub foreign: Option<PrintedSize>,
    /// Reserved memory that held no tensor.
    pub unallocated: Option<PrintedSize>,
    /// A limit set on this process.
    pub allowed: Option<PrintedSize>,
}

impl Serialize for MemoryFacts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let entries = [
            ("requested_bytes", self.requested),
            ("total_bytes", self.total),
            ("free_bytes", self.free),
            ("allocated_bytes", self.allocated),
            ("reserved_bytes", self.reserved),
            ("process_bytes", self.process),
            ("foreign_bytes", self.foreign),
            ("unallocated_bytes", self.unallocated),
            ("allowed_bytes", self.allowed),
        ];
        serializer.collect_map(entries.map(|(key, size)| (key, size.map(|size| size.bytes))))
    }
}

/// What kind of program wrote the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Domain {
    /// nanoGPT and scripts derived from it.
    #[serde(rename = "nanogpt")]
    NanoGpt,
    /// Training a decoder in another stack.
    DecoderTraining,
    /// Any other training.
    OtherTraining,
    /// Inference in a script.
    Inference,
    /// A model server or a user interface for models.
    Serving,
    /// Nothing failed.
    None,
    /// Not known.
    Unknown,
}

/// What a tensor is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Rows × vocabulary: logits, their copies, softmax and gradients.
    Logits,
    /// Heads × tokens × tokens.
    AttentionScores,
    /// MLP activation, four times as wide as the residual stream.
    Mlp,
    /// Shaped like a parameter: the weight, its gradient, its moments or its half-precision copy.
    Weight,
    /// Any other activation.
    Other,
}

/// The name of a candidate tensor. JSON has its English name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TensorName {
    /// The logits.
    Logits,
    /// A score for every pair of tokens.
    AttentionScores,
    /// The hidden activation of an MLP.
    MlpActivation,
    /// The residual stream.
    ResidualStream,
    /// A weight of a decoder's feed-forward layer.
    FeedForwardWeight,
    /// A decoder's embedding.
    Embedding,
    /// A projection of a decoder's attention.
    AttentionProjection,
    /// The projection of a decoder's keys.
    KeyProjection,
    /// A tensor of compiled code that no program has.
    OfGeneratedCode,
    /// A shape that the log prints, of an unknown model.
    Unnamed,
    /// A tensor of a program, as in GPT-2's checkpoints; `h.*` means every layer.
    OfProgram(String),
}

impl TensorName {
    /// Its English name.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Logits => "logits",
            Self::AttentionScores => "attention scores",
            Self::MlpActivation => "mlp activation",
            Self::ResidualStream => "residual stream",
            Self::FeedForwardWeight => "a weight of the feed-forward layer",
            Self::Embedding => "the embedding",
            Self::AttentionProjection => "a projection of attention",
            Self::KeyProjection => "the projection of keys",
            Self::OfGeneratedCode => "generated code's own",
            Self::Unnamed => "unnamed",
            Self::OfProgram(name) => name,
        }
    }
}

impl Serialize for TensorName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// A tensor that would explain the size of the failed request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CandidateTensor {
    /// Its name.
    pub name: TensorName,
    /// Outermost first.
    pub shape: Vec<u64>,
    /// PyTorch's name.
    pub dtype: &'static str,
    /// Size of the tensor before the allocator rounds it.
    pub bytes: u64,
    /// What it is for.
    pub role: Role,
    /// The phase that allocates it.
    pub phase: PhaseName,
    /// The assumed run, if the log does not show the real one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub supposing: Option<AssumedRun>,
}

/// A run that is assumed because the log does not show its config.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct AssumedRun {
    /// Name of the model.
    pub model: &'static str,
    /// Sequences per micro-batch.
    pub batch_size: u64,
    /// Tokens per sequence.
    pub block_size: u64,
    /// Rows of the embedding.
    pub vocab_size: u64,
}

/// A cause, or an observation that is not the cause.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// How certain it is.
    pub certainty: Certainty,
    /// Whether it explains the failure.
    pub is_cause: bool,
    /// What was found, with its evidence.
    #[serde(flatten)]
    pub cause: Cause,
}

impl Finding {
    /// The name of its rule.
    pub const fn rule(&self) -> &'static str {
        self.cause.rule()
    }
}

/// A tensor or a class of tensors in an account of memory. JSON has its English name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShareName {
    /// All weights.
    Weights,
    /// All gradients.
    Gradients,
    /// All moments.
    OptimizerState,
    /// Values kept for the backward pass.
    Activations,
    /// Scores over the vocabulary.
    Logits,
    /// Temporaries of ops.
    Scratch,
    /// Tokens and targets.
    Inputs,
    /// Adapters with their gradients and moments.
    Adapters,
    /// The logits of the previous evaluation batch.
    LastLogits,
    /// The logits of the previous micro-batch.
    LastMicroLogits,
    /// Everything smaller than the items that are listed.
    Other,
    /// One tensor of a program, or the line of code that owns a block of a snapshot.
    Tensor(String),
}

impl ShareName {
    /// Its English name.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Weights => "weights",
            Self::Gradients => "gradients",
            Self::OptimizerState => "optimizer state",
            Self::Activations => "activations",
            Self::Logits => "logits",
            Self::Scratch => "scratch",
            Self::Inputs => "inputs",
            Self::Adapters => "adapters and their state",
            Self::LastLogits => "logits of the last batch",
            Self::LastMicroLogits => "logits of the last micro-batch",
            Self::Other => "other",
            Self::Tensor(name) => name,
        }
    }

    /// The name of a tensor of a program.
    pub(crate) fn of_tensor(tensor: &Tensor) -> Self {
        match tensor.role {
            TensorRole::LastBatchLogits => Self::LastLogits,
            TensorRole::LastMicroBatchLogits => Self::LastMicroLogits,
            _ => Self::Tensor(tensor.name.clone()),
        }
    }

    /// Whether these are logits of an earlier pass.
    pub(crate) const fn is_stale_logits(&self) -> bool {
        matches!(self, Self::LastLogits | Self::LastMicroLogits)
    }
}

impl Serialize for ShareName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// One item of an account of memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AccountShare {
    /// What it is.
    pub name: ShareName,
    /// Its size.
    pub bytes: u64,
}

/// Config changes that help, computed by `fit`, with the command that applies them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fix {
    /// The engine: `torch` or `fitgpt`.
    pub engine: &'static str,
    /// Keys and their new values.
    #[serde(serialize_with = "as_map")]
    pub changes: Vec<Change>,
    /// nanoGPT patches that the changed keys need.
    pub patches: Vec<Patch>,
    /// A complete shell command.
    pub command: String,
    /// The peak after the changes.
    pub peak_bytes: u64,
    /// Bytes saved at the peak.
    pub saved_bytes: u64,
    /// Whether the run then fits.
    pub fits: bool,
    /// The same with a third grade, "tight".
    pub verdict: Verdict,
    /// Whether the training result stays the same.
    pub keeps_training: bool,
    /// Additional compute, as a fraction.
    pub extra_compute: f64,
    /// Sequences and tokens per step.
    pub effective_batch: EffectiveBatch,
}

fn as_map<S: Serializer>(pairs: &[Change], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(pairs.iter().map(|(key, value)| (key, value)))
}

/// The next phase that does not fit, after this failure is fixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct NextFailure {
    /// The phase.
    pub phase: PhaseName,
    /// Bytes of tensors at its peak.
    pub peak_bytes: u64,
    /// Bytes of the card available for tensors.
    pub usable_bytes: u64,
}

/// What the "already allocated" memory of the log consists of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Account {
    /// State first, then other tensors by size.
    pub parts: Vec<AccountShare>,
    /// Their sum.
    pub explained_bytes: u64,
    /// The number in the log.
    pub held_bytes: u64,
}

/// One recommendation of the playbook.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Advice {
    /// Its name.
    pub id: Remedy,
    /// Commands or code that apply it on this stack.
    pub commands: Vec<String>,
}

/// The next command to run, and the one fact that would change the diagnosis.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DoNext {
    /// The command.
    pub command: Option<String>,
    /// The missing fact.
    pub question: Option<Question>,
}

/// The diagnosis: `doctor --json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Diagnosis {
    /// Which memory ran out.
    pub kind: MemoryKind,
    /// What kind of program wrote the log.
    pub domain: Domain,
    /// The numbers of the message.
    pub facts: MemoryFacts,
    /// The phase of the failure.
    pub phase: FailurePhase,
    /// The assumed run, if the log does not show its config.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub supposing: Option<AssumedRun>,
    /// Every tensor that the request may have been for, best first.
    pub tensors: Vec<CandidateTensor>,
    /// Causes first, then observations.
    pub findings: Vec<Finding>,
    /// What the allocated memory consists of, if that is known.
    pub account: Option<Account>,
    /// What fails next.
    pub next: Option<NextFailure>,
    /// Recommendations for this stack, in order.
    pub advice: Vec<Advice>,
    /// Config changes, best first, each computed.
    pub fixes: Vec<Fix>,
    /// The next command or question.
    pub do_next: DoNext,
    /// Harmless lines in the log.
    pub notes: Vec<HarmlessLine>,
    /// Why the config cannot run. JSON has it as evidence of a finding.
    #[serde(skip)]
    pub refused: Option<ConfigError>,
    /// The config of the run, as given or as the log shows it, with its vocabulary.
    #[serde(skip)]
    pub config: Option<Config>,
}
