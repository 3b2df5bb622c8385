//! # `fragmentation`
//!
//! ## What it sees
//! PyTorch had reserved at least as much as was asked for without a tensor in it, and could not
//! use it.
//!
//! ## Why it happens
//! Reserved memory lies in segments. Free pieces of several segments add up to the request, and
//! none of them alone is long enough.
//!
//! ## What helps
//! `PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True`, before the process starts. Every message
//! of PyTorch's carries this advice; it can help only in the case that this rule sees.

use super::Answer;
use crate::{cause::Cause, diagnosis::Certainty, reason::Analysis};

/// The share of a card below which unused pieces are what rounding wastes.
const MATTERS: u64 = 10;

pub(super) fn check(analysis: &Analysis<'_>) -> Option<Answer> {
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
        return is_cause.then_some(Answer { certainty: Certainty::Certain, is_cause, cause });
    }
    let cause = Cause::Fragmentation {
        unallocated_bytes: unallocated.bytes,
        requested_bytes: requested.bytes,
        largest_piece_bytes: None,
    };
    let is_enough = requested.bytes > 0 && unallocated.bytes >= requested.bytes;
    let matters = facts.total.is_some_and(|total| unallocated.bytes >= total.bytes / MATTERS);
    // A request of the least size is filled from any piece: where even that failed, the card was
    // full.
    let is_cause = analysis.has_shape();
    (is_enough && matters).then_some(Answer { certainty: Certainty::Likely, is_cause, cause })
}
