//! # `static-state-too-large`
//!
//! ## What it sees
//! Weights, gradients and Adam's two moments, 16 bytes a parameter, and autocast's half copies
//! of the weights, 2 more, do not fit the card before the first activation is made.
//!
//! ## Why it happens
//! Autocast keeps the weights in float32; gradients and both moments are float32 as well.
//! GPT-2 XL has 1.56 billion parameters: 23.2 GiB.
//!
//! ## What helps
//! Not a smaller batch. Moments of 8 bits or on the host, state that is shared between cards,
//! or a smaller model.

use fitgpt_plan::{device::CUDA_CONTEXT_BYTES, torch::Precision};

use super::Answer;
use crate::{
    diagnosis::{Certainty, Evidence},
    parse::Memory,
    reason::{Scene, Source},
};

pub(super) fn check(scene: &Scene<'_>) -> Option<Answer> {
    scene.log.message.as_ref().filter(|m| m.memory == Memory::Gpu)?;
    let (run, total) = (scene.run.as_ref()?, scene.facts.total?);
    let is_autocast = run.options.precision != Precision::F32;
    let copies = if is_autocast { 2 * run.model.parameter_count() } else { 0 };
    let evidence = Evidence::new()
        .number("parameter_count", run.model.parameter_count())
        .number("state_bytes", run.static_bytes())
        .number("half_copies_bytes", copies)
        .number("total_bytes", total.bytes);
    let certainty =
        if run.source == Source::Given { Certainty::Certain } else { Certainty::Likely };
    let is_too_large = run.static_bytes() + copies + CUDA_CONTEXT_BYTES[0].get() > total.high;
    is_too_large.then_some(Answer { certainty, is_cause: true, evidence })
}
