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

use super::Answer;
use crate::{
    cause::{Asked, Cause},
    diagnosis::{Certainty, Domain},
    reason::Scene,
};

pub(super) fn check(scene: &Scene<'_>) -> Option<Answer> {
    if !scene.is_gpu() {
        return None;
    }
    let requested = scene.facts.requested.filter(|_| scene.has_shape())?;
    let is_explained =
        !scene.tensors().is_empty() && scene.run.is_none() || !scene.candidates.is_empty();
    // Outside of language models nobody expects a tensor's name.
    let is_asked =
        matches!(scene.domain, Domain::NanoGpt | Domain::DecoderTraining | Domain::Unknown);
    if scene.refuted_bytes.is_none() && (is_explained || !is_asked) {
        return None;
    }
    let would_match = scene.supposed.first().map(|(tensor, supposing)| Asked {
        tensor: Some(tensor.name.clone()),
        shape: Some(tensor.shape.clone()),
        dtype: Some(tensor.dtype),
        supposing: Some(*supposing),
        ..Asked::default()
    });
    let cause = Cause::NoMatch {
        requested_bytes: requested.bytes,
        has_config: scene.run.is_some() || scene.refuted_bytes.is_some(),
        would_match,
        planned_bytes: scene.refuted_bytes,
        allocated_bytes: scene.facts.allocated.map(|size| size.bytes),
    };
    Some(Answer { certainty: Certainty::Certain, is_cause: false, cause })
}
