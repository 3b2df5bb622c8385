//! The diagnosis as data. Its sentences are in `words`.

use fitgpt_config::{Config, ConfigError, EffectiveBatch, Written};
use fitgpt_fit::fit::{Change, Patch};
use fitgpt_model::report::Verdict;
use serde::{Serialize, Serializer};

use crate::{
    budget::Budget,
    cause::Cause,
    claim::CheckedClaim,
    facts::{
        AccountShare, AssumedRun, CandidateTensor, Certainty, Domain, FailurePhase, MemoryKind,
        PhaseName,
    },
    parse::{HarmlessLine, PrintedSize},
    remedy::{Question, Remedy},
};

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

/// What a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepName {
    /// A recommendation.
    Remedy(Remedy),
    /// A computed config change, by its place in [`Diagnosis::fixes`].
    Change(usize),
}

impl Serialize for StepName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Remedy(remedy) => remedy.serialize(serializer),
            Self::Change(_) => serializer.serialize_str("config-change"),
        }
    }
}

/// One step of the answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Step {
    /// What it is.
    pub id: StepName,
    /// A complete command, with the user's config, script and card.
    pub command: Option<String>,
    /// Lines for the script, or flags of a command that the log does not show.
    pub code: Vec<String>,
    /// What it saves at the peak, if that was computed.
    pub saved_bytes: Option<u64>,
    /// Whether the training result stays the same; `None` if nothing is trained.
    pub keeps_training: Option<bool>,
    /// The cause is not known, and this does no harm whatever it is.
    pub is_safe: bool,
}

/// What the caller knows about the run: the config's file and keys, and the card.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunContext<'a> {
    pub(crate) file: Option<&'a str>,
    pub(crate) config: Option<&'a Written>,
    pub(crate) card: Option<&'a str>,
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
    /// Weights, gradients and optimizer state of the model against the card, if both are known.
    pub budget: Option<Budget>,
    /// What fails next.
    pub next: Option<NextFailure>,
    /// Recommendations for this stack, in order.
    pub advice: Vec<Advice>,
    /// Config changes, best first, each computed.
    pub fixes: Vec<Fix>,
    /// What to do, in order: recommendations and config changes in one list.
    pub steps: Vec<Step>,
    /// The command of the first step, and a question.
    pub do_next: DoNext,
    /// The claims of a text that is advice, not a log.
    pub claims: Vec<CheckedClaim>,
    /// Harmless lines in the log.
    pub notes: Vec<HarmlessLine>,
    /// Why the config cannot run. JSON has it as evidence of a finding.
    #[serde(skip)]
    pub refused: Option<ConfigError>,
    /// The config of the run, as given or as the log shows it, with its vocabulary.
    #[serde(skip)]
    pub config: Option<Config>,
}
