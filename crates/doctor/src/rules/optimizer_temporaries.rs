//! # `optimizer-temporaries`
//!
//! ## What it sees
//! The failure lies in the optimizer's step, or in clipping right before it.
//!
//! ## Why it happens
//! The first step makes both moments, 8 bytes a parameter: an iteration that fitted once may not
//! fit again. AdamW over lists of tensors (`foreach`) also makes the square root of every second
//! moment at once, 4 bytes a parameter more. Meanwhile `logits` still names those of the last
//! micro-batch.
//!
//! ## What helps
//! `fused=True` has no such list. `del logits` before the step. Neither changes the training.

use super::Answer;
use crate::{
    diagnosis::{Evidence, PhaseName},
    parse::Memory,
    reason::Scene,
};

pub(super) fn check(scene: &Scene<'_>) -> Option<Answer> {
    scene.log.message.as_ref().filter(|m| m.memory == Memory::Gpu)?;
    if scene.phase.name != PhaseName::Update {
        return None;
    }
    let has = |words: &[&str]| {
        let frames = scene.log.frames.iter().map(crate::parse::Frame::squeezed);
        frames.into_iter().any(|text| words.iter().any(|word| text.contains(word)))
    };
    let uses_lists = has(&["_foreach_", "_multi_tensor_"]);
    let mut evidence = Evidence::new()
        .is("makes_moments", has(&["zeros_like", "_init_group"]))
        .is("uses_lists", uses_lists);
    if let Some(run) = &scene.run {
        let matrices: u64 =
            run.model.parameters().iter().filter(|p| p.decays()).map(|p| 4 * p.count()).sum();
        evidence = evidence
            .number("moments_bytes", 8 * run.model.parameter_count())
            .number("list_bytes", if uses_lists { matrices } else { 0 });
    }
    Some(Answer { certainty: scene.phase.certainty, is_cause: true, evidence })
}
