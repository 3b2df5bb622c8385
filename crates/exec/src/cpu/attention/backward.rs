//! The backward pass. It recomputes every tile of probabilities from `lse`.
//!
//! ```text
//! p   = exp(s - lse)              delta = Σ d_out * out         for each query
//! d_v = drop(p)ᵀ · d_out          d_p   = drop(d_out · vᵀ)
//! d_s = p * (d_p - delta)
//! d_q = d_s · k / √D              d_k   = d_sᵀ · q / √D
//! ```
//!
//! One task is one key/value head. For each of its query heads it takes the blocks of queries in
//! order, and for each block the tiles of keys up to it. The head's keys and values are copied to
//! scratch, and `d_k` and `d_v` are summed there.

use std::marker::PhantomData;

use fitgpt_program::Products;

use super::{
    AttentionShape, QkvMut, QkvRows, QkvViews,
    factors::{BackwardFactors, BackwardSums, QueryBlock, Scratch},
    heads::{Columns, HeadRows, HeadSplit, TaskRows},
    pairs::BackwardPairs,
    singles::BackwardSingles,
    tile::{CausalTile, HeadMask, HeadView, KEYS, QUERIES, from_lanes, padded},
};
use crate::{
    arena::Stored,
    cpu::{
        Machine,
        element::Element,
        isa::{Kernel, Simd},
        parts::PerWorker,
        product::SumStart,
    },
    random::Mask,
};

/// Floats of scratch: for each worker its tiles, and the keys and values of one head with their
/// gradients.
pub(in crate::cpu) fn scratch(
    seq: usize,
    size: usize,
    products: Products,
    threads: usize,
) -> usize {
    let each = match products {
        Products::Float32 => floats::<BackwardSingles<'_>>(seq, size),
        Products::Bfloat16 => floats::<BackwardPairs<'_>>(seq, size),
    };
    each * threads
}

fn floats<'a, F: BackwardFactors<'a>>(seq: usize, size: usize) -> usize {
    F::floats(seq, size) + BackwardSums::floats(seq, size)
}

/// Operands of [`backward`].
pub(in crate::cpu) struct AttentionBackward<'a, E, M> {
    pub(in crate::cpu) shape: AttentionShape,
    pub(in crate::cpu) qkv: QkvViews<'a, E>,
    pub(in crate::cpu) out: &'a [E],
    pub(in crate::cpu) lse: &'a [f32],
    pub(in crate::cpu) d_out: &'a [E],
    pub(in crate::cpu) d_qkv: QkvMut<'a, E>,
    /// The mask of each sequence's probabilities.
    pub(in crate::cpu) mask: M,
    pub(in crate::cpu) scratch: &'a mut [f32],
}

/// `d_qkv` of every head.
pub(in crate::cpu) fn backward<E: Element + Stored>(
    machine: &mut Machine,
    args: AttentionBackward<'_, E, impl Fn(usize) -> Option<Mask> + Sync>,
) {
    let AttentionBackward { shape, qkv, out, lse, d_out, d_qkv, mask, scratch } = args;
    assert_eq!(out.len(), d_out.len());
    assert_eq!(lse.len(), shape.batch * shape.heads * shape.seq);
    assert_eq!(shape.used, shape.seq, "a backward uses all rows");
    let split =
        HeadSplit { shape: AttentionShape { heads: shape.kv_heads, ..shape }, block: shape.seq };
    let products = machine.products::<E>();
    let parts = (
        Columns::of_groups(d_qkv, shape, split),
        PerWorker::new(scratch, self::scratch(shape.seq, shape.size, products, 1)),
    );
    let isa = machine.isa;
    machine.pool.for_each(parts, |task, (d_qkv, space)| {
        let task_rows = split.task_rows(task.index);
        let mask = mask(task_rows.sequence);
        let of = GroupTask { shape, task_rows, qkv, out, lse, d_out, d_qkv, mask, space };
        match products {
            Products::Float32 => isa.run(of.with::<BackwardSingles<'_>>()),
            Products::Bfloat16 => isa.run(of.with::<BackwardPairs<'_>>()),
        }
    });
}

/// One task: one key/value head with its query heads.
pub(super) struct GroupTask<'a, E> {
    pub(super) shape: AttentionShape,
    pub(super) task_rows: TaskRows,
    pub(super) qkv: QkvViews<'a, E>,
    pub(super) out: &'a [E],
    pub(super) lse: &'a [f32],
    pub(super) d_out: &'a [E],
    pub(super) d_qkv: [HeadRows<'a, E>; 3],
    pub(super) mask: Option<Mask>,
    pub(super) space: &'a mut [f32],
}

impl<'a, E> GroupTask<'a, E> {
    /// The kernel that uses factors of this form.
    pub(super) fn with<F: BackwardFactors<'a>>(self) -> BackwardTask<'a, E, F> {
        BackwardTask { of: self, factors: PhantomData }
    }
}

/// A [`GroupTask`] with the form of its factors.
pub(super) struct BackwardTask<'a, E, F> {
    of: GroupTask<'a, E>,
    factors: PhantomData<F>,
}

impl<'a, E: Element, F: BackwardFactors<'a>> Kernel for BackwardTask<'a, E, F> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let GroupTask { shape, task_rows, qkv, out, lse, d_out, d_qkv, mask, space } = self.of;
        let AttentionShape { seq, size, .. } = shape;
        let (sequence, kv) = (task_rows.sequence, task_rows.head);
        let keys = HeadView::new(qkv.keys, seq, (sequence, kv), size);
        let values = HeadView::new(qkv.values, seq, (sequence, kv), size);
        let [out, d_out] =
            [out, d_out].map(|data| QkvRows { data, stride: shape.channels(), column: 0 });
        let [mut d_queries, mut d_keys, mut d_values] = d_qkv;
        let scale = shape.scale();
        let mut scratch = Scratch(space);
        let mut factors = F::new(&mut scratch, seq, size);
        let mut sums = BackwardSums::new(&mut scratch, seq, size);
        factors.load_head(simd, keys, values, seq);

        for member in 0..shape.group() {
            let head = kv * shape.group() + member;
            let at = (sequence, head);
            let queries = HeadView::new(qkv.queries, seq, at, size);
            let (out, d_out) =
                (HeadView::new(out, seq, at, size), HeadView::new(d_out, seq, at, size));
            let mask = mask.map(|mask| HeadMask::new(mask, head, seq));
            let lse = &lse[(sequence * shape.heads + head) * seq..][..seq];
            for start in (0..seq).step_by(QUERIES) {
                let rows = start..seq.min(start + QUERIES);
                sums.lse[rows.len()..].fill(0.0);
                sums.lse[..rows.len()].copy_from_slice(&lse[rows.clone()]);
                let block = QueryBlock { queries, out, d_out, rows: rows.clone(), scale };
                factors.load_block(simd, block, &mut sums);

                for first in (0..rows.end).step_by(KEYS) {
                    let keys = KEYS.min(rows.end - first);
                    let causal = CausalTile { first, keys, is_diagonal: first == start };
                    factors.score(simd, causal, size, scale, &mut sums);
                    sums.differentiate(simd, causal, mask.as_ref(), start);
                    // These keys are first used by the first head's queries of the same tile.
                    let is_first = member == 0 && causal.is_diagonal;
                    let sum = if is_first { SumStart::New } else { SumStart::Continued };
                    factors.add(simd, causal, size, sum, &mut sums);
                }

                let tile = factors.free_tile();
                from_lanes(simd, sums.d_query_lanes, tile);
                for (row, tile) in rows.zip(tile.chunks_exact_mut(padded(size))) {
                    let tile = &mut tile[..size];
                    for x in tile.iter_mut() {
                        *x *= scale;
                    }
                    E::narrow_with(simd, tile, d_queries.row_of(row, member, size));
                }
            }
        }
        let key_scale = F::key_scale(scale);
        let both = sums.d_keys.chunks_exact_mut(padded(size));
        let both = both.zip(sums.d_values.chunks_exact(padded(size)));
        for (row, (d_key, d_value)) in (0..seq).zip(both) {
            if key_scale.to_bits() != 1.0_f32.to_bits() {
                for x in d_key.iter_mut() {
                    *x *= key_scale;
                }
            }
            E::narrow_with(simd, &d_key[..size], d_keys.row(row));
            E::narrow_with(simd, &d_value[..size], d_values.row(row));
        }
    }
}
