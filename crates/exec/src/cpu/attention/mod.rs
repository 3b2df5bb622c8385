//! Causal attention, tile by tile: the full score matrix of a sequence is never stored.
//!
//! ```text
//! s = q · kᵀ / √D      p = softmax(s)      out = drop(p) · v      lse = ln Σ exp(s)
//! ```
//!
//! Tiles of scores are transposed, (keys, queries): the lanes of a vector are queries, so the
//! softmax over keys needs no sum across lanes, and neither keys nor values have to be
//! transposed for the products around it.
//!
//! A forward task is a block of queries of one head. A backward task is one key/value head with
//! all its query heads, so that no sum is shared between tasks.
//!
//! Definition: `reference::attention`.

mod heads;
mod tile;
mod factors;
mod pairs;
mod singles;
mod backward;
mod cached;
mod forward;
#[cfg(test)]
mod tests;

use fitgpt_program::Heads;

pub(super) use self::{
    backward::{AttentionBackward, backward, scratch as backward_scratch},
    cached::{CacheStore, CachedAttention, cached, scratch as cached_scratch, store},
    forward::{AttentionForward, forward, scratch as forward_scratch},
};

/// The sizes of an attention op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AttentionShape {
    /// Sequences.
    pub(super) batch: usize,
    /// Rows of a sequence in memory.
    pub(super) seq: usize,
    /// Rows of each sequence that are in use, from the first.
    pub(super) used: usize,
    /// Query heads.
    pub(super) heads: usize,
    /// Key/value heads.
    pub(super) kv_heads: usize,
    /// Channels of one head.
    pub(super) size: usize,
}

impl AttentionShape {
    pub(super) fn new(batch: usize, seq: usize, used: usize, heads: Heads) -> Self {
        let (query, kv) = (heads.query as usize, heads.kv as usize);
        assert!(
            kv > 0 && query.is_multiple_of(kv),
            "{kv} key heads do not divide {query} query heads"
        );
        Self { batch, seq, used, heads: query, kv_heads: kv, size: heads.channels as usize }
    }

    /// Channels of all query heads.
    fn channels(self) -> usize {
        self.heads * self.size
    }

    /// Channels of all keys, and of all values.
    fn kv_channels(self) -> usize {
        self.kv_heads * self.size
    }

    /// Query heads of each key/value head.
    fn group(self) -> usize {
        self.heads / self.kv_heads
    }

    /// The factor of a score.
    fn scale(self) -> f32 {
        1.0 / (self.size as f32).sqrt()
    }
}

/// Rows of queries, keys or values of all heads, read-only.
#[derive(Clone, Copy, Debug)]
struct QkvRows<'a, E> {
    data: &'a [E],
    /// Distance between rows.
    stride: usize,
    /// The first head's first column.
    column: usize,
}

impl<'a, E> QkvRows<'a, E> {
    /// `channels` columns of row `row`, from the first head on.
    fn row(&self, row: usize, channels: usize) -> &'a [E] {
        &self.data[row * self.stride + self.column..][..channels]
    }
}

/// Queries, keys and values, in one tensor or in three.
#[derive(Clone, Copy, Debug)]
pub(super) struct QkvViews<'a, E> {
    queries: QkvRows<'a, E>,
    keys: QkvRows<'a, E>,
    values: QkvRows<'a, E>,
}

impl<'a, E> QkvViews<'a, E> {
    /// All three next to each other in the rows of `data`.
    pub(super) fn joined(data: &'a [E], shape: AttentionShape) -> Self {
        let (queries, keys) = (shape.channels(), shape.kv_channels());
        let stride = queries + 2 * keys;
        assert!(data.len() >= shape.batch * shape.seq * stride);
        let [queries, keys, values] =
            [0, queries, queries + keys].map(|column| QkvRows { data, stride, column });
        Self { queries, keys, values }
    }

    /// Queries, keys and values in separate slices.
    pub(super) fn split(parts: [&'a [E]; 3], shape: AttentionShape) -> Self {
        let widths = [shape.channels(), shape.kv_channels(), shape.kv_channels()];
        let rows = shape.batch * shape.seq;
        let [queries, keys, values] = std::array::from_fn(|i| {
            assert!(parts[i].len() >= rows * widths[i]);
            QkvRows { data: parts[i], stride: widths[i], column: 0 }
        });
        Self { queries, keys, values }
    }
}

/// Outputs for the gradients of queries, keys and values.
#[derive(Debug)]
pub(super) enum QkvMut<'a, E> {
    Joined(&'a mut [E]),
    Split([&'a mut [E]; 3]),
}
