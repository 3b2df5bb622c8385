//! Tests tiles of sixteen lanes, as with AVX-512, on any machine.

use fitgpt_program::Products;

use super::{
    AttentionShape, QkvMut, QkvViews,
    backward::{self, GroupTask},
    forward::{self, HeadTask},
    heads::{Columns, HeadSplit, PerRow},
    pairs::{BackwardPairs, ForwardPairs},
    singles::{BackwardSingles, ForwardSingles},
};
use crate::cpu::{
    isa::{Portable, Simd},
    parts::{Parts, Task},
};

const SHAPE: AttentionShape =
    AttentionShape { batch: 1, seq: 150, used: 150, heads: 2, kv_heads: 2, size: 24 };

fn numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 37 + seed) * 61 % 211) as f32 / 100.0 - 1.05).collect()
}

struct Results {
    out: Vec<f32>,
    lse: Vec<f32>,
    d_qkv: Vec<f32>,
}

/// Both directions of both heads at one width.
fn run<S: Simd>(simd: S, products: Products) -> Results {
    let AttentionShape { seq, heads, size, .. } = SHAPE;
    let (qkv, d_out) = (numbers(seq * 3 * heads * size, 1), numbers(seq * heads * size, 2));
    let (mut out, mut lse) = (vec![0.0; seq * heads * size], vec![0.0; heads * seq]);
    let mut d_qkv = vec![0.0; qkv.len()];
    let split = HeadSplit { shape: SHAPE, block: seq };
    let tasks = (0..heads).map(|index| Task { index, worker: 0 });
    for task in tasks.clone() {
        let mut space = vec![f32::NAN; forward::scratch(seq, size, products, 1)];
        let parts = (Columns::of_heads(&mut out, split), PerRow::new(&mut lse, split));
        // SAFETY: the parts of the only task.
        let ([out], lse) = unsafe { parts.part(task) };
        let task_rows = split.task_rows(task.index);
        let space = &mut space;
        let qkv = QkvViews::joined(&qkv, SHAPE);
        let of = HeadTask { shape: SHAPE, task_rows, qkv, out, lse, mask: None, space };
        match products {
            Products::Float32 => simd.run(of.with::<ForwardSingles<'_>>()),
            Products::Bfloat16 => simd.run(of.with::<ForwardPairs<'_>>()),
        }
    }
    for task in tasks {
        let mut space = vec![f32::NAN; backward::scratch(seq, size, products, 1)];
        let parts = Columns::of_groups(QkvMut::Joined(&mut d_qkv), SHAPE, split);
        // SAFETY: as above.
        let d_qkv = unsafe { parts.part(task) };
        let task_rows = split.task_rows(task.index);
        let of = GroupTask {
            shape: SHAPE,
            lse: &lse,
            task_rows,
            qkv: QkvViews::joined(&qkv, SHAPE),
            out: &out,
            d_out: &d_out,
            d_qkv,
            mask: None,
            space: &mut space,
        };
        match products {
            Products::Float32 => simd.run(of.with::<BackwardSingles<'_>>()),
            Products::Bfloat16 => simd.run(of.with::<BackwardPairs<'_>>()),
        }
    }
    Results { out, lse, d_qkv }
}

#[test]
fn sixteen_lanes_give_the_attention_of_eight() {
    // Only `delta` is summed across lanes: one rounding of numbers near one, after which the
    // gradient of a score may be another bfloat16 number.
    for (products, tolerance) in [(Products::Float32, 1e-5), (Products::Bfloat16, 4e-3)] {
        let (eight, sixteen) = (run(Portable::<8>, products), run(Portable::<16>, products));
        // Queries are lanes, and every sum runs over keys or channels in order: the bits are equal.
        assert_eq!(eight.out, sixteen.out);
        assert_eq!(eight.lse, sixteen.lse);
        for (a, b) in eight.d_qkv.iter().zip(&sixteen.d_qkv) {
            assert!((a - b).abs() < tolerance, "{a} and {b}");
        }
    }
}

#[test]
fn rounded_factors_change_attention_by_their_rounding() {
    let [exact, rounded] = Products::ALL.map(|products| run(Portable::<8>, products));
    let largest = |values: &[f32]| values.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
    for (exact, rounded) in
        [(exact.out, rounded.out), (exact.lse, rounded.lse), (exact.d_qkv, rounded.d_qkv)]
    {
        // A factor has 8 bits, and each number is a sum of many products.
        let allowed = largest(&exact) / 64.0;
        let error =
            exact.iter().zip(&rounded).fold(0.0_f32, |most, (x, y)| most.max((x - y).abs()));
        assert!(error > 0.0 && error < allowed, "{error}, allowed is {allowed}");
    }
}
