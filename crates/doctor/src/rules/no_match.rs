//! # `no-match`
//!
//! ## What it detects
//! No tensor of the run has the requested size.
//!
//! ## Why it happens
//! The config is not the one that was used, the script is not nanoGPT's, or the request is a library
//! workspace. If a common run has a tensor of this size, it is named.
//!
//! ## What helps
//! Pass the config that was actually used, with the overrides of the command line.

use super::RuleMatch;
use crate::{
    cause::{Cause, RequestedTensor},
    facts::{Certainty, Domain},
    reason::Analysis,
};

pub(super) fn check(analysis: &Analysis<'_>) -> Option<RuleMatch> {
    if !analysis.is_gpu() {
        return None;
    }
    let requested = analysis.facts.requested.filter(|_| analysis.has_shape())?;
    let is_explained =
        !analysis.tensors().is_empty() && analysis.run.is_none() || !analysis.candidates.is_empty();
    // Only language models have tensors that could be named.
    let is_asked =
        matches!(analysis.domain, Domain::NanoGpt | Domain::DecoderTraining | Domain::Unknown);
    if analysis.refuted_bytes.is_none() && (is_explained || !is_asked) {
        return None;
    }
    let would_match = analysis.supposed.first().map(|(tensor, supposing)| RequestedTensor {
        tensor: Some(tensor.name.clone()),
        shape: Some(tensor.shape.clone()),
        dtype: Some(tensor.dtype),
        supposing: Some(*supposing),
        ..RequestedTensor::default()
    });
    let cause = Cause::NoMatch {
        requested_bytes: requested.bytes,
        has_config: analysis.run.is_some() || analysis.refuted_bytes.is_some(),
        model: analysis.decoder.as_ref().map(|decoder| decoder.name.clone()),
        would_match,
        planned_bytes: analysis.refuted_bytes,
        allocated_bytes: analysis.facts.allocated.map(|size| size.bytes),
    };
    Some(RuleMatch { certainty: Certainty::Certain, is_cause: false, cause })
}
