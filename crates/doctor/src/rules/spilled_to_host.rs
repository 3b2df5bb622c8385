//! # `spilled-to-host`
//!
//! ## What it sees
//! Tensors hold more than the card has.
//!
//! ## Why it happens
//! On Windows and in WSL the driver moves memory to the host instead of refusing it, so a run
//! slows down tenfold before it fails. The card has been too small for some time already.
//!
//! ## What helps
//! Make the pass smaller, or let the driver refuse at once: in NVIDIA's control panel, set `CUDA -
//! Sysmem Fallback Policy` to `Prefer No Sysmem Fallback`.

use super::Answer;
use crate::{cause::Cause, diagnosis::Certainty, reason::Analysis};

pub(super) fn check(analysis: &Analysis<'_>) -> Option<Answer> {
    let (allocated, total) = (analysis.facts.allocated?, analysis.facts.total?);
    let cause = Cause::SpilledToHost { allocated_bytes: allocated.bytes, total_bytes: total.bytes };
    let is_more = analysis.is_gpu() && allocated.low > total.high.saturating_add(total.high / 100);
    is_more.then_some(Answer { certainty: Certainty::Certain, is_cause: true, cause })
}
