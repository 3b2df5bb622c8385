//! # `weights-too-large`
//!
//! ## What it detects
//! The model did not fit while loading, or its weights alone exceed the card.
//!
//! ## Why it happens
//! Weights take 4 bytes per parameter in float32, 2 in half precision and about half a byte in 4
//! bits, independent of the batch.
//!
//! ## What helps
//! 4-bit or 8-bit weights, layers in host memory (`device_map="auto"`, `-ngl`), several cards, or a
//! smaller model.

use super::RuleMatch;
use crate::{
    cause::Cause,
    facts::{Certainty, Domain, MemoryKind, PhaseName},
    parse::{Clue, Wording},
    reason::Analysis,
};

pub(super) fn check(analysis: &Analysis<'_>) -> Option<RuleMatch> {
    let (log, facts) = (analysis.log, &analysis.facts);
    let is_local = log.clues.any(&[Clue::Ollama, Clue::LlamaCpp]);
    let message = log.message.as_ref().filter(|message| {
        // Ollama does not say which memory is too small for the model.
        let is_unsaid =
            message.memory == MemoryKind::Unknown && message.wording == Wording::NoNumbers;
        (analysis.is_gpu() || is_unsaid && is_local) && analysis.run.is_none()
    })?;
    let is_quantized = log.clues.has(Clue::Quantized);
    let weights = analysis.decoder.as_ref().map(|decoder| decoder.weights_bytes(is_quantized));
    // Several cards may share the weights.
    let cards = log.setup.cards.count.unwrap_or(1).max(log.world());
    let is_larger = match (weights, facts.total) {
        // The CUDA context and the first pass need some of the card.
        (Some(weights), Some(total)) => weights / cards > total.high - total.high / 20,
        _ => false,
    };
    let cause = Cause::WeightsTooLarge {
        model: analysis.decoder.as_ref().map(|decoder| decoder.name.clone()),
        parameter_count: analysis.decoder.as_ref().map(|decoder| decoder.parameters),
        weights_bytes: weights.or(log.setup.weights.map(|size| size.bytes)),
        total_bytes: facts.total.map(|total| total.bytes),
    };
    let of = |certainty| Some(RuleMatch { certainty, is_cause: true, cause: cause.clone() });
    let runs = matches!(analysis.domain, Domain::Inference | Domain::Serving);
    // XLA says how much of a program's memory is its weights.
    if let (Some(arguments), Some(total)) = (log.setup.xla_arguments, facts.total)
        && arguments.low > total.high
        && !analysis.trains()
    {
        let mut cause = cause;
        if let Cause::WeightsTooLarge { weights_bytes, .. } = &mut cause {
            *weights_bytes = Some(arguments.bytes);
        }
        return Some(RuleMatch { certainty: Certainty::Likely, is_cause: true, cause });
    }
    if is_larger && runs {
        return of(Certainty::Certain);
    }
    if message.wording == Wording::Ggml {
        return of(Certainty::Likely);
    }
    // Ollama and llama.cpp usually fail while loading.
    if is_local && message.requested.is_none() {
        return of(Certainty::Unknown);
    }
    if analysis.phase.name != PhaseName::Load {
        // Inference holds the weights and little else, unless a pass of it is on the stack.
        let is_full = match (facts.allocated, facts.total, weights) {
            (Some(held), Some(total), Some(weights)) => {
                held.bytes > total.bytes - total.bytes / 4 && weights > total.bytes / 2
            }
            _ => false,
        };
        return if is_full
            && runs
            && !analysis.is_phase_traced
            && analysis.phase.name == PhaseName::Unknown
        {
            of(Certainty::Likely)
        } else {
            None
        };
    }
    // The model being loaded is most of what is allocated. Without any number, another process may
    // hold the card just as well.
    let is_most = match (facts.allocated, facts.total) {
        (Some(held), Some(total)) => held.bytes > total.bytes / 2,
        _ => facts.requested.is_some() || weights.is_some() || runs,
    };
    of(if is_most { analysis.phase.certainty } else { Certainty::Unknown })
}
