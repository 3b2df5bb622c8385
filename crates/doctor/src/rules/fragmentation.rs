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
use crate::{
    diagnosis::{Certainty, Evidence},
    reason::Scene,
};

pub(super) fn check(scene: &Scene<'_>) -> Option<Answer> {
    let facts = &scene.facts;
    let requested = facts.requested?;
    let unallocated = match (facts.unallocated, facts.reserved, facts.allocated) {
        (Some(unallocated), _, _) => unallocated,
        (None, Some(reserved), Some(allocated)) => reserved.minus(allocated),
        _ => return None,
    };
    // A request of the least size is filled from any piece: where even that failed, the card was
    // full, and what seems unused is what rounding wastes.
    let evidence = Evidence::new()
        .number("unallocated_bytes", unallocated.bytes)
        .number("requested_bytes", requested.bytes)
        .size("allocated_bytes", facts.allocated);
    let is_enough = requested.bytes > 0 && unallocated.bytes >= requested.bytes;
    let is_cause = scene.has_shape();
    is_enough.then_some(Answer { certainty: Certainty::Likely, is_cause, evidence })
}
