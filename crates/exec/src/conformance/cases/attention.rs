//! Attention, forward and backward.

use fitgpt_plan::{
    program::{Dropout, Op, Site},
    units::DType,
};

use super::{
    super::{
        case::{Builder, Case, Fill},
        tolerance::{log_sum, softmax},
    },
    DTYPES, dropouts, dropping,
};
use crate::{random::Mask, reference::Causal};

/// (B, T, H, D)
const SHAPES: [[u64; 4]; 5] =
    [[1, 1, 1, 4], [2, 5, 3, 16], [1, 33, 3, 24], [2, 70, 1, 64], [1, 130, 3, 80]];

pub(super) fn cases() -> Vec<Case> {
    let mut list = Vec::new();
    for dtype in DTYPES {
        for shape in SHAPES {
            for dropout in dropouts(Site::Attention) {
                let start = Attention { shape, dtype, std: 1.0, dropout };
                list.push(start.forward(Builder::new(start.title())));
                list.push(start.backward());
            }
        }
        // Scores of ten and more: some rows are all but one-hot, and a sum of exponentials
        // without its largest taken out would leave float32.
        let sharp = Attention { shape: [1, 70, 1, 16], dtype, std: 4.0, dropout: None };
        list.push(sharp.forward(Builder::new(sharp.title())));
        list.push(sharp.backward());
        let start = Attention { shape: [1, 70, 3, 16], dtype, std: 1.0, dropout: None };
        list.push(start.forward(Builder::prompt(&start.title(), 70, 33)));
        list.push(start.forward(Builder::prompt(&start.title(), 70, 1)));
    }
    list
}

#[derive(Clone, Copy)]
struct Attention {
    shape: [u64; 4],
    dtype: DType,
    std: f64, // of queries, keys and values
    dropout: Option<Dropout>,
}

impl Attention {
    fn title(&self) -> String {
        let Self { shape: [b, t, h, d], dtype, std, dropout } = *self;
        let dropping = dropping(dropout);
        format!("{b}x{t}, {h} heads of {d}, deviation {std}, {dtype}{dropping}")
    }

    /// Scores have the deviation `std²`; six of those are not exceeded here.
    fn largest_score(&self) -> f64 {
        6.0 * self.std * self.std
    }

    fn forward(&self, mut case: Builder) -> Case {
        let Self { shape: [b, t, h, d], dtype, dropout, .. } = *self;
        let qkv = case.reads("qkv", &[b, t, 3 * h * d], dtype, Fill::normal(self.std));
        let tolerance = softmax(d, self.largest_score(), t).stored(dtype);
        let out = case.writes("out", &[b, t, h * d], dtype, tolerance);
        let lse = case.writes_one_a_row("lse", &[b, h, t], log_sum(d, self.largest_score()));
        case.case(Op::Attention { qkv, out, lse, heads: h as u32, dropout })
    }

    fn backward(&self) -> Case {
        let Self { shape: [b, t, h, d], dtype, dropout, .. } = *self;
        let mut case = Builder::new(self.title());
        let qkv = case.reads("qkv", &[b, t, 3 * h * d], dtype, Fill::normal(self.std));
        let (mut outs, mut lses) = (Vec::new(), Vec::new());
        let per_sequence = (t * 3 * h * d) as usize;
        for (index, qkv) in (0..).zip(case.values_of(qkv).chunks(per_sequence)) {
            let mask = dropout.map(|dropout| Mask::new(&dropout, &case.arguments, index));
            let (seq, heads, channels) = (t as usize, h as usize, (h * d) as usize);
            let (out, lse) = Causal { seq, heads, channels, mask }.forward(qkv);
            outs.extend(out);
            lses.extend(lse);
        }
        let out = case.reads("out", &[b, t, h * d], dtype, Fill::Values(outs));
        let lse = case.reads("lse", &[b, h, t], DType::F32, Fill::Values(lses));
        let d_out = case.reads("d_out", &[b, t, h * d], dtype, Fill::normal(1.0));
        let tolerance = softmax(d, self.largest_score(), t).stored(dtype);
        let d_qkv = case.writes("d_qkv", &[b, t, 3 * h * d], dtype, tolerance);
        let heads = h as u32;
        case.case(Op::AttentionBackward { qkv, out, lse, d_out, d_qkv, heads, dropout })
    }
}
