//! # `stale-logits`
//!
//! ## What it detects
//! The memory that PyTorch held when the request failed can only be explained if the logits of the
//! previous pass are included: weights, half-precision copies, the current activations and those
//! logits add up to the number in the message.
//!
//! ## Why it happens
//! `logits, loss = model(X, Y)` keeps the logits alive until the next pass has computed new ones. So
//! in `estimate_loss` the second batch needs memory for two of them, and after training has started,
//! the global variable of the training loop keeps a third alive during every evaluation. Writing
//! `_, loss = …` changes nothing: `_` is a name like any other.
//!
//! ## What helps
//! `loss = model(X, Y)[1]`, or `del logits` after the loss is computed, in `estimate_loss` and in
//! the training loop. The training stays the same.

use super::RuleMatch;
use crate::{
    cause::Cause,
    facts::{Certainty, PhaseName, Role},
    reason::{Analysis, Candidate},
};

pub(super) fn check(analysis: &Analysis<'_>) -> Option<RuleMatch> {
    let allocated = analysis.facts.allocated?;
    let is_here = |c: &&Candidate| {
        analysis.phase.name == PhaseName::Unknown || c.tensor.phase == analysis.phase.name
    };
    let best = analysis.candidates.iter().filter(is_here).find(|c| c.agrees && c.is_of_config)?;
    // During a step the account grows layer by layer and matches any number at some point.
    let is_shown = best.tensor.role == Role::Logits
        || matches!(best.tensor.phase, PhaseName::Evaluate | PhaseName::Update);
    if !is_shown || analysis.candidates.iter().filter(is_here).any(|c| c.agrees_without_stale) {
        return None;
    }
    let held = best.held.as_ref().filter(|held| held.stale_logits_bytes > 0)?;
    let would_fit = match (analysis.facts.free, analysis.facts.requested) {
        (Some(free), Some(requested)) => free.bytes + held.stale_logits_bytes >= requested.bytes,
        _ => false,
    };
    let cause = Cause::StaleLogits {
        stale_bytes: held.stale_logits_bytes,
        held_bytes: held.bytes,
        allocated_bytes: allocated.bytes,
        parts: held.parts.clone(),
        would_have_fitted_without: would_fit,
    };
    Some(RuleMatch { certainty: Certainty::Likely, is_cause: would_fit, cause })
}
