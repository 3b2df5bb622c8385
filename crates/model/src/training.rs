//! The settings that determine the programs of a run.

use fitgpt_program::units::DType;

use crate::{optimizer::Optimizer, shard::Share};

/// What the backward recomputes instead of keeping. All layers are alike, so counts are enough. The
/// lowest layers recompute, because their values would be kept longest.
///
/// The activation of an MLP is never kept: it is a quarter of a GPT-2 layer's bytes, and the op
/// that computes its derivative recomputes it anyway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Recompute {
    /// Layers that keep only their input.
    pub blocks: u32,
    /// Layers above those that recompute normalised values.
    pub cheap: u32,
}

/// The settings of a run that determine its programs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Training {
    /// Sequences of a micro-batch.
    pub batch: u64,
    /// Tokens of a sequence.
    pub seq: u64,
    /// Micro-batches of a step.
    pub accumulation: u64,
    /// Sequences that an evaluation runs at a time.
    pub eval_batch: u64,
    /// Tokens of an evaluation's sequence.
    pub eval_seq: u64,
    /// Probability of a zero, 0 for none.
    pub dropout: f32,
    /// The optimizer with its constants.
    pub optimizer: Optimizer,
    /// How activations are stored.
    pub activations: DType,
    /// What is recomputed.
    pub recompute: Recompute,
    /// Rows of logits at a time.
    pub loss_chunk_rows: u64,
    /// Parts of a step whose gradients are summed separately and then added in order: a divisor of
    /// the micro-batches and a multiple of the ranks.
    pub lanes: u64,
    /// Which of the processes that train together this is.
    pub share: Share,
    /// Sequences that are sampled together during training; 0: none. Their keys and values need
    /// memory in addition, because they are kept from one token to the next.
    pub sampled: u64,
}

impl Training {
    /// Whether a rank runs several lanes of a step, one after the other, so that it has to keep the
    /// sum of the earlier ones.
    pub(crate) fn lanes_take_turns(&self) -> bool {
        self.lanes > u64::from(self.share.ranks)
    }

    /// Whether there are several lanes. Then the host adds them up and computes the norm of the
    /// gradient, which is an input of the update.
    pub fn adds_up_lanes(&self) -> bool {
        self.lanes > 1
    }
}
