//! LayerNorm over the last axis.
//!
//! ```text
//! out = (x - mean) * rstd * weight + bias          x, out: (N, C); mean, rstd: (N)
//! ```
//!
//! `mean` and `rstd` are rounded to what is stored before `out` is made from them, so that
//! making it again gives the same bits. Backward assigns or adds `d_x` and adds into
//! `d_weight`, `d_bias`.

use fitgpt_plan::{program::Op, units::TensorId};

use super::{
    misplaced,
    values::{Values, rounded},
};

/// Added to the variance, as PyTorch's default.
const EPSILON: f64 = 1e-5;

/// Mean and reciprocal standard deviation of each row.
pub(crate) fn statistics(x: &[f64], channels: usize) -> (Vec<f64>, Vec<f64>) {
    let of_row = |row: &[f64]| {
        let mean = row.iter().sum::<f64>() / row.len() as f64;
        let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / row.len() as f64;
        (mean, 1.0 / (variance + EPSILON).sqrt())
    };
    x.chunks(channels).map(of_row).unzip()
}

/// Mean and reciprocal standard deviation, one a row.
#[derive(Clone, Copy)]
struct Statistics<'s> {
    mean: &'s [f64],
    rstd: &'s [f64],
}

fn forward(x: &[f64], statistics: Statistics<'_>, weight: &[f64], bias: &[f64]) -> Vec<f64> {
    let mut out = Vec::with_capacity(x.len());
    for (row, x) in x.chunks(weight.len()).enumerate() {
        let (mean, rstd) = (statistics.mean[row], statistics.rstd[row]);
        let affine = weight.iter().zip(bias);
        out.extend(x.iter().zip(affine).map(|(x, (w, b))| (x - mean) * rstd * w + b));
    }
    out
}

/// Of what the names say.
struct Gradients {
    x: Vec<f64>,
    weight: Vec<f64>,
    bias: Vec<f64>,
}

fn backward(x: &[f64], statistics: Statistics<'_>, weight: &[f64], d_out: &[f64]) -> Gradients {
    let channels = weight.len();
    let mut d_x = Vec::with_capacity(x.len());
    let (mut d_weight, mut d_bias) = (vec![0.0; channels], vec![0.0; channels]);
    for (row, (x, d_out)) in x.chunks(channels).zip(d_out.chunks(channels)).enumerate() {
        let (mean, rstd) = (statistics.mean[row], statistics.rstd[row]);
        let normal: Vec<_> = x.iter().map(|x| (x - mean) * rstd).collect();
        let d_normal: Vec<_> = d_out.iter().zip(weight).map(|(d, w)| d * w).collect();
        for c in 0..channels {
            d_weight[c] += d_out[c] * normal[c];
            d_bias[c] += d_out[c];
        }
        // The mean and the variance depend on every x of the row.
        let along_mean = d_normal.iter().sum::<f64>() / channels as f64;
        let along_normal =
            d_normal.iter().zip(&normal).map(|(d, n)| d * n).sum::<f64>() / channels as f64;
        let both = d_normal.iter().zip(&normal);
        d_x.extend(both.map(|(d, n)| rstd * (d - along_mean - n * along_normal)));
    }
    Gradients { x: d_x, weight: d_weight, bias: d_bias }
}

pub(super) fn run(op: &Op, values: &mut Values<'_, '_>) {
    match *op {
        Op::LayerNorm { x, weight, bias, out, mean, rstd } => {
            let channels = values.columns(x);
            let (means, rstds) = statistics(&values.load_rows(x), channels);
            let means = rounded(values.dtype(mean), &means);
            let rstds = rounded(values.dtype(rstd), &rstds);
            values.store(mean, &means);
            values.store(rstd, &rstds);
            normalise(values, x, [&means, &rstds], (weight, bias), out);
        }
        Op::LayerNormAgain { x, weight, bias, mean, rstd, out } => {
            let (means, rstds) = (values.load(mean), values.load(rstd));
            normalise(values, x, [&means, &rstds], (weight, bias), out);
        }
        Op::LayerNormBackward { x, weight, mean, rstd, d_out, d_x, d_weight, d_bias }
        | Op::LayerNormBackwardAdd { x, weight, mean, rstd, d_out, d_x, d_weight, d_bias } => {
            let (means, rstds) = (values.load(mean), values.load(rstd));
            let statistics = Statistics { mean: &means, rstd: &rstds };
            let (x, weight, d_out) = (values.load(x), values.load(weight), values.load(d_out));
            let gradients = backward(&x, statistics, &weight, &d_out);
            if matches!(op, Op::LayerNormBackwardAdd { .. }) {
                values.add(d_x, &gradients.x);
            } else {
                values.store(d_x, &gradients.x);
            }
            values.add(d_weight, &gradients.weight);
            if let Some(d_bias) = d_bias {
                values.add(d_bias, &gradients.bias);
            }
        }
        _ => misplaced(op),
    }
}

fn normalise(
    values: &mut Values<'_, '_>,
    x: TensorId,
    [mean, rstd]: [&[f64]; 2],
    (weight, bias): (TensorId, Option<TensorId>),
    out: TensorId,
) {
    let weight = values.load(weight);
    let bias = bias.map_or_else(|| vec![0.0; weight.len()], |bias| values.load(bias));
    let normal = forward(&values.load_rows(x), Statistics { mean, rstd }, &weight, &bias);
    values.store(out, &normal);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::differences::{assert_gradient, dot, numbers};

    fn norm(x: &[f64], weight: &[f64], bias: &[f64]) -> Vec<f64> {
        let (mean, rstd) = statistics(x, weight.len());
        forward(x, Statistics { mean: &mean, rstd: &rstd }, weight, bias)
    }

    #[test]
    fn gradients_are_those_of_the_forward() {
        let (rows, channels) = (3, 5);
        let (x, d_out) = (numbers(1, rows * channels), numbers(2, rows * channels));
        let (weight, bias) = (numbers(3, channels), numbers(4, channels));
        let (mean, rstd) = statistics(&x, channels);
        let statistics = Statistics { mean: &mean, rstd: &rstd };
        let gradients = backward(&x, statistics, &weight, &d_out);
        assert_gradient(|x| dot(&norm(x, &weight, &bias), &d_out), &x, &gradients.x);
        assert_gradient(|w| dot(&norm(&x, w, &bias), &d_out), &weight, &gradients.weight);
        assert_gradient(|b| dot(&norm(&x, &weight, b), &d_out), &bias, &gradients.bias);
    }

    #[test]
    fn a_row_of_equal_values_becomes_the_bias() {
        assert_eq!(norm(&[7.0; 4], &[2.0; 4], &[0.5; 4]), [0.5; 4]);
    }
}
