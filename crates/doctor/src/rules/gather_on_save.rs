//! # `gather-on-save`
//!
//! ## What it detects
//! A run with FSDP or ZeRO-3 failed while saving a checkpoint.
//!
//! ## Why it happens
//! A full state dict gathers every shard on the card of every rank before it is saved. A model that
//! fits only in shards does not fit as a whole.
//!
//! ## What helps
//! `FullStateDictConfig(offload_to_cpu=True, rank0_only=True)`, or sharded checkpoints
//! (`SHARDED_STATE_DICT`), which gather nothing.

use super::RuleMatch;
use crate::{
    cause::Cause,
    facts::{Certainty, MemoryKind, PhaseName},
    parse::Clue,
    reason::{Analysis, trace},
};

pub(super) fn check(analysis: &Analysis<'_>) -> Option<RuleMatch> {
    let message = analysis.log.message.as_ref().filter(|m| m.memory != MemoryKind::HostMemory)?;
    if analysis.phase.name != PhaseName::Save {
        return None;
    }
    let is_sharded =
        analysis.log.clues.any(&[Clue::Fsdp, Clue::ZeroThree, Clue::DeepSpeed, Clue::Megatron]);
    let gathers = trace::holds(analysis.log, &["state_dict", "consolidat", "_gather", "unshard"]);
    if !is_sharded && !gathers {
        return None;
    }
    let requested_bytes = analysis.facts.requested.map(|size| size.bytes);
    let cause = Cause::GatherOnSave { requested_bytes };
    // A user's "OOM" may also mean host memory.
    let is_shown = message.memory == MemoryKind::GpuMemory;
    let certainty = if is_shown { analysis.phase.certainty } else { Certainty::Unknown };
    Some(RuleMatch { certainty, is_cause: true, cause })
}
