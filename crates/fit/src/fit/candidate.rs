//! A set of moves, expressed as changes of a config.

use fitgpt_config::{Config, ConfigValue};

use super::{
    Change, Engine, FitRequest, Upgrade,
    moves::{AvailableMoves, Move, MoveSet},
};
use crate::torch::TorchOptions;

/// A changed config and the patches and upgrades it needs.
#[derive(Clone)]
pub(super) struct FitCandidate {
    pub(super) moves: MoveSet,
    pub(super) changes: Vec<Change>,
    pub(super) config: Config,
    /// PyTorch's options; those that the config determines are taken from it.
    pub(super) kernels: TorchOptions,
    /// The upgrades among those options.
    pub(super) upgrades: Vec<Upgrade>,
}

/// The value of a key as written in the config: 0 if it follows another key.
pub(super) fn raw(config: &Config, key: &str) -> ConfigValue {
    let pair = config.pairs().into_iter().find(|(name, _)| *name == key);
    pair.expect("a key of the table").1
}

impl FitCandidate {
    /// Applies `moves` to the request's config, then `extra`. `None` if the result is not a valid
    /// config, because a product overflows.
    ///
    /// Every candidate evaluates the same number of sequences.
    pub(super) fn new(
        request: &FitRequest<'_>,
        available: &AvailableMoves,
        moves: MoveSet,
        eval_batch: Option<u32>,
        extra: &[Change],
    ) -> Option<Self> {
        let config = request.config;
        let is_torch = matches!(request.engine, Engine::Torch { .. });
        let mut changes: Vec<Change> = Vec::new();
        let by = available.splits[moves.level(Move::Split)];
        if by > 1 {
            let steps = config.gradient_accumulation_steps().checked_mul(by)?;
            changes.push(("batch_size", (config.batch_size() / by).into()));
            changes.push(("gradient_accumulation_steps", steps.into()));
        }
        let follows = raw(config, "eval_batch_size") == ConfigValue::Int(0);
        let sequences = u64::from(config.eval_iters()) * u64::from(config.eval_batch_size());
        if let Some(eval_batch) = eval_batch {
            let iters = u32::try_from(sequences / u64::from(eval_batch)).ok()?;
            changes.push(("eval_batch_size", eval_batch.into()));
            changes.push(("eval_iters", iters.into()));
        } else if by > 1 && follows && is_torch {
            // nanoGPT evaluates with its training batch: more iterations of a smaller batch.
            changes.push(("eval_iters", config.eval_iters().checked_mul(by)?.into()));
        } else if by > 1 && follows {
            changes.push(("eval_batch_size", config.batch_size().into()));
        }
        if moves.level(Move::LossAlone) > 0 {
            changes.push(("loss_alone", true.into()));
        }
        if moves.level(Move::DropLogits) > 0 {
            changes.push(("drop_stale_logits", true.into()));
        }
        if moves.level(Move::Compile) > 0 {
            changes.push(("compile", true.into()));
        }
        if let Engine::Torch { kernels, .. } = request.engine
            && config.compile()
            && !kernels.has_triton
        {
            changes.push(("compile", false.into()));
        }
        if let Some(index) = moves.level(Move::ChunkLoss).checked_sub(1) {
            changes.push(("loss_chunk_rows", available.chunk_rows[index].into()));
        }
        match moves.level(Move::Recompute) {
            0 => {}
            1 if !is_torch => changes.push(("grad_checkpoint", "auto".into())),
            _ => changes.push(("grad_checkpoint", true.into())),
        }
        changes.extend_from_slice(extra);

        let mut kernels = match request.engine {
            Engine::Torch { kernels, .. } => kernels,
            Engine::Fitgpt { .. } => TorchOptions::default(),
        };
        let mut upgrades = Vec::new();
        if moves.level(Move::FusedAdam) > 0 {
            kernels.fused_adam = true;
            upgrades.push(Upgrade::FusedAdamw);
        }
        if moves.level(Move::FusedAttention) > 0 {
            kernels.fused_attention = true;
            upgrades.push(Upgrade::FusedAttention);
        }
        let config = config.with("fit", changes.iter().cloned()).ok()?;
        Some(Self { moves, changes, config, kernels, upgrades })
    }
}
