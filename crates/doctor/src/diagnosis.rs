//! What the doctor says, as data. Words are chosen elsewhere.

use fitgpt_plan::{
    config::{ConfigError, EffectiveBatch, Value},
    report::Verdict,
};
use serde::{Serialize, Serializer, ser::SerializeMap};

use crate::parse::Size;

/// Which memory ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
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
    /// `estimate_loss`.
    Evaluate,
    /// The model goes to the device.
    Load,
    /// A checkpoint is loaded.
    Resume,
    /// A compiler runs.
    Compile,
    /// Data are prepared.
    Prepare,
    /// Nobody can tell.
    Unknown,
}

/// The phase of the failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Phase {
    /// Which.
    pub name: PhaseName,
    /// How sure.
    pub certainty: Certainty,
}

impl Phase {
    /// Nobody can tell.
    pub const UNKNOWN: Self = Self { name: PhaseName::Unknown, certainty: Certainty::Unknown };
}

/// The numbers of the message and what follows from them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// What was asked for.
    pub requested: Option<Size>,
    /// What the card has.
    pub total: Option<Size>,
    /// What was free.
    pub free: Option<Size>,
    /// What tensors held.
    pub allocated: Option<Size>,
    /// What the framework had taken from the driver.
    pub reserved: Option<Size>,
    /// What this process had in all.
    pub process: Option<Size>,
    /// What other processes had.
    pub foreign: Option<Size>,
    /// What was reserved and held no tensor.
    pub unallocated: Option<Size>,
    /// A limit that was set on this process.
    pub allowed: Option<Size>,
}

impl Serialize for Facts {
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

/// A tensor that the failed request may have been.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Tensor {
    /// As in GPT-2's checkpoints; `h.*` stands for every layer.
    pub name: String,
    /// Outermost first.
    pub shape: Vec<u64>,
    /// As PyTorch calls it.
    pub dtype: &'static str,
    /// Its own size, before an allocator rounds it.
    pub bytes: u64,
    /// The phase that makes it.
    pub phase: PhaseName,
    /// The run in which it has this size, where the log's own run is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub supposing: Option<Supposition>,
}

/// A run that would print the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Supposition {
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
    /// The rule's name; its page says more.
    pub rule: &'static str,
    /// How sure.
    pub certainty: Certainty,
    /// Whether this explains the failure; else it was seen beside it.
    pub is_cause: bool,
    /// What it rests on.
    pub evidence: Evidence,
}

/// Named numbers and names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evidence(Vec<(&'static str, Datum)>);

/// One piece of evidence.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Datum {
    /// Bytes or a count; the name's last word says which.
    Number(u64),
    /// Yes or no.
    Is(bool),
    /// A name from the log or the config.
    Text(String),
    /// Shares of a sum.
    Parts(Vec<Part>),
}

/// One share of what was held.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Part {
    /// A tensor, or a class of them.
    pub name: String,
    /// Its bytes.
    pub bytes: u64,
}

impl Evidence {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a number.
    #[must_use]
    pub fn number(mut self, name: &'static str, number: u64) -> Self {
        self.0.push((name, Datum::Number(number)));
        self
    }

    /// Adds a size, where it is known.
    #[must_use]
    pub fn size(self, name: &'static str, size: Option<Size>) -> Self {
        match size {
            Some(size) => self.number(name, size.bytes),
            None => self,
        }
    }

    /// Adds a statement.
    #[must_use]
    pub fn is(mut self, name: &'static str, is: bool) -> Self {
        self.0.push((name, Datum::Is(is)));
        self
    }

    /// Adds a name.
    #[must_use]
    pub fn text(mut self, name: &'static str, text: impl Into<String>) -> Self {
        self.0.push((name, Datum::Text(text.into())));
        self
    }

    /// Adds shares.
    #[must_use]
    pub fn parts(mut self, name: &'static str, parts: Vec<Part>) -> Self {
        self.0.push((name, Datum::Parts(parts)));
        self
    }

    /// One of them.
    pub fn get(&self, name: &str) -> Option<&Datum> {
        self.0.iter().find(|(other, _)| *other == name).map(|(_, datum)| datum)
    }

    /// A number among them.
    pub fn get_number(&self, name: &str) -> Option<u64> {
        if let Datum::Number(number) = self.get(name)? { Some(*number) } else { None }
    }

    /// A name among them.
    pub fn get_text(&self, name: &str) -> Option<&str> {
        if let Datum::Text(text) = self.get(name)? { Some(text) } else { None }
    }
}

impl Serialize for Evidence {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, datum) in &self.0 {
            map.serialize_entry(name, datum)?;
        }
        map.end()
    }
}

/// A way out, as the caller computed it: `fit`'s option with its engine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fix {
    /// Who would run it: `torch` or `fitgpt`.
    pub engine: &'static str,
    /// Keys and their new values.
    #[serde(serialize_with = "as_map")]
    pub changes: Vec<(String, Value)>,
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

fn as_map<S: Serializer>(pairs: &[(String, Value)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(pairs.iter().map(|(key, value)| (key, value)))
}

/// A phase that would not fit either, once the failure is mended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Next {
    /// Which.
    pub phase: PhaseName,
    /// Its tensors at the peak.
    pub peak_bytes: u64,
    /// What the card has for them.
    pub usable_bytes: u64,
}

/// The diagnosis: `doctor --json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Diagnosis {
    /// Which memory.
    pub kind: Kind,
    /// The numbers.
    pub facts: Facts,
    /// When.
    pub phase: Phase,
    /// The run that is supposed, where the log says nothing of its config.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub supposing: Option<Supposition>,
    /// What was asked for: every candidate, best first.
    pub tensors: Vec<Tensor>,
    /// Why, causes first.
    pub findings: Vec<Finding>,
    /// What fails next.
    pub next: Option<Next>,
    /// Ways out, best first.
    pub fixes: Vec<Fix>,
    /// Lines of the log that are harmless.
    pub notes: Vec<&'static str>,
    /// Why the config cannot run. In JSON it is evidence of a finding.
    #[serde(skip)]
    pub refused: Option<ConfigError>,
    /// What would tell more, where this is not enough.
    pub wants: Vec<Want>,
}

/// Something that the doctor does not know, and how its owner finds out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Want {
    /// `log`, `config`, `gpu` or `torch-version`.
    pub what: &'static str,
    /// A command that prints or keeps it.
    pub command: &'static str,
}
