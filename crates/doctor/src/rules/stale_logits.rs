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
    diagnosis::{Certainty, Evidence, PhaseName},
    reason::{Candidate, Group, Scene},
};

pub(super) fn check(scene: &Scene<'_>) -> Option<Answer> {
    let allocated = scene.facts.allocated?;
    let is_here = |c: &&Candidate| {
        scene.phase.name == PhaseName::Unknown || c.tensor.phase == scene.phase.name
    };
    let best = scene.candidates.iter().filter(is_here).find(|c| c.agrees && c.is_of_config)?;
    // While a step goes through its layers the account grows, and meets any number somewhere.
    let is_told = best.group == Group::Logits
        || matches!(best.tensor.phase, PhaseName::Evaluate | PhaseName::Update);
    if !is_told || scene.candidates.iter().filter(is_here).any(|c| c.agrees_without_stale) {
        return None;
    }
    let held = best.held.as_ref().filter(|held| held.stale_logits_bytes > 0)?;
    let (free, requested) = (scene.facts.free, scene.facts.requested);
    let would_fit = match (free, requested) {
        (Some(free), Some(requested)) => free.bytes + held.stale_logits_bytes >= requested.bytes,
        _ => false,
    };
    let evidence = Evidence::new()
        .number("stale_bytes", held.stale_logits_bytes)
        .number("held_bytes", held.bytes)
        .number("allocated_bytes", allocated.bytes)
        .parts("parts", held.parts.clone())
        .is("would_have_fitted_without", would_fit);
    Some(Answer { certainty: Certainty::Likely, is_cause: would_fit, evidence })
}
