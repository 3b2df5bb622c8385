//! The forward: a block of queries against all the keys before it, one tile at a time.
//!
//! The largest score so far, `m`, and the sum of exponentials, `l`, are kept for each query;
//! where a tile raises `m`, what was summed before is scaled down to it.

use super::{
    Shape,
    heads::{Columns, HeadRows, PerRow, Place, RowNumbers, Split},
    product::{A, Product, Sum},
    tile::{Causal, HeadMask, HeadOf, KEYS, QUERIES, from_lanes, padded, to_lanes},
};
use crate::{
    arena::Stored,
    cpu::{
        Machine,
        exp::exp,
        isa::{Kernel, Simd},
        parts::PerWorker,
    },
    element::Element,
    random::Mask,
};

/// Floats of scratch: the tiles of each worker.
pub(in crate::cpu) fn scratch(size: usize, threads: usize) -> usize {
    Tiles::floats(size) * threads
}

/// Operands of [`forward`].
pub(in crate::cpu) struct Forward<'a, E, M> {
    pub(in crate::cpu) shape: Shape,
    pub(in crate::cpu) qkv: &'a [E],
    pub(in crate::cpu) out: &'a mut [E],
    pub(in crate::cpu) lse: &'a mut [f32],
    /// The mask of each sequence's probabilities.
    pub(in crate::cpu) mask: M,
    pub(in crate::cpu) scratch: &'a mut [f32],
}

/// `out` and `lse` of every head.
pub(in crate::cpu) fn forward<E: Element + Stored>(
    machine: &mut Machine,
    args: Forward<'_, E, impl Fn(usize) -> Option<Mask> + Sync>,
) {
    let Forward { shape, qkv, out, lse, mask, scratch } = args;
    assert_eq!(qkv.len(), 3 * out.len());
    assert!(shape.used <= shape.seq);
    let split = Split { shape, block: QUERIES };
    let parts = (
        Columns::<E, 1>::new(out, split),
        PerRow::new(lse, split),
        PerWorker::new(scratch, Tiles::floats(shape.size)),
    );
    let isa = machine.isa;
    machine.pool.for_each(parts, |task, ([out], lse, space)| {
        let place = split.place(task.index);
        let mask = mask(place.sequence).map(|mask| HeadMask::new(mask, place.head, shape.seq));
        isa.run(Block { shape, place, qkv, out, lse, mask, space });
    });
}

/// The scratch of one worker.
struct Tiles<'a> {
    queries: &'a mut [f32], // (D, Q), scaled
    keys: &'a mut [f32],    // (K, D)
    values: &'a mut [f32],  // (K, D)
    scores: &'a mut [f32],  // (K, Q)
    out: &'a mut [f32],     // (D, Q)
    most: &'a mut [f32],    // m of each query
    sums: &'a mut [f32],    // l of each query
    factors: &'a mut [f32], // what a mask or a higher `m` multiplies each query with
}

impl<'a> Tiles<'a> {
    fn floats(size: usize) -> usize {
        (2 * QUERIES + 2 * KEYS) * padded(size) + QUERIES * KEYS + 3 * QUERIES
    }

    #[inline(always)]
    fn new(space: &'a mut [f32], size: usize) -> Self {
        let (queries, space) = space.split_at_mut(QUERIES * padded(size));
        let (keys, space) = space.split_at_mut(KEYS * padded(size));
        let (values, space) = space.split_at_mut(KEYS * padded(size));
        let (scores, space) = space.split_at_mut(KEYS * QUERIES);
        let (out, space) = space.split_at_mut(QUERIES * padded(size));
        let (most, space) = space.split_at_mut(QUERIES);
        let (sums, factors) = space.split_at_mut(QUERIES);
        Self { queries, keys, values, scores, out, most, sums, factors }
    }
}

struct Block<'a, E> {
    shape: Shape,
    place: Place,
    qkv: &'a [E],
    out: HeadRows<'a, E>,
    lse: RowNumbers<'a>,
    mask: Option<HeadMask>,
    space: &'a mut [f32],
}

impl<E: Element> Kernel for Block<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        let size = self.shape.size;
        let at = (self.place.sequence, self.place.head);
        let [queries, keys, values] =
            std::array::from_fn(|part| HeadOf::new(self.qkv, self.shape, at, (part, 3)));
        let mut tiles = Tiles::new(self.space, size);

        // The out tile is still free; its (Q, D) form takes the queries before they turn.
        tiles.out.fill(0.0);
        queries.load(simd, self.place.rows.clone(), Some(self.shape.scale()), tiles.out);
        to_lanes(simd, tiles.out, tiles.queries);
        tiles.out.fill(0.0);
        tiles.most.fill(f32::NEG_INFINITY);
        tiles.sums.fill(0.0);

        for first in (0..self.place.rows.end).step_by(KEYS) {
            let rows = first..self.place.rows.end.min(first + KEYS);
            let causal = Causal { keys: rows.len(), is_diagonal: first == self.place.rows.start };
            keys.load(simd, rows.clone(), None, tiles.keys);
            values.load(simd, rows, None, tiles.values);
            tiles.score(simd, causal, size);
            tiles.exponentiate(simd, causal);
            if let Some(mask) = &self.mask {
                tiles.drop_out(simd, causal, mask, (self.place.rows.start, first));
            }
            tiles.add_values(simd, causal, size);
        }

        for (lse, (most, sum)) in self.lse.get().iter_mut().zip(tiles.most.iter().zip(&*tiles.sums))
        {
            *lse = most + sum.ln();
        }
        tiles.sums.iter_mut().for_each(|sum| *sum = 1.0 / *sum);
        for row in tiles.out.chunks_exact_mut(QUERIES) {
            row.iter_mut().zip(&*tiles.sums).for_each(|(out, inverse)| *out *= inverse);
        }
        from_lanes(simd, tiles.out, tiles.queries);
        for (row, tile) in self.place.rows.zip(tiles.queries.chunks_exact(padded(size))) {
            E::narrow_with(simd, &tile[..size], self.out.row(row));
        }
    }
}

impl Tiles<'_> {
    /// `scores = keys · queries`
    #[inline(always)]
    fn score<S: Simd>(&mut self, simd: S, causal: Causal, size: usize) {
        let panel = Causal::panel(simd);
        for query in (0..QUERIES).step_by(panel) {
            simd.run(Product {
                a: A { data: self.keys, row: padded(size), depth: 1 },
                b: &self.queries[query..],
                b_stride: QUERIES,
                c: &mut self.scores[query..],
                c_stride: QUERIES,
                rows: causal.keys_of_panel(simd, query),
                columns: panel,
                depth: size,
                sum: Sum::New,
            });
        }
    }

    /// `scores = exp(scores - m)` with a new `m`; `l` and `out` scaled to it, `l` added to.
    #[inline(always)]
    fn exponentiate<S: Simd>(&mut self, simd: S, causal: Causal) {
        self.factors.copy_from_slice(self.most);
        for key in 0..causal.keys {
            let row = &mut self.scores[key * QUERIES..][..QUERIES];
            if causal.is_diagonal {
                row[causal.first_query(simd, key)..key].fill(f32::NEG_INFINITY);
            }
            let first = causal.first_query(simd, key);
            for (most, score) in self.most[first..].iter_mut().zip(&row[first..]) {
                *most = if *score > *most { *score } else { *most };
            }
        }
        for (factor, most) in self.factors.iter_mut().zip(&*self.most) {
            *factor = exp(simd, *factor - most);
        }
        if self.factors.iter().any(|&factor| factor < 1.0) {
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
                *score = exp(simd, *score - most);
                *sum += *score;
            }
        }
    }

    #[inline(always)]
    fn drop_out<S: Simd>(
        &mut self,
        simd: S,
        causal: Causal,
        mask: &HeadMask,
        (query, key): (usize, usize),
    ) {
        for j in 0..causal.keys {
            let first = causal.first_query(simd, j);
            let row = &mut self.scores[j * QUERIES..][first..QUERIES];
            let factors = &mut self.factors[first..];
            mask.factors(query + first, key + j, factors);
            row.iter_mut().zip(factors).for_each(|(score, factor)| *score *= *factor);
        }
    }

    /// `out += values · scores`
    #[inline(always)]
    fn add_values<S: Simd>(&mut self, simd: S, causal: Causal, size: usize) {
        let panel = Causal::panel(simd);
        for query in (0..QUERIES).step_by(panel) {
            simd.run(Product {
                a: A { data: self.values, row: 1, depth: padded(size) },
                b: &self.scores[query..],
                b_stride: QUERIES,
                c: &mut self.out[query..],
                c_stride: QUERIES,
                rows: size,
                columns: panel,
                depth: causal.keys_of_panel(simd, query),
                sum: Sum::Continued,
            });
        }
    }
}
