//! # `not-memory`
//!
//! ## What it sees
//! The log shows a failed check inside of a kernel or an illegal access, and no allocation that
//! failed.
//!
//! ## Why it happens
//! A token or a label is out of range, a shape does not fit, or a kernel has a bug. The card
//! reports it late and in other places.
//!
//! ## What helps
//! `CUDA_LAUNCH_BLOCKING=1` shows the op; the same batch on a CPU gives a plain message. No change
//! of sizes helps.

use super::Answer;
use crate::{
    cause::{Cause, OtherFailure},
    diagnosis::Certainty,
    parse::Clue,
    reason::Analysis,
};

pub(super) fn check(analysis: &Analysis<'_>) -> Option<Answer> {
    let clues = analysis.log.clues;
    let failure = if clues.has(Clue::DeviceAssert) {
        OtherFailure::DeviceAssert
    } else if clues.has(Clue::IllegalAccess) {
        OtherFailure::IllegalAccess
    } else {
        return None;
    };
    let cause = Cause::NotMemory { failure };
    let is_alone = analysis.log.message.is_none();
    is_alone.then_some(Answer { certainty: Certainty::Certain, is_cause: true, cause })
}
