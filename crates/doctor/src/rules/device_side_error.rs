//! # `device-side-error`
//!
//! ## What it detects
//! An NVIDIA library could not allocate its workspace or handle (`CUBLAS_STATUS_ALLOC_FAILED`), and
//! the log has no allocator numbers.
//!
//! ## Why it happens
//! Either the card is completely full, or an earlier kernel failed and every later call reports its
//! error: most often a token id beyond the vocabulary, or a label out of range.
//!
//! ## What helps
//! `CUDA_LAUNCH_BLOCKING=1`, or running one batch on the CPU, distinguishes the two. If all ids are
//! in range, treat it as a full card.

use super::RuleMatch;
use crate::{
    cause::Cause,
    facts::Certainty,
    parse::{Clue, Wording},
    reason::Analysis,
};

pub(super) fn check(analysis: &Analysis<'_>) -> Option<RuleMatch> {
    analysis.log.message.as_ref().filter(|message| message.wording == Wording::Cublas)?;
    let is_shown = analysis.log.clues.has(Clue::DeviceAssert);
    let certainty = if is_shown { Certainty::Certain } else { Certainty::Unknown };
    Some(RuleMatch { certainty, is_cause: true, cause: Cause::DeviceSideError { is_shown } })
}
