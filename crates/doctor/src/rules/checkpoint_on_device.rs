//! # `checkpoint-on-device`
//!
//! ## What it detects
//! The run started from a checkpoint that was loaded directly onto the card.
//!
//! ## Why it happens
//! nanoGPT calls `torch.load(path, map_location=device)`: the weights and both moments are on the
//! card before the model is, and the global variable `state_dict` keeps the loaded weights alive
//! until the run ends.
//!
//! ## What helps
//! `map_location='cpu'`, and `del state_dict, checkpoint` after both have been used. Neither changes
//! the training.

use super::RuleMatch;
use crate::{
    cause::Cause,
    facts::{Certainty, PhaseName},
    reason::Analysis,
};

pub(super) fn check(analysis: &Analysis<'_>) -> Option<RuleMatch> {
    if !analysis.is_gpu() {
        return None;
    }
    let while_loading = analysis.phase.name == PhaseName::Resume;
    let is_resumed = analysis.run.as_ref().is_some_and(|run| run.options.resumed);
    if !while_loading && !is_resumed {
        return None;
    }
    // With neither a number nor a phase, a checkpoint on the card is the best guess.
    let is_guess = analysis.facts.requested.is_none() && analysis.phase.name == PhaseName::Unknown;
    let second_copy_bytes = analysis.run.as_ref().map(|run| 4 * run.model.parameter_count());
    let would_fit = match (second_copy_bytes, analysis.facts.free, analysis.facts.requested) {
        (Some(copy), Some(free), Some(requested)) => free.bytes + copy >= requested.bytes,
        _ => false,
    };
    let certainty = match (while_loading, is_guess) {
        (true, _) => analysis.phase.certainty,
        (false, true) => Certainty::Unknown,
        (false, false) => Certainty::Likely,
    };
    let cause = Cause::CheckpointOnDevice { while_loading, second_copy_bytes };
    Some(RuleMatch { certainty, is_cause: while_loading || would_fit || is_guess, cause })
}
