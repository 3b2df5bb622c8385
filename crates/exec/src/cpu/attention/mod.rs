//! Causal attention, tile by tile: the scores of a sequence never exist whole.
//!
//! ```text
//! s = q · kᵀ / √D      p = softmax(s)      out = drop(p) · v      lse = ln Σ exp(s)
//! ```
//!
//! Tiles of scores lie transposed, (keys, queries): the lanes of a vector are queries, so the
//! softmax over keys needs no sum across lanes, and neither keys nor values have to be
//! transposed for the products around it.
//!
//! A task of the forward is a block of queries of one head, a task of the backward one head.
//!
//! Definition: `reference`. This room may only be faster.

mod backward;
mod cached;
mod forward;
mod heads;
#[cfg(test)]
mod tests;
mod tile;

pub(super) use self::{
    backward::{Backward, backward, scratch as backward_scratch},
    cached::{Cached, Store, cached, scratch as cached_scratch, store},
    forward::{Forward, forward, scratch as forward_scratch},
};

/// The sizes of an attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// Sequences.
    pub(super) batch: usize,
    /// Rows from one sequence to the next.
    pub(super) seq: usize,
    /// Rows of each sequence that are in use, from the first.
    pub(super) used: usize,
    /// Heads.
    pub(super) heads: usize,
    /// Channels of one head.
    pub(super) size: usize,
}

impl Shape {
    /// Channels of all heads.
    fn channels(self) -> usize {
        self.heads * self.size
    }

    /// What a score is multiplied by.
    fn scale(self) -> f32 {
        1.0 / (self.size as f32).sqrt()
    }
}
