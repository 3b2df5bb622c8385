//! # `checkpoint-on-device`
//!
//! ## What it sees
//! The run began from a checkpoint, which was loaded straight onto the card.
//!
//! ## Why it happens
//! nanoGPT calls `torch.load(path, map_location=device)`: weights and both moments arrive on the
//! card before the model does, and the global name `state_dict` keeps the loaded weights to the
//! end of the run.
//!
//! ## What helps
//! `map_location='cpu'`, and `del state_dict, checkpoint` once both have been read. Neither
//! changes the training.

use super::Answer;
use crate::{
    diagnosis::{Certainty, Evidence, PhaseName},
    parse::Memory,
    reason::Scene,
};

pub(super) fn check(scene: &Scene<'_>) -> Option<Answer> {
    scene.log.message.as_ref().filter(|m| m.memory == Memory::Gpu)?;
    let is_loading = scene.phase.name == PhaseName::Resume;
    let is_resumed = scene.run.as_ref().is_some_and(|run| run.options.resumed);
    if !is_loading && !is_resumed {
        return None;
    }
    let mut evidence = Evidence::new().is("while_loading", is_loading);
    // Where neither a number nor a phase is known, a checkpoint on the card is the best guess.
    let is_guess = scene.facts.requested.is_none() && scene.phase.name == PhaseName::Unknown;
    let mut would_fit = false;
    if let Some(run) = &scene.run {
        let copy = 4 * run.model.parameter_count();
        evidence = evidence.number("second_copy_bytes", copy);
        if let (Some(free), Some(requested)) = (scene.facts.free, scene.facts.requested) {
            would_fit = free.bytes + copy >= requested.bytes;
        }
    }
    let certainty = match (is_loading, is_guess) {
        (true, _) => scene.phase.certainty,
        (false, true) => Certainty::Unknown,
        (false, false) => Certainty::Likely,
    };
    Some(Answer { certainty, is_cause: is_loading || would_fit || is_guess, evidence })
}
