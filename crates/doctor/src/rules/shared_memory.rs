//! # `shared-memory`
//!
//! ## What it sees
//! Triton's `out of resource: shared memory, Required: …, Hardware limit: …`, and no allocation
//! that failed. Some versions call it an out-of-memory error.
//!
//! ## Why it happens
//! A kernel wants more of the small memory inside a multiprocessor than this card has (64 KiB
//! on Turing, 99 KiB on consumer Ampere and Ada). It has nothing to do with the card's gigabytes.
//! While inductor tunes, the same line is only a remark: that choice is skipped.
//!
//! ## What helps
//! Smaller tiles or fewer stages in that kernel, another version of Triton or PyTorch, or
//! running without `torch.compile`. A smaller batch does not help.

use super::Answer;
use crate::{cause::Cause, diagnosis::Certainty, parse::Memory, reason::Analysis};

pub(super) fn check(analysis: &Analysis<'_>) -> Option<Answer> {
    let message = analysis.log.message.as_ref().filter(|m| m.memory == Memory::Shared)?;
    let cause = Cause::SharedMemory {
        required_bytes: message.shared.map(|[required, _]| required),
        limit_bytes: message.shared.map(|[_, limit]| limit),
    };
    Some(Answer { certainty: Certainty::Certain, is_cause: true, cause })
}
