//! `LayerNorm`, forward, again and backward.

use fitgpt_plan::{
    program::Op,
    units::{DType, TensorId},
};

use super::{
    super::{
        case::{Builder, Case, Fill},
        tolerance::sum,
    },
    DTYPES, with_bias,
};
use crate::reference::statistics;

/// (B, T, C)
const SHAPES: [[u64; 3]; 4] = [[1, 1, 5], [1, 7, 20], [2, 32, 48], [2, 65, 100]];

pub(super) fn cases() -> Vec<Case> {
    let mut list = Vec::new();
    for dtype in DTYPES {
        for [b, t, c] in SHAPES {
            for has_bias in [true, false] {
                let title = format!("{b}x{t}x{c}{}, {dtype}", with_bias(has_bias));
                let start = Norm { title, shape: [b, t, c], dtype, has_bias };
                list.push(start.forward(Builder::new(start.title.clone())));
                list.push(start.again());
                list.extend([Assigns::Yes, Assigns::No].map(|assigns| start.backward(assigns)));
            }
        }
        let title = format!("1x9x20, bias, {dtype}");
        let start = Norm { title, shape: [1, 9, 20], dtype, has_bias: true };
        list.push(start.forward(Builder::prompt(&start.title, 9, 6)));
    }
    list
}

struct Norm {
    title: String,
    shape: [u64; 3],
    dtype: DType,
    has_bias: bool,
}

/// Whether the gradient of the input is assigned or added.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Assigns {
    Yes,
    No,
}

/// A mean that is not zero: the mean of a row is then no cancellation.
const FILL: Fill = Fill::Normal { mean: 0.5, std: 1.0 };
const WEIGHT: Fill = Fill::Normal { mean: 1.0, std: 0.3 };

impl Norm {
    fn forward(&self, mut case: Builder) -> Case {
        let [b, t, c] = self.shape;
        let x = case.reads("x", &[b, t, c], self.dtype, FILL);
        let (weight, bias) = self.affine(&mut case);
        let out = case.writes("out", &[b, t, c], self.dtype, sum(c).stored(self.dtype));
        let mean = case.writes_one_a_row("mean", &[b, t], sum(c));
        let rstd = case.writes_one_a_row("rstd", &[b, t], sum(c));
        case.case(Op::LayerNorm { x, weight, bias, out, mean, rstd })
    }

    fn again(&self) -> Case {
        let [b, t, c] = self.shape;
        let mut case = Builder::new(self.title.clone());
        let x = case.reads("x", &[b, t, c], self.dtype, FILL);
        let [mean, rstd] = self.statistics(&mut case, x);
        let (weight, bias) = self.affine(&mut case);
        let out = case.writes("out", &[b, t, c], self.dtype, sum(1).stored(self.dtype));
        case.case(Op::LayerNormAgain { x, weight, bias, mean, rstd, out })
    }

    fn backward(&self, assigns: Assigns) -> Case {
        let [b, t, c] = self.shape;
        let dtype = self.dtype;
        let mut case = Builder::new(self.title.clone());
        let x = case.reads("x", &[b, t, c], dtype, FILL);
        let [mean, rstd] = self.statistics(&mut case, x);
        let weight = case.reads("weight", &[c], DType::F32, WEIGHT);
        let d_out = case.reads("d_out", &[b, t, c], dtype, Fill::normal(1.0));
        let fill = Fill::normal(1.0);
        let d_weight = case.updates("d_weight", &[c], DType::F32, fill.clone(), sum(b * t));
        let d_bias = self
            .has_bias
            .then(|| case.updates("d_bias", &[c], DType::F32, fill.clone(), sum(b * t)));
        let tolerance = sum(c).stored(dtype);
        if assigns == Assigns::Yes {
            let d_x = case.writes("d_x", &[b, t, c], dtype, tolerance);
            let op = Op::LayerNormBackward { x, weight, mean, rstd, d_out, d_x, d_weight, d_bias };
            return case.case(op);
        }
        let d_x = case.updates("d_x", &[b, t, c], dtype, fill, tolerance);
        let op = Op::LayerNormBackwardAdd { x, weight, mean, rstd, d_out, d_x, d_weight, d_bias };
        case.case(op)
    }

    fn affine(&self, case: &mut Builder) -> (TensorId, Option<TensorId>) {
        let shape = [self.shape[2]];
        let weight = case.reads("weight", &shape, DType::F32, WEIGHT);
        let bias = self.has_bias.then(|| case.reads("bias", &shape, DType::F32, Fill::normal(0.3)));
        (weight, bias)
    }

    /// Mean and reciprocal standard deviation of `x`, as inputs.
    fn statistics(&self, case: &mut Builder, x: TensorId) -> [TensorId; 2] {
        let [b, t, c] = self.shape;
        let (mean, rstd) = statistics(&case.values_of(x), c as usize);
        [("mean", mean), ("rstd", rstd)]
            .map(|(name, values)| case.reads(name, &[b, t], DType::F32, Fill::Values(values)))
    }
}
