//! # `communicator-buffers`
//!
//! ## What it detects
//! NCCL could not allocate its buffers, or data parallelism could not allocate its buckets.
//!
//! ## Why it happens
//! Each communicator allocates memory outside PyTorch, and `DistributedDataParallel` keeps a copy of
//! all gradients in buckets. If PyTorch has filled the card, nothing is left for them.
//!
//! ## What helps
//! Leave memory free for the first collective: a smaller batch, `gradient_as_bucket_view=True`, or
//! sharding (FSDP, ZeRO) instead of replicas. Check that two ranks do not share one card.

use super::RuleMatch;
use crate::{
    cause::Cause,
    facts::Certainty,
    parse::{Clue, Wording},
    reason::{Analysis, trace},
};

/// Calls during the set-up of data parallelism.
const CALLS: [&str; 5] = [
    "distributeddataparallel(",
    "_ddp_init_helper",
    "_verify_param_shape",
    "dist.reducer(",
    "_sync_params_and_buffers",
];

pub(super) fn check(analysis: &Analysis<'_>) -> Option<RuleMatch> {
    let message = analysis.log.message.as_ref().filter(|_| analysis.is_gpu())?;
    let is_nccl = analysis.log.clues.has(Clue::Nccl) && message.wording == Wording::NoNumbers;
    if !is_nccl && !trace::holds(analysis.log, &CALLS) {
        return None;
    }
    let requested_bytes = analysis.facts.requested.map(|size| size.bytes);
    let cause = Cause::CommunicatorBuffers { requested_bytes };
    Some(RuleMatch { certainty: Certainty::Likely, is_cause: true, cause })
}
