//! # `no-shape-in-request`
//!
//! ## What it detects
//! A request of 2.00 or 20.00 MiB.
//!
//! ## Why it happens
//! PyTorch's allocator requests 2 MiB from the driver for any tensor up to 1 MiB, and 20 MiB for any
//! tensor below 10 MiB. The number says nothing about the tensor.
//!
//! ## What helps
//! Look at what fills the card, not at the last request.

use super::RuleMatch;
use crate::{cause::Cause, facts::Certainty, reason::Analysis};

pub(super) fn check(analysis: &Analysis<'_>) -> Option<RuleMatch> {
    let message = analysis.log.message.as_ref().filter(|m| m.is_rounded())?;
    let requested = message.requested?;
    let is_least = requested.admits(2 << 20) || requested.admits(20 << 20);
    let cause = Cause::NoShapeInRequest { requested_bytes: requested.bytes };
    is_least.then_some(RuleMatch { certainty: Certainty::Certain, is_cause: false, cause })
}
