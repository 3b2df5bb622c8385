//! Words for the facts of a failure, which every other module uses.

use fitgpt_program::{Tensor, TensorRole};
use serde::{Serialize, Serializer};

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
    pub(crate) const UNKNOWN: Self =
        Self { name: PhaseName::Unknown, certainty: Certainty::Unknown };
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
