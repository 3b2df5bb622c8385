//! # `free-exceeds-request`
//!
//! ## What it sees
//! Clearly more memory was free than was asked for, and the request failed all the same. A
//! driver never gives its last pages away: a few dozen MiB more are not meant.
//!
//! ## Why it happens
//! A limit of the process (`set_per_process_memory_fraction`), another process that gave
//! memory back between the failure and the message, several workers on one card, or a driver that
//! cannot map what it reports as free.
//!
//! ## What helps
//! Look for the limit and for other processes on the card. A smaller batch treats no cause here.

use super::{Answer, LAST_PAGES};
use crate::{cause::Cause, diagnosis::Certainty, reason::Analysis};

pub(super) fn check(analysis: &Analysis<'_>) -> Option<Answer> {
    let (free, requested) = (analysis.facts.free?, analysis.facts.requested?);
    let cause = Cause::FreeExceedsRequest {
        free_bytes: free.bytes,
        requested_bytes: requested.bytes,
        allowed_bytes: analysis.facts.allowed.map(|size| size.bytes),
    };
    // Large requests leave no room for the alignment of their segment.
    let margin = LAST_PAGES.max(requested.bytes / 50);
    let is_more = free.low > requested.high.saturating_add(margin);
    is_more.then_some(Answer { certainty: Certainty::Certain, is_cause: true, cause })
}
