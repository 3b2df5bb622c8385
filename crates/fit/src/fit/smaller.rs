//! Changes of the training run: another dtype or optimizer, shorter sequences, a smaller model.
//!
//! Each option changes as little as possible: the first step of its ladder that fits. If nothing
//! that keeps the training fits, the strongest moves are applied as well.

use fitgpt_config::{Config, ConfigValue, InitFrom, Precision};
use fitgpt_model::report::Verdict;

use super::{
    Change, Effect, FitOption, candidate::raw, moves::MoveSet, optimizers, search::FitSearch,
};

/// Shorter sequences are not proposed: they train no long-range context.
const SHORTEST_BLOCK: u32 = 64;

/// The smallest changes of the run that fit, each on top of `base`.
pub(super) fn options(search: &FitSearch<'_>, base: &MoveSet) -> Vec<FitOption> {
    ladders(search)
        .into_iter()
        .filter_map(|ladder| {
            let found = search.first(ladder.len(), Effect::ChangesRun, Verdict::Fits, |rung| {
                search.candidate(*base, &ladder[rung])
            });
            found.map(|(_, option)| option)
        })
        .collect()
}

/// For each property that can shrink, its changes from small to large.
fn ladders(search: &FitSearch<'_>) -> Vec<Vec<Vec<Change>>> {
    let config = search.request.config;
    let mut ladders = Vec::new();
    if search.request.engine.precision() == Precision::Float32 {
        let half = if search.request.has_bf16 { Precision::Bfloat16 } else { Precision::Float16 };
        ladders.push(vec![vec![("dtype", half.name().into())]]);
    }
    // The sizes of a checkpoint are fixed.
    if *config.init_from() == InitFrom::Resume {
        return ladders;
    }
    ladders.extend(optimizers::with_less_state(search.request).map(|changes| vec![changes]));
    ladders.push(blocks(search));
    if *config.init_from() == InitFrom::Scratch {
        let layers = (1..config.n_layer()).rev();
        ladders.push(layers.map(|layers| vec![("n_layer", layers.into())]).collect());
        ladders.push(widths(config));
    }
    ladders
}

fn blocks(search: &FitSearch<'_>) -> Vec<Vec<Change>> {
    let config = search.request.config;
    let evaluated = raw(config, "eval_block_size");
    let halves = std::iter::successors(Some(config.block_size() / 2), |block| Some(block / 2));
    halves
        .take_while(|block| *block >= SHORTEST_BLOCK)
        .map(|block| {
            let mut changes: Vec<Change> = vec![("block_size", block.into())];
            if matches!(evaluated, ConfigValue::Int(written) if written > i64::from(block)) {
                changes.push(("eval_block_size", block.into()));
            }
            changes
        })
        .collect()
}

/// Narrower models with the same head size; a single head is halved. Key/value heads are removed
/// with their query heads, and a written `ffn_dim` shrinks in proportion.
fn widths(config: &Config) -> Vec<Vec<Change>> {
    let (channels, groups) = (config.n_embd(), config.n_kv_head());
    if config.n_head() == 1 {
        let halves = std::iter::successors(Some(channels / 2), |width| Some(width / 2));
        return halves.take_while(|w| *w > 0).map(|w| vec![("n_embd", w.into())]).collect();
    }
    let share =
        |size: u32, fewer: u32| (u64::from(size) * u64::from(fewer) / u64::from(groups)) as u32;
    (1..groups)
        .rev()
        .map(|fewer| {
            let mut changes: Vec<Change> = vec![
                ("n_embd", share(channels, fewer).into()),
                ("n_head", share(config.n_head(), fewer).into()),
            ];
            if raw(config, "n_kv_head") != ConfigValue::Int(0) {
                changes.push(("n_kv_head", fewer.into()));
            }
            if raw(config, "ffn_dim") != ConfigValue::Int(0) {
                changes.push(("ffn_dim", share(config.ffn_dim(), fewer).max(1).into()));
            }
            changes
        })
        .collect()
}
