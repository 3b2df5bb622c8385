//! # `static-state-too-large`
//!
//! ## What it detects
//! Weights, gradients and Adam's two moments (16 bytes per parameter) and autocast's half-precision
//! copies of the weights (2 more) exceed the card before the first activation is allocated.
//!
//! ## Why it happens
//! Autocast keeps the weights in float32; gradients and both moments are float32 as well.
//! GPT-2 XL has 1.56 billion parameters: 23.2 GiB.
//!
//! ## What helps
//! 8-bit moments, moments in host memory, sharding over several cards, or a smaller model. A smaller
//! batch does not help.

use fitgpt_fit::{device::CUDA_CONTEXT_BYTES, torch::TorchPrecision};

use super::RuleMatch;
use crate::{
    cause::Cause,
    facts::{Certainty, Domain, PhaseName},
    parse::Clue,
    reason::{Analysis, ConfigOrigin},
};

pub(super) fn check(analysis: &Analysis<'_>) -> Option<RuleMatch> {
    if !analysis.is_gpu() {
        return None;
    }
    let Some(run) = &analysis.run else { return of_decoder(analysis) };
    let total = analysis.facts.total?;
    let is_autocast = run.options.precision != TorchPrecision::F32;
    let copies = if is_autocast { 2 * run.model.parameter_count() } else { 0 };
    let cause = Cause::StaticStateTooLarge {
        model: None,
        parameter_count: run.model.parameter_count(),
        state_bytes: run.static_bytes(),
        half_copies_bytes: copies,
        total_bytes: total.bytes,
    };
    let certainty =
        if run.source == ConfigOrigin::Given { Certainty::Certain } else { Certainty::Likely };
    let is_too_large = run.static_bytes() + copies + CUDA_CONTEXT_BYTES[0].get() > total.high;
    is_too_large.then_some(RuleMatch { certainty, is_cause: true, cause })
}

/// Full training of a decoder in another stack on one card: usually 16 bytes per parameter, at least
/// 8. Adapters, quantization and sharding need less.
fn of_decoder(analysis: &Analysis<'_>) -> Option<RuleMatch> {
    let (decoder, total) = (analysis.decoder.as_ref()?, analysis.facts.total?);
    let keeps_less = [
        Clue::Lora,
        Clue::Quantized,
        Clue::Fsdp,
        Clue::DeepSpeed,
        Clue::ZeroThree,
        Clue::Offloads,
        Clue::Megatron,
    ];
    let is_step = matches!(
        analysis.phase.name,
        PhaseName::TrainForward | PhaseName::TrainBackward | PhaseName::Update | PhaseName::Unknown
    );
    let trains = matches!(analysis.domain, Domain::DecoderTraining | Domain::OtherTraining);
    // The log may say that only some of the parameters are trained.
    let is_partial = (analysis.log.setup.trainable)
        .is_some_and(|count| count.saturating_mul(10) < decoder.parameters.saturating_mul(9));
    if !trains || !is_step || is_partial || analysis.log.clues.any(&keeps_less) {
        return None;
    }
    let bytes = |each: u64| {
        decoder.parameters.saturating_mul(each).saturating_add(CUDA_CONTEXT_BYTES[0].get())
    };
    // Without a phase it is an assumption that all parameters are trained.
    let certainty = if bytes(8) > total.high && analysis.phase.name != PhaseName::Unknown {
        Certainty::Certain
    } else if bytes(16) > total.high {
        Certainty::Likely
    } else {
        return None;
    };
    let cause = Cause::StaticStateTooLarge {
        model: Some(decoder.name.clone()),
        parameter_count: decoder.parameters,
        state_bytes: decoder.parameters.saturating_mul(16),
        half_copies_bytes: 0,
        total_bytes: total.bytes,
    };
    Some(RuleMatch { certainty, is_cause: true, cause })
}
