//! # `request-larger-than-card`
//!
//! ## What it sees
//! One tensor that is larger than the whole card.
//!
//! ## Why it happens
//! Attention scores grow with the square of the sequence, logits with batch × sequence ×
//! vocabulary. A forgotten reshape does the rest.
//!
//! ## What helps
//! Nothing that frees memory: the tensor itself must become smaller, by a smaller micro-batch, a
//! fused attention or a chunked loss.

use super::Answer;
use crate::{cause::Cause, diagnosis::Certainty, reason::Analysis};

pub(super) fn check(analysis: &Analysis<'_>) -> Option<Answer> {
    let (total, requested) = (analysis.facts.total?, analysis.facts.requested?);
    let cause =
        Cause::RequestLargerThanCard { requested_bytes: requested.bytes, total_bytes: total.bytes };
    let is_larger = requested.low > total.high && analysis.is_gpu();
    is_larger.then_some(Answer { certainty: Certainty::Certain, is_cause: true, cause })
}
