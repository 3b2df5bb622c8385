//! The sums of a tile of attention, and how its factors are kept for the products around them.
//!
//! A task holds the keys and values of its head and a block of queries as [`ForwardFactors`] or
//! [`BackwardFactors`]: as f32, or as bfloat16 pairs. Scores and all sums are f32 in both.

use std::ops::Range;

use super::tile::{CausalTile, HeadMask, HeadView, KEYS, QUERIES, from_lanes, padded};
use crate::cpu::{element::Element, exp::exp_below, isa::Simd, product::SumStart};

/// Takes slices off the front of scratch.
pub(super) struct Scratch<'a>(pub(super) &'a mut [f32]);

impl<'a> Scratch<'a> {
    pub(super) fn take(&mut self, len: usize) -> &'a mut [f32] {
        let (taken, rest) = std::mem::take(&mut self.0).split_at_mut(len);
        self.0 = rest;
        taken
    }
}

/// The factors of a forward pass.
pub(super) trait ForwardFactors<'a>: Sized {
    /// Floats of scratch.
    fn floats(seq: usize, size: usize) -> usize;
    /// The factors in scratch.
    fn new(scratch: &mut Scratch<'a>, seq: usize, size: usize) -> Self;
    /// Loads rows of a head.
    fn load_head<S: Simd, E: Element>(
        &mut self,
        simd: S,
        keys: HeadView<'_, E>,
        values: HeadView<'_, E>,
        rows: Range<usize>,
    );
    /// Loads a block of queries.
    fn load_queries<S: Simd, E: Element>(
        &mut self,
        simd: S,
        queries: HeadView<'_, E>,
        block: Range<usize>,
        scale: f32,
        sums: &mut ForwardSums<'_>,
    );
    /// `scores = scale · keys · queries`
    fn score<S: Simd>(
        &self,
        simd: S,
        causal: CausalTile,
        size: usize,
        scale: f32,
        sums: &mut ForwardSums<'_>,
    );
    /// `out += values · scores`
    fn add_values<S: Simd>(
        &mut self,
        simd: S,
        causal: CausalTile,
        size: usize,
        sums: &mut ForwardSums<'_>,
    );
    /// A tile (Q, D) that is free after a block's products.
    fn free_tile(&mut self) -> &mut [f32];
}

/// Scores of a tile, and the sums of a block of queries.
pub(super) struct ForwardSums<'a> {
    pub(super) scores: &'a mut [f32],  // (K, Q)
    pub(super) out: &'a mut [f32],     // (D, Q)
    pub(super) most: &'a mut [f32],    // m of each query
    pub(super) sums: &'a mut [f32],    // l of each query
    pub(super) factors: &'a mut [f32], // factor of each query, from a mask or a higher `m`
}

impl<'a> ForwardSums<'a> {
    pub(super) fn floats(size: usize) -> usize {
        QUERIES * padded(size) + QUERIES * KEYS + 3 * QUERIES
    }

    pub(super) fn new(scratch: &mut Scratch<'a>, size: usize) -> Self {
        Self {
            scores: scratch.take(KEYS * QUERIES),
            out: scratch.take(QUERIES * padded(size)),
            most: scratch.take(QUERIES),
            sums: scratch.take(QUERIES),
            factors: scratch.take(QUERIES),
        }
    }

    /// `scores = exp(scores - m)` with a new `m`; `l` and `out` scaled to it, `l` added to.
    #[inline(always)]
    pub(super) fn exponentiate<S: Simd>(&mut self, simd: S, causal: CausalTile) {
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
    pub(super) fn drop_out<S: Simd>(
        &mut self,
        simd: S,
        causal: CausalTile,
        mask: &HeadMask,
        query: usize,
    ) {
        for j in 0..causal.keys {
            let first = causal.first_query(simd, j);
            let row = &mut self.scores[j * QUERIES..][first..QUERIES];
            let factors = &mut self.factors[first..];
            mask.factors(query + first, causal.first + j, factors);
            row.iter_mut().zip(factors).for_each(|(score, factor)| *score *= *factor);
        }
    }

    /// Writes `lse`, and the rows of `out` to `tile`.
    #[inline(always)]
    pub(super) fn finish<S: Simd>(&mut self, simd: S, lse: &mut [f32], tile: &mut [f32]) {
        for (lse, (most, sum)) in lse.iter_mut().zip(self.most.iter().zip(&*self.sums)) {
            *lse = most + sum.ln();
        }
        for sum in self.sums.iter_mut() {
            *sum = 1.0 / *sum;
        }
        for row in self.out.chunks_exact_mut(QUERIES) {
            row.iter_mut().zip(&*self.sums).for_each(|(out, inverse)| *out *= inverse);
        }
        from_lanes(simd, self.out, tile);
    }
}

/// A block of queries of a backward pass.
pub(super) struct QueryBlock<'a, E> {
    pub(super) queries: HeadView<'a, E>,
    pub(super) out: HeadView<'a, E>,
    pub(super) d_out: HeadView<'a, E>,
    pub(super) rows: Range<usize>,
    pub(super) scale: f32,
}

/// The factors of a backward pass.
pub(super) trait BackwardFactors<'a>: Sized {
    /// Floats of scratch.
    fn floats(seq: usize, size: usize) -> usize;
    /// The factors in scratch.
    fn new(scratch: &mut Scratch<'a>, seq: usize, size: usize) -> Self;
    /// Loads a head.
    fn load_head<S: Simd, E: Element>(
        &mut self,
        simd: S,
        keys: HeadView<'_, E>,
        values: HeadView<'_, E>,
        seq: usize,
    );
    /// Loads a block of queries with the gradients of its outputs, and computes `delta`. Queries
    /// past the end are zero, and so is everything computed from them.
    fn load_block<S: Simd, E: Element>(
        &mut self,
        simd: S,
        block: QueryBlock<'_, E>,
        sums: &mut BackwardSums<'_>,
    );
    /// `scores = scale · keys · queries` and `d_scores = values · d_out`
    fn score<S: Simd>(
        &self,
        simd: S,
        causal: CausalTile,
        size: usize,
        scale: f32,
        sums: &mut BackwardSums<'_>,
    );
    /// Adds the tile's part of `d_q`, `d_k` and `d_v`; `sum` is the initial value of the last two.
    fn add<S: Simd>(
        &mut self,
        simd: S,
        causal: CausalTile,
        size: usize,
        sum: SumStart,
        sums: &mut BackwardSums<'_>,
    );
    /// What the sums of `d_k` are multiplied by at the end.
    fn key_scale(scale: f32) -> f32;
    /// A tile (Q, D) that is free after a block's products.
    fn free_tile(&mut self) -> &mut [f32];
}

/// Scores of a tile, and all sums of a backward pass.
pub(super) struct BackwardSums<'a> {
    pub(super) d_query_lanes: &'a mut [f32], // (D, Q)
    pub(super) scores: &'a mut [f32],        // (K, Q): scores, then dropped probabilities
    pub(super) d_scores: &'a mut [f32],      // (K, Q): d_p, then d_s
    pub(super) lse: &'a mut [f32],
    pub(super) delta: &'a mut [f32],
    pub(super) factors: &'a mut [f32],
    pub(super) d_keys: &'a mut [f32],   // (T, D)
    pub(super) d_values: &'a mut [f32], // (T, D)
}

impl<'a> BackwardSums<'a> {
    pub(super) fn floats(seq: usize, size: usize) -> usize {
        (QUERIES + 2 * seq) * padded(size) + 2 * QUERIES * KEYS + 3 * QUERIES
    }

    pub(super) fn new(scratch: &mut Scratch<'a>, seq: usize, size: usize) -> Self {
        Self {
            d_query_lanes: scratch.take(QUERIES * padded(size)),
            scores: scratch.take(KEYS * QUERIES),
            d_scores: scratch.take(KEYS * QUERIES),
            lse: scratch.take(QUERIES),
            delta: scratch.take(QUERIES),
            factors: scratch.take(QUERIES),
            d_keys: scratch.take(seq * padded(size)),
            d_values: scratch.take(seq * padded(size)),
        }
    }

    /// Turns scores and `d_p` into the dropped probabilities and `d_s`.
    #[inline(always)]
    pub(super) fn differentiate<S: Simd>(
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
}
