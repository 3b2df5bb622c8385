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

use super::{
    AttentionShape, QkvMut, QkvRows, QkvViews,
    heads::{Columns, HeadRows, HeadSplit, TaskRows},
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
        rows,
    },
    random::Mask,
};

/// Floats of scratch: for each worker its tiles, and the keys and values of one head with their
/// gradients.
pub(in crate::cpu) fn scratch(seq: usize, size: usize, threads: usize) -> usize {
    BackwardTiles::floats(seq, size) * threads
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
    let parts = (
        Columns::of_groups(d_qkv, shape, split),
        PerWorker::new(scratch, BackwardTiles::floats(shape.seq, shape.size)),
    );
    let isa = machine.isa;
    machine.pool.for_each(parts, |task, (d_qkv, space)| {
        let task_rows = split.task_rows(task.index);
        let mask = mask(task_rows.sequence);
        isa.run(BackwardTask { shape, task_rows, qkv, out, lse, d_out, d_qkv, mask, space });
    });
}

/// The scratch of one worker.
struct BackwardTiles<'a> {
    queries: &'a mut [f32],       // (Q, D), scaled
    query_lanes: &'a mut [f32],   // (D, Q), scaled
    d_out: &'a mut [f32],         // (Q, D)
    d_out_lanes: &'a mut [f32],   // (D, Q)
    d_query_lanes: &'a mut [f32], // (D, Q)
    keys: &'a mut [f32],          // (T, D)
    values: &'a mut [f32],        // (T, D)
    scores: &'a mut [f32],        // (K, Q): scores, then dropped probabilities
    d_scores: &'a mut [f32],      // (K, Q): d_p, then d_s
    lse: &'a mut [f32],
    delta: &'a mut [f32],
    factors: &'a mut [f32],
    d_keys: &'a mut [f32],   // (T, D)
    d_values: &'a mut [f32], // (T, D)
}

impl<'a> BackwardTiles<'a> {
    fn floats(seq: usize, size: usize) -> usize {
        (5 * QUERIES + 4 * seq) * padded(size) + 2 * QUERIES * KEYS + 3 * QUERIES
    }

    #[inline(always)]
    fn new(mut space: &'a mut [f32], seq: usize, size: usize) -> Self {
        let mut take = |len: usize| {
            let (taken, rest) = std::mem::take(&mut space).split_at_mut(len);
            space = rest;
            taken
        };
        let whole = seq * padded(size);
        Self {
            queries: take(QUERIES * padded(size)),
            query_lanes: take(QUERIES * padded(size)),
            d_out: take(QUERIES * padded(size)),
            d_out_lanes: take(QUERIES * padded(size)),
            d_query_lanes: take(QUERIES * padded(size)),
            keys: take(whole),
            values: take(whole),
            scores: take(KEYS * QUERIES),
            d_scores: take(KEYS * QUERIES),
            lse: take(QUERIES),
            delta: take(QUERIES),
            factors: take(QUERIES),
            d_keys: take(whole),
            d_values: take(whole),
        }
    }
}

/// One task: one key/value head with its query heads.
pub(super) struct BackwardTask<'a, E> {
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

impl<E: Element> Kernel for BackwardTask<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let AttentionShape { seq, size, .. } = self.shape;
        let (sequence, kv) = (self.task_rows.sequence, self.task_rows.head);
        let keys = HeadView::new(self.qkv.keys, seq, (sequence, kv), size);
        let values = HeadView::new(self.qkv.values, seq, (sequence, kv), size);
        let [out, d_out] = [self.out, self.d_out].map(|data| QkvRows {
            data,
            stride: self.shape.channels(),
            column: 0,
        });
        let [mut d_queries, mut d_keys, mut d_values] = self.d_qkv;
        let scale = self.shape.scale();
        let mut tiles = BackwardTiles::new(self.space, seq, size);
        keys.load(simd, 0..seq, None, tiles.keys);
        values.load(simd, 0..seq, None, tiles.values);

        for member in 0..self.shape.group() {
            let head = kv * self.shape.group() + member;
            let at = (sequence, head);
            let queries = HeadView::new(self.qkv.queries, seq, at, size);
            let (out, d_out) =
                (HeadView::new(out, seq, at, size), HeadView::new(d_out, seq, at, size));
            let mask = self.mask.map(|mask| HeadMask::new(mask, head, seq));
            let lse = &self.lse[(sequence * self.shape.heads + head) * seq..][..seq];
            for start in (0..seq).step_by(QUERIES) {
                let block = start..seq.min(start + QUERIES);
                // Queries past the end are zero, and so is everything computed from them.
                tiles.start(block.len(), size);
                out.load(simd, block.clone(), None, tiles.queries);
                d_out.load(simd, block.clone(), None, tiles.d_out);
                tiles.deltas(simd);
                queries.load(simd, block.clone(), Some(scale), tiles.queries);
                to_lanes(simd, tiles.queries, tiles.query_lanes);
                to_lanes(simd, tiles.d_out, tiles.d_out_lanes);
                tiles.lse[..block.len()].copy_from_slice(&lse[block.clone()]);

                for first in (0..block.end).step_by(KEYS) {
                    let keys = KEYS.min(block.end - first);
                    let causal = CausalTile { first, keys, is_diagonal: first == start };
                    tiles.score(simd, causal, size);
                    tiles.differentiate(simd, causal, mask.as_ref(), start);
                    // These keys are first used by the first head's queries of the same tile.
                    let is_first = member == 0 && causal.is_diagonal;
                    let sum = if is_first { SumStart::New } else { SumStart::Continued };
                    tiles.add(simd, causal, size, sum);
                }

                from_lanes(simd, tiles.d_query_lanes, tiles.queries);
                for (row, tile) in block.zip(tiles.queries.chunks_exact_mut(padded(size))) {
                    let tile = &mut tile[..size];
                    for x in tile.iter_mut() {
                        *x *= scale;
                    }
                    E::narrow_with(simd, tile, d_queries.row_of(row, member, size));
                }
            }
        }
        let sums = tiles.d_keys.chunks_exact(padded(size));
        for (row, (d_key, d_value)) in
            (0..seq).zip(sums.zip(tiles.d_values.chunks_exact(padded(size))))
        {
            E::narrow_with(simd, &d_key[..size], d_keys.row(row));
            E::narrow_with(simd, &d_value[..size], d_values.row(row));
        }
    }
}

impl BackwardTiles<'_> {
    /// Clears the tiles before a block of `queries`.
    #[inline(always)]
    fn start(&mut self, queries: usize, size: usize) {
        self.queries[queries * padded(size)..].fill(0.0);
        self.d_out[queries * padded(size)..].fill(0.0);
        self.lse[queries..].fill(0.0);
    }

    /// Computes `delta` of every query; the tile of queries holds `out`.
    #[inline(always)]
    fn deltas<S: Simd>(&mut self, simd: S) {
        let stride = self.queries.len() / QUERIES;
        let rows = self.queries.chunks_exact(stride).zip(self.d_out.chunks_exact(stride));
        for (delta, (out, d_out)) in self.delta.iter_mut().zip(rows) {
            *delta = rows::dot(simd, out, d_out);
        }
    }

    /// `scores = keys · queries` and `d_scores = values · d_out`
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
                b: &self.query_lanes[query..],
                b_stride: QUERIES,
                c: &mut self.scores[query..],
                c_stride: QUERIES,
                rows: causal.keys_of_panel(simd, query),
                columns: panel,
                depth: size,
                sum: SumStart::New,
            });
            simd.run(TileProduct {
                a: LeftFactor {
                    data: &self.values[causal.first * padded(size)..],
                    row: padded(size),
                    depth: 1,
                },
                b: &self.d_out_lanes[query..],
                b_stride: QUERIES,
                c: &mut self.d_scores[query..],
                c_stride: QUERIES,
                rows: causal.keys_of_panel(simd, query),
                columns: panel,
                depth: size,
                sum: SumStart::New,
            });
        }
    }

    /// Turns scores and `d_p` into the dropped probabilities and `d_s`.
    #[inline(always)]
    fn differentiate<S: Simd>(
        &mut self,
        simd: S,
        causal: CausalTile,
        mask: Option<&HeadMask>,
        query: usize,
    ) {
        for j in 0..causal.keys {
            let first = causal.first_query(simd, j);
            let row = j * QUERIES..(j + 1) * QUERIES;
            let (scores, d_scores) = (&mut self.scores[row.clone()], &mut self.d_scores[row]);
            let range = first..QUERIES;
            let pairs = scores[range.clone()].iter_mut().zip(&mut d_scores[range.clone()]);
            let rest = self.lse[range.clone()].iter().zip(&self.delta[range.clone()]);
            if let Some(mask) = mask {
                let factors = &mut self.factors[range];
                mask.factors(query + first, causal.first + j, factors);
                for (((score, d_score), (lse, delta)), factor) in pairs.zip(rest).zip(&*factors) {
                    let p = exp_below(simd, *score - lse);
                    *d_score = p * (*d_score * factor - delta);
                    *score = p * factor;
                }
            } else {
                for ((score, d_score), (lse, delta)) in pairs.zip(rest) {
                    *score = exp_below(simd, *score - lse);
                    *d_score = *score * (*d_score - delta);
                }
            }
            if causal.is_diagonal {
                scores[first..j].fill(0.0);
                d_scores[first..j].fill(0.0);
            }
        }
    }

    /// Adds the tile's part of `d_q`, `d_k` and `d_v`; `sum` is the initial value of the last two.
    #[inline(always)]
    fn add<S: Simd>(&mut self, simd: S, causal: CausalTile, size: usize, sum: SumStart) {
        let stride = padded(size);
        let panel = CausalTile::panel(simd);
        for query in (0..QUERIES).step_by(panel) {
            simd.run(TileProduct {
                a: LeftFactor { data: &self.keys[causal.first * stride..], row: 1, depth: stride },
                b: &self.d_scores[query..],
                b_stride: QUERIES,
                c: &mut self.d_query_lanes[query..],
                c_stride: QUERIES,
                rows: size,
                columns: panel,
                depth: causal.keys_of_panel(simd, query),
                sum: if causal.first == 0 { SumStart::New } else { SumStart::Continued },
            });
        }
        // On the diagonal, take a panel of keys at a time: earlier queries do not see them.
        let group = if causal.is_diagonal { panel } else { KEYS };
        for key in (0..causal.keys).step_by(group) {
            let query = causal.first_query(simd, key);
            for (weights, rows, sums) in [
                (&*self.scores, &*self.d_out, &mut *self.d_values),
                (&*self.d_scores, &*self.queries, &mut *self.d_keys),
            ] {
                simd.run(TileProduct {
                    a: LeftFactor {
                        data: &weights[key * QUERIES + query..],
                        row: QUERIES,
                        depth: 1,
                    },
                    b: &rows[query * stride..],
                    b_stride: stride,
                    c: &mut sums[(causal.first + key) * stride..],
                    c_stride: stride,
                    rows: group.min(causal.keys - key),
                    columns: stride,
                    depth: QUERIES - query,
                    sum,
                });
            }
        }
    }
}
