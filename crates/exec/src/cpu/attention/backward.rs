//! The backward: every tile of probabilities is made again from `lse`.
//!
//! ```text
//! p   = exp(s - lse)              delta = Σ d_out * out         for each query
//! d_v = drop(p)ᵀ · d_out          d_p   = drop(d_out · vᵀ)
//! d_s = p * (d_p - delta)
//! d_q = d_s · k / √D              d_k   = d_sᵀ · q / √D
//! ```
//!
//! One task is one key/value head: for each query head that it serves, blocks of queries from
//! first to last, for each the tiles of keys before it. Keys and values of the head are copied to
//! scratch, where `d_k` and `d_v` collect.

use super::{
    Qkv, QkvMut, Shape, Source,
    heads::{Columns, HeadRows, Place, Split},
    tile::{Causal, HeadMask, HeadOf, KEYS, QUERIES, from_lanes, padded, to_lanes},
};
use crate::{
    arena::Stored,
    cpu::{
        Machine,
        exp::exp_below,
        isa::{Kernel, Simd},
        parts::PerWorker,
        product::{A, Sum, TileProduct},
        rows,
    },
    element::Element,
    random::Mask,
};

/// Floats of scratch: for each worker its tiles, and keys and values of one head with their
/// gradients.
pub(in crate::cpu) fn scratch(seq: usize, size: usize, threads: usize) -> usize {
    Tiles::floats(seq, size) * threads
}

/// Operands of [`backward`].
pub(in crate::cpu) struct Backward<'a, E, M> {
    pub(in crate::cpu) shape: Shape,
    pub(in crate::cpu) qkv: Qkv<'a, E>,
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
    args: Backward<'_, E, impl Fn(usize) -> Option<Mask> + Sync>,
) {
    let Backward { shape, qkv, out, lse, d_out, d_qkv, mask, scratch } = args;
    assert_eq!(out.len(), d_out.len());
    assert_eq!(lse.len(), shape.batch * shape.heads * shape.seq);
    assert_eq!(shape.used, shape.seq, "a backward has all its rows");
    let split = Split { shape: Shape { heads: shape.kv_heads, ..shape }, block: shape.seq };
    let parts = (
        Columns::of_groups(d_qkv, shape, split),
        PerWorker::new(scratch, Tiles::floats(shape.seq, shape.size)),
    );
    let isa = machine.isa;
    machine.pool.for_each(parts, |task, (d_qkv, space)| {
        let place = split.place(task.index);
        let mask = mask(place.sequence);
        isa.run(Group { shape, place, qkv, out, lse, d_out, d_qkv, mask, space });
    });
}

/// The scratch of one worker.
struct Tiles<'a> {
    queries: &'a mut [f32],       // (Q, D), scaled
    query_lanes: &'a mut [f32],   // (D, Q), scaled
    d_out: &'a mut [f32],         // (Q, D)
    d_out_lanes: &'a mut [f32],   // (D, Q)
    d_query_lanes: &'a mut [f32], // (D, Q)
    keys: &'a mut [f32],          // (T, D)
    values: &'a mut [f32],        // (T, D)
    scores: &'a mut [f32],        // (K, Q): scores, then what `d_out` is weighted with
    d_scores: &'a mut [f32],      // (K, Q): d_p, then d_s
    lse: &'a mut [f32],
    delta: &'a mut [f32],
    factors: &'a mut [f32],
    d_keys: &'a mut [f32],   // (T, D)
    d_values: &'a mut [f32], // (T, D)
}

impl<'a> Tiles<'a> {
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
pub(super) struct Group<'a, E> {
    pub(super) shape: Shape,
    pub(super) place: Place,
    pub(super) qkv: Qkv<'a, E>,
    pub(super) out: &'a [E],
    pub(super) lse: &'a [f32],
    pub(super) d_out: &'a [E],
    pub(super) d_qkv: [HeadRows<'a, E>; 3],
    pub(super) mask: Option<Mask>,
    pub(super) space: &'a mut [f32],
}

impl<E: Element> Kernel for Group<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Shape { seq, size, .. } = self.shape;
        let (sequence, kv) = (self.place.sequence, self.place.head);
        let keys = HeadOf::new(self.qkv.keys, seq, (sequence, kv), size);
        let values = HeadOf::new(self.qkv.values, seq, (sequence, kv), size);
        let [out, d_out] = [self.out, self.d_out].map(|data| Source {
            data,
            stride: self.shape.channels(),
            column: 0,
        });
        let [mut d_queries, mut d_keys, mut d_values] = self.d_qkv;
        let scale = self.shape.scale();
        let mut tiles = Tiles::new(self.space, seq, size);
        keys.load(simd, 0..seq, None, tiles.keys);
        values.load(simd, 0..seq, None, tiles.values);

        for member in 0..self.shape.group() {
            let head = kv * self.shape.group() + member;
            let at = (sequence, head);
            let queries = HeadOf::new(self.qkv.queries, seq, at, size);
            let (out, d_out) = (HeadOf::new(out, seq, at, size), HeadOf::new(d_out, seq, at, size));
            let mask = self.mask.map(|mask| HeadMask::new(mask, head, seq));
            let lse = &self.lse[(sequence * self.shape.heads + head) * seq..][..seq];
            for start in (0..seq).step_by(QUERIES) {
                let block = start..seq.min(start + QUERIES);
                // Queries past the end are zero, and so is all that comes of them.
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
                    let causal = Causal { first, keys, is_diagonal: first == start };
                    tiles.score(simd, causal, size);
                    tiles.differentiate(simd, causal, mask.as_ref(), start);
                    // The first queries that see these keys are the first head's of their tile.
                    let is_first = member == 0 && causal.is_diagonal;
                    let sum = if is_first { Sum::New } else { Sum::Continued };
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

impl Tiles<'_> {
    /// Before a block of `queries`.
    #[inline(always)]
    fn start(&mut self, queries: usize, size: usize) {
        self.queries[queries * padded(size)..].fill(0.0);
        self.d_out[queries * padded(size)..].fill(0.0);
        self.lse[queries..].fill(0.0);
    }

    /// `delta` of every query; the tile of queries holds `out`.
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
    fn score<S: Simd>(&mut self, simd: S, causal: Causal, size: usize) {
        let panel = Causal::panel(simd);
        for query in (0..QUERIES).step_by(panel) {
            simd.run(TileProduct {
                a: A {
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
                sum: Sum::New,
            });
            simd.run(TileProduct {
                a: A {
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
                sum: Sum::New,
            });
        }
    }

    /// From scores and `d_p` to the dropped probabilities and `d_s`.
    #[inline(always)]
    fn differentiate<S: Simd>(
        &mut self,
        simd: S,
        causal: Causal,
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

    /// The tile's share of `d_q`, `d_k` and `d_v`; `sum` says what the latter two begin with.
    #[inline(always)]
    fn add<S: Simd>(&mut self, simd: S, causal: Causal, size: usize, sum: Sum) {
        let stride = padded(size);
        let panel = Causal::panel(simd);
        for query in (0..QUERIES).step_by(panel) {
            simd.run(TileProduct {
                a: A { data: &self.keys[causal.first * stride..], row: 1, depth: stride },
                b: &self.d_scores[query..],
                b_stride: QUERIES,
                c: &mut self.d_query_lanes[query..],
                c_stride: QUERIES,
                rows: size,
                columns: panel,
                depth: causal.keys_of_panel(simd, query),
                sum: if causal.first == 0 { Sum::New } else { Sum::Continued },
            });
        }
        // On the diagonal, a panel of keys at a time: the queries before it do not see them.
        let group = if causal.is_diagonal { panel } else { KEYS };
        for key in (0..causal.keys).step_by(group) {
            let query = causal.first_query(simd, key);
            for (weights, rows, sums) in [
                (&*self.scores, &*self.d_out, &mut *self.d_values),
                (&*self.d_scores, &*self.queries, &mut *self.d_keys),
            ] {
                simd.run(TileProduct {
                    a: A { data: &weights[key * QUERIES + query..], row: QUERIES, depth: 1 },
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
