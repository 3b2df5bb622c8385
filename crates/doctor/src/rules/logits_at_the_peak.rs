//! # `logits-at-the-peak`
//!
//! ## What it detects
//! The requested size is rows × vocabulary: logits, their float32 copy, their softmax or a gradient
//! of one of these.
//!
//! ## Why it happens
//! The loss needs the logits, their softmax and a gradient of the same size at the same time.
//! GPT-2's vocabulary is 65 times its width, so one such tensor is larger than a whole layer. Eager
//! mode keeps up to 20 bytes per token and vocabulary entry, compiled mode 4.
//!
//! ## What helps
//! Computing the loss in chunks of rows, a smaller micro-batch with more accumulation (the same
//! training), and a smaller batch for evaluations.

use super::{RuleMatch, asked_for, named_by_line};
use crate::{
    cause::{Cause, RequestedTensor},
    facts::{Certainty, Domain, Role},
    parse::Clue,
    reason::{Analysis, trace},
};

/// Code that allocates or copies logits, without white space.
const LINES: [&str; 22] = [
    "loss_function(logits",
    "fixed_cross_entropy(",
    "cross_entropy_loss(",
    "lm_head(",
    "lm_logits",
    "shift_logits",
    "logits.float()",
    "logits.log_softmax(",
    "softmax(logits", // also `log_softmax`
    "logits.softmax(",
    "logsumexp(logits",
    "entropy_from_logits(",
    "selective_log_softmax(",
    "logprobs_from_logits(",
    "logits=logits",
    "logits.to(torch.float32)",
    "cross_entropy(logits",
    "cross_entropy(lm",
    "logits.view(",
    "logits.contiguous(",
    "logits[",
    "vocab_parallel_logits",
];

/// Whether the failing line of code names logits of a decoder.
pub(super) fn is_named(analysis: &Analysis<'_>) -> bool {
    trace::line_with(analysis.log, &LINES).is_some()
}

pub(super) fn check(analysis: &Analysis<'_>) -> Option<RuleMatch> {
    let of = |asked| Cause::LogitsAtThePeak { asked };
    // A classifier's logits are small, unless it classifies every pixel; a decoder's are as wide as
    // its vocabulary.
    let clues = analysis.log.clues;
    let is_large = analysis.facts.requested.is_some_and(|size| size.bytes >= 1 << 30);
    let is_of_pixels = clues.any(&[Clue::Vision, Clue::Diffusion, Clue::Audio, Clue::Science]);
    let is_decoder = matches!(analysis.domain, Domain::NanoGpt | Domain::DecoderTraining)
        || clues.any(&[Clue::Decoder, Clue::Gpt2])
        || is_large && !is_of_pixels;
    let by_line = || named_by_line(analysis, &LINES, of).filter(|_| is_decoder);
    asked_for(analysis, Role::Logits, of)
        .or_else(by_line)
        .or_else(|| by_size(analysis).filter(|_| is_decoder))
}

/// The named decoder's logits, with the batch and length in the log.
fn by_size(analysis: &Analysis<'_>) -> Option<RuleMatch> {
    let tensors = analysis.decoder_tensors();
    let tensor = tensors.first().filter(|tensor| tensor.role == Role::Logits)?;
    let setup = &analysis.log.setup;
    let is_exact = setup.batch.is_some() && setup.seq.is_some();
    let asked = RequestedTensor {
        tensor: Some(tensor.name.clone()),
        shape: Some(tensor.shape.clone()),
        dtype: Some(tensor.dtype),
        tensor_bytes: Some(tensor.bytes),
        requested_bytes: analysis.facts.requested.map(|size| size.bytes),
        ..RequestedTensor::default()
    };
    let certainty = if is_exact { Certainty::Likely } else { Certainty::Unknown };
    Some(RuleMatch { certainty, is_cause: true, cause: Cause::LogitsAtThePeak { asked } })
}
