//! What the doctor says, as data. Words are chosen elsewhere.

use fitgpt_plan::{
    config::{ConfigError, EffectiveBatch},
    fit::{Change, Patch},
    report::Verdict,
};
use serde::{Serialize, Serializer};

use crate::{
    cause::Cause,
    parse::PrintedSize,
    playbook::{Question, Remedy},
};

/// Which memory ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MemoryKind {
    /// A graphics card's.
    GpuMemory,
    /// The machine's own.
    HostMemory,
    /// That of a multiprocessor, which no batch size changes.
    SharedMemory,
    /// The log shows no failure.
    None,
    /// The log says that memory ran out and not which.
    Unknown,
}

/// How sure a statement is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Certainty {
    /// Open.
    Unknown,
    /// The best explanation of what was seen.
    Likely,
    /// The log says so.
    Certain,
}

/// A part of a run in which memory can run out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PhaseName {
    /// The forward of a micro-batch.
    TrainForward,
    /// Its backward.
    TrainBackward,
    /// Clipping and the optimizer's step.
    Update,
    /// `estimate_loss` or another evaluation.
    Evaluate,
    /// The model goes to the device.
    Load,
    /// A checkpoint is loaded.
    Resume,
    /// A compiler runs.
    Compile,
    /// Data are prepared.
    Prepare,
    /// A checkpoint is written.
    Save,
    /// Text or an image is generated.
    Sample,
    /// A server answers.
    Serve,
    /// A program starts: devices, communicators, an engine's own tests.
    Start,
    /// Nobody can tell.
    Unknown,
}

/// The phase of the failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct FailurePhase {
    /// Which.
    pub name: PhaseName,
    /// How sure.
    pub certainty: Certainty,
}

impl FailurePhase {
    /// Nobody can tell.
    pub const UNKNOWN: Self = Self { name: PhaseName::Unknown, certainty: Certainty::Unknown };
}

/// The numbers of the message and what follows from them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryFacts {
    /// What was asked for.
    pub requested: Option<PrintedSize>,
    /// What the card has.
    pub total: Option<PrintedSize>,
    /// What was free.
    pub free: Option<PrintedSize>,
    /// What tensors held.
    pub allocated: Option<PrintedSize>,
    /// What the framework had taken from the driver.
    pub reserved: Option<PrintedSize>,
    /// What this process had in all.
    pub process: Option<PrintedSize>,
    /// What other processes had.
    pub foreign: Option<PrintedSize>,
    /// What was reserved and held no tensor.
    pub unallocated: Option<PrintedSize>,
    /// A limit that was set on this process.
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

/// What kind of program the log is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Domain {
    /// nanoGPT and scripts written after it.
    #[serde(rename = "nanogpt")]
    NanoGpt,
    /// Decoders in other stacks.
    DecoderTraining,
    /// Anything else that learns.
    OtherTraining,
    /// A model that only runs.
    Inference,
    /// A server or an interface that runs models.
    Serving,
    /// Nothing failed.
    None,
    /// Nobody can tell.
    Unknown,
}

/// What a tensor is, as rules ask for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Rows × vocabulary: logits, their copies, their softmax, their gradients.
    Logits,
    /// Heads × tokens × tokens.
    AttentionScores,
    /// Four times as wide as the residual stream.
    Mlp,
    /// Shaped like a parameter: it, its gradient, its moments, its half copy.
    Weight,
    /// Any other activation.
    Other,
}

/// A tensor that the failed request may have been.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CandidateTensor {
    /// As in GPT-2's checkpoints; `h.*` stands for every layer.
    pub name: String,
    /// Outermost first.
    pub shape: Vec<u64>,
    /// As PyTorch calls it.
    pub dtype: &'static str,
    /// Its own size, before an allocator rounds it.
    pub bytes: u64,
    /// What it is.
    pub role: Role,
    /// The phase that makes it.
    pub phase: PhaseName,
    /// The run in which it has this size, where the log's own run is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub supposing: Option<AssumedRun>,
}

/// A run that would print the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct AssumedRun {
    /// A published size, or the nearest to it.
    pub model: &'static str,
    /// Sequences.
    pub batch_size: u64,
    /// Tokens of each.
    pub block_size: u64,
    /// Rows of the embedding.
    pub vocab_size: u64,
}

/// One cause named by the doctor, or one thing that was looked at and is not the cause.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// How sure.
    pub certainty: Certainty,
    /// Whether this explains the failure; else it was also seen.
    pub is_cause: bool,
    /// What, with its evidence.
    #[serde(flatten)]
    pub cause: Cause,
}

impl Finding {
    /// The rule's name.
    pub const fn rule(&self) -> &'static str {
        self.cause.rule()
    }
}

/// One share of what was held.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AccountShare {
    /// A tensor, or a class of them.
    pub name: String,
    /// Its bytes.
    pub bytes: u64,
}

/// A change that helps, as `fit` computed it, with the line that applies it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fix {
    /// Who would run it: `torch` or `fitgpt`.
    pub engine: &'static str,
    /// Keys and their new values.
    #[serde(serialize_with = "as_map")]
    pub changes: Vec<Change>,
    /// Patches of nanoGPT without which the changes mean nothing.
    pub patches: Vec<Patch>,
    /// A whole line to paste into a shell.
    pub command: String,
    /// The peak with them.
    pub peak_bytes: u64,
    /// What they save.
    pub saved_bytes: u64,
    /// Whether it then fits.
    pub fits: bool,
    /// In three grades.
    pub verdict: Verdict,
    /// Whether the training stays the same.
    pub keeps_training: bool,
    /// Work that is added, as a share.
    pub extra_compute: f64,
    /// What a step learns from.
    pub effective_batch: EffectiveBatch,
}

fn as_map<S: Serializer>(pairs: &[Change], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(pairs.iter().map(|(key, value)| (key, value)))
}

/// A phase that would not fit either, after this failure is fixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct NextFailure {
    /// Which.
    pub phase: PhaseName,
    /// Its tensors at the peak.
    pub peak_bytes: u64,
    /// What the card has for them.
    pub usable_bytes: u64,
}

/// What the log's "already allocated" is made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Account {
    /// Shares, largest classes first.
    pub parts: Vec<AccountShare>,
    /// Their sum.
    pub explained_bytes: u64,
    /// What the log says.
    pub held_bytes: u64,
}

/// Something to do, of the playbook.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Advice {
    /// Which; its sentence is chosen elsewhere.
    pub id: Remedy,
    /// Commands or lines of code that do it on this stack.
    pub commands: Vec<String>,
}

/// One step now, and the one fact that would change the answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DoNext {
    /// A command to run.
    pub command: Option<String>,
    /// What to find out.
    pub question: Option<Question>,
}

/// The diagnosis: `doctor --json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Diagnosis {
    /// Which memory.
    pub kind: MemoryKind,
    /// What kind of program.
    pub domain: Domain,
    /// The numbers.
    pub facts: MemoryFacts,
    /// When.
    pub phase: FailurePhase,
    /// The run that is supposed, where the log says nothing of its config.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub supposing: Option<AssumedRun>,
    /// What was asked for: every candidate, best first.
    pub tensors: Vec<CandidateTensor>,
    /// Why, causes first.
    pub findings: Vec<Finding>,
    /// What was held, if it adds up.
    pub account: Option<Account>,
    /// What fails next.
    pub next: Option<NextFailure>,
    /// What to do on this stack, in order.
    pub advice: Vec<Advice>,
    /// Changes of the config, best first, each computed.
    pub fixes: Vec<Fix>,
    /// The one step now.
    pub do_next: DoNext,
    /// Lines of the log that are harmless.
    pub notes: Vec<&'static str>,
    /// Why the config cannot run. In JSON it is evidence of a finding.
    #[serde(skip)]
    pub refused: Option<ConfigError>,
}
