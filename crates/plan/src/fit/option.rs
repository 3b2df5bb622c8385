//! One way, as data.

use std::cmp::Ordering;

use serde::{Serialize, Serializer};

use super::{Patch, Upgrade};
use crate::{
    config::{ConfigValue, EffectiveBatch},
    report::Verdict,
    units::Bytes,
};

/// Less extra work than this share of a step is called none.
pub(super) const LEAST_EXTRA_COMPUTE: f64 = 0.005;

/// A key and its new value, of the type that nanoGPT insists on.
pub type Change = (&'static str, ConfigValue);

/// How far a way reaches, least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Effect {
    /// The same numbers, bit for bit, held for a shorter time or fewer at a time.
    ChangesNothing,
    /// The same mathematics in another order of rounding.
    SameMathematics,
    /// The same step in smaller pieces.
    MicroBatch,
    /// Values are computed again instead of kept.
    Recompute,
    /// Another training.
    ChangesRun,
}

/// One way to make a config fit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FitOption {
    /// What to write, in an order that reads well. Empty where the config fits as it is.
    #[serde(serialize_with = "as_map")]
    pub changes: Vec<Change>,
    /// Patches of nanoGPT without which the config means nothing; only for PyTorch.
    pub patches: Vec<Patch>,
    /// What an older PyTorch must be upgraded for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub upgrades: Vec<Upgrade>,
    /// How far it reaches.
    pub effect: Effect,
    /// Most live bytes.
    pub peak_bytes: Bytes,
    /// What is allocated; for PyTorch the peak.
    pub arena_bytes: Bytes,
    /// The original's peak less this one's.
    pub saved_bytes: Bytes,
    /// Whether it fits even at the high end of the overhead.
    pub fits: bool,
    /// The same in three grades.
    pub verdict: Verdict,
    /// Whether a step learns from the same sequences with the same model and types.
    pub keeps_training: bool,
    /// Floating-point work that is added, as a share of the original's step.
    pub extra_compute: f64,
    /// What a step learns from.
    pub effective_batch: EffectiveBatch,
    /// The phase with the peak.
    pub peak_phase: &'static str,
    /// Sequences of a micro-batch.
    #[serde(skip)]
    pub micro_batch: u32,
    /// How many of the patches the original config does not ask for.
    #[serde(skip)]
    pub new_patches: usize,
}

fn as_map<S: Serializer>(changes: &[Change], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(changes.iter().map(|(key, value)| (key, value)))
}

impl FitOption {
    /// What the user has to do comes first: nothing but keys, then a new PyTorch or patched files,
    /// and in either case what costs no work before what does. Then reach, then how far the
    /// micro-batch shrinks.
    ///
    /// Who wrote `compile = False` mostly has no compiler that works: that comes last.
    pub(super) fn by_invasiveness(&self, other: &Self) -> Ordering {
        let compiles = |o: &Self| o.changes.iter().any(|(key, _)| *key == "compile");
        let is_edited = |o: &Self| o.new_patches > 0 || !o.upgrades.is_empty();
        let costs = |o: &Self| o.extra_compute >= LEAST_EXTRA_COMPUTE;
        let reach = |o: &Self| (compiles(o), is_edited(o), costs(o), o.effect, o.new_patches);
        reach(self)
            .cmp(&reach(other))
            .then(self.extra_compute.total_cmp(&other.extra_compute))
            .then(other.micro_batch.cmp(&self.micro_batch))
            .then(self.changes.len().cmp(&other.changes.len()))
    }
}
