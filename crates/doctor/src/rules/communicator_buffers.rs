//! # `communicator-buffers`
//!
//! ## What it sees
//! NCCL could not get its memory, or data parallelism failed while it made its buckets.
//!
//! ## Why it happens
//! Each communicator takes memory outside of PyTorch, and `DistributedDataParallel` keeps a copy
//! of all gradients in buckets. On a card that PyTorch has filled, nothing is left for either.
//!
//! ## What helps
//! Leave memory free before the first collective: a smaller batch, `gradient_as_bucket_view=True`,
//! sharding (FSDP, ZeRO) instead of copies. Check that two ranks do not share one card.

use super::Answer;
use crate::{
    cause::Cause,
    diagnosis::Certainty,
    parse::{Clue, Wording},
    reason::{Analysis, trace},
};

/// What data parallelism calls while it sets itself up.
const CALLS: [&str; 5] = [
    "distributeddataparallel(",
    "_ddp_init_helper",
    "_verify_param_shape",
    "dist.reducer(",
    "_sync_params_and_buffers",
];

pub(super) fn check(analysis: &Analysis<'_>) -> Option<Answer> {
    let message = analysis.log.message.as_ref().filter(|_| analysis.is_gpu())?;
    let is_nccl = analysis.log.clues.has(Clue::Nccl) && message.wording == Wording::NoNumbers;
    if !is_nccl && !trace::holds(analysis.log, &CALLS) {
        return None;
    }
    let requested_bytes = analysis.facts.requested.map(|size| size.bytes);
    let cause = Cause::CommunicatorBuffers { requested_bytes };
    Some(Answer { certainty: Certainty::Likely, is_cause: true, cause })
}
