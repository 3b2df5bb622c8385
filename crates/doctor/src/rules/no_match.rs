//! # `no-match`
//!
//! ## What it sees
//! No tensor of the run has the size that was asked for.
//!
//! ## Why it happens
//! The config is not the one of the log, the script is not nanoGPT's, or the request is a
//! workspace of a library. Where a common run would print this number, it is named.
//!
//! ## What helps
//! The config that was really used, with the overrides of the command line.

use super::{Answer, shape};
use crate::{
    diagnosis::{Certainty, Evidence},
    parse::Memory,
    reason::Scene,
};

pub(super) fn check(scene: &Scene<'_>) -> Option<Answer> {
    scene.log.message.as_ref().filter(|m| m.memory == Memory::Gpu)?;
    let requested = scene.facts.requested.filter(|_| scene.has_shape())?;
    let is_explained =
        !scene.candidates.is_empty() || (scene.run.is_none() && !scene.supposed.is_empty());
    if is_explained {
        return None;
    }
    let mut evidence = Evidence::new()
        .number("requested_bytes", requested.bytes)
        .is("has_config", scene.run.is_some());
    if let Some((tensor, supposing)) = scene.supposed.first() {
        evidence = evidence
            .text("would_match", &tensor.name)
            .text("would_match_shape", shape(&tensor.shape))
            .text("would_match_dtype", tensor.dtype)
            .text("would_match_model", supposing.model)
            .number("would_match_batch_size", supposing.batch_size)
            .number("would_match_block_size", supposing.block_size);
    }
    Some(Answer { certainty: Certainty::Certain, is_cause: false, evidence })
}
