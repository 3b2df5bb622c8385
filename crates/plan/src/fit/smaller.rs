//! Another run: another type, shorter sequences, a smaller model.
//!
//! Each gives up as little as it can: the first of its ladder that fits. Where nothing that
//! keeps the training fits, what does most of it is taken along.

use super::{Change, Effect, FitOption, candidate::raw, moves::Way, search::Search};
use crate::{
    config::{InitFrom, Precision, Value},
    report::Verdict,
};

/// Sequences shorter than this teach nothing of context.
const SHORTEST_BLOCK: u32 = 64;

/// The least changes of the run that fit, each on top of `base`.
pub(super) fn options(search: &Search<'_>, base: &Way) -> Vec<FitOption> {
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

/// Changes from the least to the most, for each thing that can be given up.
fn ladders(search: &Search<'_>) -> Vec<Vec<Vec<Change>>> {
    let config = search.case.config;
    let mut ladders = Vec::new();
    if search.case.engine.precision() == Precision::Float32 {
        let half = if search.case.has_bf16 { Precision::Bfloat16 } else { Precision::Float16 };
        ladders.push(vec![vec![("dtype", half.name().into())]]);
    }
    // A checkpoint has the sizes that it has.
    if *config.init_from() == InitFrom::Resume {
        return ladders;
    }
    ladders.push(blocks(search));
    if *config.init_from() == InitFrom::Scratch {
        let layers = (1..config.n_layer()).rev();
        ladders.push(layers.map(|layers| vec![("n_layer", layers.into())]).collect());
        ladders.push(widths(config.n_embd(), config.n_head()));
    }
    ladders
}

fn blocks(search: &Search<'_>) -> Vec<Vec<Change>> {
    let config = search.case.config;
    let evaluated = raw(config, "eval_block_size");
    let halves = std::iter::successors(Some(config.block_size() / 2), |block| Some(block / 2));
    halves
        .take_while(|block| *block >= SHORTEST_BLOCK)
        .map(|block| {
            let mut changes: Vec<Change> = vec![("block_size", block.into())];
            if matches!(evaluated, Value::Int(written) if written > i64::from(block)) {
                changes.push(("eval_block_size", block.into()));
            }
            changes
        })
        .collect()
}

/// Narrower models whose heads stay as wide as they are; one head alone is halved.
fn widths(channels: u32, heads: u32) -> Vec<Vec<Change>> {
    if heads == 1 {
        let halves = std::iter::successors(Some(channels / 2), |width| Some(width / 2));
        return halves.take_while(|w| *w > 0).map(|w| vec![("n_embd", w.into())]).collect();
    }
    let of_a_head = channels / heads;
    let fewer = (1..heads).rev();
    fewer
        .map(|heads| vec![("n_embd", (heads * of_a_head).into()), ("n_head", heads.into())])
        .collect()
}
