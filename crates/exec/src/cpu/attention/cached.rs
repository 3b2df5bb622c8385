//! Attention of one new token in each sequence to its cached keys and values.
//!
//! A few microseconds of work: one dot product for each key, one task for each head.

use super::{
    AttentionShape, QkvRows, QkvViews,
    heads::{Columns, HeadRows, HeadSplit, TaskRows},
    tile::{HeadView, ROWS_AHEAD},
};
use crate::{
    arena::Stored,
    cpu::{
        Machine,
        element::Element,
        exp::exp_below,
        isa::{Kernel, Simd},
        parts::PerWorker,
        rows::{self, wide},
    },
};

/// Floats of scratch: for each worker the scores of all keys, and three rows of a head.
pub(in crate::cpu) fn scratch(capacity: usize, size: usize, threads: usize) -> usize {
    (capacity + 3 * size) * threads
}

/// Operands of [`store`].
pub(in crate::cpu) struct CacheStore<'a, E> {
    /// One sequence, with the number of rows in use.
    pub(in crate::cpu) shape: AttentionShape,
    pub(in crate::cpu) qkv: QkvViews<'a, E>,
    /// The sequence's cache.
    pub(in crate::cpu) keys: &'a mut [E],
    pub(in crate::cpu) values: &'a mut [E],
}

/// Copies keys and values into the first rows of a cache.
pub(in crate::cpu) fn store<E: Element>(args: CacheStore<'_, E>) {
    let CacheStore { shape, qkv, keys, values } = args;
    let channels = shape.kv_channels();
    assert!(shape.used * channels <= keys.len(), "the prompt is longer than the cache");
    let cache = keys.chunks_exact_mut(channels).zip(values.chunks_exact_mut(channels));
    for (row, (key, value)) in (0..shape.used).zip(cache) {
        key.copy_from_slice(qkv.keys.row(row, channels));
        value.copy_from_slice(qkv.values.row(row, channels));
    }
}

/// Operands of [`cached`].
pub(in crate::cpu) struct CachedAttention<'a, E> {
    /// `batch` sequences of one row each; `seq` is the cache's capacity, `used` its length before
    /// this token.
    pub(in crate::cpu) shape: AttentionShape,
    pub(in crate::cpu) qkv: QkvViews<'a, E>,
    pub(in crate::cpu) keys: &'a mut [E],
    pub(in crate::cpu) values: &'a mut [E],
    pub(in crate::cpu) out: &'a mut [E],
    pub(in crate::cpu) scratch: &'a mut [f32],
}

/// Appends every sequence's key and value, then attends to all of them.
pub(in crate::cpu) fn cached<E: Element + Stored>(
    machine: &mut Machine,
    args: CachedAttention<'_, E>,
) {
    let CachedAttention { shape, qkv, keys, values, out, scratch } = args;
    let AttentionShape { batch, seq, used, .. } = shape;
    let channels = shape.kv_channels();
    assert!(used < seq, "the cache is full");
    assert_eq!((keys.len(), values.len()), (batch * seq * channels, batch * seq * channels));
    for sequence in 0..batch {
        let at = (sequence * seq + used) * channels;
        keys[at..][..channels].copy_from_slice(qkv.keys.row(sequence, channels));
        values[at..][..channels].copy_from_slice(qkv.values.row(sequence, channels));
    }
    let [keys, values] =
        [&*keys, &*values].map(|data| QkvRows { data, stride: channels, column: 0 });
    let one = AttentionShape { seq: 1, used: 1, ..shape };
    let split = HeadSplit { shape: one, block: 1 };
    let parts = (Columns::of_heads(out, split), PerWorker::new(scratch, seq + 3 * shape.size));
    let isa = machine.isa;
    machine.pool.for_each(parts, |task, ([out], space)| {
        let TaskRows { sequence, head, .. } = split.task_rows(task.index);
        let kv = (sequence, head / shape.group());
        isa.run(CachedHead {
            query: HeadView::new(qkv.queries, 1, (sequence, head), shape.size),
            keys: HeadView::new(keys, seq, kv, shape.size),
            values: HeadView::new(values, seq, kv, shape.size),
            count: used + 1,
            scale: shape.scale(),
            out,
            space,
        });
    });
}

struct CachedHead<'a, E> {
    query: HeadView<'a, E>,
    keys: HeadView<'a, E>,
    values: HeadView<'a, E>,
    count: usize,
    scale: f32,
    out: HeadRows<'a, E>,
    space: &'a mut [f32],
}

impl<E: Element> Kernel for CachedHead<'_, E> {
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
