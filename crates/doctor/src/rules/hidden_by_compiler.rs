//! # `hidden-by-compiler`
//!
//! ## What it sees
//! An allocation failed while `torch.compile` was at work, or inside an error of the compiler
//! (`BackendCompilerFailed`, `InductorError`).
//!
//! ## Why it happens
//! Inductor tries kernels on real tensors before it chooses one, and needs room for that at
//! the first call only; 0.3 to 2 GiB are common and cannot be derived. The compiler's error then
//! stands in front of the plain one.
//!
//! ## What helps
//! Leave room for the first call. `compile = False` saves this, but not the run: in the steady
//! state eager mode needs more, because it keeps the float32 chain of the loss.

use super::Answer;
use crate::{
    cause::Cause,
    diagnosis::{Certainty, PhaseName},
    reason::Analysis,
};

pub(super) fn check(analysis: &Analysis<'_>) -> Option<Answer> {
    let while_compiling = analysis.phase.name == PhaseName::Compile;
    let wrapped = analysis.log.has_compiler_error;
    if !analysis.is_gpu() || (!while_compiling && !wrapped) {
        return None;
    }
    let requested_bytes = analysis.facts.requested.map(|size| size.bytes);
    let cause = Cause::HiddenByCompiler { while_compiling, wrapped, requested_bytes };
    let certainty = if while_compiling { analysis.phase.certainty } else { Certainty::Likely };
    Some(Answer { certainty, is_cause: while_compiling, cause })
}
