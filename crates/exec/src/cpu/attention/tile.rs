//! Tiles of queries, keys and values as f32 in scratch.

use std::ops::Range;

use crate::{
    cpu::{
        attention::QkvRows,
        element::Element,
        isa::{LANES_MAX, Simd, Strided, TransposeSize},
    },
    random::Mask,
};

/// Queries of a tile, the lanes of its scores; a multiple of the widest product panel.
pub(super) const QUERIES: usize = 64;
/// Keys of a tile.
pub(super) const KEYS: usize = 64;

/// Bytes of a cache line.
const LINE_BYTES: usize = 64;
/// How many rows ahead to prefetch: rows are so far apart that the hardware does not predict them.
pub(super) const ROWS_AHEAD: usize = 8;

/// Channels of a head in a tile: rounded up to whole vectors and padded with zeros.
pub(super) const fn padded(size: usize) -> usize {
    size.next_multiple_of(LANES_MAX)
}

/// The columns of one head in the rows of one sequence, read-only.
#[derive(Clone, Copy)]
pub(super) struct HeadView<'a, E> {
    /// The sequence, from its first row.
    pub(super) rows: &'a [E],
    /// Distance between rows.
    pub(super) stride: usize,
    /// The head's first column.
    pub(super) column: usize,
    /// Its columns.
    pub(super) size: usize,
}

impl<'a, E: Element> HeadView<'a, E> {
    /// The columns of one head in the rows of one sequence of `seq` rows.
    pub(super) fn new(
        source: QkvRows<'a, E>,
        seq: usize,
        (sequence, head): (usize, usize),
        size: usize,
    ) -> Self {
        let QkvRows { data, stride, column } = source;
        let rows = &data[sequence * seq * stride..][..seq * stride];
        Self { rows, stride, column: column + head * size, size }
    }

    #[inline(always)]
    pub(super) fn row(&self, row: usize) -> &'a [E] {
        &self.rows[row * self.stride + self.column..][..self.size]
    }

    /// Prefetches row `row`, which may be past the end.
    #[inline(always)]
    pub(super) fn prefetch<S: Simd>(&self, simd: S, row: usize) {
        let first = row * self.stride + self.column;
        for column in (0..self.size).step_by(LINE_BYTES / size_of::<E>()) {
            simd.prefetch(self.rows, first + column);
        }
    }

    /// Copies `rows`, times `scale`, into `tile`, whose rows have `padded(size)` columns.
    #[inline(always)]
    pub(super) fn load<S: Simd>(
        &self,
        simd: S,
        rows: Range<usize>,
        scale: Option<f32>,
        tile: &mut [f32],
    ) {
        let stride = padded(self.size);
        for (tile, row) in tile.chunks_exact_mut(stride).zip(rows) {
            self.prefetch(simd, row + ROWS_AHEAD);
            let (tile, rest) = tile.split_at_mut(self.size);
            match (scale, E::as_f32(self.row(row))) {
                (None, _) => E::widen_with(simd, self.row(row), tile),
                (Some(scale), Some(row)) => {
                    tile.iter_mut().zip(row).for_each(|(x, from)| *x = from * scale);
                }
                (Some(scale), None) => {
                    E::widen_with(simd, self.row(row), tile);
                    for x in tile.iter_mut() {
                        *x *= scale;
                    }
                }
            }
            rest.fill(0.0);
        }
    }
}

/// (queries, padded channels) to (padded channels, queries).
#[inline(always)]
pub(super) fn to_lanes<S: Simd>(simd: S, tile: &[f32], lanes: &mut [f32]) {
    let stride = tile.len() / QUERIES;
    for query in (0..QUERIES).step_by(8) {
        let block = TransposeSize { vectors: 8, depth: stride };
        let from = Strided { data: &tile[query * stride..], stride };
        simd.transpose(block, from, Strided { data: &mut lanes[query..], stride: QUERIES });
    }
}

/// (padded channels, queries) to (queries, padded channels).
#[inline(always)]
pub(super) fn from_lanes<S: Simd>(simd: S, lanes: &[f32], tile: &mut [f32]) {
    let stride = tile.len() / QUERIES;
    for channel in (0..stride).step_by(8) {
        let block = TransposeSize { vectors: 8, depth: QUERIES };
        let from = Strided { data: &lanes[channel * QUERIES..], stride: QUERIES };
        simd.transpose(block, from, Strided { data: &mut tile[channel..], stride });
    }
}

/// Which keys of a tile are visible to each panel of queries.
#[derive(Clone, Copy)]
pub(super) struct CausalTile {
    /// The tile's first key.
    pub(super) first: usize,
    /// Keys in the tile.
    pub(super) keys: usize,
    /// Whether the tile's first key is its first query: then query `j` sees keys up to `j`.
    pub(super) is_diagonal: bool,
}

impl CausalTile {
    /// Queries of a panel, which a product processes at once.
    #[inline(always)]
    pub(super) fn panel<S: Simd>(_: S) -> usize {
        S::LANES * S::TILE_VECTORS
    }

    /// Keys visible to any query of the panel that starts at `query`.
    #[inline(always)]
    pub(super) fn keys_of_panel<S: Simd>(self, simd: S, query: usize) -> usize {
        if self.is_diagonal { self.keys.min(query + Self::panel(simd)) } else { self.keys }
    }

    /// Keys visible to the panel that contains `query`.
    #[inline(always)]
    pub(super) fn keys_of_query<S: Simd>(self, simd: S, query: usize) -> usize {
        self.keys_of_panel(simd, query / Self::panel(simd) * Self::panel(simd))
    }

    /// The first query of the first panel to which `key` is visible.
    #[inline(always)]
    pub(super) fn first_query<S: Simd>(self, simd: S, key: usize) -> usize {
        if self.is_diagonal { key / Self::panel(simd) * Self::panel(simd) } else { 0 }
    }
}

/// The mask of one head's probabilities.
#[derive(Clone, Copy)]
pub(super) struct HeadMask {
    mask: Mask,
    /// The number of the head's first element.
    first: u32,
    /// Elements of a row of scores.
    row: u32,
}

impl HeadMask {
    /// Elements are numbered `(head · T + i) · T + j`, modulo 2³².
    pub(super) fn new(mask: Mask, head: usize, seq: usize) -> Self {
        let row = seq as u32;
        Self { mask, first: (head as u32).wrapping_mul(row).wrapping_mul(row), row }
    }

    /// Writes the factors of `key` for the queries starting at `query`.
    #[inline(always)]
    pub(super) fn factors(&self, query: usize, key: usize, factors: &mut [f32]) {
        let first = (query as u32).wrapping_mul(self.row).wrapping_add(self.first);
        let first = first.wrapping_add(key as u32);
        for (i, factor) in factors.iter_mut().enumerate() {
            *factor = self.mask.factor(first.wrapping_add((i as u32).wrapping_mul(self.row)));
        }
    }
}
