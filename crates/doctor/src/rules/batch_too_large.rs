//! # `batch-too-large`
//!
//! ## What it sees
//! The program's own tensors fill the card in the middle of a pass, and nothing more special
//! explains it.
//!
//! ## Why it happens
//! What a pass keeps grows with the batch, with the length of a sequence or the area of an image,
//! and with the depth of the model.
//!
//! ## What helps
//! A smaller micro-batch with accumulation, shorter sequences or smaller images, recomputation,
//! half precision. A memory snapshot shows which tensors they are.

use super::Answer;
use crate::{
    cause::Cause,
    diagnosis::{Certainty, Domain, PhaseName},
    parse::Wording,
    reason::Analysis,
};

pub(super) fn check(analysis: &Analysis<'_>) -> Option<Answer> {
    let message = analysis.log.message.as_ref().filter(|_| analysis.is_gpu())?;
    if message.wording == Wording::Word {
        return None; // somebody's own words
    }
    let (facts, setup) = (&analysis.facts, &analysis.log.setup);
    let bytes = |size: Option<crate::parse::PrintedSize>| size.map(|size| size.bytes);
    let cause = Cause::BatchTooLarge {
        allocated_bytes: bytes(facts.allocated),
        requested_bytes: bytes(facts.requested),
        total_bytes: bytes(facts.total),
        batch_size: setup.batch.filter(|_| analysis.trains()),
        shape: analysis.log.shape.as_ref().map(|shape| shape.axes.clone()),
    };
    // Held and asked for together are most of what this process can have.
    let is_full = match (facts.allocated, facts.requested, facts.total) {
        (Some(held), Some(requested), Some(total)) => {
            let others = facts.foreign.map_or(0, |size| size.bytes);
            held.bytes.saturating_add(requested.bytes).saturating_mul(10)
                >= total.bytes.saturating_sub(others).saturating_mul(7)
        }
        _ => false,
    };
    let is_pass = matches!(
        analysis.phase.name,
        PhaseName::TrainForward
            | PhaseName::TrainBackward
            | PhaseName::Evaluate
            | PhaseName::Sample
            | PhaseName::Serve
    );
    let is_known = analysis.domain != Domain::Unknown;
    let is_shown = analysis.log.shape.is_some() || message.wording == Wording::TensorFlow;
    let is_likely = (is_full && (is_pass || is_known)) || is_shown || (is_pass && is_known);
    let certainty = if is_likely { Certainty::Likely } else { Certainty::Unknown };
    Some(Answer { certainty, is_cause: true, cause })
}
