//! # `host-memory`
//!
//! ## What it detects
//! Host memory ran out, not GPU memory: the kernel or a launcher killed the process (`Killed`, exit
//! code 137 or -9, an `oom-kill` line), PyTorch's CPU allocator failed (`DefaultCPUAllocator`), or
//! page-locked memory could not be allocated. A data loader worker that ended without a reason is a
//! possible sign only.
//!
//! ## Why it happens
//! Data preparation that reads everything at once, several workers that each hold a copy, a
//! checkpoint that passes through host memory, or a container limit below the machine's memory. A
//! bare `Killed` has no number: the process may also have been killed by hand.
//!
//! ## What helps
//! Look for the process in the kernel log. Stream the data, use fewer data loader workers, raise the
//! container's limit. The batch size on the card does not change it.

use super::RuleMatch;
use crate::{
    cause::{Cause, HostSign},
    facts::{Certainty, MemoryKind},
    parse::{Clue, Wording},
    reason::{Analysis, trace},
};

pub(super) fn check(analysis: &Analysis<'_>) -> Option<RuleMatch> {
    let message = analysis.log.message.as_ref().filter(|m| m.memory == MemoryKind::HostMemory)?;
    let in_loader = analysis.log.clues.has(Clue::LoaderWorker)
        || trace::holds(analysis.log, &["dataloader.py", "_error_if_any_worker_fails"]);
    // The signal says why the worker ended, whatever its user says.
    let is_crash = analysis.log.clues.has(Clue::WorkerCrashed);
    if is_crash && matches!(message.wording, Wording::SaidKilled | Wording::Word) {
        return None;
    }
    let (sign, certainty) = match message.wording {
        Wording::PagingFile | Wording::DevShm | Wording::BusError => return None,
        Wording::PageLocked => (HostSign::PageLocked, Certainty::Certain),
        // It may have crashed for any reason.
        Wording::Grows => (HostSign::Grows, Certainty::Likely),
        Wording::WorkerDied => (HostSign::WorkerKilled, Certainty::Unknown),
        Wording::Word => (HostSign::Other, Certainty::Likely),
        Wording::Killed if in_loader => (HostSign::WorkerKilled, Certainty::Likely),
        Wording::Killed | Wording::SaidKilled => (HostSign::Killed, Certainty::Likely),
        Wording::CpuAllocator => (HostSign::HostAllocator, Certainty::Certain),
        _ if trace::holds(analysis.log, &["pin_memory"]) => {
            (HostSign::PageLocked, Certainty::Certain)
        }
        _ => (HostSign::Other, Certainty::Certain),
    };
    let held_bytes = analysis.log.setup.killed.as_ref().map(|(_, bytes)| *bytes);
    let certainty = if held_bytes.is_some() { Certainty::Certain } else { certainty };
    let requested_bytes = analysis.facts.requested.map(|size| size.bytes);
    let cause = Cause::HostMemory { sign, requested_bytes, held_bytes };
    Some(RuleMatch { certainty, is_cause: true, cause })
}
