//! Attention of one token a sequence to all that its cache holds.
//!
//! Work of a few microseconds: one dot product a key, one task a head.

use super::{
    Shape,
    heads::{Columns, HeadRows, Place, Split},
    tile::{HeadOf, ROWS_AHEAD},
};
use crate::{
    arena::Stored,
    cpu::{
        Machine,
        exp::exp_below,
        isa::{Kernel, Simd},
        parts::PerWorker,
        rows::{self, wide},
    },
    element::Element,
};

/// Floats of scratch: for each worker the scores of all keys, and three rows of a head.
pub(in crate::cpu) fn scratch(capacity: usize, size: usize, threads: usize) -> usize {
    (capacity + 3 * size) * threads
}

/// Operands of [`store`].
pub(in crate::cpu) struct Store<'a, E> {
    /// Rows in use of one sequence: q, k and v side by side.
    pub(in crate::cpu) qkv: &'a [E],
    /// The sequence's cache.
    pub(in crate::cpu) keys: &'a mut [E],
    pub(in crate::cpu) values: &'a mut [E],
    pub(in crate::cpu) channels: usize,
}

/// Copies keys and values into the first rows of a cache.
pub(in crate::cpu) fn store<E: Element>(args: Store<'_, E>) {
    let Store { qkv, keys, values, channels } = args;
    assert!(qkv.len() <= 3 * keys.len(), "the cache holds the whole prompt");
    let cache = keys.chunks_exact_mut(channels).zip(values.chunks_exact_mut(channels));
    for (row, (key, value)) in qkv.chunks_exact(3 * channels).zip(cache) {
        key.copy_from_slice(&row[channels..2 * channels]);
        value.copy_from_slice(&row[2 * channels..]);
    }
}

/// Operands of [`cached`].
pub(in crate::cpu) struct Cached<'a, E> {
    /// `batch` sequences of one row each; `seq` is the cache's capacity, `used` what it holds
    /// before this token.
    pub(in crate::cpu) shape: Shape,
    pub(in crate::cpu) qkv: &'a [E],
    pub(in crate::cpu) keys: &'a mut [E],
    pub(in crate::cpu) values: &'a mut [E],
    pub(in crate::cpu) out: &'a mut [E],
    pub(in crate::cpu) scratch: &'a mut [f32],
}

/// Appends every sequence's key and value, then attends to all of them.
pub(in crate::cpu) fn cached<E: Element + Stored>(machine: &mut Machine, args: Cached<'_, E>) {
    let Cached { shape, qkv, keys, values, out, scratch } = args;
    let Shape { batch, seq, used, .. } = shape;
    let channels = shape.channels();
    assert!(used < seq, "the cache has room for one token more");
    assert_eq!(qkv.len(), batch * 3 * channels);
    assert_eq!((keys.len(), values.len()), (batch * seq * channels, batch * seq * channels));
    for (sequence, row) in qkv.chunks_exact(3 * channels).enumerate() {
        let at = (sequence * seq + used) * channels;
        keys[at..][..channels].copy_from_slice(&row[channels..2 * channels]);
        values[at..][..channels].copy_from_slice(&row[2 * channels..]);
    }
    let (keys, values) = (&*keys, &*values);
    let one = Shape { seq: 1, used: 1, ..shape };
    let split = Split { shape: one, block: 1 };
    let parts = (Columns::<E, 1>::new(out, split), PerWorker::new(scratch, seq + 3 * shape.size));
    let isa = machine.isa;
    machine.pool.for_each(parts, |task, ([out], space)| {
        let Place { sequence, head, .. } = split.place(task.index);
        let at = (sequence, head);
        isa.run(Head {
            query: HeadOf::new(qkv, one, at, (0, 3)),
            keys: HeadOf::new(keys, shape, at, (0, 1)),
            values: HeadOf::new(values, shape, at, (0, 1)),
            count: used + 1,
            scale: shape.scale(),
            out,
            space,
        });
    });
}

struct Head<'a, E> {
    query: HeadOf<'a, E>,
    keys: HeadOf<'a, E>,
    values: HeadOf<'a, E>,
    count: usize,
    scale: f32,
    out: HeadRows<'a, E>,
    space: &'a mut [f32],
}

impl<E: Element> Kernel for Head<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        let size = self.query.size;
        let (sum, space) = self.space.split_at_mut(size);
        let (query, space) = space.split_at_mut(size);
        let (row, scores) = space.split_at_mut(size);
        let scores = &mut scores[..self.count];
        E::widen_with(simd, self.query.row(0), query);
        for (key, score) in scores.iter_mut().enumerate() {
            self.keys.prefetch(simd, key + ROWS_AHEAD);
            *score = rows::dot(simd, query, wide(simd, self.keys.row(key), row)) * self.scale;
        }
        let most = rows::largest(simd, scores);
        for score in scores.iter_mut() {
            *score = exp_below(simd, *score - most);
        }
        let inverse = 1.0 / rows::sum(simd, scores);
        sum.fill(0.0);
        for (key, score) in scores.iter().enumerate() {
            self.values.prefetch(simd, key + ROWS_AHEAD);
            let value = wide(simd, self.values.row(key), row);
            for (sum, value) in sum.iter_mut().zip(value) {
                *sum = simd.fma1(*score, *value, *sum);
            }
        }
        for sum in sum.iter_mut() {
            *sum *= inverse;
        }
        E::narrow_with(simd, sum, self.out.row(0));
    }
}
