//! # `unified-memory-limit`
//!
//! ## What it sees
//! Apple's Metal backend reached the limit that PyTorch or the driver sets on it.
//!
//! ## Why it happens
//! A Mac has one memory for everything. PyTorch allows itself 1.7 times the size that Metal
//! recommends; other allocations of the same process and of other programs count, too. A single
//! Metal buffer has a limit as well.
//!
//! ## What helps
//! A smaller batch or image, and closing other programs. `PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0`
//! removes the limit, set before Python starts; the machine may then swap or hang.

use super::Answer;
use crate::{cause::Cause, diagnosis::Certainty, parse::Wording, reason::Analysis};

pub(super) fn check(analysis: &Analysis<'_>) -> Option<Answer> {
    let message = analysis.log.message.as_ref()?;
    if !matches!(message.wording, Wording::Mps | Wording::Metal) {
        return None;
    }
    let bytes = |size: Option<crate::parse::PrintedSize>| size.map(|size| size.bytes);
    let cause = Cause::UnifiedMemoryLimit {
        allocated_bytes: bytes(message.allocated),
        other_bytes: bytes(message.other),
        limit_bytes: bytes(message.total),
        requested_bytes: bytes(message.requested),
    };
    Some(Answer { certainty: Certainty::Certain, is_cause: true, cause })
}
