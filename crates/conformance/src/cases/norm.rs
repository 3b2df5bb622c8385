//! Layer norm and RMS norm: forward, recomputation and backward.

use fitgpt_exec::reference::{Centre, statistics};
use fitgpt_program::{
    Op,
    units::{DType, TensorId},
};

use super::{
    super::{
        case::{CaseBuilder, Fill, OpCase},
        tolerance::sum,
    },
    DTYPES,
};

/// (B, T, C)
const SHAPES: [[u64; 3]; 4] = [[1, 1, 5], [1, 7, 20], [2, 32, 48], [2, 65, 100]];

/// (B, T, heads, D): each head is normalised.
const HEADS: [[u64; 4]; 3] = [[1, 1, 3, 4], [2, 7, 5, 20], [1, 33, 2, 64]];

pub(super) fn cases() -> Vec<OpCase> {
    let mut list = Vec::new();
    for dtype in DTYPES {
        for [b, t, c] in SHAPES {
            for kind in [NormVariant::Biased, NormVariant::Plain, NormVariant::Rms] {
                let start = NormCase { rows: [b, t], heads: None, channels: c, dtype, kind };
                list.push(start.forward(CaseBuilder::new(start.title())));
                list.push(start.again());
                list.extend(
                    [InputGradient::Assigned, InputGradient::Added]
                        .map(|d_x_mode| start.backward(d_x_mode)),
                );
            }
        }
        for [b, t, heads, channels] in HEADS {
            let heads = Some(heads);
            let start = NormCase { rows: [b, t], heads, channels, dtype, kind: NormVariant::Rms };
            list.push(start.forward(CaseBuilder::new(start.title())));
            list.push(start.backward(InputGradient::Assigned));
        }
        for kind in [NormVariant::Biased, NormVariant::Rms] {
            let start = NormCase { rows: [1, 9], heads: None, channels: 20, dtype, kind };
            list.push(start.forward(CaseBuilder::prompt(&start.title(), 9, 6)));
        }
    }
    list
}

/// Which norm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NormVariant {
    /// Layer norm with a bias.
    Biased,
    /// Layer norm without a bias.
    Plain,
    /// RMS norm.
    Rms,
}

struct NormCase {
    rows: [u64; 2],
    heads: Option<u64>,
    channels: u64,
    dtype: DType,
    kind: NormVariant,
}

/// Whether the gradient of the input is assigned or added.
#[derive(Clone, Copy, PartialEq, Eq)]
enum InputGradient {
    Assigned,
    Added,
}

/// A mean other than zero, so that the mean of a row does not cancel.
const FILL: Fill = Fill::Normal { mean: 0.5, std: 1.0 };
const WEIGHT: Fill = Fill::Normal { mean: 1.0, std: 0.3 };
const EPSILON: f32 = 1e-5;

impl NormCase {
    fn title(&self) -> String {
        let Self { rows: [b, t], channels, dtype, kind, .. } = self;
        let heads = self.heads.map_or(String::new(), |heads| format!("{heads} heads of "));
        format!("{b}x{t}, {heads}{channels}, {kind:?}, {dtype}")
    }

    /// The shape of the values.
    fn shape(&self) -> [u64; 3] {
        let [b, t] = self.rows;
        [b, t, self.heads.unwrap_or(1) * self.channels]
    }

    /// The shape of a tensor with one number for each normalised row.
    fn statistics_shape(&self) -> Vec<u64> {
        self.rows.into_iter().chain(self.heads).collect()
    }

    fn forward(&self, mut case: CaseBuilder) -> OpCase {
        let (shape, c) = (self.shape(), self.channels);
        let x = case.reads("x", &shape, self.dtype, FILL);
        let (weight, bias) = self.affine(&mut case);
        let out = case.writes("out", &shape, self.dtype, sum(c).stored(self.dtype));
        let rows = self.statistics_shape();
        let mean =
            (self.kind != NormVariant::Rms).then(|| case.writes_one_per_row("mean", &rows, sum(c)));
        let rstd = case.writes_one_per_row("rstd", &rows, sum(c));
        case.case(Op::Norm { x, weight, bias, out, mean, rstd, epsilon: EPSILON })
    }

    fn again(&self) -> OpCase {
        let mut case = CaseBuilder::new(self.title());
        let x = case.reads("x", &self.shape(), self.dtype, FILL);
        let (mean, rstd) = self.statistics(&mut case, x);
        let (weight, bias) = self.affine(&mut case);
        let out = case.writes("out", &self.shape(), self.dtype, sum(1).stored(self.dtype));
        case.case(Op::NormAgain { x, weight, bias, mean, rstd, out })
    }

    fn backward(&self, d_x_mode: InputGradient) -> OpCase {
        let (shape, c, dtype) = (self.shape(), self.channels, self.dtype);
        let rows = self.statistics_shape().iter().product();
        let mut case = CaseBuilder::new(self.title());
        let x = case.reads("x", &shape, dtype, FILL);
        let (mean, rstd) = self.statistics(&mut case, x);
        let weight = case.reads("weight", &[c], DType::F32, WEIGHT);
        let d_out = case.reads("d_out", &shape, dtype, Fill::normal(1.0));
        let fill = Fill::normal(1.0);
        let d_weight = case.updates("d_weight", &[c], DType::F32, fill.clone(), sum(rows));
        let d_bias = (self.kind == NormVariant::Biased)
            .then(|| case.updates("d_bias", &[c], DType::F32, fill.clone(), sum(rows)));
        let tolerance = sum(c).stored(dtype);
        if d_x_mode == InputGradient::Assigned {
            let d_x = case.writes("d_x", &shape, dtype, tolerance);
            let op = Op::NormBackward { x, weight, mean, rstd, d_out, d_x, d_weight, d_bias };
            return case.case(op);
        }
        let d_x = case.updates("d_x", &shape, dtype, fill, tolerance);
        let op = Op::NormBackwardAdd { x, weight, mean, rstd, d_out, d_x, d_weight, d_bias };
        case.case(op)
    }

    fn affine(&self, case: &mut CaseBuilder) -> (TensorId, Option<TensorId>) {
        let shape = [self.channels];
        let weight = case.reads("weight", &shape, DType::F32, WEIGHT);
        let bias = (self.kind == NormVariant::Biased)
            .then(|| case.reads("bias", &shape, DType::F32, Fill::normal(0.3)));
        (weight, bias)
    }

    /// Mean, if the norm has one, and reciprocal standard deviation of `x`, as inputs.
    fn statistics(&self, case: &mut CaseBuilder, x: TensorId) -> (Option<TensorId>, TensorId) {
        let centre = if self.kind == NormVariant::Rms { Centre::Zero } else { Centre::Mean };
        let values = case.values_of(x);
        let (mean, rstd) = statistics(&values, self.channels as usize, centre, EPSILON.into());
        let rows = self.statistics_shape();
        let mut reads =
            |name: &str, values| case.reads(name, &rows, DType::F32, Fill::Values(values));
        ((centre == Centre::Mean).then(|| reads("mean", mean)), reads("rstd", rstd))
    }
}
