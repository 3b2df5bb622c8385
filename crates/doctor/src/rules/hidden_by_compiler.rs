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
    diagnosis::{Certainty, Evidence, PhaseName},
    parse::Memory,
    reason::Scene,
};

pub(super) fn check(scene: &Scene<'_>) -> Option<Answer> {
    scene.log.message.as_ref().filter(|m| m.memory == Memory::Gpu)?;
    let compiles = scene.phase.name == PhaseName::Compile;
    if !compiles && !scene.log.has_compiler_error {
        return None;
    }
    let evidence = Evidence::new()
        .is("while_compiling", compiles)
        .is("wrapped", scene.log.has_compiler_error)
        .size("requested_bytes", scene.facts.requested);
    let certainty = if compiles { scene.phase.certainty } else { Certainty::Likely };
    Some(Answer { certainty, is_cause: compiles, evidence })
}
