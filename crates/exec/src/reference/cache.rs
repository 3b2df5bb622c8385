//! Sampling: keys and values of earlier tokens, kept.
//!
//! A cache is (B, block, C) for keys and the same for values. A prompt fills the first rows
//! of one sequence; each decoded token of every sequence adds one row and attends to all.

use fitgpt_plan::program::Op;

use super::{
    attention::{add_scaled, dot, log_sum_exp},
    misplaced,
    values::Values,
};

/// The attention of one query to `keys` and `values` (n, C), head by head.
fn attend(query: &[f64], keys: &[f64], values: &[f64], heads: usize) -> Vec<f64> {
    let channels = query.len();
    let d = channels / heads;
    let scale = 1.0 / (d as f64).sqrt();
    let mut out = vec![0.0; channels];
    for head in 0..heads {
        let part = head * d..(head + 1) * d;
        let q = &query[part.clone()];
        let keys = keys.chunks(channels).map(|key| &key[part.clone()]);
        let scores: Vec<_> = keys.map(|key| dot(q, key) * scale).collect();
        let log_sum = log_sum_exp(&scores);
        for (score, value) in scores.iter().zip(values.chunks(channels)) {
            add_scaled(&mut out[part.clone()], (score - log_sum).exp(), &value[part.clone()]);
        }
    }
    out
}

pub(super) fn run(op: &Op, values: &mut Values<'_, '_>) {
    match *op {
        Op::StoreCache { qkv, keys, values: cached } => {
            let [_, block, channels] = values.shape(keys);
            let first = values.arguments.cache_row as usize * block * channels;
            let rows = values.load_rows(qkv);
            for (part, cache) in [(1, keys), (2, cached)] {
                let mut cache = values.take(cache);
                for (t, row) in rows.chunks(3 * channels).enumerate() {
                    cache.put(first + t * channels, &row[part * channels..][..channels]);
                }
            }
        }
        Op::CachedAttention { qkv, keys, values: cached, out, heads } => {
            let [_, block, channels] = values.shape(keys);
            let length = values.arguments.length as usize;
            assert!(length < block, "the cache has room for one token more");
            let rows = values.load(qkv);
            let (mut keys, mut cached) = (values.take(keys), values.take(cached));
            for (b, row) in rows.chunks(3 * channels).enumerate() {
                let at = (b * block + length) * channels;
                keys.put(at, &row[channels..2 * channels]);
                cached.put(at, &row[2 * channels..]);
            }
            let (keys, cached) = (keys.get(), cached.get());
            let mut attended = Vec::with_capacity(rows.len() / 3);
            for (b, row) in rows.chunks(3 * channels).enumerate() {
                let seen = b * block * channels..(b * block + length + 1) * channels;
                let (keys, cached) = (&keys[seen.clone()], &cached[seen]);
                attended.extend(attend(&row[..channels], keys, cached, heads as usize));
            }
            values.store(out, &attended);
        }
        Op::LastRow { x, out } => {
            let channels = values.columns(x);
            let length = values.arguments.length as usize;
            assert!(length > 0, "a prompt has one token at least");
            let rows = values.load(x);
            values.store(out, &rows[(length - 1) * channels..][..channels]);
        }
        _ => misplaced(op),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::{Causal, differences::numbers};

    #[test]
    fn one_query_attends_as_the_last_row_of_the_causal_attention() {
        let (seq, heads, channels) = (5, 2, 6);
        let qkv = numbers(1, seq * 3 * channels);
        let (expected, _) = Causal { seq, heads, channels, mask: None }.forward(&qkv);
        let part = |n: usize| -> Vec<f64> {
            let rows = qkv.chunks(3 * channels);
            rows.flat_map(|row| &row[n * channels..][..channels]).copied().collect()
        };
        let query = &qkv[(seq - 1) * 3 * channels..][..channels];
        let found = attend(query, &part(1), &part(2), heads);
        for (found, expected) in found.iter().zip(&expected[(seq - 1) * channels..]) {
            assert!((found - expected).abs() < 1e-14);
        }
    }
}
