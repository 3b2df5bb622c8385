//! The forward pass: blocks of queries against all keys up to them, one tile at a time.
//!
//! A task copies the keys and values of its head once: in `qkv` their rows are so far apart that
//! each is on a different page, and many rows map to the same lines of the L1 cache.
//!
//! For each query it keeps the largest score so far, `m`, and the sum of exponentials, `l`. If a
//! tile raises `m`, the sums so far are scaled down to match.

use super::{
    AttentionShape, QkvViews,
    heads::{Columns, HeadRows, HeadSplit, PerRow, RowNumbers, TaskRows},
    tile::{CausalTile, HeadMask, HeadView, KEYS, QUERIES, from_lanes, padded, to_lanes},
};
use crate::{
    arena::Stored,
    cpu::{
        Machine,
        element::Element,
        exp::exp_below,
        isa::{Kernel, Simd},
        parts::PerWorker,
        product::{LeftFactor, SumStart, TileProduct},
    },
    random::Mask,
};

/// Floats of scratch: for each worker its tiles, and the keys and values of one head.
pub(in crate::cpu) fn scratch(seq: usize, size: usize, threads: usize) -> usize {
    ForwardTiles::floats(seq, size) * threads
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
    let parts = (
        Columns::of_heads(out, split),
        PerRow::new(lse, split),
        PerWorker::new(scratch, ForwardTiles::floats(shape.seq, shape.size)),
    );
    let isa = machine.isa;
    machine.pool.for_each(parts, |task, ([out], lse, space)| {
        let task_rows = split.task_rows(task.index);
        let mask =
            mask(task_rows.sequence).map(|mask| HeadMask::new(mask, task_rows.head, shape.seq));
        isa.run(ForwardTask { shape, task_rows, qkv, out, lse, mask, space });
    });
}

/// The scratch of one worker.
struct ForwardTiles<'a> {
    queries: &'a mut [f32], // (D, Q), scaled
    keys: &'a mut [f32],    // (T, D)
    values: &'a mut [f32],  // (T, D)
    scores: &'a mut [f32],  // (K, Q)
    out: &'a mut [f32],     // (D, Q)
    most: &'a mut [f32],    // m of each query
    sums: &'a mut [f32],    // l of each query
    factors: &'a mut [f32], // factor of each query, from a mask or a higher `m`
}

impl<'a> ForwardTiles<'a> {
    fn floats(seq: usize, size: usize) -> usize {
        2 * (QUERIES + seq) * padded(size) + QUERIES * KEYS + 3 * QUERIES
    }

    #[inline(always)]
    fn new(space: &'a mut [f32], seq: usize, size: usize) -> Self {
        let (queries, space) = space.split_at_mut(QUERIES * padded(size));
        let (keys, space) = space.split_at_mut(seq * padded(size));
        let (values, space) = space.split_at_mut(seq * padded(size));
        let (scores, space) = space.split_at_mut(KEYS * QUERIES);
        let (out, space) = space.split_at_mut(QUERIES * padded(size));
        let (most, space) = space.split_at_mut(QUERIES);
        let (sums, factors) = space.split_at_mut(QUERIES);
        Self { queries, keys, values, scores, out, most, sums, factors }
    }
}

/// One task: rows of one head.
pub(super) struct ForwardTask<'a, E> {
    pub(super) shape: AttentionShape,
    pub(super) task_rows: TaskRows,
    pub(super) qkv: QkvViews<'a, E>,
    pub(super) out: HeadRows<'a, E>,
    pub(super) lse: RowNumbers<'a>,
    pub(super) mask: Option<HeadMask>,
    pub(super) space: &'a mut [f32],
}

impl<E: Element> Kernel for ForwardTask<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        let AttentionShape { seq, size, .. } = self.shape;
        let (sequence, head) = (self.task_rows.sequence, self.task_rows.head);
        let kv = (sequence, head / self.shape.group());
        let queries = HeadView::new(self.qkv.queries, seq, (sequence, head), size);
        let keys = HeadView::new(self.qkv.keys, seq, kv, size);
        let values = HeadView::new(self.qkv.values, seq, kv, size);
        let rows = self.task_rows.rows;
        let mut tiles = ForwardTiles::new(self.space, seq, size);
        keys.load(simd, 0..rows.end, None, tiles.keys);
        values.load(simd, 0..rows.end, None, tiles.values);

        let lse = self.lse.get();
        for (start, lse) in rows.clone().step_by(QUERIES).zip(lse.chunks_mut(QUERIES)) {
            let block = start..rows.end.min(start + QUERIES);
            // The output tile is not in use yet, so it holds the queries before they are
            // transposed.
            tiles.out[block.len() * padded(size)..].fill(0.0);
            queries.load(simd, block.clone(), Some(self.shape.scale()), tiles.out);
            to_lanes(simd, tiles.out, tiles.queries);
            tiles.most.fill(f32::NEG_INFINITY);
            tiles.sums.fill(0.0);

            for first in (0..block.end).step_by(KEYS) {
                let keys = KEYS.min(block.end - first);
                let causal = CausalTile { first, keys, is_diagonal: first == start };
                tiles.score(simd, causal, size);
                tiles.exponentiate(simd, causal);
                if let Some(mask) = &self.mask {
                    tiles.drop_out(simd, causal, mask, start);
                }
                tiles.add_values(simd, causal, size);
            }

            tiles.finish(simd, lse);
            for (row, tile) in block.zip(tiles.queries.chunks_exact(padded(size))) {
                E::narrow_with(simd, &tile[..size], self.out.row(row));
            }
        }
    }
}

impl ForwardTiles<'_> {
    /// `scores = keys · queries`
    #[inline(always)]
    fn score<S: Simd>(&mut self, simd: S, causal: CausalTile, size: usize) {
        let panel = CausalTile::panel(simd);
        for query in (0..QUERIES).step_by(panel) {
            simd.run(TileProduct {
                a: LeftFactor {
                    data: &self.keys[causal.first * padded(size)..],
                    row: padded(size),
                    depth: 1,
                },
                b: &self.queries[query..],
                b_stride: QUERIES,
                c: &mut self.scores[query..],
                c_stride: QUERIES,
                rows: causal.keys_of_panel(simd, query),
                columns: panel,
                depth: size,
                sum: SumStart::New,
            });
        }
    }

    /// `scores = exp(scores - m)` with a new `m`; `l` and `out` scaled to it, `l` added to.
    #[inline(always)]
    fn exponentiate<S: Simd>(&mut self, simd: S, causal: CausalTile) {
        self.factors.copy_from_slice(self.most);
        if causal.is_diagonal {
            for key in 0..causal.keys {
                let hidden = causal.first_query(simd, key)..key;
                self.scores[key * QUERIES..][hidden].fill(f32::NEG_INFINITY);
            }
        }
        for query in (0..QUERIES).step_by(S::LANES) {
            // Explicit lanes: compilers make a slow masked store of a conditional maximum.
            let mut most = simd.load(&self.most[query..]);
            for key in 0..causal.keys_of_query(simd, query) {
                most = simd.max(most, simd.load(&self.scores[key * QUERIES + query..]));
            }
            simd.store(most, &mut self.most[query..]);
        }
        for (factor, most) in self.factors.iter_mut().zip(&*self.most) {
            *factor = exp_below(simd, *factor - most);
        }
        if causal.first > 0 && self.factors.iter().any(|&factor| factor < 1.0) {
            self.sums.iter_mut().zip(&*self.factors).for_each(|(sum, factor)| *sum *= factor);
            for row in self.out.chunks_exact_mut(QUERIES) {
                row.iter_mut().zip(&*self.factors).for_each(|(out, factor)| *out *= factor);
            }
        }
        for key in 0..causal.keys {
            let first = causal.first_query(simd, key);
            let row = &mut self.scores[key * QUERIES..][first..QUERIES];
            let state = self.sums[first..].iter_mut().zip(&self.most[first..]);
            for (score, (sum, most)) in row.iter_mut().zip(state) {
                *score = exp_below(simd, *score - most);
                *sum += *score;
            }
        }
    }

    #[inline(always)]
    fn drop_out<S: Simd>(&mut self, simd: S, causal: CausalTile, mask: &HeadMask, query: usize) {
        for j in 0..causal.keys {
            let first = causal.first_query(simd, j);
            let row = &mut self.scores[j * QUERIES..][first..QUERIES];
            let factors = &mut self.factors[first..];
            mask.factors(query + first, causal.first + j, factors);
            row.iter_mut().zip(factors).for_each(|(score, factor)| *score *= *factor);
        }
    }

    /// `out += values · scores`
    #[inline(always)]
    fn add_values<S: Simd>(&mut self, simd: S, causal: CausalTile, size: usize) {
        let panel = CausalTile::panel(simd);
        for query in (0..QUERIES).step_by(panel) {
            simd.run(TileProduct {
                a: LeftFactor {
                    data: &self.values[causal.first * padded(size)..],
                    row: 1,
                    depth: padded(size),
                },
                b: &self.scores[query..],
                b_stride: QUERIES,
                c: &mut self.out[query..],
                c_stride: QUERIES,
                rows: size,
                columns: panel,
                depth: causal.keys_of_panel(simd, query),
                sum: if causal.first == 0 { SumStart::New } else { SumStart::Continued },
            });
        }
    }

    /// Writes `lse`, and the rows of `out` over the queries.
    #[inline(always)]
    fn finish<S: Simd>(&mut self, simd: S, lse: &mut [f32]) {
        for (lse, (most, sum)) in lse.iter_mut().zip(self.most.iter().zip(&*self.sums)) {
            *lse = most + sum.ln();
        }
        for sum in self.sums.iter_mut() {
            *sum = 1.0 / *sum;
        }
        for row in self.out.chunks_exact_mut(QUERIES) {
            row.iter_mut().zip(&*self.sums).for_each(|(out, inverse)| *out *= inverse);
        }
        from_lanes(simd, self.out, self.queries);
    }
}
