//! # `fragmentation`
//!
//! ## What it detects
//! PyTorch had reserved but unused memory of at least the requested size and could not use it.
//!
//! ## Why it happens
//! Reserved memory is divided into segments. Free blocks in several segments add up to the request,
//! but none of them alone is large enough.
//!
//! ## What helps
//! `PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True`, set before the process starts. PyTorch prints
//! this hint in every message, but it can help only in the case that this rule detects.

use super::RuleMatch;
use crate::{cause::Cause, facts::Certainty, reason::Analysis};

/// Below this fraction of the card (1/n), unused blocks are ordinary rounding waste.
const MATTERS: u64 = 10;

pub(super) fn check(analysis: &Analysis<'_>) -> Option<RuleMatch> {
    let facts = &analysis.facts;
    let requested = facts.requested?;
    let unallocated = match (facts.unallocated, facts.reserved, facts.allocated) {
        (Some(unallocated), _, _) => unallocated,
        (None, Some(reserved), Some(allocated)) => reserved.minus(allocated),
        _ => return None,
    };
    if let Some(snapshot) = &analysis.log.snapshot {
        let largest = snapshot.largest_piece_bytes;
        let cause = Cause::Fragmentation {
            unallocated_bytes: unallocated.bytes,
            requested_bytes: requested.bytes,
            largest_piece_bytes: Some(largest),
        };
        let is_cause = unallocated.bytes >= requested.bytes && largest < requested.bytes;
        return is_cause.then_some(RuleMatch { certainty: Certainty::Certain, is_cause, cause });
    }
    let cause = Cause::Fragmentation {
        unallocated_bytes: unallocated.bytes,
        requested_bytes: requested.bytes,
        largest_piece_bytes: None,
    };
    let is_enough = requested.bytes > 0 && unallocated.bytes >= requested.bytes;
    let matters = facts.total.is_some_and(|total| unallocated.bytes >= total.bytes / MATTERS);
    // A request of the minimum size fits any block: if even that failed, the card was full.
    let is_cause = analysis.has_shape();
    (is_enough && matters).then_some(RuleMatch { certainty: Certainty::Likely, is_cause, cause })
}
