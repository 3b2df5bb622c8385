//! # `host-memory`
//!
//! ## What it sees
//! The machine's own memory ran out, not the card's: the kernel or a launcher killed the
//! process (`Killed`, exit code 137 or -9, an `oom-kill` line), PyTorch's allocator for the
//! host gave up (`DefaultCPUAllocator`), or a page-locked copy could not be made.
//!
//! ## Why it happens
//! Preparing data that are read whole, several workers that each hold a copy, a checkpoint that
//! passes through host memory, or a limit of the container that is lower than the machine's
//! memory. A plain `Killed` has no number: somebody may also have killed the process by hand.
//!
//! ## What helps
//! Look at the kernel's log for the process's name. Prepare data in a stream, use fewer loader
//! workers, raise the container's limit. No batch size of the card changes it.

use super::Answer;
use crate::{
    cause::{Cause, HostSign},
    diagnosis::Certainty,
    parse::{Memory, Wording},
    reason::{Analysis, trace},
};

pub(super) fn check(analysis: &Analysis<'_>) -> Option<Answer> {
    let message = analysis.log.message.as_ref().filter(|m| m.memory == Memory::Host)?;
    let in_loader = trace::holds(analysis.log, &["dataloader.py", "_error_if_any_worker_fails"]);
    let (sign, certainty) = match message.wording {
        Wording::PagingFile | Wording::DevShm => return None,
        Wording::Killed if in_loader => (HostSign::WorkerKilled, Certainty::Likely),
        Wording::Killed => (HostSign::Killed, Certainty::Likely),
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
    Some(Answer { certainty, is_cause: true, cause })
}
