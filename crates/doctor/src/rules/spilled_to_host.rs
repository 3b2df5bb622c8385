//! # `spilled-to-host`
//!
//! ## What it detects
//! Tensors hold more than the card has, or a user sees that a slow program uses shared GPU memory.
//!
//! ## Why it happens
//! On Windows and WSL the driver moves GPU memory to host memory instead of failing, so a run slows
//! down tenfold before it fails. The card was already too small before that.
//!
//! ## What helps
//! Make the pass smaller. To get the error at once instead of a slow run, set
//! `CUDA - Sysmem Fallback Policy` to `Prefer No Sysmem Fallback` in the NVIDIA Control Panel.

use super::RuleMatch;
use crate::{
    cause::Cause,
    facts::{Certainty, MemoryKind},
    parse::Topic,
    reason::Analysis,
};

pub(super) fn check(analysis: &Analysis<'_>) -> Option<RuleMatch> {
    let message = analysis.log.message.as_ref()?;
    let of = |allocated_bytes, total_bytes, certainty| {
        let cause = Cause::SpilledToHost { allocated_bytes, total_bytes };
        Some(RuleMatch { certainty, is_cause: true, cause })
    };
    if let (Some(allocated), Some(total)) = (analysis.facts.allocated, analysis.facts.total)
        && analysis.is_gpu()
        && message.total.is_some()
        && allocated.low > total.high.saturating_add(total.high / 100)
    {
        return of(Some(allocated.bytes), Some(total.bytes), Certainty::Certain);
    }
    let topics = &analysis.log.setup.situation.topics;
    let is_said = [Topic::SharedMemory, Topic::Slow].iter().all(|topic| topics.contains(topic));
    let is_open = message.requested.is_none() && message.memory != MemoryKind::HostMemory;
    if is_said && is_open { of(None, None, Certainty::Likely) } else { None }
}
