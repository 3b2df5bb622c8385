//! Cross-entropy of the logits `x · weightᵀ` and the targets.
//!
//! ```text
//! loss of a row = log Σ exp(logits) - logits[target]
//! ```
//!
//! `logits` is working memory for a chunk of rows. Its contents afterwards are undefined, and this
//! definition does not use it.

use fitgpt_program::Op;

use super::{attention::log_sum_exp, linear, misplaced, values::OpValues};

/// The loss of each row.
fn forward(x: &[f64], weight: &[f64], targets: &[u32], channels: usize) -> Vec<f64> {
    let vocab = weight.len() / channels;
    let logits = linear::forward(x, weight, None, channels);
    let rows = logits.chunks(vocab).zip(targets);
    rows.map(|(logits, target)| log_sum_exp(logits) - logits[*target as usize]).collect()
}

/// `factor` times the gradients of the sum of all losses: of `x` and of `weight`.
fn backward(
    x: &[f64],
    weight: &[f64],
    targets: &[u32],
    channels: usize,
    factor: f64,
) -> (Vec<f64>, Vec<f64>) {
    let vocab = weight.len() / channels;
    let mut logits = linear::forward(x, weight, None, channels);
    for (logits, target) in logits.chunks_mut(vocab).zip(targets) {
        let log_sum = log_sum_exp(logits);
        for (v, logit) in logits.iter_mut().enumerate() {
            let onehot = if v == *target as usize { 1.0 } else { 0.0 };
            *logit = ((*logit - log_sum).exp() - onehot) * factor;
        }
    }
    let d_x = linear::backward_input(&logits, weight, channels);
    (d_x, linear::backward_weight(&logits, x, [vocab, channels]))
}

#[expect(clippy::wildcard_enum_match_arm, reason = "`run` sends no other op here")]
pub(super) fn run(op: &Op, values: &mut OpValues<'_, '_>) {
    match *op {
        Op::CrossEntropy { x, weight, targets, losses, .. } => {
            let [_, seq, channels] = values.shape(x);
            let targets = values.tokens(targets);
            let rows = forward(&values.load(x), &values.load(weight), targets, channels);
            let means: Vec<_> =
                rows.chunks(seq).map(|rows| rows.iter().sum::<f64>() / seq as f64).collect();
            values.store(losses, &means);
        }
        Op::CrossEntropyBackward { x, weight, targets, loss, d_x, d_weight, mean_over, .. } => {
            let channels = values.columns(x);
            let targets = values.tokens(targets);
            let (x, weight) = (values.load(x), values.load(weight));
            let total: f64 = forward(&x, &weight, targets, channels).iter().sum();
            values.add(loss, &[total / mean_over as f64]);
            let factor = f64::from(values.arguments.loss_scale) / mean_over as f64;
            let gradients = backward(&x, &weight, targets, channels, factor);
            values.store(d_x, &gradients.0);
            values.add(d_weight, &gradients.1);
        }
        _ => misplaced(op),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::differences::{assert_gradient, numbers};

    #[test]
    fn gradients_are_those_of_the_forward() {
        let (channels, vocab) = (3, 7);
        let targets = [6, 0, 2, 2];
        let (x, weight) = (numbers(1, 4 * channels), numbers(2, vocab * channels));
        let (d_x, d_weight) = backward(&x, &weight, &targets, channels, 0.25);
        let loss =
            |x: &[f64], w: &[f64]| forward(x, w, &targets, channels).iter().sum::<f64>() * 0.25;
        assert_gradient(|x| loss(x, &weight), &x, &d_x);
        assert_gradient(|weight| loss(&x, weight), &weight, &d_weight);
    }

    #[test]
    fn equal_logits_give_the_log_of_the_vocabulary() {
        let losses = forward(&[0.0; 2], &[1.0; 2 * 16], &[3], 2);
        assert!((losses[0] - 16f64.ln()).abs() < 1e-15);
    }
}
