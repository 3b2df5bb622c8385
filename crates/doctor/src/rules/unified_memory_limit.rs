//! # `unified-memory-limit`
//!
//! ## What it detects
//! Apple's Metal backend reached the limit set by PyTorch or the driver.
//!
//! ## Why it happens
//! On a Mac, CPU and GPU share one memory. PyTorch limits itself to 1.7 times the size that Metal
//! recommends; other allocations of the process and of other programs count, too. A single Metal
//! buffer also has a maximum size.
//!
//! ## What helps
//! A smaller batch or image, and closing other programs. `PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0`, set
//! before Python starts, removes the limit; the machine may then swap or hang.

use super::RuleMatch;
use crate::{cause::Cause, facts::Certainty, parse::Wording, reason::Analysis};

pub(super) fn check(analysis: &Analysis<'_>) -> Option<RuleMatch> {
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
    Some(RuleMatch { certainty: Certainty::Certain, is_cause: true, cause })
}
