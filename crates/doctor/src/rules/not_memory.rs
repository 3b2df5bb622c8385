//! # `not-memory`
//!
//! ## What it detects
//! The log shows a failed assertion in a kernel, an illegal memory access, a GPU stopped by the
//! display's watchdog or a crashed data loader worker, and no failed allocation.
//!
//! ## Why it happens
//! A token id or a label is out of range, shapes do not match, or a kernel has a bug. The error is
//! asynchronous: a later, unrelated call reports it. A watchdog stops a GPU that draws a display and
//! computes for too long without a pause. A worker crashes in a library that decodes the data.
//!
//! ## What helps
//! `CUDA_LAUNCH_BLOCKING=1` shows the op; the same batch on a CPU gives a clear message. Changing
//! batch sizes does not help, except against a watchdog, which needs shorter kernels. `num_workers=0`
//! shows where a worker crashes.

use super::RuleMatch;
use crate::{
    cause::{Cause, OtherFailure},
    facts::Certainty,
    parse::{Clue, Wording},
    reason::Analysis,
};

pub(super) fn check(analysis: &Analysis<'_>) -> Option<RuleMatch> {
    let clues = analysis.log.clues;
    let message = analysis.log.message.as_ref();
    let of = |failure, line, certainty| {
        let cause = Cause::NotMemory { failure, line };
        Some(RuleMatch { certainty, is_cause: true, cause })
    };
    let failure = if clues.any(&[Clue::DeviceAssert, Clue::InvalidValue]) {
        OtherFailure::DeviceAssert
    } else if clues.has(Clue::IllegalAccess) {
        OtherFailure::IllegalAccess
    } else if clues.has(Clue::Watchdog) {
        OtherFailure::Watchdog
    } else if clues.has(Clue::WorkerCrashed) {
        OtherFailure::WorkerCrashed
    } else if clues.any(&[Clue::NcclOther, Clue::NcclTimeout]) {
        OtherFailure::Communicator
    } else if message.is_none() && clues.has(Clue::Nccl) {
        // NCCL hides the cause; nothing says that it was memory.
        return of(OtherFailure::Communicator, None, Certainty::Unknown);
    } else if let (None, Some(line)) = (message, &analysis.log.other_error) {
        return of(OtherFailure::Exception, Some(line.clone()), Certainty::Certain);
    } else {
        return None;
    };
    // No real tensor has a size of an exabyte.
    let is_impossible = analysis.facts.requested.is_some_and(|size| size.bytes >= 1 << 59);
    // A user may suspect memory; a program that reports a failed allocation is believed.
    let certainty = match message.map(|message| message.wording) {
        None => Certainty::Certain,
        Some(_) if is_impossible => Certainty::Likely,
        Some(Wording::Word | Wording::Grows | Wording::SaidKilled) => Certainty::Likely,
        Some(_) => return None,
    };
    of(failure, None, certainty)
}
