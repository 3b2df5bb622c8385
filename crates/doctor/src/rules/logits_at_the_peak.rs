//! # `logits-at-the-peak`
//!
//! ## What it sees
//! The request prints exactly as rows × vocabulary would: logits, their float32 copy, their
//! softmax or a gradient of one of these.
//!
//! ## Why it happens
//! The loss needs the logits, their softmax and a gradient of the same size at once. GPT-2's
//! vocabulary is 65 times its width, so that one such tensor outweighs a layer; eager mode keeps
//! up to 20 bytes for each token and word, compiled mode 4.
//!
//! ## What helps
//! A loss that is computed for some rows at a time, a smaller micro-batch with more accumulation
//! (the same training), and for evaluations a batch of their own.

use super::{Answer, asked_for, named_by_line};
use crate::{
    cause::{Cause, RequestedTensor},
    diagnosis::{Certainty, Domain, Role},
    parse::Clue,
    reason::Analysis,
};

/// Lines of code that make or copy scores over the vocabulary, squeezed.
const LINES: [&str; 16] = [
    "lm_head(",
    "lm_logits",
    "shift_logits",
    "logits.float()",
    "logits.log_softmax(",
    "log_softmax(logits",
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

pub(super) fn check(analysis: &Analysis<'_>) -> Option<Answer> {
    let of = |asked| Cause::LogitsAtThePeak { asked };
    // A classifier's scores are small; a decoder's are as wide as its vocabulary.
    let is_decoder = matches!(analysis.domain, Domain::NanoGpt | Domain::DecoderTraining)
        || analysis.log.clues.any(&[Clue::Decoder, Clue::Gpt2]);
    let by_line = || named_by_line(analysis, &LINES, of).filter(|_| is_decoder);
    asked_for(analysis, Role::Logits, of)
        .or_else(by_line)
        .or_else(|| by_size(analysis).filter(|_| is_decoder))
}

/// The decoder that the log names, with the batch and the length that it names.
fn by_size(analysis: &Analysis<'_>) -> Option<Answer> {
    let tensors = analysis.decoder_tensors();
    let tensor = tensors.first().filter(|tensor| tensor.role == Role::Logits)?;
    let setup = &analysis.log.setup;
    let shows_config = setup.batch.is_some() && setup.seq.is_some();
    let asked = RequestedTensor {
        tensor: Some(tensor.name.clone()),
        shape: Some(tensor.shape.clone()),
        dtype: Some(tensor.dtype),
        tensor_bytes: Some(tensor.bytes),
        requested_bytes: analysis.facts.requested.map(|size| size.bytes),
        ..RequestedTensor::default()
    };
    let certainty = if shows_config { Certainty::Likely } else { Certainty::Unknown };
    Some(Answer { certainty, is_cause: true, cause: Cause::LogitsAtThePeak { asked } })
}
