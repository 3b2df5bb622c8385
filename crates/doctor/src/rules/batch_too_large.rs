//! # `batch-too-large`
//!
//! ## What it detects
//! The program's tensors fill the card during a forward or backward pass, and no more specific rule
//! applies.
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
    facts::{Certainty, Domain, MemoryKind, PhaseName},
    parse::{Clue, Wording},
    reason::Analysis,
};

pub(super) fn check(analysis: &Analysis<'_>) -> Option<RuleMatch> {
    let message = analysis.log.message.as_ref()?;
    let (facts, setup) = (&analysis.facts, &analysis.log.setup);
    // A bare "OOM" counts only if the log shows what the program does, or if a card is mentioned.
    let is_prose = message.wording == Wording::Word && message.memory != MemoryKind::HostMemory;
    let names_card = message.memory == MemoryKind::GpuMemory || analysis.log.clues.has(Clue::Card);
    let computes =
        analysis.trains() || matches!(analysis.domain, Domain::Inference | Domain::Serving);
    let is_described = is_prose && (computes || names_card);
    if is_prose && !is_described || !is_prose && !analysis.is_gpu() {
        return None;
    }
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
    let is_likely =
        !is_prose && ((is_full && (is_pass || is_known)) || is_shown || (is_pass && is_known));
    let certainty = if is_likely { Certainty::Likely } else { Certainty::Unknown };
    Some(RuleMatch { certainty, is_cause: true, cause })
}
