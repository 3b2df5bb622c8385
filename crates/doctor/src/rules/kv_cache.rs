//! # `kv-cache`
//!
//! ## What it detects
//! A server reports that its KV cache does not fit, or the failing code allocates or extends that
//! cache.
//!
//! ## Why it happens
//! Every token of every sequence keeps its keys and values in every layer. By default a server plans
//! for the longest context that the model supports.
//!
//! ## What helps
//! A shorter context (`--max-model-len`, `-c`, `num_ctx`), fewer concurrent sequences, an 8-bit
//! cache, or 4-bit weights, which leave more memory for the cache.

use super::RuleMatch;
use crate::{
    cause::Cause,
    facts::{Certainty, Domain},
    parse::{Topic, Wording},
    reason::{Analysis, trace},
};

/// Code that allocates or extends a KV cache, without white space.
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

pub(super) fn check(analysis: &Analysis<'_>) -> Option<RuleMatch> {
    let message = analysis.log.message.as_ref().filter(|_| analysis.is_gpu())?;
    let bytes = |size: Option<crate::parse::PrintedSize>| size.map(|size| size.bytes);
    let cause = Cause::KvCache {
        needed_bytes: bytes(message.wanted.or(analysis.log.setup.kv_cache)),
        available_bytes: bytes(message.available),
        tokens: message.tokens,
    };
    let of = |certainty| Some(RuleMatch { certainty, is_cause: true, cause: cause.clone() });
    if message.wording == Wording::Server {
        // A message with the free memory is about the reservation.
        return if message.free.is_some() { None } else { of(Certainty::Certain) };
    }
    let is_said = analysis.log.setup.situation.topics.contains(&Topic::Cache);
    let is_cache = is_said || trace::line_with(analysis.log, &LINES).is_some();
    let runs = matches!(analysis.domain, Domain::Inference | Domain::Serving)
        || is_said && analysis.domain == Domain::Unknown;
    if is_cache && runs {
        return of(Certainty::Likely);
    }
    // llama.cpp has allocated weights and cache, and its compute buffer does not fit.
    let cache = analysis.log.setup.kv_cache.filter(|_| message.wording == Wording::Ggml)?;
    let weights = analysis.log.setup.weights.map_or(0, |size| size.bytes);
    if cache.bytes > weights / 8 { of(Certainty::Likely) } else { None }
}
