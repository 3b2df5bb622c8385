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

use super::Answer;
use crate::{cause::Cause, diagnosis::Certainty, reason::Analysis};

pub(super) fn check(analysis: &Analysis<'_>) -> Option<Answer> {
    let (total, requested) = (analysis.facts.total?, analysis.facts.requested?);
    let cause =
        Cause::RequestLargerThanCard { requested_bytes: requested.bytes, total_bytes: total.bytes };
    let is_larger = requested.low > total.high && analysis.is_gpu();
    is_larger.then_some(Answer { certainty: Certainty::Certain, is_cause: true, cause })
}
