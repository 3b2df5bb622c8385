//! # `shared-memory`
//!
//! ## What it detects
//! Triton's `out of resource: shared memory, Required: …, Hardware limit: …`, and no failed
//! allocation. Some versions call it an out-of-memory error.
//!
//! ## Why it happens
//! A kernel needs more of the small on-chip memory of a multiprocessor than this card has (64 KiB on
//! Turing, 99 KiB on consumer Ampere and Ada). It has nothing to do with GPU memory. During
//! autotuning the same line is harmless: that configuration is skipped.
//!
//! ## What helps
//! Smaller tiles or fewer stages in that kernel, another version of Triton or PyTorch, or running
//! without `torch.compile`. A smaller batch does not help.

use super::RuleMatch;
use crate::{
    cause::Cause,
    facts::{Certainty, MemoryKind},
    reason::Analysis,
};

pub(super) fn check(analysis: &Analysis<'_>) -> Option<RuleMatch> {
    let message = analysis.log.message.as_ref().filter(|m| m.memory == MemoryKind::SharedMemory)?;
    let cause = Cause::SharedMemory {
        required_bytes: message.shared.map(|[required, _]| required),
        limit_bytes: message.shared.map(|[_, limit]| limit),
    };
    Some(RuleMatch { certainty: Certainty::Certain, is_cause: true, cause })
}
