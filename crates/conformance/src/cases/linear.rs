//! Linear layers, alone and fused, and their gradients.

use fitgpt_program::{
    Dropout, DropoutSite, Gelu, Op,
    units::{DType, TensorId},
};

use super::{
    super::{
        case::{CaseBuilder, Fill, OpCase},
        tolerance::{activation, sum},
    },
    DTYPES, dropouts, dropping, with_bias,
};

/// (B, T, K, N)
const SHAPES: [[u64; 4]; 5] =
    [[1, 1, 5, 17], [1, 7, 20, 65], [2, 32, 48, 50], [2, 65, 100, 33], [1, 7, 300, 17]];

pub(super) fn cases() -> Vec<OpCase> {
    let mut list = Vec::new();
    for dtype in DTYPES {
        for shape in SHAPES {
            for has_bias in [true, false] {
                let start = LinearCase { shape, dtype, has_bias };
                list.push(start.plain(start.begin(""), dtype));
                for kind in [Gelu::Exact, Gelu::Tanh] {
                    list.extend(
                        [KeptTensor::Pre, KeptTensor::Nothing].map(|keep| start.gelu(kind, keep)),
                    );
                }
                list.extend([KeptTensor::Pre, KeptTensor::Nothing].map(|keep| start.swiglu(keep)));
                list.extend(
                    dropouts(DropoutSite::AttentionOut).map(|dropout| start.residual(dropout)),
                );
                list.push(start.backward_weight());
            }
            let start = LinearCase { shape, dtype, has_bias: false };
            // The logits of sampling are float32 for any activation type.
            list.push(start.plain(start.begin(", float32 out"), DType::F32));
            list.push(start.backward_input());
            list.push(start.backward_input_add());
            list.push(start.backward_swiglu());
            list.extend([Gelu::Exact, Gelu::Tanh].map(|kind| start.backward_gelu(kind)));
        }
        let start = LinearCase { shape: [1, 9, 20, 33], dtype, has_bias: true };
        list.push(start.plain(CaseBuilder::prompt(&start.title(), 9, 6), dtype));
    }
    list
}

#[derive(Clone, Copy)]
struct LinearCase {
    shape: [u64; 4],
    dtype: DType,
    has_bias: bool,
}

/// What a fused op keeps for the backward.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeptTensor {
    Pre,
    Nothing,
}

impl LinearCase {
    fn title(&self) -> String {
        let [b, t, k, n] = self.shape;
        format!("{b}x{t}, {k} to {n}{}, {}", with_bias(self.has_bias), self.dtype)
    }

    fn begin(&self, special: &str) -> CaseBuilder {
        CaseBuilder::new(self.title() + special)
    }

    fn operands(&self, case: &mut CaseBuilder) -> (TensorId, TensorId, Option<TensorId>) {
        let [b, t, k, n] = self.shape;
        let x = case.reads("x", &[b, t, k], self.dtype, Fill::normal(1.0));
        let weight = case.reads("weight", &[n, k], DType::F32, Fill::normal(0.3));
        let bias = self.has_bias.then(|| case.reads("bias", &[n], DType::F32, Fill::normal(0.3)));
        (x, weight, bias)
    }

    fn plain(&self, mut case: CaseBuilder, stored: DType) -> OpCase {
        let [b, t, k, n] = self.shape;
        let (x, weight, bias) = self.operands(&mut case);
        let out = case.writes("out", &[b, t, n], stored, sum(k).stored(stored));
        case.case(Op::Linear { x, weight, bias, out })
    }

    fn gelu(&self, gelu: Gelu, keep: KeptTensor) -> OpCase {
        let [b, t, k, n] = self.shape;
        let dtype = self.dtype;
        let mut case = self.begin(&format!(", {gelu:?}, keeps {keep:?}"));
        let (x, weight, bias) = self.operands(&mut case);
        let pre = (keep == KeptTensor::Pre)
            .then(|| case.writes("pre", &[b, t, n], dtype, sum(k).stored(dtype)));
        let tolerance = activation(k).through(dtype).stored(dtype);
        let out = case.writes("out", &[b, t, n], dtype, tolerance);
        case.case(Op::LinearGelu { x, weight, bias, pre, out, gelu })
    }

    fn swiglu(&self, keep: KeptTensor) -> OpCase {
        let [b, t, k, n] = self.shape;
        let dtype = self.dtype;
        let mut case = self.begin(&format!(", keeps {keep:?}"));
        let (x, weight, bias) = self.operands(&mut case);
        // Reaches both tails.
        let gate = case.reads("gate", &[b, t, n], dtype, Fill::normal(3.0));
        let up = (keep == KeptTensor::Pre)
            .then(|| case.writes("up", &[b, t, n], dtype, sum(k).stored(dtype)));
        // A rounded `up` is multiplied by a gate of up to about four standard deviations.
        let tolerance = activation(k).through(dtype).stored(dtype);
        let out = case.writes("out", &[b, t, n], dtype, tolerance);
        case.case(Op::LinearSwiGlu { x, weight, bias, gate, up, out })
    }

    fn backward_swiglu(&self) -> OpCase {
        let [b, t, k, n] = self.shape;
        let dtype = self.dtype;
        let mut case = self.begin("");
        let d_out = case.reads("d_out", &[b, t, n], dtype, Fill::normal(1.0));
        let weight = case.reads("weight", &[n, k], DType::F32, Fill::normal(0.3));
        let tolerance = activation(n).stored(dtype);
        let gate = case.updates("gate", &[b, t, k], dtype, Fill::normal(3.0), tolerance);
        let up = case.updates("up", &[b, t, k], dtype, Fill::normal(1.0), tolerance);
        let out = case.writes("out", &[b, t, k], dtype, activation(1).stored(dtype));
        case.case(Op::LinearBackwardSwiGlu { d_out, weight, gate, up, out })
    }

    fn residual(&self, dropout: Option<Dropout>) -> OpCase {
        let [b, t, k, n] = self.shape;
        let dtype = self.dtype;
        let mut case = self.begin(dropping(dropout));
        let (x, weight, bias) = self.operands(&mut case);
        let residual = case.reads("residual", &[b, t, n], dtype, Fill::normal(1.0));
        let out = case.writes("out", &[b, t, n], dtype, sum(k).stored(dtype));
        case.case(Op::LinearResidual { x, weight, bias, residual, out, dropout })
    }

    fn backward_weight(&self) -> OpCase {
        let [b, t, k, n] = self.shape;
        let mut case = self.begin("");
        let d_out = case.reads("d_out", &[b, t, n], self.dtype, Fill::normal(1.0));
        let x = case.reads("x", &[b, t, k], self.dtype, Fill::normal(1.0));
        let fill = Fill::normal(1.0);
        let tolerance = sum(b * t);
        let d_weight = case.updates("d_weight", &[n, k], DType::F32, fill.clone(), tolerance);
        let d_bias =
            self.has_bias.then(|| case.updates("d_bias", &[n], DType::F32, fill, tolerance));
        case.case(Op::LinearBackwardWeight { d_out, x, d_weight, d_bias })
    }

    fn backward_input(&self) -> OpCase {
        let [b, t, k, n] = self.shape;
        let dtype = self.dtype;
        let mut case = self.begin("");
        let d_out = case.reads("d_out", &[b, t, n], dtype, Fill::normal(1.0));
        let weight = case.reads("weight", &[n, k], DType::F32, Fill::normal(0.3));
        let d_x = case.writes("d_x", &[b, t, k], dtype, sum(n).stored(dtype));
        case.case(Op::LinearBackwardInput { d_out, weight, d_x })
    }

    fn backward_input_add(&self) -> OpCase {
        let [b, t, k, n] = self.shape;
        let dtype = self.dtype;
        let mut case = self.begin("");
        let d_out = case.reads("d_out", &[b, t, n], dtype, Fill::normal(1.0));
        let weight = case.reads("weight", &[n, k], DType::F32, Fill::normal(0.3));
        let tolerance = sum(n).stored(dtype);
        let d_x = case.updates("d_x", &[b, t, k], dtype, Fill::normal(1.0), tolerance);
        case.case(Op::LinearBackwardInputAdd { d_out, weight, d_x })
    }

    fn backward_gelu(&self, gelu: Gelu) -> OpCase {
        let [b, t, k, n] = self.shape;
        let dtype = self.dtype;
        let mut case = self.begin(&format!(", {gelu:?}"));
        let d_out = case.reads("d_out", &[b, t, n], dtype, Fill::normal(1.0));
        let weight = case.reads("weight", &[n, k], DType::F32, Fill::normal(0.3));
        // A standard deviation of 3 reaches both tails.
        let fill = Fill::normal(3.0);
        let pre = case.updates("pre", &[b, t, k], dtype, fill, activation(1).stored(dtype));
        let d_pre = case.writes("d_pre", &[b, t, k], dtype, activation(n).stored(dtype));
        case.case(Op::LinearBackwardGelu { d_out, weight, pre, d_pre, gelu })
    }
}
