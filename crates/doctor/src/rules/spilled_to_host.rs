//! # `spilled-to-host`
//!
//! ## What it detects
//! Tensors hold more than the card has.
//!
//! ## Why it happens
//! On Windows and WSL the driver moves GPU memory to host memory instead of failing, so a run slows
//! down tenfold before it fails. The card was already too small before that.
//!
//! ## What helps
//! Make the pass smaller. To get the error at once instead of a slow run, set
//! `CUDA - Sysmem Fallback Policy` to `Prefer No Sysmem Fallback` in the NVIDIA Control Panel.

use super::RuleMatch;
use crate::{cause::Cause, facts::Certainty, reason::Analysis};

pub(super) fn check(analysis: &Analysis<'_>) -> Option<RuleMatch> {
    let (allocated, total) = (analysis.facts.allocated?, analysis.facts.total?);
    let cause = Cause::SpilledToHost { allocated_bytes: allocated.bytes, total_bytes: total.bytes };
    let is_exact = analysis.log.message.as_ref().is_some_and(|message| message.total.is_some());
    let is_more = analysis.is_gpu()
        && is_exact
        && allocated.low > total.high.saturating_add(total.high / 100);
    is_more.then_some(RuleMatch { certainty: Certainty::Certain, is_cause: true, cause })
}
