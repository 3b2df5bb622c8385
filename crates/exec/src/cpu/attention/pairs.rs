//! Factors of attention as bfloat16 pairs.
//!
//! Queries, keys, values and the gradients of outputs are factors as they are stored, and the scale
//! is applied to the sums of scores, which are f32. Probabilities, after dropout, and the gradients
//! of scores are rounded to bfloat16. Softmax and all sums are f32.
//!
//! A factor is kept in one of two forms: *lanes*, a tile (D / 2, 64) whose pairs are two channels
//! of a row, for sums over channels; and *woven*, (rows / 2, D), whose pairs are a channel of two
//! rows, for sums over rows.

use std::ops::Range;

use super::{
    factors::{BackwardFactors, BackwardSums, ForwardFactors, ForwardSums, QueryBlock, Scratch},
    tile::{CausalTile, HeadView, KEYS, QUERIES, padded},
};
use crate::cpu::{
    element::Element,
    isa::{Simd, Strided, TransposeSize},
    product::{PairProduct, SumStart},
    rows,
};

/// Rows that are transposed at a time.
const GROUP: usize = 8;
/// Pairs of a row that are transposed at a time.
const PIECE: usize = 64;

/// Pairs of channels of a head.
const fn channel_pairs(size: usize) -> usize {
    size.div_ceil(2)
}

/// Floats of a tile of lanes.
const fn lanes_len(size: usize) -> usize {
    channel_pairs(size) * QUERIES
}

/// Floats of `rows` woven rows.
const fn woven_len(rows: usize, size: usize) -> usize {
    rows.div_ceil(2) * padded(size)
}

/// Loads at most 64 rows as lanes; the rest of the tile is zero.
#[inline(always)]
fn load_lanes<S: Simd, E: Element>(
    simd: S,
    view: HeadView<'_, E>,
    rows: Range<usize>,
    lanes: &mut [f32],
) {
    let pairs = channel_pairs(view.size);
    for group in 0..QUERIES / GROUP {
        for start in (0..pairs).step_by(PIECE) {
            let depth = PIECE.min(pairs - start);
            let numbers = 2 * start..view.size.min(2 * (start + depth));
            let mut tile = [0.0; GROUP * PIECE];
            for (v, tile) in tile.chunks_exact_mut(PIECE).enumerate() {
                let row = rows.start + group * GROUP + v;
                if row < rows.end {
                    let row = &view.row(row)[numbers.clone()];
                    E::pair_neighbours_with(simd, row, &mut tile[..depth]);
                }
            }
            let from = Strided { data: &tile[..], stride: PIECE };
            let to = &mut lanes[start * QUERIES + group * GROUP..];
            let size = TransposeSize { vectors: GROUP, depth };
            simd.transpose(size, from, Strided { data: to, stride: QUERIES });
        }
    }
}

/// Weaves rows in pairs; an odd last row is paired with zeros.
#[inline(always)]
fn weave<S: Simd, E: Element>(
    simd: S,
    view: HeadView<'_, E>,
    rows: Range<usize>,
    woven: &mut [f32],
) {
    let zeros = [E::default(); PIECE];
    for (row, to) in rows.clone().step_by(2).zip(woven.chunks_exact_mut(padded(view.size))) {
        view.prefetch(simd, row + super::tile::ROWS_AHEAD);
        let (to, rest) = to.split_at_mut(view.size);
        rest.fill(0.0);
        let low = view.row(row).chunks(PIECE);
        if row + 1 < rows.end {
            view.prefetch(simd, row + 1 + super::tile::ROWS_AHEAD);
            let both = low.zip(view.row(row + 1).chunks(PIECE)).zip(to.chunks_mut(PIECE));
            both.for_each(|((low, high), to)| E::pair_with(simd, low, high, to));
        } else {
            let each = low.zip(to.chunks_mut(PIECE));
            each.for_each(|(low, to)| E::pair_with(simd, low, &zeros[..low.len()], to));
        }
    }
}

/// Weaves the scores of two keys, (K, Q) to (K / 2, Q), from each pair's first query on.
#[inline(always)]
fn weave_scores<S: Simd>(simd: S, causal: CausalTile, scores: &[f32], woven: &mut [f32]) {
    let zeros = [0.0; QUERIES];
    for key in (0..causal.keys).step_by(2) {
        let first = causal.first_query(simd, key);
        let row = |key: usize| &scores[key * QUERIES..(key + 1) * QUERIES][first..];
        let high = if key + 1 < causal.keys { row(key + 1) } else { &zeros[first..] };
        let to = &mut woven[key / 2 * QUERIES..][first..QUERIES];
        simd.pair_factors(row(key), high, to);
    }
}

/// Pairs the scores of neighbouring queries, (K, Q) to (K, Q / 2), from each key's first query on.
#[inline(always)]
fn pair_scores<S: Simd>(simd: S, causal: CausalTile, scores: &[f32], pairs: &mut [f32]) {
    for key in 0..causal.keys {
        let first = causal.first_query(simd, key);
        let from = &scores[key * QUERIES..][first..QUERIES];
        simd.neighbour_factors(from, &mut pairs[key * QUERY_PAIRS..][first / 2..QUERY_PAIRS]);
    }
}

/// Pairs of queries in a tile.
const QUERY_PAIRS: usize = QUERIES / 2;

/// `scores = scale · rows · queries` for the panels of a tile.
#[inline(always)]
fn score<S: Simd>(
    simd: S,
    causal: CausalTile,
    size: usize,
    rows: &[f32],
    queries: &[f32],
    scores: &mut [f32],
) {
    let panel = CausalTile::panel(simd);
    for query in (0..QUERIES).step_by(panel) {
        let product = PairProduct {
            a: &rows[causal.first / KEYS * lanes_len(size)..],
            a_depth: KEYS,
            b: &queries[query..],
            b_stride: QUERIES,
            c: &mut scores[query..],
            c_stride: QUERIES,
            rows: causal.keys_of_panel(simd, query),
            columns: panel,
            depth: channel_pairs(size),
            sum: SumStart::New,
        };
        product.run::<S, 1>(simd);
    }
}

/// Multiplies the scores that were computed.
#[inline(always)]
fn multiply<S: Simd>(simd: S, causal: CausalTile, scale: f32, scores: &mut [f32]) {
    for key in 0..causal.keys {
        let first = causal.first_query(simd, key);
        scores[key * QUERIES..][first..QUERIES].iter_mut().for_each(|score| *score *= scale);
    }
}

/// `lanes += rowsᵀ · weights` over the keys of a tile: `lanes` is (D, Q).
#[inline(always)]
fn add_rows<S: Simd>(
    simd: S,
    causal: CausalTile,
    size: usize,
    rows: &[f32],
    weights: &[f32],
    lanes: &mut [f32],
) {
    let panel = CausalTile::panel(simd);
    for query in (0..QUERIES).step_by(panel) {
        let product = PairProduct {
            a: &rows[woven_len(causal.first, size)..],
            a_depth: padded(size),
            b: &weights[query..],
            b_stride: QUERIES,
            c: &mut lanes[query..],
            c_stride: QUERIES,
            rows: size,
            columns: panel,
            depth: causal.keys_of_panel(simd, query).div_ceil(2),
            sum: if causal.first == 0 { SumStart::New } else { SumStart::Continued },
        };
        product.run::<S, 1>(simd);
    }
}

/// The factors of a forward pass.
pub(super) struct ForwardPairs<'a> {
    tile: &'a mut [f32],    // (Q, D) of f32, only at the end of a block
    queries: &'a mut [f32], // lanes
    keys: &'a mut [f32],    // lanes of each tile of keys
    values: &'a mut [f32],  // woven
    weights: &'a mut [f32], // (K / 2, Q)
}

impl<'a> ForwardFactors<'a> for ForwardPairs<'a> {
    fn floats(seq: usize, size: usize) -> usize {
        let tiles = seq.div_ceil(KEYS);
        QUERIES * padded(size)
            + (1 + tiles) * lanes_len(size)
            + woven_len(seq, size)
            + KEYS / 2 * QUERIES
    }

    fn new(scratch: &mut Scratch<'a>, seq: usize, size: usize) -> Self {
        Self {
            tile: scratch.take(QUERIES * padded(size)),
            queries: scratch.take(lanes_len(size)),
            keys: scratch.take(seq.div_ceil(KEYS) * lanes_len(size)),
            values: scratch.take(woven_len(seq, size)),
            weights: scratch.take(KEYS / 2 * QUERIES),
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
        let tiles = self.keys.chunks_exact_mut(lanes_len(keys.size));
        for (first, tile) in rows.clone().step_by(KEYS).zip(tiles) {
            load_lanes(simd, keys, first..rows.end.min(first + KEYS), tile);
        }
        weave(simd, values, rows, self.values);
    }

    #[inline(always)]
    fn load_queries<S: Simd, E: Element>(
        &mut self,
        simd: S,
        queries: HeadView<'_, E>,
        block: Range<usize>,
        _: f32,
        _: &mut ForwardSums<'_>,
    ) {
        load_lanes(simd, queries, block, self.queries);
    }

    #[inline(always)]
    fn score<S: Simd>(
        &self,
        simd: S,
        causal: CausalTile,
        size: usize,
        scale: f32,
        sums: &mut ForwardSums<'_>,
    ) {
        score(simd, causal, size, self.keys, self.queries, sums.scores);
        multiply(simd, causal, scale, sums.scores);
    }

    #[inline(always)]
    fn add_values<S: Simd>(
        &mut self,
        simd: S,
        causal: CausalTile,
        size: usize,
        sums: &mut ForwardSums<'_>,
    ) {
        weave_scores(simd, causal, sums.scores, self.weights);
        add_rows(simd, causal, size, self.values, self.weights, sums.out);
    }

    #[inline(always)]
    fn free_tile(&mut self) -> &mut [f32] {
        self.tile
    }
}

/// The factors of a backward pass.
pub(super) struct BackwardPairs<'a> {
    tile: &'a mut [f32],          // (Q, D) of f32, only between products
    queries: &'a mut [f32],       // woven
    query_lanes: &'a mut [f32],   // lanes
    d_out: &'a mut [f32],         // woven
    d_out_lanes: &'a mut [f32],   // lanes
    keys: &'a mut [f32],          // woven
    key_lanes: &'a mut [f32],     // lanes of each tile of keys
    value_lanes: &'a mut [f32],   // lanes of each tile of keys
    weights: &'a mut [f32],       // (K, Q / 2) of probabilities
    d_score_pairs: &'a mut [f32], // (K, Q / 2)
    d_scores: &'a mut [f32],      // (K / 2, Q)
}

impl<'a> BackwardFactors<'a> for BackwardPairs<'a> {
    fn floats(seq: usize, size: usize) -> usize {
        let tiles = seq.div_ceil(KEYS);
        QUERIES * padded(size)
            + 2 * woven_len(QUERIES, size)
            + (2 + 2 * tiles) * lanes_len(size)
            + woven_len(seq, size)
            + 3 * KEYS * QUERY_PAIRS
    }

    fn new(scratch: &mut Scratch<'a>, seq: usize, size: usize) -> Self {
        let tiles = seq.div_ceil(KEYS);
        Self {
            tile: scratch.take(QUERIES * padded(size)),
            queries: scratch.take(woven_len(QUERIES, size)),
            query_lanes: scratch.take(lanes_len(size)),
            d_out: scratch.take(woven_len(QUERIES, size)),
            d_out_lanes: scratch.take(lanes_len(size)),
            keys: scratch.take(woven_len(seq, size)),
            key_lanes: scratch.take(tiles * lanes_len(size)),
            value_lanes: scratch.take(tiles * lanes_len(size)),
            weights: scratch.take(KEYS * QUERY_PAIRS),
            d_score_pairs: scratch.take(KEYS * QUERY_PAIRS),
            d_scores: scratch.take(KEYS * QUERY_PAIRS),
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
        weave(simd, keys, 0..seq, self.keys);
        for (view, tiles) in [(keys, &mut *self.key_lanes), (values, &mut *self.value_lanes)] {
            let tiles = tiles.chunks_exact_mut(lanes_len(view.size));
            for (first, tile) in (0..seq).step_by(KEYS).zip(tiles) {
                load_lanes(simd, view, first..seq.min(first + KEYS), tile);
            }
        }
    }

    #[inline(always)]
    fn load_block<S: Simd, E: Element>(
        &mut self,
        simd: S,
        block: QueryBlock<'_, E>,
        sums: &mut BackwardSums<'_>,
    ) {
        let QueryBlock { queries, out, d_out, rows, .. } = block;
        let stride = padded(queries.size);
        // The sums of the gradient of the queries are not in use yet.
        let d_out_tile = &mut *sums.d_query_lanes;
        self.tile[rows.len() * stride..].fill(0.0);
        d_out_tile[rows.len() * stride..].fill(0.0);
        out.load(simd, rows.clone(), None, self.tile);
        d_out.load(simd, rows.clone(), None, d_out_tile);
        let pairs = self.tile.chunks_exact(stride).zip(d_out_tile.chunks_exact(stride));
        for (delta, (out, d_out)) in sums.delta.iter_mut().zip(pairs) {
            *delta = rows::dot(simd, out, d_out);
        }
        let used = woven_len(rows.len(), queries.size);
        for (view, woven, lanes) in [
            (queries, &mut *self.queries, &mut *self.query_lanes),
            (d_out, &mut *self.d_out, &mut *self.d_out_lanes),
        ] {
            load_lanes(simd, view, rows.clone(), lanes);
            weave(simd, view, rows.clone(), woven);
            woven[used..].fill(0.0);
        }
    }

    #[inline(always)]
    fn score<S: Simd>(
        &self,
        simd: S,
        causal: CausalTile,
        size: usize,
        scale: f32,
        sums: &mut BackwardSums<'_>,
    ) {
        score(simd, causal, size, self.key_lanes, self.query_lanes, sums.scores);
        multiply(simd, causal, scale, sums.scores);
        score(simd, causal, size, self.value_lanes, self.d_out_lanes, sums.d_scores);
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
        weave_scores(simd, causal, sums.d_scores, self.d_scores);
        add_rows(simd, causal, size, self.keys, self.d_scores, sums.d_query_lanes);
        pair_scores(simd, causal, sums.scores, self.weights);
        pair_scores(simd, causal, sums.d_scores, self.d_score_pairs);
        let stride = padded(size);
        // On the diagonal, take a panel of keys at a time: earlier queries do not see them.
        let group = if causal.is_diagonal { CausalTile::panel(simd) } else { KEYS };
        for key in (0..causal.keys).step_by(group) {
            let query = causal.first_query(simd, key);
            for (weights, rows, to) in [
                (&*self.weights, &*self.d_out, &mut *sums.d_values),
                (&*self.d_score_pairs, &*self.queries, &mut *sums.d_keys),
            ] {
                let product = PairProduct {
                    a: &weights[key * QUERY_PAIRS + query / 2..],
                    a_depth: 1,
                    b: &rows[query / 2 * stride..],
                    b_stride: stride,
                    c: &mut to[(causal.first + key) * stride..],
                    c_stride: stride,
                    rows: group.min(causal.keys - key),
                    columns: stride,
                    depth: QUERY_PAIRS - query / 2,
                    sum,
                };
                product.run::<S, QUERY_PAIRS>(simd);
            }
        }
    }

    #[inline(always)]
    fn key_scale(scale: f32) -> f32 {
        scale
    }

    #[inline(always)]
    fn free_tile(&mut self) -> &mut [f32] {
        self.tile
    }
}
