//! Linear layers, alone and fused with the ops that follow them.
//!
//! ```text
//! out = x · weightᵀ + bias          x: (N, K); weight: (M, K); out: (N, M)
//! ```
//!
//! Backward assigns the gradient of the input and adds to the gradients of weight and bias.

use fitgpt_program::{Op, units::TensorId};

use super::{
    dropout::drop_in_place,
    gelu::{gelu, slope},
    misplaced,
    values::{OpValues, rounded},
};

/// `x · weightᵀ + bias`, where a row of `x` has `inner` columns.
pub(super) fn forward(x: &[f64], weight: &[f64], bias: Option<&[f64]>, inner: usize) -> Vec<f64> {
    let outer = weight.len() / inner;
    let mut out = Vec::with_capacity(x.len() / inner * outer);
    for x in x.chunks(inner) {
        for (m, weight) in weight.chunks(inner).enumerate() {
            let product: f64 = x.iter().zip(weight).map(|(x, w)| x * w).sum();
            out.push(product + bias.map_or(0.0, |bias| bias[m]));
        }
    }
    out
}

/// `d_out · weight`, where a row of `weight` has `inner` columns.
pub(super) fn backward_input(d_out: &[f64], weight: &[f64], inner: usize) -> Vec<f64> {
    let outer = weight.len() / inner;
    let mut d_x = vec![0.0; d_out.len() / outer * inner];
    for (d_out, d_x) in d_out.chunks(outer).zip(d_x.chunks_mut(inner)) {
        for (d_out, weight) in d_out.iter().zip(weight.chunks(inner)) {
            for (d_x, weight) in d_x.iter_mut().zip(weight) {
                *d_x += d_out * weight;
            }
        }
    }
    d_x
}

/// `d_outᵀ · x`, where a row of `d_out` has `outer` columns and one of `x` has `inner`.
pub(super) fn backward_weight(d_out: &[f64], x: &[f64], [outer, inner]: [usize; 2]) -> Vec<f64> {
    let mut d_weight = vec![0.0; outer * inner];
    for (d_out, x) in d_out.chunks(outer).zip(x.chunks(inner)) {
        for (d_out, d_weight) in d_out.iter().zip(d_weight.chunks_mut(inner)) {
            for (d_weight, x) in d_weight.iter_mut().zip(x) {
                *d_weight += d_out * x;
            }
        }
    }
    d_weight
}

/// `Σ d_out` over the rows.
fn backward_bias(d_out: &[f64], outer: usize) -> Vec<f64> {
    let mut d_bias = vec![0.0; outer];
    for row in d_out.chunks(outer) {
        for (sum, d) in d_bias.iter_mut().zip(row) {
            *sum += d;
        }
    }
    d_bias
}

/// `x / (1 + e⁻ˣ)`
fn silu(x: f64) -> f64 {
    x * sigmoid(x)
}

/// Its derivative.
fn silu_slope(x: f64) -> f64 {
    sigmoid(x) * (1.0 + x * (1.0 - sigmoid(x)))
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

#[expect(clippy::wildcard_enum_match_arm, reason = "`run` sends no other op here")]
pub(super) fn run(op: &Op, values: &mut OpValues<'_, '_>) {
    match *op {
        Op::Linear { x, weight, bias, out } => {
            let product = product(values, x, weight, bias);
            values.store(out, &product);
        }
        Op::LinearGelu { x, weight, bias, pre, out, gelu: kind } => {
            // Rounded even if it is not kept, so that evaluation computes what training does.
            let product = rounded(values.dtype(out), &product(values, x, weight, bias));
            if let Some(pre) = pre {
                values.store(pre, &product);
            }
            let activated: Vec<_> = product.into_iter().map(|x| gelu(kind, x)).collect();
            values.store(out, &activated);
        }
        Op::LinearSwiGlu { x, weight, bias, gate, up, out } => {
            // Rounded even if it is not kept, as above.
            let product = rounded(values.dtype(out), &product(values, x, weight, bias));
            if let Some(up) = up {
                values.store(up, &product);
            }
            let gates = values.load_rows(gate);
            let activated: Vec<_> = gates.iter().zip(product).map(|(g, u)| silu(*g) * u).collect();
            values.store(out, &activated);
        }
        Op::LinearResidual { x, weight, bias, residual, out, ref dropout } => {
            let [_, seq, channels] = values.shape(out);
            let mut sum = product(values, x, weight, bias);
            drop_in_place(&mut sum, seq * channels, dropout.as_ref(), values.arguments);
            for (sum, residual) in sum.iter_mut().zip(values.load_rows(residual)) {
                *sum += residual;
            }
            values.store(out, &sum);
        }
        Op::LinearBackwardInput { d_out, weight, d_x } => {
            let inner = values.columns(weight);
            let gradient = backward_input(&values.load(d_out), &values.load(weight), inner);
            values.store(d_x, &gradient);
        }
        Op::LinearBackwardInputAdd { d_out, weight, d_x } => {
            let inner = values.columns(weight);
            let gradient = backward_input(&values.load(d_out), &values.load(weight), inner);
            values.add(d_x, &gradient);
        }
        Op::LinearBackwardSwiGlu { d_out, weight, gate, up, out } => {
            let inner = values.columns(weight);
            let gradient = backward_input(&values.load(d_out), &values.load(weight), inner);
            let (mut gate, mut up) = (values.take(gate), values.take(up));
            let (mut gates, mut ups) = (gate.get(), up.get());
            let mut activated = Vec::with_capacity(gradient.len());
            for (d, (g, u)) in gradient.into_iter().zip(gates.iter_mut().zip(&mut ups)) {
                activated.push(silu(*g) * *u);
                (*g, *u) = (d * *u * silu_slope(*g), d * silu(*g));
            }
            gate.put(0, &gates);
            up.put(0, &ups);
            values.store(out, &activated);
        }
        Op::LinearBackwardGelu { d_out, weight, pre, d_pre, gelu: kind } => {
            let inner = values.columns(weight);
            let mut gradient = backward_input(&values.load(d_out), &values.load(weight), inner);
            let mut changed = values.take(pre);
            let mut inputs = changed.get();
            for (d, x) in gradient.iter_mut().zip(&mut inputs) {
                *d *= slope(kind, *x);
                *x = gelu(kind, *x);
            }
            changed.put(0, &inputs);
            values.store(d_pre, &gradient);
        }
        Op::LinearBackwardWeight { d_out, x, d_weight, d_bias } => {
            let shape = [values.columns(d_out), values.columns(x)];
            let gradient = values.load(d_out);
            let product = backward_weight(&gradient, &values.load(x), shape);
            values.add(d_weight, &product);
            if let Some(d_bias) = d_bias {
                values.add(d_bias, &backward_bias(&gradient, shape[0]));
            }
        }
        _ => misplaced(op),
    }
}

fn product(
    values: &OpValues<'_, '_>,
    x: TensorId,
    weight: TensorId,
    bias: Option<TensorId>,
) -> Vec<f64> {
    let bias = bias.map(|bias| values.load(bias));
    forward(&values.load_rows(x), &values.load(weight), bias.as_deref(), values.columns(x))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::differences::{assert_gradient, dot, numbers};

    #[test]
    fn the_slope_of_silu_is_that_of_its_values() {
        let x: Vec<_> = numbers(1, 40).into_iter().map(|x| 5.0 * x).collect();
        let slopes: Vec<_> = x.iter().map(|x| silu_slope(*x)).collect();
        assert_gradient(|x| x.iter().map(|x| silu(*x)).sum(), &x, &slopes);
    }

    #[test]
    fn gradients_are_those_of_the_forward() {
        let (rows, inner, outer) = (3, 4, 5);
        let (x, weight) = (numbers(1, rows * inner), numbers(2, outer * inner));
        let (bias, d_out) = (numbers(3, outer), numbers(4, rows * outer));
        let loss = |x: &[f64], weight: &[f64], bias: &[f64]| {
            dot(&forward(x, weight, Some(bias), inner), &d_out)
        };
        let d_x = backward_input(&d_out, &weight, inner);
        let d_weight = backward_weight(&d_out, &x, [outer, inner]);
        assert_gradient(|x| loss(x, &weight, &bias), &x, &d_x);
        assert_gradient(|weight| loss(&x, weight, &bias), &weight, &d_weight);
        assert_gradient(|bias| loss(&x, &weight, bias), &bias, &backward_bias(&d_out, outer));
    }
}
