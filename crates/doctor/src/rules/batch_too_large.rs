//! # `batch-too-large`
//!
//! ## What it detects
//! A forward or backward pass failed while this process's own tensors filled the card, or the log
//! prints the shape of the activation that failed. That memory ran out is not enough.
//!
//! ## Why it happens
//! The memory of a pass grows with the batch, the sequence length or image area, and the depth of
//! the model.
//!
//! ## What helps
//! A smaller micro-batch with gradient accumulation, shorter sequences or smaller images, gradient
//! checkpointing, half precision. A memory snapshot shows which tensors fill the card.

use super::RuleMatch;
use crate::{
    cause::Cause,
    facts::{Certainty, Domain, PhaseName},
    parse::Wording,
    reason::Analysis,
};

pub(super) fn check(analysis: &Analysis<'_>) -> Option<RuleMatch> {
    let message = analysis.log.message.as_ref().filter(|_| analysis.is_gpu())?;
    let (facts, setup) = (&analysis.facts, &analysis.log.setup);
    let bytes = |size: Option<crate::parse::PrintedSize>| size.map(|size| size.bytes);
    let cause = Cause::BatchTooLarge {
        allocated_bytes: bytes(facts.allocated),
        requested_bytes: bytes(facts.requested),
        total_bytes: bytes(facts.total),
        batch_size: setup.batch.filter(|_| analysis.trains()),
        shape: analysis.log.shape.as_ref().map(|shape| shape.axes.clone()),
    };
    // The held and the requested memory together are most of what this process can have.
    let is_full = match (facts.allocated, facts.requested, facts.total) {
        (Some(held), Some(requested), Some(total)) => {
            let others = facts.foreign.map_or(0, |size| size.bytes);
            held.bytes.saturating_add(requested.bytes).saturating_mul(10)
                >= total.bytes.saturating_sub(others).saturating_mul(7)
        }
        _ => false,
    };
    let is_pass = analysis.is_phase_traced
        && matches!(
            analysis.phase.name,
            PhaseName::TrainForward
                | PhaseName::TrainBackward
                | PhaseName::Evaluate
                | PhaseName::Sample
                | PhaseName::Serve
        );
    // A decoder's state may fill a card by itself.
    let has_room = analysis.budget.as_ref().is_some_and(|budget| !budget.usually_fails());
    let is_known = match analysis.domain {
        Domain::Unknown => false,
        Domain::DecoderTraining => has_room || is_pass,
        _ => true,
    };
    let is_shown = analysis.log.shape.as_ref().is_some_and(|shape| !shape.is_part)
        || message.wording == Wording::TensorFlow;
    let is_part = analysis.log.shape.is_some();
    // A request of an eighth of the card is one large tensor, whatever the phase.
    let is_large = match (facts.requested, facts.total) {
        (Some(requested), Some(total)) => requested.bytes >= total.bytes / 8,
        _ => false,
    };
    let certainty = match () {
        () if is_shown || is_full && is_pass && is_known => Certainty::Likely,
        () if is_pass || is_part || is_full && (is_large || is_known) => Certainty::Unknown,
        () => return None,
    };
    Some(RuleMatch { certainty, is_cause: true, cause })
}
