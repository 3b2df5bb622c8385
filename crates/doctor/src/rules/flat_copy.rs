//! # `flat-copy`
//!
//! ## What it detects
//! The request is as large as all parameters together, or the failing code flattens the parameters
//! or the optimizer state.
//!
//! ## Why it happens
//! DeepSpeed and FSDP flatten parameters into one tensor, and ZeRO makes a float32 copy of its
//! partition. During the copy both exist.
//!
//! ## What helps
//! More cards, ZeRO stage 3, or the optimizer on the host (`offload_optimizer`). A smaller batch
//! does not help.

use super::RuleMatch;
use crate::{
    cause::Cause,
    facts::{Certainty, Domain, PhaseName},
    parse::Clue,
    reason::{Analysis, trace},
};

/// Functions that flatten tensors.
const CALLS: [&str; 8] = [
    "flatten_dense_tensors",
    "_flatten_dense",
    "fp32_partition",
    "initialize_optimizer_states",
    "single_partition_of_fp32",
    "_create_fp32_partitions",
    "flatparameter",
    "flat_param",
];

pub(super) fn check(analysis: &Analysis<'_>) -> Option<RuleMatch> {
    if !analysis.is_gpu() {
        return None;
    }
    let requested = analysis.facts.requested?;
    let of = |elements: Option<u64>, certainty| {
        let model = analysis.decoder.as_ref().map(|decoder| decoder.name.clone());
        let cause = Cause::FlatCopy { requested_bytes: Some(requested.bytes), elements, model };
        Some(RuleMatch { certainty, is_cause: true, cause })
    };
    // FSDP gathers the flat parameters of a layer for a pass or for a checkpoint.
    if analysis.phase.name == PhaseName::Save || trace::holds(analysis.log, &["unshard"]) {
        return None;
    }
    let is_large = requested.bytes >= 256 << 20;
    if trace::holds(analysis.log, &CALLS) && is_large {
        return of(None, Certainty::Certain);
    }
    // The user says that the engine was creating the optimizer state.
    let clues = analysis.log.clues;
    let is_engine = clues.any(&[Clue::DeepSpeed, Clue::Fsdp]);
    if is_engine && is_large && clues.has(Clue::InitializesOptimizer) {
        return of(None, Certainty::Likely);
    }
    let trains = matches!(analysis.domain, Domain::DecoderTraining | Domain::OtherTraining);
    let is_whole =
        |bytes: u64| bytes.abs_diff(requested.bytes).saturating_mul(200) <= requested.bytes;
    let count = analysis.decoder.as_ref().map(|decoder| decoder.parameters);
    let each = count
        .and_then(|count| [4, 2].into_iter().find(|each| is_whole(count.saturating_mul(*each))));
    if let Some(each) = each.filter(|_| trains) {
        return of(Some(requested.bytes / each), Certainty::Likely);
    }
    // Half-precision weights, float32 copies and moments: with DeepSpeed everything held is a
    // multiple of this size or of half of it.
    let (held, total) = (analysis.facts.allocated?, analysis.facts.total?);
    let halves = held.bytes / (requested.bytes / 2).max(1);
    let is_multiple = (2..=12).contains(&halves)
        && held.bytes.abs_diff(halves * (requested.bytes / 2)).saturating_mul(200) <= held.bytes;
    let is_sharded = clues.has(Clue::DeepSpeed);
    let is_huge = requested.bytes >= total.bytes / 10;
    if is_sharded && is_huge && is_multiple { of(None, Certainty::Likely) } else { None }
}
