//! # `free-exceeds-request`
//!
//! ## What it detects
//! Clearly more memory was free than requested, and the request still failed. A few dozen MiB, or
//! less than a twentieth of the card, do not count: a driver does not hand out its last pages.
//!
//! ## Why it happens
//! A limit on the process (`set_per_process_memory_fraction`), another process that freed memory
//! between the failure and the message, several ranks on one card, or a driver that cannot map what
//! it reports as free.
//!
//! ## What helps
//! Look for a limit and for other processes on the card. A smaller batch does not fix the cause.

use super::{LAST_PAGES, RuleMatch, is_full};
use crate::{cause::Cause, facts::Certainty, reason::Analysis};

pub(super) fn check(analysis: &Analysis<'_>) -> Option<RuleMatch> {
    let (free, requested) = (analysis.facts.free?, analysis.facts.requested?);
    let cause = Cause::FreeExceedsRequest {
        free_bytes: free.bytes,
        requested_bytes: requested.bytes,
        allowed_bytes: analysis.facts.allowed.map(|size| size.bytes),
    };
    // Leave a margin for the alignment of large segments.
    let margin = LAST_PAGES.max(requested.bytes / 50);
    let is_more = !is_full(&analysis.facts) && free.low > requested.high.saturating_add(margin);
    is_more.then_some(RuleMatch { certainty: Certainty::Certain, is_cause: true, cause })
}
