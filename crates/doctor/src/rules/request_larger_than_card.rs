//! # `request-larger-than-card`
//!
//! ## What it detects
//! A single request that is larger than the whole card.
//!
//! ## Why it happens
//! Attention scores grow with the square of the sequence length, logits with batch × sequence ×
//! vocabulary. A wrong reshape or broadcast can also create a huge tensor.
//!
//! ## What helps
//! Freeing memory does not help: the tensor itself must become smaller, with a smaller micro-batch,
//! fused attention or a chunked loss.

use super::RuleMatch;
use crate::{
    cause::Cause,
    facts::{Certainty, PhaseName},
    reason::Analysis,
};

/// More than any card has; such a request comes from wrong numbers in a shape.
const NO_CARD_HAS: u64 = 1 << 40;

pub(super) fn check(analysis: &Analysis<'_>) -> Option<RuleMatch> {
    let requested = analysis.facts.requested.filter(|_| analysis.is_gpu())?;
    let total = analysis.facts.total;
    let limit = total.map_or(NO_CARD_HAS, |total| total.high);
    let cause = Cause::RequestLargerThanCard {
        requested_bytes: requested.bytes,
        total_bytes: total.map(|total| total.bytes),
    };
    // The card's name alone is not exact, and an exabyte is a broken size rather than a shape.
    let is_exact = analysis.log.message.as_ref().is_some_and(|message| message.total.is_some());
    let is_broken = requested.bytes >= 1 << 59;
    let is_sure = !is_broken && (is_exact || total.is_none());
    if is_broken && analysis.phase.name == PhaseName::Save {
        return None;
    }
    (requested.low > limit).then_some(RuleMatch {
        certainty: if is_sure { Certainty::Certain } else { Certainty::Likely },
        is_cause: true,
        cause,
    })
}
