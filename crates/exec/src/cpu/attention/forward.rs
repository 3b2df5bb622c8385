//! The forward pass: blocks of queries against all keys up to them, one tile at a time.
//!
//! A task copies the keys and values of its head once: in `qkv` their rows are so far apart that
//! each is on a different page, and many rows map to the same lines of the L1 cache.
//!
//! For each query it keeps the largest score so far, `m`, and the sum of exponentials, `l`. If a
//! tile raises `m`, the sums so far are scaled down to match.

use std::marker::PhantomData;

use fitgpt_program::Products;

use super::{
    AttentionShape, QkvViews,
    factors::{ForwardFactors, ForwardSums, Scratch},
    heads::{Columns, HeadRows, HeadSplit, PerRow, RowNumbers, TaskRows},
    pairs::ForwardPairs,
    singles::ForwardSingles,
    tile::{CausalTile, HeadMask, HeadView, KEYS, QUERIES, padded},
};
use crate::{
    arena::Stored,
    cpu::{
        Machine,
        element::Element,
        isa::{Kernel, Simd},
        parts::PerWorker,
    },
    random::Mask,
};

/// Floats of scratch: for each worker its tiles, and the keys and values of one head.
pub(in crate::cpu) fn scratch(
    seq: usize,
    size: usize,
    products: Products,
    threads: usize,
) -> usize {
    let each = match products {
        Products::Float32 => floats::<ForwardSingles<'_>>(seq, size),
        Products::Bfloat16 => floats::<ForwardPairs<'_>>(seq, size),
    };
    each * threads
}

fn floats<'a, F: ForwardFactors<'a>>(seq: usize, size: usize) -> usize {
    F::floats(seq, size) + ForwardSums::floats(size)
}

/// If there are fewer tasks than this, heads are split, so that many cores have work.
const TASKS: usize = 64;

/// Rows of a task: all rows in use if there are enough heads.
fn rows_per_task(shape: AttentionShape) -> usize {
    let blocks = shape.used.div_ceil(QUERIES);
    let pieces = (TASKS / (shape.batch * shape.heads).max(1)).clamp(1, blocks.max(1));
    blocks.div_ceil(pieces).max(1) * QUERIES
}

/// Operands of [`forward`].
pub(in crate::cpu) struct AttentionForward<'a, E, M> {
    pub(in crate::cpu) shape: AttentionShape,
    pub(in crate::cpu) qkv: QkvViews<'a, E>,
    pub(in crate::cpu) out: &'a mut [E],
    pub(in crate::cpu) lse: &'a mut [f32],
    /// The mask of each sequence's probabilities.
    pub(in crate::cpu) mask: M,
    pub(in crate::cpu) scratch: &'a mut [f32],
}

/// `out` and `lse` of every head.
pub(in crate::cpu) fn forward<E: Element + Stored>(
    machine: &mut Machine,
    args: AttentionForward<'_, E, impl Fn(usize) -> Option<Mask> + Sync>,
) {
    let AttentionForward { shape, qkv, out, lse, mask, scratch } = args;
    assert!(shape.used <= shape.seq);
    let split = HeadSplit { shape, block: rows_per_task(shape) };
    let products = machine.products::<E>();
    let parts = (
        Columns::of_heads(out, split),
        PerRow::new(lse, split),
        PerWorker::new(scratch, self::scratch(shape.seq, shape.size, products, 1)),
    );
    let isa = machine.isa;
    machine.pool.for_each(parts, |task, ([out], lse, space)| {
        let task_rows = split.task_rows(task.index);
        let mask =
            mask(task_rows.sequence).map(|mask| HeadMask::new(mask, task_rows.head, shape.seq));
        let of = HeadTask { shape, task_rows, qkv, out, lse, mask, space };
        match products {
            Products::Float32 => isa.run(of.with::<ForwardSingles<'_>>()),
            Products::Bfloat16 => isa.run(of.with::<ForwardPairs<'_>>()),
        }
    });
}

/// One task: rows of one head.
pub(super) struct HeadTask<'a, E> {
    pub(super) shape: AttentionShape,
    pub(super) task_rows: TaskRows,
    pub(super) qkv: QkvViews<'a, E>,
    pub(super) out: HeadRows<'a, E>,
    pub(super) lse: RowNumbers<'a>,
    pub(super) mask: Option<HeadMask>,
    pub(super) space: &'a mut [f32],
}

impl<'a, E> HeadTask<'a, E> {
    /// The kernel that uses factors of this form.
    pub(super) fn with<F: ForwardFactors<'a>>(self) -> ForwardTask<'a, E, F> {
        ForwardTask { of: self, factors: PhantomData }
    }
}

/// A [`HeadTask`] with the form of its factors.
pub(super) struct ForwardTask<'a, E, F> {
    of: HeadTask<'a, E>,
    factors: PhantomData<F>,
}

impl<'a, E: Element, F: ForwardFactors<'a>> Kernel for ForwardTask<'a, E, F> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let HeadTask { shape, task_rows, qkv, mut out, mut lse, mask, space } = self.of;
        let AttentionShape { seq, size, .. } = shape;
        let (sequence, head) = (task_rows.sequence, task_rows.head);
        let kv = (sequence, head / shape.group());
        let queries = HeadView::new(qkv.queries, seq, (sequence, head), size);
        let keys = HeadView::new(qkv.keys, seq, kv, size);
        let values = HeadView::new(qkv.values, seq, kv, size);
        let rows = task_rows.rows;
        let mut scratch = Scratch(space);
        let mut factors = F::new(&mut scratch, seq, size);
        let mut sums = ForwardSums::new(&mut scratch, size);
        factors.load_head(simd, keys, values, 0..rows.end);

        let lse = lse.get();
        for (start, lse) in rows.clone().step_by(QUERIES).zip(lse.chunks_mut(QUERIES)) {
            let block = start..rows.end.min(start + QUERIES);
            factors.load_queries(simd, queries, block.clone(), shape.scale(), &mut sums);
            sums.most.fill(f32::NEG_INFINITY);
            sums.sums.fill(0.0);

            for first in (0..block.end).step_by(KEYS) {
                let keys = KEYS.min(block.end - first);
                let causal = CausalTile { first, keys, is_diagonal: first == start };
                factors.score(simd, causal, size, shape.scale(), &mut sums);
                sums.exponentiate(simd, causal);
                if let Some(mask) = &mask {
                    sums.drop_out(simd, causal, mask, start);
                }
                factors.add_values(simd, causal, size, &mut sums);
            }

            let tile = factors.free_tile();
            sums.finish(simd, lse, tile);
            for (row, tile) in block.zip(tile.chunks_exact(padded(size))) {
                E::narrow_with(simd, &tile[..size], out.row(row));
            }
        }
    }
}
