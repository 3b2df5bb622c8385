//! Sampling with a cache of the keys and values of earlier tokens.
//!
//! A cache is (B, block, G·D) for keys and the same for values. A prompt fills the first rows of
//! one sequence. Each decoded token adds one row to its sequence and attends to all of its rows.

use fitgpt_program::{Heads, Op};

use super::{
    attention::{add_scaled, dot, joined_channels, load_joined, log_sum_exp},
    misplaced,
    values::OpValues,
};

/// The attention of one query to `keys` and `values` (n, G·D), head by head.
fn attend(query: &[f64], keys: &[f64], values: &[f64], heads: Heads) -> Vec<f64> {
    let d = heads.channels as usize;
    let channels = heads.kv as usize * d;
    let scale = 1.0 / (d as f64).sqrt();
    let mut out = vec![0.0; query.len()];
    for head in 0..heads.query as usize {
        let q = &query[head * d..][..d];
        let kv = head / (heads.query / heads.kv) as usize;
        let part = kv * d..(kv + 1) * d;
        let keys = keys.chunks(channels).map(|key| &key[part.clone()]);
        let scores: Vec<_> = keys.map(|key| dot(q, key) * scale).collect();
        let log_sum = log_sum_exp(&scores);
        let out = &mut out[head * d..][..d];
        for (score, value) in scores.iter().zip(values.chunks(channels)) {
            add_scaled(out, (score - log_sum).exp(), &value[part.clone()]);
        }
    }
    out
}

#[expect(clippy::wildcard_enum_match_arm, reason = "`run` sends no other op here")]
pub(super) fn run(op: &Op, values: &mut OpValues<'_, '_>) {
    match *op {
        Op::StoreCache { qkv, keys, values: cached, heads } => {
            let [_, block, channels] = values.shape(keys);
            let first = values.arguments.cache_row as usize * block * channels;
            let queries = (heads.query * heads.channels) as usize;
            let rows = load_joined(values, qkv);
            for (part, cache) in [(0, keys), (1, cached)] {
                let mut cache = values.take(cache);
                for (t, row) in rows.chunks(joined_channels(heads)).enumerate() {
                    let row = &row[queries + part * channels..][..channels];
                    cache.put(first + t * channels, row);
                }
            }
        }
        Op::CachedAttention { qkv, keys, values: cached, out, heads } => {
            let [_, block, channels] = values.shape(keys);
            let length = values.arguments.length as usize;
            assert!(length < block, "the cache is full");
            let queries = (heads.query * heads.channels) as usize;
            let rows = load_joined(values, qkv);
            let (mut keys, mut cached) = (values.take(keys), values.take(cached));
            for (b, row) in rows.chunks(joined_channels(heads)).enumerate() {
                let at = (b * block + length) * channels;
                keys.put(at, &row[queries..][..channels]);
                cached.put(at, &row[queries + channels..]);
            }
            let (keys, cached) = (keys.get(), cached.get());
            let mut attended = Vec::new();
            for (b, row) in rows.chunks(joined_channels(heads)).enumerate() {
                let seen = b * block * channels..(b * block + length + 1) * channels;
                let (keys, cached) = (&keys[seen.clone()], &cached[seen]);
                attended.extend(attend(&row[..queries], keys, cached, heads));
            }
            values.store(out, &attended);
        }
        Op::LastRow { x, out } => {
            let channels = values.columns(x);
            let length = values.arguments.length as usize;
            assert!(length > 0, "a prompt has at least one token");
            let rows = values.load(x);
            values.store(out, &rows[(length - 1) * channels..][..channels]);
        }
        _ => misplaced(op),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::{CausalAttention, differences::numbers};

    #[test]
    fn a_cached_query_gives_the_last_row_of_causal_attention() {
        let heads = Heads { query: 4, kv: 2, channels: 3 };
        let (seq, queries, keys) = (5, 12, 6);
        let width = queries + 2 * keys;
        let qkv = numbers(1, seq * width);
        let (expected, _) = CausalAttention { seq, heads, mask: None }.forward(&qkv);
        let part = |first: usize| -> Vec<f64> {
            qkv.chunks(width).flat_map(|row| &row[first..][..keys]).copied().collect()
        };
        let query = &qkv[(seq - 1) * width..][..queries];
        let found = attend(query, &part(queries), &part(queries + keys), heads);
        for (found, expected) in found.iter().zip(&expected[(seq - 1) * queries..]) {
            assert!((found - expected).abs() < 1e-14);
        }
    }
}
