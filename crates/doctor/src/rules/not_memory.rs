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
    let failure = if clues.has(Clue::DeviceAssert) {
        OtherFailure::DeviceAssert
    } else if clues.has(Clue::IllegalAccess) {
        OtherFailure::IllegalAccess
    } else if clues.has(Clue::Watchdog) {
        OtherFailure::Watchdog
    } else if clues.has(Clue::WorkerCrashed) {
        OtherFailure::WorkerCrashed
    } else {
        return None;
    };
    let cause = Cause::NotMemory { failure };
    // A user may suspect memory; a program that reports a failed allocation is believed.
    let certainty = match analysis.log.message.as_ref().map(|message| message.wording) {
        None => Certainty::Certain,
        Some(Wording::Word) => Certainty::Likely,
        Some(_) => return None,
    };
    Some(RuleMatch { certainty, is_cause: true, cause })
}
