//! # `weights-too-large`
//!
//! ## What it sees
//! The model did not fit while it was loaded, or its weights alone are larger than the card.
//!
//! ## Why it happens
//! Weights take 2 bytes a parameter in half precision, 4 in float32, about half a byte with 4
//! bits. Nothing about a batch changes them.
//!
//! ## What helps
//! Weights of 4 or 8 bits, layers on the host (`device_map="auto"`, `-ngl`), several cards, or a
//! smaller model.

use super::Answer;
use crate::{
    cause::Cause,
    diagnosis::{Certainty, Domain, PhaseName},
    parse::{Clue, Wording},
    reason::Analysis,
};

pub(super) fn check(analysis: &Analysis<'_>) -> Option<Answer> {
    let message =
        analysis.log.message.as_ref().filter(|_| analysis.is_gpu() && analysis.run.is_none())?;
    let (log, facts) = (analysis.log, &analysis.facts);
    let is_quantized = log.clues.has(Clue::Quantized);
    let weights = analysis.decoder.as_ref().map(|decoder| decoder.weights_bytes(is_quantized));
    let is_larger = match (weights, facts.total) {
        // A context takes some of the card, and a first pass some more.
        (Some(weights), Some(total)) => weights > total.high - total.high / 20,
        _ => false,
    };
    let cause = Cause::WeightsTooLarge {
        model: analysis.decoder.as_ref().map(|decoder| decoder.name.clone()),
        parameter_count: analysis.decoder.as_ref().map(|decoder| decoder.parameters),
        weights_bytes: weights.or(log.setup.weights.map(|size| size.bytes)),
        total_bytes: facts.total.map(|total| total.bytes),
    };
    let of = |certainty| Some(Answer { certainty, is_cause: true, cause: cause.clone() });
    let runs = matches!(analysis.domain, Domain::Inference | Domain::Serving);
    if is_larger && runs {
        return of(Certainty::Certain);
    }
    if message.wording == Wording::Ggml {
        return of(Certainty::Likely);
    }
    // ollama and its like load whatever fits and fail while they do.
    if log.clues.any(&[Clue::Ollama, Clue::LlamaCpp]) && message.requested.is_none() {
        return of(Certainty::Unknown);
    }
    if analysis.phase.name != PhaseName::Load {
        // An evaluation or a generation holds weights and little else.
        let is_full = match (facts.allocated, facts.total, weights) {
            (Some(held), Some(total), Some(weights)) => {
                held.bytes > total.bytes - total.bytes / 4 && weights > total.bytes / 2
            }
            _ => false,
        };
        return if is_full && runs { of(Certainty::Likely) } else { None };
    }
    // What is being loaded is most of what is there.
    let is_most = match (facts.allocated, facts.total) {
        (Some(held), Some(total)) => held.bytes > total.bytes / 2,
        _ => true,
    };
    of(if is_most { analysis.phase.certainty } else { Certainty::Unknown })
}
