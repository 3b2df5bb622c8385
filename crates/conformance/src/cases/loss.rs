//! The loss over the vocabulary, and its gradients.

use fitgpt_program::{Op, units::DType};

use super::{
    super::{
        case::{CaseBuilder, Fill, OpCase},
        tolerance::{log_sum, softmax},
    },
    DTYPES,
};

/// (B, T, C, V) and the rows of a chunk.
const SHAPES: [([u64; 4], u64); 5] = [
    ([1, 1, 5, 17], 1),
    ([1, 7, 20, 65], 3),
    ([2, 32, 48, 101], 64),
    ([2, 65, 17, 65], 50),
    ([3, 33, 24, 101], 7),
];

/// Logits have a standard deviation of at most √48 · 0.3; none here exceeds six of them.
const LARGEST_LOGIT: f64 = 12.0;

pub(super) fn cases() -> Vec<OpCase> {
    let mut list = Vec::new();
    for dtype in DTYPES {
        for (shape, rows) in SHAPES {
            list.push(forward(shape, rows, dtype));
            list.extend([1.0, 1024.0].map(|scale| backward(shape, rows, dtype, scale)));
        }
    }
    list
}

fn forward([b, t, c, v]: [u64; 4], rows: u64, dtype: DType) -> OpCase {
    let mut case = CaseBuilder::new(format!("{b}x{t}x{c}, vocab {v}, {rows} rows, {dtype}"));
    let x = case.reads("x", &[b, t, c], dtype, Fill::normal(1.0));
    let weight = case.reads("weight", &[v, c], DType::F32, Fill::normal(0.3));
    let targets = case.tokens("targets", &[b, t], v);
    let logits = case.writes_anything("logits", &[rows, v], DType::F32);
    let losses = case.writes("losses", &[b], DType::F32, log_sum(c, LARGEST_LOGIT));
    case.case(Op::CrossEntropy { x, weight, targets, logits, losses })
}

fn backward([b, t, c, v]: [u64; 4], rows: u64, dtype: DType, loss_scale: f32) -> OpCase {
    let title = format!("{b}x{t}x{c}, vocab {v}, {rows} rows, {dtype}, loss times {loss_scale}");
    let mut case = CaseBuilder::new(title);
    case.arguments.loss_scale = loss_scale;
    let x = case.reads("x", &[b, t, c], dtype, Fill::normal(1.0));
    let weight = case.reads("weight", &[v, c], DType::F32, Fill::normal(0.3));
    let targets = case.tokens("targets", &[b, t], v);
    let tolerance = log_sum(c, LARGEST_LOGIT);
    let loss = case.updates("loss", &[1], DType::F32, Fill::Values(vec![1.5]), tolerance);
    let mean_over = 3 * b * t;
    // The sums of earlier micro-batches are as large as what this one adds.
    let earlier = Fill::normal(f64::from(loss_scale) / mean_over as f64);
    let tolerance = softmax(c, LARGEST_LOGIT, b * t);
    let d_weight = case.updates("d_weight", &[v, c], DType::F32, earlier, tolerance);
    let logits = case.writes_anything("logits", &[rows, v], DType::F32);
    let tolerance = softmax(c, LARGEST_LOGIT, v).stored(dtype);
    let d_x = case.writes("d_x", &[b, t, c], dtype, tolerance);
    case.case(Op::CrossEntropyBackward {
        x,
        weight,
        targets,
        logits,
        loss,
        d_x,
        d_weight,
        mean_over,
    })
}
