//! The patches that nanoGPT needs to read some keys: `fit` lists them, `fitgpt patch` applies them.

use std::fmt;

use fitgpt_config::{Config, GradCheckpoint, Key};
use serde::{Serialize, Serializer};

/// One independent change of nanoGPT's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Patch {
    /// `forward` returns no logits while training.
    LossAlone,
    /// Separate batch and block sizes for evaluations.
    EvalBatchSize,
    /// Frees the logits of the last pass.
    DropStaleLogits,
    /// Computes head and loss some rows at a time.
    ChunkedLoss,
    /// Recomputes every block in the backward pass.
    CheckpointBlocks,
    /// Loads a checkpoint into host memory and frees it after use.
    CheckpointToCpu,
    /// Writes the checkpoint before the evaluation.
    SaveBeforeEval,
    /// `GradScaler` by its current name.
    GradScaler,
}

impl Patch {
    /// All of them, in the order in which they are applied.
    pub const ALL: [Self; 8] = [
        Self::LossAlone,
        Self::EvalBatchSize,
        Self::DropStaleLogits,
        Self::ChunkedLoss,
        Self::CheckpointBlocks,
        Self::CheckpointToCpu,
        Self::SaveBeforeEval,
        Self::GradScaler,
    ];

    /// Its name for `fitgpt patch --only`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::LossAlone => "loss-alone",
            Self::EvalBatchSize => "eval-batch-size",
            Self::DropStaleLogits => "drop-stale-logits",
            Self::ChunkedLoss => "chunked-loss",
            Self::CheckpointBlocks => "checkpoint-blocks",
            Self::CheckpointToCpu => "checkpoint-to-cpu",
            Self::SaveBeforeEval => "save-before-eval",
            Self::GradScaler => "gradscaler",
        }
    }

    /// The patch of this name.
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|patch| patch.name() == name)
    }

    /// The keys that patched nanoGPT reads.
    pub const fn keys(self) -> &'static [&'static str] {
        match self {
            Self::EvalBatchSize => &["eval_batch_size", "eval_block_size"],
            Self::ChunkedLoss => &["loss_chunk_rows"],
            Self::CheckpointBlocks => &["grad_checkpoint"],
            Self::LossAlone
            | Self::DropStaleLogits
            | Self::CheckpointToCpu
            | Self::SaveBeforeEval
            | Self::GradScaler => &[],
        }
    }

    /// The patches that nanoGPT needs to honour all of `config`.
    pub fn of_config(config: &Config) -> Vec<Self> {
        let pairs = config.pairs();
        let is_written = |name: &&str| {
            let default = &Key::find(name).expect("a key of the table").default;
            pairs.iter().any(|(key, value)| key == name && value != default)
        };
        let is_asked_for = |patch: &Self| match patch {
            Self::LossAlone => config.loss_alone(),
            Self::DropStaleLogits => config.drop_stale_logits(),
            // nanoGPT has no `'auto'`, patched or not.
            Self::CheckpointBlocks => config.grad_checkpoint() == GradCheckpoint::Every,
            patch => patch.keys().iter().any(&is_written),
        };
        Self::ALL.into_iter().filter(is_asked_for).collect()
    }
}

impl fmt::Display for Patch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for Patch {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// A kernel that PyTorch 1 lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Upgrade {
    /// AdamW as one kernel.
    FusedAdamw,
    /// Attention as one kernel.
    FusedAttention,
}
