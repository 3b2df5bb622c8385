//! Causal attention of every head.
//!
//! ```text
//! p = softmax(q · kᵀ / √D) over keys not after the query;  out = drop(p) · v
//! ```
//!
//! A row of `qkv` is q | k | v, C channels each; head h has channels h·D … (h+1)·D of each.
//! `lse` is the log of the sum of exponentials of a row of scores. Backward makes the
//! probabilities again from `lse`, and the sum of `p · d_p` from `out`, both as stored.

use fitgpt_plan::program::Op;

use super::{misplaced, values::Values};
use crate::random::Mask;

/// The attention of one sequence.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Causal {
    pub(crate) seq: usize,
    pub(crate) heads: usize,
    pub(crate) channels: usize,
    pub(crate) mask: Option<Mask>,
}

impl Causal {
    fn head_channels(&self) -> usize {
        self.channels / self.heads
    }

    fn scale(&self) -> f64 {
        1.0 / (self.head_channels() as f64).sqrt()
    }

    /// Where the channels of `head` begin in row `t` of q, k or v (`part` 0, 1 or 2).
    fn start(&self, part: usize, t: usize, head: usize) -> usize {
        (3 * t + part) * self.channels + head * self.head_channels()
    }

    /// Scaled scores of query `i` with keys 0 … i.
    fn scores(&self, qkv: &[f64], head: usize, i: usize) -> Vec<f64> {
        let d = self.head_channels();
        let q = &qkv[self.start(0, i, head)..][..d];
        let key = |j| &qkv[self.start(1, j, head)..][..d];
        (0..=i).map(|j| dot(q, key(j)) * self.scale()).collect()
    }

    /// What dropout multiplies the probability of (i, j) by.
    fn factor(&self, head: usize, i: usize, j: usize) -> f64 {
        let element = (head * self.seq + i) * self.seq + j;
        self.mask.map_or(1.0, |mask| f64::from(mask.factor(element as u32)))
    }

    /// `out` (T, C) and `lse` (H, T) of `qkv` (T, 3C).
    pub(crate) fn forward(&self, qkv: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let d = self.head_channels();
        let mut out = vec![0.0; self.seq * self.channels];
        let mut lse = Vec::with_capacity(self.heads * self.seq);
        for head in 0..self.heads {
            for i in 0..self.seq {
                let scores = self.scores(qkv, head, i);
                let log_sum = log_sum_exp(&scores);
                lse.push(log_sum);
                let out = &mut out[i * self.channels + head * d..][..d];
                for (j, score) in scores.into_iter().enumerate() {
                    let kept = (score - log_sum).exp() * self.factor(head, i, j);
                    let value = &qkv[self.start(2, j, head)..][..d];
                    add_scaled(out, kept, value);
                }
            }
        }
        (out, lse)
    }

    /// `d_qkv` (T, 3C).
    pub(crate) fn backward(&self, kept: &Kept<'_>, d_out: &[f64]) -> Vec<f64> {
        let d = self.head_channels();
        let Kept { qkv, out, lse } = *kept;
        let mut d_qkv = vec![0.0; qkv.len()];
        for head in 0..self.heads {
            for i in 0..self.seq {
                let row = i * self.channels + head * d;
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

/// What the forward kept for the backward.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kept<'k> {
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

/// `log Σ exp`, with the largest taken out first.
pub(super) fn log_sum_exp(values: &[f64]) -> f64 {
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    most + values.iter().map(|v| (v - most).exp()).sum::<f64>().ln()
}

pub(super) fn run(op: &Op, values: &mut Values<'_, '_>) {
    match *op {
        Op::Attention { qkv, out, lse, heads, ref dropout } => {
            let [_, seq, channels] = values.shape(out);
            let heads = heads as usize;
            let used = (values.rows_in_use(out)).min(seq);
            let input = values.load_rows(qkv);
            let (mut out, mut lse) = (values.take(out), values.take(lse));
            for (b, qkv) in input.chunks(used * 3 * channels).enumerate() {
                let mask = dropout.as_ref().map(|d| Mask::new(d, values.arguments, b as u64));
                let causal = Causal { seq: used, heads, channels, mask };
                let (attended, log_sums) = causal.forward(qkv);
                out.put(b * seq * channels, &attended);
                for (head, log_sums) in log_sums.chunks(used).enumerate() {
                    lse.put((b * heads + head) * seq, log_sums);
                }
            }
        }
        Op::AttentionBackward { qkv, out, lse, d_out, d_qkv, heads, ref dropout } => {
            let [batch, seq, channels] = values.shape(out);
            let heads = heads as usize;
            let (qkv, out) = (values.load(qkv), values.load(out));
            let (lse, d_out) = (values.load(lse), values.load(d_out));
            let mut gradient = Vec::with_capacity(qkv.len());
            for b in 0..batch {
                let mask = dropout.as_ref().map(|d| Mask::new(d, values.arguments, b as u64));
                let causal = Causal { seq, heads, channels, mask };
                let rows = seq * channels;
                let kept = Kept {
                    qkv: &qkv[b * 3 * rows..][..3 * rows],
                    out: &out[b * rows..][..rows],
                    lse: &lse[b * heads * seq..][..heads * seq],
                };
                gradient.extend(causal.backward(&kept, &d_out[b * rows..][..rows]));
            }
            values.store(d_qkv, &gradient);
        }
        _ => misplaced(op),
    }
}

#[cfg(test)]
mod tests {
    use fitgpt_plan::program::{Dropout, Site};

    use super::*;
    use crate::{
        Arguments,
        reference::differences::{assert_gradient, numbers},
    };

    #[test]
    fn gradients_are_those_of_the_forward_with_and_without_dropout() {
        let dropout = Dropout { rate: 0.3, layer: 1, site: Site::Attention };
        let mask = Mask::new(&dropout, &Arguments::default(), 0);
        for mask in [None, Some(mask)] {
            let causal = Causal { seq: 4, heads: 2, channels: 6, mask };
            let (qkv, d_out) = (numbers(1, 4 * 18), numbers(2, 4 * 6));
            let (out, lse) = causal.forward(&qkv);
            let kept = Kept { qkv: &qkv, out: &out, lse: &lse };
            let d_qkv = causal.backward(&kept, &d_out);
            assert_gradient(|qkv| dot(&causal.forward(qkv).0, &d_out), &qkv, &d_qkv);
        }
    }

    #[test]
    fn a_token_never_sees_what_comes_after_it() {
        let causal = Causal { seq: 5, heads: 1, channels: 4, mask: None };
        let mut qkv = numbers(1, 5 * 12);
        let (before, _) = causal.forward(&qkv);
        qkv[3 * 12..].fill(9.0);
        let (after, _) = causal.forward(&qkv);
        assert_eq!(before[..3 * 4], after[..3 * 4]);
        assert_ne!(before[3 * 4..], after[3 * 4..]);
    }

    #[test]
    fn the_first_token_attends_to_itself_alone() {
        let causal = Causal { seq: 2, heads: 2, channels: 4, mask: None };
        let qkv = numbers(1, 2 * 12);
        assert_eq!(causal.forward(&qkv).0[..4], qkv[8..12]);
    }
}
