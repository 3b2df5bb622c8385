//! Causal attention of every head.
//!
//! ```text
//! p = softmax(q · kᵀ / √D) over keys not after the query;  out = drop(p) · v
//! ```
//!
//! A row of `qkv` is q | k | v: H·D channels of queries, G·D of keys and of values. Query head h
//! attends to key/value head h / (H / G). If the op has three tensors, their rows are joined first.
//! `lse` is the log of the sum of exponentials of a row of scores. Backward recomputes the
//! probabilities from the stored `lse`, and the sum of `p · d_p` from the stored `out`.

use fitgpt_program::{Heads, Op, Qkv};

use super::{misplaced, values::OpValues};
use crate::random::Mask;

/// The attention of one sequence.
#[derive(Clone, Copy, Debug)]
pub struct CausalAttention {
    /// Tokens.
    pub seq: usize,
    /// Heads and their channels.
    pub heads: Heads,
    /// Dropout of the probabilities.
    pub mask: Option<Mask>,
}

/// Channels of a joined row of queries, keys and values.
pub fn joined_channels(heads: Heads) -> usize {
    (heads.query + 2 * heads.kv) as usize * heads.channels as usize
}

impl CausalAttention {
    fn head_channels(&self) -> usize {
        self.heads.channels as usize
    }

    /// Channels of a row of `out`.
    fn channels(&self) -> usize {
        self.heads.query as usize * self.head_channels()
    }

    fn scale(&self) -> f64 {
        1.0 / (self.head_channels() as f64).sqrt()
    }

    /// The first channel of query head `head`, or of the key/value head that it attends to, in
    /// row `t` of q, k or v (`part` 0, 1 or 2).
    fn start(&self, part: usize, t: usize, head: usize) -> usize {
        let Heads { query, kv, .. } = self.heads;
        let (query, kv) = (query as usize, kv as usize);
        let of_kv = head / (query / kv);
        let head = [head, query + of_kv, query + kv + of_kv][part];
        t * joined_channels(self.heads) + head * self.head_channels()
    }

    /// The scaled scores of query `i` with keys 0 … i.
    fn scores(&self, qkv: &[f64], head: usize, i: usize) -> Vec<f64> {
        let d = self.head_channels();
        let q = &qkv[self.start(0, i, head)..][..d];
        let key = |j| &qkv[self.start(1, j, head)..][..d];
        (0..=i).map(|j| dot(q, key(j)) * self.scale()).collect()
    }

    /// The dropout factor of the probability of (i, j).
    fn factor(&self, head: usize, i: usize, j: usize) -> f64 {
        let element = (head * self.seq + i) * self.seq + j;
        self.mask.map_or(1.0, |mask| f64::from(mask.factor(element as u32)))
    }

    /// `out` (T, H·D) and `lse` (H, T) of joined rows.
    pub fn forward(&self, qkv: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let d = self.head_channels();
        let mut out = vec![0.0; self.seq * self.channels()];
        let heads = self.heads.query as usize;
        let mut lse = Vec::with_capacity(heads * self.seq);
        for head in 0..heads {
            for i in 0..self.seq {
                let scores = self.scores(qkv, head, i);
                let log_sum = log_sum_exp(&scores);
                lse.push(log_sum);
                let out = &mut out[i * self.channels() + head * d..][..d];
                for (j, score) in scores.into_iter().enumerate() {
                    let kept = (score - log_sum).exp() * self.factor(head, i, j);
                    let value = &qkv[self.start(2, j, head)..][..d];
                    add_scaled(out, kept, value);
                }
            }
        }
        (out, lse)
    }

    /// The gradient of joined rows.
    pub(crate) fn backward(&self, kept: &ForwardResults<'_>, d_out: &[f64]) -> Vec<f64> {
        let d = self.head_channels();
        let ForwardResults { qkv, out, lse } = *kept;
        let mut d_qkv = vec![0.0; qkv.len()];
        for head in 0..self.heads.query as usize {
            for i in 0..self.seq {
                let row = i * self.channels() + head * d;
                let (out, d_out) = (&out[row..][..d], &d_out[row..][..d]);
                let along = dot(out, d_out); // Σ p · d_p of this row
                for (j, score) in self.scores(qkv, head, i).into_iter().enumerate() {
                    let p = (score - lse[head * self.seq + i]).exp();
                    let factor = self.factor(head, i, j);
                    let [q, k, v] = [(0, i), (1, j), (2, j)].map(|(p, t)| self.start(p, t, head));
                    add_scaled(&mut d_qkv[v..][..d], p * factor, d_out);
                    let d_p = dot(&qkv[v..][..d], d_out) * factor;
                    let d_score = p * (d_p - along) * self.scale();
                    add_scaled(&mut d_qkv[q..][..d], d_score, &qkv[k..][..d]);
                    add_scaled(&mut d_qkv[k..][..d], d_score, &qkv[q..][..d]);
                }
            }
        }
        d_qkv
    }
}

/// Tensors of the forward that the backward needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ForwardResults<'k> {
    pub(crate) qkv: &'k [f64],
    pub(crate) out: &'k [f64],
    pub(crate) lse: &'k [f64],
}

pub(super) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

pub(super) fn add_scaled(sum: &mut [f64], factor: f64, values: &[f64]) {
    for (sum, value) in sum.iter_mut().zip(values) {
        *sum += factor * value;
    }
}

/// `log Σ exp`, with the largest value subtracted first.
pub(super) fn log_sum_exp(values: &[f64]) -> f64 {
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    most + values.iter().map(|v| (v - most).exp()).sum::<f64>().ln()
}

/// The rows in use of queries, keys and values, joined.
pub(super) fn load_joined(values: &OpValues<'_, '_>, qkv: Qkv) -> Vec<f64> {
    let parts: Vec<_> =
        qkv.tensors().map(|tensor| (values.load_rows(tensor), values.columns(tensor))).collect();
    let (queries, columns) = &parts[0];
    let row = |row: usize| parts.iter().flat_map(move |(part, n)| &part[row * n..][..*n]).copied();
    (0..queries.len() / columns).flat_map(row).collect()
}

/// Stores joined rows in one tensor or in three.
fn store_joined(values: &mut OpValues<'_, '_>, qkv: Qkv, rows: &[f64], width: usize) {
    let mut first = 0;
    for tensor in qkv.tensors() {
        let columns = values.columns(tensor);
        let part = rows.chunks(width).flat_map(|row| &row[first..][..columns]).copied();
        let part: Vec<_> = part.collect();
        values.store(tensor, &part);
        first += columns;
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "`run` sends no other op here")]
pub(super) fn run(op: &Op, values: &mut OpValues<'_, '_>) {
    match *op {
        Op::Attention { qkv, out, lse, heads, ref dropout } => {
            let [_, seq, channels] = values.shape(out);
            let used = (values.rows_in_use(out)).min(seq);
            let input = load_joined(values, qkv);
            let (mut out, mut lse) = (values.take(out), values.take(lse));
            for (b, qkv) in input.chunks(used * joined_channels(heads)).enumerate() {
                let mask = dropout.as_ref().map(|d| Mask::new(d, values.arguments, b as u64));
                let causal = CausalAttention { seq: used, heads, mask };
                let (attended, log_sums) = causal.forward(qkv);
                out.put(b * seq * channels, &attended);
                for (head, log_sums) in log_sums.chunks(used).enumerate() {
                    lse.put((b * heads.query as usize + head) * seq, log_sums);
                }
            }
        }
        Op::AttentionBackward { qkv, out, lse, d_out, d_qkv, heads, ref dropout } => {
            let [batch, seq, channels] = values.shape(out);
            let (width, per_head) = (joined_channels(heads), heads.query as usize * seq);
            let (qkv, out) = (load_joined(values, qkv), values.load(out));
            let (lse, d_out) = (values.load(lse), values.load(d_out));
            let mut gradient = Vec::with_capacity(qkv.len());
            for b in 0..batch {
                let mask = dropout.as_ref().map(|d| Mask::new(d, values.arguments, b as u64));
                let causal = CausalAttention { seq, heads, mask };
                let rows = seq * channels;
                let kept = ForwardResults {
                    qkv: &qkv[b * seq * width..][..seq * width],
                    out: &out[b * rows..][..rows],
                    lse: &lse[b * per_head..][..per_head],
                };
                gradient.extend(causal.backward(&kept, &d_out[b * rows..][..rows]));
            }
            store_joined(values, d_qkv, &gradient, width);
        }
        _ => misplaced(op),
    }
}

#[cfg(test)]
mod tests {
    use fitgpt_program::{Dropout, DropoutSite};

    use super::*;
    use crate::{
        Arguments,
        reference::differences::{assert_gradient, numbers},
    };

    #[test]
    fn gradients_are_those_of_the_forward_with_and_without_dropout() {
        let dropout = Dropout { rate: 0.3, layer: 1, site: DropoutSite::Attention };
        let mask = Mask::new(&dropout, &Arguments::default(), 0);
        for (mask, query, kv) in [(None, 2, 2), (Some(mask), 2, 2), (Some(mask), 4, 2)] {
            let heads = Heads { query, kv, channels: 3 };
            let causal = CausalAttention { seq: 4, heads, mask };
            let qkv = numbers(1, 4 * joined_channels(heads));
            let d_out = numbers(2, 4 * 3 * query as usize);
            let (out, lse) = causal.forward(&qkv);
            let kept = ForwardResults { qkv: &qkv, out: &out, lse: &lse };
            let d_qkv = causal.backward(&kept, &d_out);
            assert_gradient(|qkv| dot(&causal.forward(qkv).0, &d_out), &qkv, &d_qkv);
        }
    }

    #[test]
    fn query_heads_share_the_keys_of_their_group() {
        // Four query heads over two key heads are four over four with each key head twice.
        let grouped = Heads { query: 4, kv: 2, channels: 3 };
        let qkv = numbers(1, 5 * joined_channels(grouped));
        let repeated: Vec<f64> = qkv
            .chunks(joined_channels(grouped))
            .flat_map(|row| {
                let head = |n: usize| &row[3 * n..][..3];
                [0, 1, 2, 3, 4, 4, 5, 5, 6, 6, 7, 7].map(head).concat()
            })
            .collect();
        let whole = Heads { kv: 4, ..grouped };
        let attend =
            |heads, qkv: &[f64]| CausalAttention { seq: 5, heads, mask: None }.forward(qkv);
        assert_eq!(attend(grouped, &qkv), attend(whole, &repeated));
    }

    #[test]
    fn a_token_does_not_attend_to_later_tokens() {
        let heads = Heads { query: 1, kv: 1, channels: 4 };
        let causal = CausalAttention { seq: 5, heads, mask: None };
        let mut qkv = numbers(1, 5 * 12);
        let (before, _) = causal.forward(&qkv);
        qkv[3 * 12..].fill(9.0);
        let (after, _) = causal.forward(&qkv);
        assert_eq!(before[..3 * 4], after[..3 * 4]);
        assert_ne!(before[3 * 4..], after[3 * 4..]);
    }

    #[test]
    fn the_first_token_attends_to_itself_alone() {
        let heads = Heads { query: 2, kv: 2, channels: 2 };
        let causal = CausalAttention { seq: 2, heads, mask: None };
        let qkv = numbers(1, 2 * 12);
        assert_eq!(causal.forward(&qkv).0[..4], qkv[8..12]);
    }
}
