//! # `foreign-memory`
//!
//! ## What it sees
//! Memory of the card that is neither free nor this process's: total less free less process.
//! Where the message does not say what the process has, it is total less free less
//! what PyTorch reserved, less up to 1 GiB for a driver's context: only the rest counts.
//!
//! ## Why it happens
//! A desktop, a browser, a notebook whose kernel still runs, an earlier run that has not ended,
//! another worker on the same card.
//!
//! ## What helps
//! End the other process (`nvidia-smi` lists them). It is the cause only if free and foreign
//! memory together would have held the request and this phase fits an empty card;
//! else the run does not fit an empty card either. Where it is only inferred, it is not blamed if
//! PyTorch itself had more than that reserved and unused.

use super::{Answer, LAST_PAGES};
use crate::{
    diagnosis::{Certainty, Evidence},
    reason::Scene,
};

/// Less than this is a desktop's cursor and its frames.
const WORTH_SAYING: u64 = 256 << 20;

pub(super) fn check(scene: &Scene<'_>) -> Option<Answer> {
    let foreign = scene.facts.foreign.filter(|size| size.bytes >= WORTH_SAYING)?;
    let (free, requested) = (scene.facts.free?, scene.facts.requested?);
    // Where enough was free already, nobody else is to blame.
    let was_short = free.low <= requested.high.saturating_add(LAST_PAGES);
    let would_hold = free.plus(foreign).bytes >= requested.bytes;
    // A step that is larger than the whole card fails without company, too.
    let fits_alone = scene.fits_an_empty_card();
    let is_certain = scene.facts.process.is_some();
    // Where others' memory is only inferred, PyTorch's own unused memory may explain more.
    let unused = match (scene.facts.reserved, scene.facts.allocated) {
        (Some(reserved), Some(allocated)) => reserved.minus(allocated).bytes,
        _ => 0,
    };
    let is_most = is_certain || unused < foreign.bytes;
    let is_cause = was_short && would_hold && is_most && fits_alone != Some(false);
    let evidence = Evidence::new()
        .number("foreign_bytes", foreign.bytes)
        .number("free_bytes", free.bytes)
        .number("requested_bytes", requested.bytes);
    let certainty = if is_certain { Certainty::Certain } else { Certainty::Likely };
    Some(Answer { certainty, is_cause, evidence })
}
