//! A way written down as changes of a config.

use super::{
    Change, Engine, FitRequest, Upgrade,
    moves::{AvailableMoves, Move, MoveSet},
};
use crate::{
    config::{Config, ConfigValue},
    torch::TorchOptions,
};

/// A changed config and what it takes to run it.
#[derive(Clone)]
pub(super) struct FitCandidate {
    pub(super) way: MoveSet,
    pub(super) changes: Vec<Change>,
    pub(super) config: Config,
    /// PyTorch's kernels; the rest of it follows the config.
    pub(super) kernels: TorchOptions,
    /// Which of those were changed.
    pub(super) upgrades: Vec<Upgrade>,
}

/// The value of a key as it stands in the config: 0 where it follows another key.
pub(super) fn raw(config: &Config, key: &str) -> ConfigValue {
    let pair = config.pairs().into_iter().find(|(name, _)| *name == key);
    pair.expect("a key of the table").1
}

impl FitCandidate {
    /// `way` on the case's config, then `extra`. `None` where the result is no config: a product
    /// that leaves its type.
    ///
    /// Evaluations cover the same number of sequences in all of them.
    pub(super) fn new(
        case: &FitRequest<'_>,
        menu: &AvailableMoves,
        way: MoveSet,
        eval_batch: Option<u32>,
        extra: &[Change],
    ) -> Option<Self> {
        let config = case.config;
        let is_torch = matches!(case.engine, Engine::Torch { .. });
        let mut changes: Vec<Change> = Vec::new();
        let by = menu.splits[way.level(Move::Split)];
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
            // nanoGPT evaluates what it trains on: more of the smaller batches.
            changes.push(("eval_iters", config.eval_iters().checked_mul(by)?.into()));
        } else if by > 1 && follows {
            changes.push(("eval_batch_size", config.batch_size().into()));
        }
        if way.level(Move::DropLogits) > 0 {
            changes.push(("drop_stale_logits", true.into()));
        }
        if way.level(Move::Compile) > 0 {
            changes.push(("compile", true.into()));
        }
        if let Some(index) = way.level(Move::ChunkLoss).checked_sub(1) {
            changes.push(("loss_chunk_rows", menu.chunk_rows[index].into()));
        }
        match way.level(Move::Recompute) {
            0 => {}
            1 if !is_torch => changes.push(("grad_checkpoint", "auto".into())),
            _ => changes.push(("grad_checkpoint", true.into())),
        }
        changes.extend_from_slice(extra);

        let mut kernels = match case.engine {
            Engine::Torch { kernels, .. } => kernels,
            Engine::Fitgpt { .. } => TorchOptions::default(),
        };
        let mut upgrades = Vec::new();
        if way.level(Move::FusedAdam) > 0 {
            kernels.fused_adam = true;
            upgrades.push(Upgrade::FusedAdamw);
        }
        if way.level(Move::FusedAttention) > 0 {
            kernels.fused_attention = true;
            upgrades.push(Upgrade::FusedAttention);
        }
        let config = config.with("fit", changes.iter().cloned()).ok()?;
        Some(Self { way, changes, config, kernels, upgrades })
    }
}
