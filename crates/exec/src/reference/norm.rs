//! Normalisation of rows: layer norm, and RMS norm, which takes the mean as 0.
//!
//! ```text
//! out = (x - mean) * rstd * weight + bias          x, out: (N, C); mean, rstd: (N)
//! ```
//!
//! `mean` and `rstd` are rounded to their stored type before `out` is computed from them, so that
//! recomputing `out` gives the same bits. Backward assigns or adds to `d_x`, and adds to `d_weight`
//! and `d_bias`.

use fitgpt_program::{
    Op,
    units::{DType, TensorId},
};

use super::{
    misplaced,
    values::{OpValues, rounded},
};

/// Which mean is subtracted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Centre {
    /// The mean of the row: layer norm.
    Mean,
    /// Zero: RMS norm.
    Zero,
}

impl Centre {
    fn of(mean: Option<TensorId>) -> Self {
        if mean.is_some() { Self::Mean } else { Self::Zero }
    }
}

/// Mean and reciprocal standard deviation of each row.
pub fn statistics(
    x: &[f64],
    channels: usize,
    centre: Centre,
    epsilon: f64,
) -> (Vec<f64>, Vec<f64>) {
    let of_row = |row: &[f64]| {
        let mean = match centre {
            Centre::Mean => row.iter().sum::<f64>() / row.len() as f64,
            Centre::Zero => 0.0,
        };
        let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / row.len() as f64;
        (mean, 1.0 / (variance + epsilon).sqrt())
    };
    x.chunks(channels).map(of_row).unzip()
}

/// Mean and reciprocal standard deviation, one per row.
#[derive(Clone, Copy)]
struct Statistics<'s> {
    mean: &'s [f64],
    rstd: &'s [f64],
    centre: Centre,
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

/// The gradients of a norm.
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
        let along_mean = match statistics.centre {
            Centre::Mean => d_normal.iter().sum::<f64>() / channels as f64,
            Centre::Zero => 0.0,
        };
        let along_normal =
            d_normal.iter().zip(&normal).map(|(d, n)| d * n).sum::<f64>() / channels as f64;
        let both = d_normal.iter().zip(&normal);
        d_x.extend(both.map(|(d, n)| rstd * (d - along_mean - n * along_normal)));
    }
    Gradients { x: d_x, weight: d_weight, bias: d_bias }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "`run` sends no other op here")]
pub(super) fn run(op: &Op, values: &mut OpValues<'_, '_>) {
    match *op {
        Op::Norm { x, weight, bias, out, mean, rstd, epsilon } => {
            let channels = values.columns(weight);
            let centre = Centre::of(mean);
            let (means, rstds) = statistics(&values.load_rows(x), channels, centre, epsilon.into());
            let means = rounded(DType::F32, &means);
            let rstds = rounded(values.dtype(rstd), &rstds);
            if let Some(mean) = mean {
                values.store(mean, &means);
            }
            values.store(rstd, &rstds);
            let statistics = Statistics { mean: &means, rstd: &rstds, centre };
            normalise(values, x, statistics, (weight, bias), out);
        }
        Op::NormAgain { x, weight, bias, mean, rstd, out } => {
            let (means, rstds) = stored(values, mean, rstd);
            let statistics = Statistics { mean: &means, rstd: &rstds, centre: Centre::of(mean) };
            normalise(values, x, statistics, (weight, bias), out);
        }
        Op::NormBackward { x, weight, mean, rstd, d_out, d_x, d_weight, d_bias }
        | Op::NormBackwardAdd { x, weight, mean, rstd, d_out, d_x, d_weight, d_bias } => {
            let (means, rstds) = stored(values, mean, rstd);
            let statistics = Statistics { mean: &means, rstd: &rstds, centre: Centre::of(mean) };
            let (x, weight, d_out) = (values.load(x), values.load(weight), values.load(d_out));
            let gradients = backward(&x, statistics, &weight, &d_out);
            if matches!(op, Op::NormBackwardAdd { .. }) {
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

/// Means and reciprocal deviations as the forward stored them.
fn stored(
    values: &OpValues<'_, '_>,
    mean: Option<TensorId>,
    rstd: TensorId,
) -> (Vec<f64>, Vec<f64>) {
    let rstds = values.load(rstd);
    (mean.map_or_else(|| vec![0.0; rstds.len()], |mean| values.load(mean)), rstds)
}

fn normalise(
    values: &mut OpValues<'_, '_>,
    x: TensorId,
    statistics: Statistics<'_>,
    (weight, bias): (TensorId, Option<TensorId>),
    out: TensorId,
) {
    let weight = values.load(weight);
    let bias = bias.map_or_else(|| vec![0.0; weight.len()], |bias| values.load(bias));
    let normal = forward(&values.load_rows(x), statistics, &weight, &bias);
    values.store(out, &normal);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::differences::{assert_gradient, dot, numbers};

    const EPSILON: f64 = 1e-5;

    fn norm(x: &[f64], weight: &[f64], bias: &[f64], centre: Centre) -> Vec<f64> {
        let (mean, rstd) = statistics(x, weight.len(), centre, EPSILON);
        forward(x, Statistics { mean: &mean, rstd: &rstd, centre }, weight, bias)
    }

    #[test]
    fn gradients_are_those_of_the_forward() {
        let (rows, channels) = (3, 5);
        let (x, d_out) = (numbers(1, rows * channels), numbers(2, rows * channels));
        let (weight, bias) = (numbers(3, channels), numbers(4, channels));
        for centre in [Centre::Mean, Centre::Zero] {
            let (mean, rstd) = statistics(&x, channels, centre, EPSILON);
            let statistics = Statistics { mean: &mean, rstd: &rstd, centre };
            let gradients = backward(&x, statistics, &weight, &d_out);
            let loss = |x: &[f64], w: &[f64], b: &[f64]| dot(&norm(x, w, b, centre), &d_out);
            assert_gradient(|x| loss(x, &weight, &bias), &x, &gradients.x);
            assert_gradient(|w| loss(&x, w, &bias), &weight, &gradients.weight);
            assert_gradient(|b| loss(&x, &weight, b), &bias, &gradients.bias);
        }
    }

    #[test]
    fn a_row_of_equal_values_becomes_the_bias() {
        assert_eq!(norm(&[7.0; 4], &[2.0; 4], &[0.5; 4], Centre::Mean), [0.5; 4]);
    }

    #[test]
    fn without_a_centre_a_row_is_divided_by_its_root_mean_square() {
        let out = norm(&[3.0, -4.0, 0.0, 0.0], &[1.0; 4], &[0.0; 4], Centre::Zero);
        for (found, expected) in out.iter().zip([1.2, -1.6, 0.0, 0.0]) {
            assert!((found - expected).abs() < 1e-5, "{found}");
        }
    }
}
