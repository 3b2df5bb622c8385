//! Attention, forward and backward.

use fitgpt_exec::{
    random::Mask,
    reference::{CausalAttention, joined_channels},
};
use fitgpt_program::{Dropout, DropoutSite, Heads, Op, Qkv, units::DType};

use super::{
    super::{
        case::{CaseBuilder, Fill, OpCase},
        tolerance::{log_sum, softmax},
    },
    DTYPES, dropouts, dropping,
};

/// Queries, keys and values in one tensor or in three.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QkvLayout {
    Joined,
    Split,
}

/// Random queries, keys and values of `[sequences, rows]`.
pub(super) fn qkv(
    case: &mut CaseBuilder,
    [b, t]: [u64; 2],
    heads: Heads,
    dtype: DType,
    layout: QkvLayout,
    std: f64,
) -> Qkv {
    let mut part = |name: &str, heads: u32, channels: u32| {
        case.reads(name, &[b, t, u64::from(heads * channels)], dtype, Fill::normal(std))
    };
    let Heads { query, kv, channels } = heads;
    match layout {
        QkvLayout::Joined => Qkv::Joined(part("qkv", query + 2 * kv, channels)),
        QkvLayout::Split => Qkv::Split {
            q: part("q", query, channels),
            k: part("k", kv, channels),
            v: part("v", kv, channels),
        },
    }
}

/// (B, T, H, D). GPUs pad heads to 32, 64, 96, 128, 192 or 256 channels, with a kernel for each.
const SHAPES: [[u64; 4]; 8] = [
    [1, 1, 1, 4],
    [2, 5, 3, 16],
    [1, 33, 3, 24],
    [2, 70, 1, 64],
    [1, 130, 3, 80],
    [1, 40, 2, 120],
    [1, 18, 1, 192],
    [1, 18, 1, 250],
];

/// (B, T), then (H, G, D): odd counts, one key head for all, as many as queries. At least two
/// tokens: with one, queries and keys have no gradient to compare.
const GROUPED: [([u64; 2], [u32; 3]); 5] = [
    ([1, 2], [4, 2, 4]),
    ([2, 5], [9, 3, 16]),
    ([1, 70], [5, 1, 24]),
    ([2, 33], [3, 3, 10]),
    ([1, 130], [6, 2, 64]),
];

pub(super) fn cases() -> Vec<OpCase> {
    let mut list = Vec::new();
    for dtype in DTYPES {
        for [b, t, h, d] in SHAPES {
            for dropout in dropouts(DropoutSite::Attention) {
                let start = AttentionCase { dropout, ..AttentionCase::joined([b, t, h, d], dtype) };
                list.push(start.forward(CaseBuilder::new(start.title())));
                list.push(start.backward());
            }
        }
        for (shape, [query, kv, channels]) in GROUPED {
            let heads = Heads { query, kv, channels };
            for dropout in dropouts(DropoutSite::Attention) {
                let start = AttentionCase {
                    shape,
                    heads,
                    layout: QkvLayout::Split,
                    dtype,
                    std: 1.0,
                    dropout,
                };
                list.push(start.forward(CaseBuilder::new(start.title())));
                list.push(start.backward());
            }
        }
        // Scores of ten and more: some rows are almost one-hot, and exponentials overflow
        // float32 if the largest score is not subtracted first.
        let sharp = AttentionCase { std: 4.0, ..AttentionCase::joined([1, 70, 1, 16], dtype) };
        list.push(sharp.forward(CaseBuilder::new(sharp.title())));
        list.push(sharp.backward());
        let start = AttentionCase::joined([1, 70, 3, 16], dtype);
        list.push(start.forward(CaseBuilder::prompt(&start.title(), 70, 33)));
        list.push(start.forward(CaseBuilder::prompt(&start.title(), 70, 1)));
        let heads = Heads { query: 6, kv: 2, channels: 16 };
        let start = AttentionCase { heads, layout: QkvLayout::Split, ..start };
        list.push(start.forward(CaseBuilder::prompt(&start.title(), 70, 33)));
    }
    list
}

#[derive(Clone, Copy)]
struct AttentionCase {
    shape: [u64; 2],
    heads: Heads,
    layout: QkvLayout,
    dtype: DType,
    std: f64, // of queries, keys and values
    dropout: Option<Dropout>,
}

impl AttentionCase {
    fn joined([b, t, h, d]: [u64; 4], dtype: DType) -> Self {
        let heads = Heads { query: h as u32, kv: h as u32, channels: d as u32 };
        Self { shape: [b, t], heads, layout: QkvLayout::Joined, dtype, std: 1.0, dropout: None }
    }

    fn title(&self) -> String {
        let Self { shape: [b, t], heads, dtype, std, dropout, .. } = *self;
        let Heads { query, kv, channels } = heads;
        let dropping = dropping(dropout);
        let keys = if kv == query { String::new() } else { format!(", {kv} of keys") };
        format!("{b}x{t}, {query} heads of {channels}{keys}, deviation {std}, {dtype}{dropping}")
    }

    /// Scores have a standard deviation of `std²`; none here exceeds six of them.
    fn largest_score(&self) -> f64 {
        6.0 * self.std * self.std
    }

    fn forward(&self, mut case: CaseBuilder) -> OpCase {
        let Self { shape: [b, t], heads, dtype, dropout, .. } = *self;
        let (h, d) = (u64::from(heads.query), u64::from(heads.channels));
        let qkv = qkv(&mut case, [b, t], heads, dtype, self.layout, self.std);
        let tolerance = softmax(d, self.largest_score(), t).stored(dtype);
        let out = case.writes("out", &[b, t, h * d], dtype, tolerance);
        let lse = case.writes_one_per_row("lse", &[b, h, t], log_sum(d, self.largest_score()));
        case.case(Op::Attention { qkv, out, lse, heads, dropout })
    }

    fn backward(&self) -> OpCase {
        let Self { shape: [b, t], heads, dtype, dropout, .. } = *self;
        let (h, d) = (u64::from(heads.query), u64::from(heads.channels));
        let mut case = CaseBuilder::new(self.title());
        let qkv = qkv(&mut case, [b, t], heads, dtype, self.layout, self.std);
        let (mut outs, mut lses) = (Vec::new(), Vec::new());
        let per_sequence = t as usize * joined_channels(heads);
        for (index, qkv) in (0..).zip(joined(&case, qkv, heads).chunks(per_sequence)) {
            let mask = dropout.map(|dropout| Mask::new(&dropout, &case.arguments, index));
            let (out, lse) = CausalAttention { seq: t as usize, heads, mask }.forward(qkv);
            outs.extend(out);
            lses.extend(lse);
        }
        let out = case.reads("out", &[b, t, h * d], dtype, Fill::Values(outs));
        let lse = case.reads("lse", &[b, h, t], DType::F32, Fill::Values(lses));
        let d_out = case.reads("d_out", &[b, t, h * d], dtype, Fill::normal(1.0));
        // A key head sums over all its query heads.
        let group = u64::from(heads.query / heads.kv);
        let tolerance = softmax(d, self.largest_score(), group * t).stored(dtype);
        let kv = u64::from(heads.kv) * d;
        let mut part = |name: &str, columns| case.writes(name, &[b, t, columns], dtype, tolerance);
        let d_qkv = match self.layout {
            QkvLayout::Joined => Qkv::Joined(part("d_qkv", h * d + 2 * kv)),
            QkvLayout::Split => {
                Qkv::Split { q: part("d_q", h * d), k: part("d_k", kv), v: part("d_v", kv) }
            }
        };
        case.case(Op::AttentionBackward { qkv, out, lse, d_out, d_qkv, heads, dropout })
    }
}

/// The rows of queries, keys and values next to each other.
fn joined(case: &CaseBuilder, qkv: Qkv, heads: Heads) -> Vec<f64> {
    let parts: Vec<_> = qkv.tensors().map(|tensor| case.values_of(tensor)).collect();
    let rows = parts.iter().map(Vec::len).sum::<usize>() / joined_channels(heads);
    let row = |row: usize| {
        parts.iter().flat_map(move |part| {
            let columns = part.len() / rows;
            &part[row * columns..][..columns]
        })
    };
    (0..rows).flat_map(row).copied().collect()
}
