//! # `device-side-error`
//!
//! ## What it sees
//! A library of NVIDIA's could not get its workspace or handle (`CUBLAS_STATUS_ALLOC_FAILED`),
//! without numbers of the allocator.
//!
//! ## Why it happens
//! Either the card is full to the last page, or a kernel failed before and every later call
//! reports it: most often a token id at or above the vocabulary, or a label out of range.
//!
//! ## What helps
//! `CUDA_LAUNCH_BLOCKING=1` and one batch on the CPU tell the two apart. If ids are in range,
//! treat it as a full card.

use super::Answer;
use crate::{
    cause::Cause,
    diagnosis::Certainty,
    parse::{Clue, Wording},
    reason::Analysis,
};

pub(super) fn check(analysis: &Analysis<'_>) -> Option<Answer> {
    analysis.log.message.as_ref().filter(|message| message.wording == Wording::Cublas)?;
    let is_shown = analysis.log.clues.has(Clue::DeviceAssert);
    let certainty = if is_shown { Certainty::Certain } else { Certainty::Unknown };
    Some(Answer { certainty, is_cause: true, cause: Cause::DeviceSideError { is_shown } })
}
