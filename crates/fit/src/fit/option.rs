//! One option, as data.

use std::cmp::Ordering;

use fitgpt_config::{ConfigValue, EffectiveBatch};
use fitgpt_model::report::Verdict;
use fitgpt_program::units::Bytes;
use serde::{Serialize, Serializer};

use super::{Patch, Upgrade};

/// Extra work below this share of a step counts as none.
pub(super) const LEAST_EXTRA_COMPUTE: f64 = 0.005;

/// A key and its new value, of the type that nanoGPT requires.
pub type Change = (&'static str, ConfigValue);

/// How much an option changes, least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Effect {
    /// The same results, bit for bit.
    ChangesNothing,
    /// The same mathematics with different rounding.
    SameMathematics,
    /// The same step in smaller micro-batches.
    MicroBatch,
    /// Values are recomputed instead of kept.
    Recompute,
    /// Changes the training run.
    ChangesRun,
}

/// One option to make a config fit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FitOption {
    /// Keys to change. Empty if the config fits unchanged.
    #[serde(serialize_with = "as_map")]
    pub changes: Vec<Change>,
    /// Patches that nanoGPT needs to understand the config; only for PyTorch.
    pub patches: Vec<Patch>,
    /// What needs a newer PyTorch.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub upgrades: Vec<Upgrade>,
    /// How much it changes.
    pub effect: Effect,
    /// Most live bytes.
    pub peak_bytes: Bytes,
    /// What is allocated; for PyTorch the peak.
    pub arena_bytes: Bytes,
    /// The original's peak less this one's.
    pub saved_bytes: Bytes,
    /// Whether it fits even at the high end of the overhead.
    pub fits: bool,
    /// The three-way verdict.
    pub verdict: Verdict,
    /// Whether the step has the same sequences, model and types.
    pub keeps_training: bool,
    /// Additional floating-point work, as a share of the original's step.
    pub extra_compute: f64,
    /// The sequences and tokens of one step.
    pub effective_batch: EffectiveBatch,
    /// The phase with the peak.
    pub peak_phase: &'static str,
    /// Sequences of a micro-batch.
    #[serde(skip)]
    pub micro_batch: u32,
    /// How many of the patches the original config does not need.
    #[serde(skip)]
    pub new_patches: usize,
    /// Whether the only one of them is [`Patch::LossAlone`], in compiled code.
    #[serde(skip)]
    pub is_loss_alone: bool,
}

fn as_map<S: Serializer>(changes: &[Change], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(changes.iter().map(|(key, value)| (key, value)))
}

impl FitOption {
    /// Orders by what the user has to do: keys alone come before a newer PyTorch or patched files,
    /// and in either case options without extra work come first. Then by how much they change,
    /// then by how much the micro-batch shrinks.
    ///
    /// [`Patch::LossAlone`] comes before all of these if the run is compiled: it saves as much as a
    /// smaller micro-batch and costs no speed.
    ///
    /// Compiling comes last: people who set `compile = False` usually have no working compiler.
    pub(super) fn by_invasiveness(&self, other: &Self) -> Ordering {
        let compiles = |o: &Self| o.changes.iter().any(|(key, _)| *key == "compile");
        let is_edited = |o: &Self| o.new_patches > 0 || !o.upgrades.is_empty();
        let costs = |o: &Self| o.extra_compute >= LEAST_EXTRA_COMPUTE;
        let leads = |o: &Self| o.is_loss_alone && o.upgrades.is_empty() && !costs(o);
        let reach =
            |o: &Self| (compiles(o), !leads(o), is_edited(o), costs(o), o.effect, o.new_patches);
        reach(self)
            .cmp(&reach(other))
            .then(self.extra_compute.total_cmp(&other.extra_compute))
            .then(other.micro_batch.cmp(&self.micro_batch))
            .then(self.changes.len().cmp(&other.changes.len()))
    }
}
