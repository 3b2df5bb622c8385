//! # `stale-logits`
//!
//! ## What it sees
//! What PyTorch held when the request failed is explained only with the logits of the pass
//! before: weights, half copies, this pass's last activations and those logits add up to the
//! number that the message prints.
//!
//! ## Why it happens
//! `logits, loss = model(X, Y)` keeps its logits under that name until the next pass has made its
//! own. In `estimate_loss` so the second batch needs room for two of them; after training has
//! begun, a third lives through every evaluation, under the loop's global name. Writing
//! `_, loss = …` changes nothing: `_` is a name like any other.
//!
//! ## What helps
//! `loss = model(X, Y)[1]`, or `del logits` when the loss is there, in `estimate_loss` and in the
//! training loop. The training stays the same.

use super::Answer;
use crate::{
    cause::Cause,
    diagnosis::{Certainty, PhaseName, Role},
    reason::{Analysis, Candidate},
};

pub(super) fn check(analysis: &Analysis<'_>) -> Option<Answer> {
    let allocated = analysis.facts.allocated?;
    let is_here = |c: &&Candidate| {
        analysis.phase.name == PhaseName::Unknown || c.tensor.phase == analysis.phase.name
    };
    let best = analysis.candidates.iter().filter(is_here).find(|c| c.agrees && c.is_of_config)?;
    // While a step goes through its layers the account grows, and meets any number somewhere.
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
    Some(Answer { certainty: Certainty::Likely, is_cause: would_fit, cause })
}
