//! # `hidden-by-compiler`
//!
//! ## What it detects
//! An allocation failed while `torch.compile` was compiling, or inside a compiler error
//! (`BackendCompilerFailed`, `InductorError`).
//!
//! ## Why it happens
//! Inductor benchmarks kernels on real tensors before it chooses one. This needs extra memory at the
//! first call only: 0.3 to 2 GiB is common and cannot be computed in advance. The compiler's error
//! then hides the original one.
//!
//! ## What helps
//! Leave memory free for the first call. `compile = False` avoids this peak, but after the first
//! step eager mode needs more memory, because it keeps the float32 intermediates of the loss.

use super::RuleMatch;
use crate::{
    cause::Cause,
    facts::{Certainty, PhaseName},
    parse::{Clue, Wording},
    reason::Analysis,
};

pub(super) fn check(analysis: &Analysis<'_>) -> Option<RuleMatch> {
    let while_compiling = analysis.phase.name == PhaseName::Compile;
    let wrapped = analysis.log.clues.has(Clue::CompilerError);
    // `TensorRT` reports its own allocations, which are the cause.
    let is_engine = analysis.log.clues.has(Clue::BuildsEngine);
    // XLA counts the program that it compiled; the error is its own.
    let is_xla = analysis.log.message.as_ref().is_some_and(|m| m.wording == Wording::Jax);
    if !analysis.is_gpu() || is_engine || is_xla || (!while_compiling && !wrapped) {
        return None;
    }
    let requested_bytes = analysis.facts.requested.map(|size| size.bytes);
    let cause = Cause::HiddenByCompiler { while_compiling, wrapped, requested_bytes };
    let certainty = if while_compiling { analysis.phase.certainty } else { Certainty::Likely };
    Some(RuleMatch { certainty, is_cause: while_compiling, cause })
}
