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
    diagnosis::{Certainty, Evidence},
    parse::{Memory, Wording},
    reason::Scene,
};

pub(super) fn check(scene: &Scene<'_>) -> Option<Answer> {
    let message = scene.log.message.as_ref().filter(|m| m.memory == Memory::Host)?;
    let is_pinned = scene.log.frames.iter().any(|f| f.squeezed().contains("pin_memory"));
    let (sign, certainty) = match message.wording {
        Wording::Killed => ("killed", Certainty::Likely),
        Wording::CpuAllocator => ("host allocator", Certainty::Certain),
        _ if is_pinned => ("page-locked memory", Certainty::Certain),
        _ => ("host", Certainty::Certain),
    };
    let evidence =
        Evidence::new().text("sign", sign).size("requested_bytes", scene.facts.requested);
    Some(Answer { certainty, is_cause: true, evidence })
}
