//! # `kv-cache`
//!
//! ## What it sees
//! A server says that its cache of keys and values does not fit, or the line that failed makes or
//! grows that cache.
//!
//! ## Why it happens
//! Every token of every sequence keeps its keys and values in every layer. A server plans for the
//! longest context that the model allows unless it is told otherwise.
//!
//! ## What helps
//! A shorter context (`--max-model-len`, `-c`, `num_ctx`), fewer sequences at once, a cache of 8
//! bits, or weights of 4 bits, which leave more for it.

use super::Answer;
use crate::{
    cause::Cause,
    diagnosis::{Certainty, Domain},
    parse::Wording,
    reason::{Analysis, trace},
};

/// Lines and files that make a cache or lengthen it, squeezed.
const LINES: [&str; 9] = [
    "past_key",
    "key_cache",
    "kv_cache",
    "kvcache",
    "cache_k",
    "p_key_states",
    "key_states=torch.cat(",
    "self.key_cache[",
    "exllamav2cache(",
];

pub(super) fn check(analysis: &Analysis<'_>) -> Option<Answer> {
    let message = analysis.log.message.as_ref().filter(|_| analysis.is_gpu())?;
    let bytes = |size: Option<crate::parse::PrintedSize>| size.map(|size| size.bytes);
    let cause = Cause::KvCache {
        needed_bytes: bytes(message.wanted.or(analysis.log.setup.kv_cache)),
        available_bytes: bytes(message.available),
        tokens: message.tokens,
    };
    let of = |certainty| Some(Answer { certainty, is_cause: true, cause: cause.clone() });
    if message.wording == Wording::Server {
        // The other sentence is about the share of the card.
        return if message.free.is_some() { None } else { of(Certainty::Certain) };
    }
    let is_cache = trace::line_with(analysis.log, &LINES).is_some();
    if is_cache && matches!(analysis.domain, Domain::Inference | Domain::Serving) {
        return of(Certainty::Likely);
    }
    // llama.cpp has its weights and its cache, and finds no place for what a pass needs.
    let cache = analysis.log.setup.kv_cache.filter(|_| message.wording == Wording::Ggml)?;
    let weights = analysis.log.setup.weights.map_or(0, |size| size.bytes);
    if cache.bytes > weights / 8 { of(Certainty::Likely) } else { None }
}
