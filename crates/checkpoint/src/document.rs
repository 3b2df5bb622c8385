//! What a checkpoint stores in addition to its tensors: the run's position, config and data.

use std::collections::BTreeMap;

use fitgpt_config::{Config, ConfigValue, Key};
use fitgpt_data::{Fingerprint, Vocabulary};
use fitgpt_model::family::Description;
use serde::{Deserialize, Serialize};

use super::{nanogpt::NanoGptRun, scaler::Scaler};

/// The progress of a run, which a checkpoint stores in addition to the tensors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunPosition {
    /// The step that comes next.
    pub step: u64,
    /// Updates made; fewer than steps if float16 overflowed.
    pub updates: u64,
    /// The least validation loss so far.
    pub best_val_loss: Option<f64>,
    /// The step of that evaluation; checkpoints of earlier versions do not have it.
    #[serde(default)]
    pub best_step: Option<u64>,
    /// The loss scale.
    pub scaler: Scaler,
}

/// What a checkpoint stores in addition to its tensors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Document {
    /// How far the run is.
    pub position: RunPosition,
    /// The resolved config, with every choice that affects rounding made explicit.
    pub config: BTreeMap<String, ConfigValue>,
    /// The training data; checkpoints of earlier versions do not have it.
    #[serde(default)]
    pub data: Option<Fingerprint>,
    /// What the tokens of the data mean; checkpoints of earlier versions do not have it.
    #[serde(default)]
    pub vocabulary: Option<Vocabulary>,
}

impl Document {
    /// From the config's pairs.
    pub fn new(
        position: &RunPosition,
        config: &Config,
        data: Option<Fingerprint>,
        vocabulary: Option<Vocabulary>,
    ) -> Self {
        let pairs = config.pairs().into_iter().filter(|(key, _)| !OF_ONE_START.contains(key));
        let config = pairs.map(|(key, value)| (key.to_owned(), value)).collect();
        Self { position: position.clone(), config, data, vocabulary }
    }

    /// The document that a checkpoint of FitGPT would have for a nanoGPT run. The sizes of its
    /// weights override its config, as in nanoGPT. On a CPU nanoGPT ignores `dtype`, so the `dtype`
    /// of such a run is not taken over.
    pub fn of_nanogpt(run: &NanoGptRun, description: &Description) -> Self {
        let is_cpu = run.config.iter().any(|(key, value)| {
            key == "device" && matches!(value, ConfigValue::Str(device) if device == "cpu")
        });
        let is_continued = |key: &str| {
            Key::find(key).is_some() && !NOT_CONTINUED.contains(&key) && !(is_cpu && key == "dtype")
        };
        let there = run.config.iter().filter(|(key, _)| is_continued(key)).cloned();
        let sizes = description.pairs().chain([("block_size", description.positions.into())]);
        let position = RunPosition {
            step: run.step,
            updates: run.updates,
            best_val_loss: run.best_val_loss,
            best_step: None,
            scaler: Scaler::NONE, // nanoGPT does not save its own
        };
        let config = there.chain(sizes.map(|(key, value)| (key.to_owned(), value))).collect();
        Self { position, config, data: None, vocabulary: None }
    }
}

/// Keys that allow something once: the next start must be told again.
const OF_ONE_START: [&str; 2] = ["new_vocabulary", "resume_from"];

/// Keys of nanoGPT's config that concern its machine and its loggers, or that the new run sets.
const NOT_CONTINUED: [&str; 8] = [
    "backend",
    "compile",
    "device",
    "init_from",
    "out_dir",
    "wandb_log",
    "wandb_project",
    "wandb_run_name",
];
