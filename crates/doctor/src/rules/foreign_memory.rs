//! # `foreign-memory`
//!
//! ## What it detects
//! Memory that is neither free nor used by this process: total − free − process. If the message does
//! not give the memory of the process, it is total − free − reserved by PyTorch − up to 1 GiB for
//! the CUDA context.
//!
//! ## Why it happens
//! A desktop, a browser, a notebook whose kernel is still running, an earlier run that has not
//! ended, or another rank on the same card.
//!
//! ## What helps
//! End the other processes (`nvidia-smi` lists them). They are the cause only if the free memory
//! plus theirs would have been enough for the request and this phase fits an empty card; otherwise
//! the run does not fit an empty card either. If their memory is only inferred, they are not blamed
//! if PyTorch itself had reserved more than that without using it.

use super::{LAST_PAGES, RuleMatch, is_full};
use crate::{
    cause::Cause,
    facts::Certainty,
    parse::{CardProcess, Wording},
    reason::{Analysis, trace},
};

/// Less than this is what a desktop uses.
const NEGLIGIBLE: u64 = 256 << 20;
/// Below this fraction of the card (1/n), other processes are not the reason.
const MATTERS: u64 = 5;

pub(super) fn check(analysis: &Analysis<'_>) -> Option<RuleMatch> {
    if !analysis.is_gpu() {
        return None;
    }
    let (facts, message) = (&analysis.facts, analysis.log.message.as_ref()?);
    let processes = processes(analysis);
    let bytes = |size: Option<crate::parse::PrintedSize>| size.map(|size| size.bytes);
    let cause = |foreign_bytes: Option<u64>| Cause::ForeignMemory {
        foreign_bytes,
        free_bytes: bytes(facts.free),
        requested_bytes: bytes(facts.requested),
        processes: processes.clone(),
    };
    // Not even a CUDA context or a program of a few MiB fit.
    let is_start = trace::holds(analysis.log, &["_cuda_init", "_lazy_init", "cuctxcreate"])
        || analysis.log.clues.has(crate::parse::Clue::MakesContext);
    let is_bare = matches!(message.wording, Wording::NoNumbers) && is_start;
    let is_tiny = analysis.log.setup.xla_total.is_some_and(|size| size.bytes < 512 << 20);
    if is_bare || is_tiny {
        return Some(RuleMatch {
            certainty: Certainty::Likely,
            is_cause: true,
            cause: cause(None),
        });
    }
    // Without any number of the allocator, `nvidia-smi` shows a card that is full; whose memory it
    // is, it shows only if it lists the processes.
    if let (None, Some([used, total])) = (facts.requested, analysis.log.setup.smi)
        && message.wording == Wording::NoNumbers
        && used > total - total / 10
    {
        let certainty = Certainty::Unknown;
        return Some(RuleMatch { certainty, is_cause: true, cause: cause(None) });
    }
    let foreign = facts.foreign.filter(|size| size.bytes >= NEGLIGIBLE)?;
    let free = facts.free?;
    // If enough memory was free, other processes are not the cause. A request need not be printed
    // if the card is full.
    let was_short = is_full(facts)
        || facts
            .requested
            .is_some_and(|requested| free.low <= requested.high.saturating_add(LAST_PAGES));
    let would_hold =
        facts.requested.is_none_or(|requested| free.plus(foreign).bytes >= requested.bytes);
    // A step that is larger than the whole card fails on an empty card, too.
    let fits_alone = analysis.fits_an_empty_card();
    let is_certain = facts.process.is_some();
    // If their memory is only inferred, PyTorch's own unused memory may explain more.
    let unused = match (facts.reserved, facts.allocated) {
        (Some(reserved), Some(allocated)) => reserved.minus(allocated).bytes,
        _ => 0,
    };
    let is_most = is_certain || unused < foreign.bytes;
    let matters = fits_alone == Some(true)
        || facts.total.is_some_and(|total| foreign.bytes >= total.bytes / MATTERS);
    let is_cause = was_short && would_hold && is_most && matters && fits_alone != Some(false);
    let certainty = if is_certain { Certainty::Certain } else { Certainty::Likely };
    Some(RuleMatch { certainty, is_cause, cause: cause(Some(foreign.bytes)) })
}

/// The other processes on the card, largest first.
fn processes(analysis: &Analysis<'_>) -> Vec<CardProcess> {
    let own = analysis.facts.process.map_or(0, |size| size.bytes);
    let named = analysis.log.message.iter().flat_map(|message| &message.processes);
    let named = named.map(|(pid, size)| CardProcess { pid: *pid, name: None, bytes: size.bytes });
    let listed = analysis.log.setup.smi_processes.iter().cloned();
    let mut all: Vec<CardProcess> =
        named.chain(listed).filter(|process| process.bytes != own).collect();
    all.sort_by_key(|process| std::cmp::Reverse(process.bytes));
    all.truncate(8);
    all
}
