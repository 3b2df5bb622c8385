//! Factors of attention as f32.

use std::ops::Range;

use super::{
    factors::{BackwardFactors, BackwardSums, ForwardFactors, ForwardSums, QueryBlock, Scratch},
    tile::{CausalTile, HeadView, KEYS, QUERIES, padded, to_lanes},
};
use crate::cpu::{
    element::Element,
    isa::Simd,
    product::{LeftFactor, SumStart, TileProduct},
    rows,
};

/// The factors of a forward pass.
pub(super) struct ForwardSingles<'a> {
    queries: &'a mut [f32], // (D, Q), scaled
    keys: &'a mut [f32],    // (T, D)
    values: &'a mut [f32],  // (T, D)
}

impl<'a> ForwardFactors<'a> for ForwardSingles<'a> {
    fn floats(seq: usize, size: usize) -> usize {
        (QUERIES + 2 * seq) * padded(size)
    }

    fn new(scratch: &mut Scratch<'a>, seq: usize, size: usize) -> Self {
        Self {
            queries: scratch.take(QUERIES * padded(size)),
            keys: scratch.take(seq * padded(size)),
            values: scratch.take(seq * padded(size)),
        }
    }

    #[inline(always)]
    fn load_head<S: Simd, E: Element>(
        &mut self,
        simd: S,
        keys: HeadView<'_, E>,
        values: HeadView<'_, E>,
        rows: Range<usize>,
    ) {
        keys.load(simd, rows.clone(), None, self.keys);
        values.load(simd, rows, None, self.values);
    }

    #[inline(always)]
    fn load_queries<S: Simd, E: Element>(
        &mut self,
        simd: S,
        queries: HeadView<'_, E>,
        block: Range<usize>,
        scale: f32,
        sums: &mut ForwardSums<'_>,
    ) {
        // The output tile is not in use yet, so it holds the queries before they are transposed.
        sums.out[block.len() * padded(queries.size)..].fill(0.0);
        queries.load(simd, block, Some(scale), sums.out);
        to_lanes(simd, sums.out, self.queries);
    }

    #[inline(always)]
    fn score<S: Simd>(
        &self,
        simd: S,
        causal: CausalTile,
        size: usize,
        _: f32,
        sums: &mut ForwardSums<'_>,
    ) {
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
                c: &mut sums.scores[query..],
                c_stride: QUERIES,
                rows: causal.keys_of_panel(simd, query),
                columns: panel,
                depth: size,
                sum: SumStart::New,
            });
        }
    }

    #[inline(always)]
    fn add_values<S: Simd>(
        &mut self,
        simd: S,
        causal: CausalTile,
        size: usize,
        sums: &mut ForwardSums<'_>,
    ) {
        let panel = CausalTile::panel(simd);
        for query in (0..QUERIES).step_by(panel) {
            simd.run(TileProduct {
                a: LeftFactor {
                    data: &self.values[causal.first * padded(size)..],
                    row: 1,
                    depth: padded(size),
                },
                b: &sums.scores[query..],
                b_stride: QUERIES,
                c: &mut sums.out[query..],
                c_stride: QUERIES,
                rows: size,
                columns: panel,
                depth: causal.keys_of_panel(simd, query),
                sum: if causal.first == 0 { SumStart::New } else { SumStart::Continued },
            });
        }
    }

    #[inline(always)]
    fn free_tile(&mut self) -> &mut [f32] {
        self.queries
    }
}

/// The factors of a backward pass.
pub(super) struct BackwardSingles<'a> {
    queries: &'a mut [f32],     // (Q, D), scaled
    query_lanes: &'a mut [f32], // (D, Q), scaled
    d_out: &'a mut [f32],       // (Q, D)
    d_out_lanes: &'a mut [f32], // (D, Q)
    keys: &'a mut [f32],        // (T, D)
    values: &'a mut [f32],      // (T, D)
}

impl<'a> BackwardFactors<'a> for BackwardSingles<'a> {
    fn floats(seq: usize, size: usize) -> usize {
        (4 * QUERIES + 2 * seq) * padded(size)
    }

    fn new(scratch: &mut Scratch<'a>, seq: usize, size: usize) -> Self {
        Self {
            queries: scratch.take(QUERIES * padded(size)),
            query_lanes: scratch.take(QUERIES * padded(size)),
            d_out: scratch.take(QUERIES * padded(size)),
            d_out_lanes: scratch.take(QUERIES * padded(size)),
            keys: scratch.take(seq * padded(size)),
            values: scratch.take(seq * padded(size)),
        }
    }

    #[inline(always)]
    fn load_head<S: Simd, E: Element>(
        &mut self,
        simd: S,
        keys: HeadView<'_, E>,
        values: HeadView<'_, E>,
        seq: usize,
    ) {
        keys.load(simd, 0..seq, None, self.keys);
        values.load(simd, 0..seq, None, self.values);
    }

    #[inline(always)]
    fn load_block<S: Simd, E: Element>(
        &mut self,
        simd: S,
        block: QueryBlock<'_, E>,
        sums: &mut BackwardSums<'_>,
    ) {
        let QueryBlock { queries, out, d_out, rows, scale } = block;
        let end = rows.len() * padded(queries.size);
        self.queries[end..].fill(0.0);
        self.d_out[end..].fill(0.0);
        out.load(simd, rows.clone(), None, self.queries);
        d_out.load(simd, rows.clone(), None, self.d_out);
        let stride = padded(queries.size);
        let pairs = self.queries.chunks_exact(stride).zip(self.d_out.chunks_exact(stride));
        for (delta, (out, d_out)) in sums.delta.iter_mut().zip(pairs) {
            *delta = rows::dot(simd, out, d_out);
        }
        queries.load(simd, rows, Some(scale), self.queries);
        to_lanes(simd, self.queries, self.query_lanes);
        to_lanes(simd, self.d_out, self.d_out_lanes);
    }

    #[inline(always)]
    fn score<S: Simd>(
        &self,
        simd: S,
        causal: CausalTile,
        size: usize,
        _: f32,
        sums: &mut BackwardSums<'_>,
    ) {
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
                c: &mut sums.scores[query..],
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
                c: &mut sums.d_scores[query..],
                c_stride: QUERIES,
                rows: causal.keys_of_panel(simd, query),
                columns: panel,
                depth: size,
                sum: SumStart::New,
            });
        }
    }

    #[inline(always)]
    fn add<S: Simd>(
        &mut self,
        simd: S,
        causal: CausalTile,
        size: usize,
        sum: SumStart,
        sums: &mut BackwardSums<'_>,
    ) {
        let stride = padded(size);
        let panel = CausalTile::panel(simd);
        for query in (0..QUERIES).step_by(panel) {
            simd.run(TileProduct {
                a: LeftFactor { data: &self.keys[causal.first * stride..], row: 1, depth: stride },
                b: &sums.d_scores[query..],
                b_stride: QUERIES,
                c: &mut sums.d_query_lanes[query..],
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
            for (weights, rows, to) in [
                (&*sums.scores, &*self.d_out, &mut *sums.d_values),
                (&*sums.d_scores, &*self.queries, &mut *sums.d_keys),
            ] {
                simd.run(TileProduct {
                    a: LeftFactor {
                        data: &weights[key * QUERIES + query..],
                        row: QUERIES,
                        depth: 1,
                    },
                    b: &rows[query * stride..],
                    b_stride: stride,
                    c: &mut to[(causal.first + key) * stride..],
                    c_stride: stride,
                    rows: group.min(causal.keys - key),
                    columns: stride,
                    depth: QUERIES - query,
                    sum,
                });
            }
        }
    }

    #[inline(always)]
    fn key_scale(_: f32) -> f32 {
        1.0
    }

    #[inline(always)]
    fn free_tile(&mut self) -> &mut [f32] {
        self.queries
    }
}
