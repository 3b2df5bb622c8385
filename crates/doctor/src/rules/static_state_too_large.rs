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
    facts::{Certainty, MemoryKind, PhaseName},
    parse::{Clue, TrainedPart},
    reason::{Analysis, ConfigOrigin},
};

pub(super) fn check(analysis: &Analysis<'_>) -> Option<RuleMatch> {
    // A user who says "out of memory" means the card, if its state alone exceeds it.
    let is_said = analysis.log.message.as_ref().is_some_and(|m| m.memory == MemoryKind::Unknown);
    if !analysis.is_gpu() && !is_said {
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

/// A known model of another stack on a known card.
fn of_decoder(analysis: &Analysis<'_>) -> Option<RuleMatch> {
    let budget = analysis.budget.as_ref().filter(|budget| budget.is_training)?;
    let clues = analysis.log.clues;
    // Sharding over an unknown number of cards, and engines that move state away.
    let is_single = analysis.log.setup.cards.count == Some(1);
    let is_open = clues.any(&[Clue::Fsdp, Clue::DeepSpeed, Clue::ZeroThree, Clue::Megatron])
        && budget.ranks == 1
        && !is_single
        || clues.has(Clue::Offloads)
        || analysis.log.world() > 1 && budget.ranks == 1 && !clues.has(Clue::Ddp);
    // A line of code that allocates logits says more than the usual state.
    let is_named = super::logits_at_the_peak::is_named(analysis);
    let is_step = matches!(
        analysis.phase.name,
        PhaseName::TrainForward
            | PhaseName::TrainBackward
            | PhaseName::Update
            | PhaseName::Start
            | PhaseName::Unknown
    );
    let has_adapters = analysis.log.setup.method.trained() == Some(TrainedPart::Adapters);
    if is_open || !is_step || has_adapters || clues.has(Clue::Quantized) {
        return None;
    }
    // The allocator's number may show that less was held than the usual state.
    let is_shown =
        analysis.facts.allocated.is_none_or(|held| held.bytes >= budget.usable_bytes / 2);
    let is_update = analysis.phase.name == PhaseName::Update;
    let is_exact = analysis.log.message.as_ref().is_some_and(|message| message.total.is_some());
    let certainty = match () {
        () if !is_shown || is_named && !budget.never_fits() => return None,
        () if budget.never_fits() && budget.is_stated && is_exact => Certainty::Certain,
        () if budget.never_fits() => Certainty::Likely,
        () if budget.usually_fails()
            && (budget.is_stated || is_update || analysis.is_phase_traced) =>
        {
            Certainty::Likely
        }
        // What is left is too little for a pass of most models.
        () if budget.usual_bytes > budget.usable_bytes / 5 * 4 => Certainty::Unknown,
        () => return None,
    };
    let cause = Cause::StaticStateTooLarge {
        model: Some(budget.model.clone()),
        parameter_count: budget.parameters,
        state_bytes: budget.usual_bytes,
        half_copies_bytes: 0,
        total_bytes: analysis.facts.total?.bytes,
    };
    Some(RuleMatch { certainty, is_cause: true, cause })
}
