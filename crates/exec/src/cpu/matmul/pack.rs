//! Packs operands into panels: numbers in the order in which the register tile reads them, each an
//! f32 factor or a pair of bfloat16 factors.

use std::ops::Range;

use super::slots::{Pairs, Singles};
use crate::cpu::{
    element::Element,
    isa::{Kernel, Simd, Strided, TransposeSize},
    product::LeftFactor,
};

/// A matrix in a slice; its rows or its columns are contiguous.
#[derive(Debug)]
pub struct View<'a, E> {
    data: &'a [E],
    rows: usize,
    columns: usize,
    row_stride: usize,
    column_stride: usize,
}

impl<E> Clone for View<'_, E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E> Copy for View<'_, E> {}

impl<'a, E> View<'a, E> {
    /// All of `data` as a row-major matrix.
    pub fn new(data: &'a [E], rows: usize, columns: usize) -> Self {
        assert_eq!(data.len(), rows * columns, "not {rows} by {columns}");
        Self::strided(data, rows, columns, columns)
    }

    /// A row-major matrix whose rows are `stride` elements apart.
    pub fn strided(data: &'a [E], rows: usize, columns: usize, stride: usize) -> Self {
        assert!(stride >= columns, "rows of {columns} overlap at a stride of {stride}");
        let len = if rows * columns == 0 { 0 } else { (rows - 1) * stride + columns };
        assert!(data.len() >= len, "{rows} by {columns}, {stride} apart, in {}", data.len());
        Self { data, rows, columns, row_stride: stride, column_stride: 1 }
    }

    /// The transposed matrix, over the same data.
    #[must_use]
    pub fn transposed(self) -> Self {
        Self {
            data: self.data,
            rows: self.columns,
            columns: self.rows,
            row_stride: self.column_stride,
            column_stride: self.row_stride,
        }
    }

    /// How many rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// How many columns.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// One element.
    pub fn at(&self, row: usize, column: usize) -> E
    where
        E: Copy,
    {
        assert!(row < self.rows && column < self.columns);
        self.data[row * self.row_stride + column * self.column_stride]
    }
}

impl<'a, E: Element> View<'a, E> {
    /// The matrix from row `row` and column `column` on, for use without packing. Only if it is
    /// f32, row-major, and its rows are so short that a few of them stay in the L1 cache with a
    /// panel of `b`.
    pub(super) fn in_place(self, row: usize, column: usize) -> Option<LeftFactor<'a>> {
        let data = E::as_f32(self.data)?;
        (self.column_stride == 1 && self.row_stride <= SHORT_ROW).then(|| LeftFactor {
            data: &data[row * self.row_stride + column..],
            row: self.row_stride,
            depth: 1,
        })
    }
}

/// The longest row that is used without packing.
const SHORT_ROW: usize = 512;

/// Depth that is widened to f32 at a time.
const STRIP: usize = 64;
/// The widest panel.
const WIDTH_MAX: usize = 32;

/// Packs rows `vectors` of `from` into panels. A panel holds, for each `k` of `depth`, that slot
/// of its rows, padded with zeros after the last row.
pub(super) struct PanelPacking<'a, E, P> {
    pub(super) slots: P,
    pub(super) from: View<'a, E>,
    pub(super) vectors: Range<usize>,
    /// Slots of each row.
    pub(super) depth: Range<usize>,
    pub(super) side: Side,
    pub(super) to: &'a mut [f32],
}

/// Which operand the panels are for, which decides their width.
#[derive(Clone, Copy)]
pub(super) enum Side {
    A,
    /// The packed rows are columns of `b`.
    B,
}

/// How slots are packed.
pub(super) trait PackedSlots: Copy + Send + Sync + 'static {
    /// Whether a view can be used without packing.
    const IN_PLACE: bool;

    /// Packs panels of `width` rows. Mark it `#[inline(always)]`.
    fn pack<S: Simd, E: Element>(self, simd: S, packing: PanelPacking<'_, E, Self>, width: usize);
}

impl PackedSlots for Singles {
    const IN_PLACE: bool = true;

    #[inline(always)]
    fn pack<S: Simd, E: Element>(self, simd: S, packing: PanelPacking<'_, E, Self>, width: usize) {
        pack_singles(simd, packing, width);
    }
}

impl PackedSlots for Pairs {
    const IN_PLACE: bool = false;

    #[inline(always)]
    fn pack<S: Simd, E: Element>(self, simd: S, packing: PanelPacking<'_, E, Self>, width: usize) {
        pack_pairs(simd, packing, width);
    }
}

impl<E: Element, P: PackedSlots> Kernel for PanelPacking<'_, E, P> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        // Two arms, so that the width is a constant in each.
        match self.side {
            Side::A => self.slots.pack(simd, self, S::TILE_ROWS),
            Side::B => self.slots.pack(simd, self, S::TILE_VECTORS * S::LANES),
        }
    }
}

#[inline(always)]
fn pack_singles<S: Simd, E: Element>(simd: S, packing: PanelPacking<'_, E, Singles>, width: usize) {
    let PanelPacking { from, vectors, depth, to, .. } = packing;
    assert!(width <= WIDTH_MAX && vectors.end <= from.rows && depth.end <= from.columns);
    assert_eq!(to.len(), vectors.len().next_multiple_of(width) * depth.len());
    if from.column_stride == 1 {
        let panels = to.chunks_exact_mut(width * depth.len());
        for (start, to) in vectors.clone().step_by(width).zip(panels) {
            let panel = start..vectors.end.min(start + width);
            pack_along_depth(simd, from, panel, depth.clone(), width, to);
        }
    } else {
        pack_across_depth(simd, from, vectors, depth, width, to);
    }
}

#[inline(always)]
fn pack_pairs<S: Simd, E: Element>(simd: S, packing: PanelPacking<'_, E, Pairs>, width: usize) {
    let PanelPacking { from, vectors, depth, to, .. } = packing;
    assert!(width <= WIDTH_MAX && vectors.end <= from.rows);
    assert!(depth.end <= from.columns.div_ceil(2));
    assert_eq!(to.len(), vectors.len().next_multiple_of(width) * depth.len());
    if from.column_stride == 1 {
        let panels = to.chunks_exact_mut(width * depth.len());
        for (start, to) in vectors.clone().step_by(width).zip(panels) {
            let panel = start..vectors.end.min(start + width);
            pack_pairs_along_depth(simd, from, panel, depth.clone(), width, to);
        }
    } else {
        pack_pairs_across_depth(simd, from, vectors, depth, width, to);
    }
}

/// One panel whose rows are contiguous along the depth. Stored pairs are transposed like f32.
#[inline(always)]
fn pack_pairs_along_depth<S: Simd, E: Element>(
    simd: S,
    from: View<'_, E>,
    panel: Range<usize>,
    depth: Range<usize>,
    width: usize,
    to: &mut [f32],
) {
    if panel.len() == width && from.row_stride.is_multiple_of(2) && 2 * depth.end <= from.columns {
        let first = panel.start * from.row_stride + 2 * depth.start;
        let end = (panel.end - 1) * from.row_stride + 2 * depth.end;
        if let Some(data) = E::as_pairs(&from.data[first..end]) {
            transpose(simd, Strided { data, stride: from.row_stride / 2 }, width, to);
            return;
        }
    }
    let mut slots = [0.0; WIDTH_MAX * STRIP];
    for (start, to) in depth.clone().step_by(STRIP).zip(to.chunks_mut(width * STRIP)) {
        let len = STRIP.min(depth.end - start);
        for (row, slots) in panel.clone().zip(slots.chunks_exact_mut(STRIP)) {
            let numbers = 2 * start..from.columns.min(2 * (start + len));
            let row = &from.data[row * from.row_stride..][numbers];
            E::pair_neighbours_with(simd, row, &mut slots[..len]);
        }
        transpose(simd, Strided { data: &slots, stride: STRIP }, width, to);
    }
}

/// Panels whose columns are contiguous across the depth: two rows are woven into one of pairs.
#[inline(always)]
fn pack_pairs_across_depth<S: Simd, E: Element>(
    simd: S,
    from: View<'_, E>,
    vectors: Range<usize>,
    depth: Range<usize>,
    width: usize,
    to: &mut [f32],
) {
    let panel_len = width * depth.len();
    let zeros = [E::default(); RUN];
    let mut slots = [0.0; RUN * STRIP_ACROSS];
    for start in vectors.clone().step_by(RUN) {
        let run = RUN.min(vectors.end - start);
        for strip in depth.clone().step_by(STRIP_ACROSS) {
            let len = STRIP_ACROSS.min(depth.end - strip);
            for (k, slots) in (strip..).zip(slots.chunks_exact_mut(RUN)).take(len) {
                let row = |k: usize| &from.data[k * from.column_stride + start..][..run];
                let high = if 2 * k + 1 < from.columns { row(2 * k + 1) } else { &zeros[..run] };
                simd.prefetch(from.data, (2 * k + AHEAD) * from.column_stride + start);
                E::pair_with(simd, row(2 * k), high, &mut slots[..run]);
            }
            for v in (0..run).step_by(width) {
                let panel = (start - vectors.start + v) / width;
                let offset = panel * panel_len + (strip - depth.start) * width;
                let rows = Strided { data: &slots[v..], stride: RUN };
                copy(simd, rows, width.min(run - v), width, &mut to[offset..][..len * width]);
            }
        }
    }
}

/// Packs one panel whose rows are contiguous along the depth, by transposing.
#[inline(always)]
fn pack_along_depth<S: Simd, E: Element>(
    simd: S,
    from: View<'_, E>,
    panel: Range<usize>,
    depth: Range<usize>,
    width: usize,
    to: &mut [f32],
) {
    let first = panel.start * from.row_stride + depth.start;
    if let (Some(data), true) = (E::as_f32(&from.data[first..]), panel.len() == width) {
        transpose(simd, Strided { data, stride: from.row_stride }, width, to);
        return;
    }
    let mut wide = [0.0; WIDTH_MAX * STRIP];
    for (start, to) in depth.clone().step_by(STRIP).zip(to.chunks_mut(width * STRIP)) {
        let len = STRIP.min(depth.end - start);
        for (row, wide) in panel.clone().zip(wide.chunks_exact_mut(STRIP)) {
            let from = &from.data[row * from.row_stride + start..][..len];
            E::widen_with(simd, from, &mut wide[..len]);
        }
        transpose(simd, Strided { data: &wide, stride: STRIP }, width, to);
    }
}

/// `to[k, v] = rows[v, k]` for `v < width` and as many `k` as `to` has.
#[inline(always)]
fn transpose<S: Simd>(simd: S, rows: Strided<&[f32]>, width: usize, to: &mut [f32]) {
    // Eight rows at a time: their cache lines stay in the cache until they are used, however far
    // apart they are.
    for v in (0..width).step_by(8) {
        let block = TransposeSize { vectors: 8.min(width - v), depth: to.len() / width };
        let from = Strided { data: &rows.data[v * rows.stride..], stride: rows.stride };
        simd.transpose(block, from, Strided { data: &mut to[v..], stride: width });
    }
}

/// Packs panels whose columns are contiguous across the depth, by copying.
#[inline(always)]
fn pack_across_depth<S: Simd, E: Element>(
    simd: S,
    from: View<'_, E>,
    vectors: Range<usize>,
    depth: Range<usize>,
    width: usize,
    to: &mut [f32],
) {
    let panel_len = width * depth.len();
    if let Some(data) = E::as_f32(from.data) {
        // All panels of a few `k` before the next `k`: panels share cache lines of the matrix.
        for strip in depth.clone().step_by(STRIP_COPIED) {
            let len = STRIP_COPIED.min(depth.end - strip);
            let data = &data[strip * from.column_stride..];
            let offset = (strip - depth.start) * width;
            for (start, to) in vectors.clone().step_by(width).zip(to.chunks_exact_mut(panel_len)) {
                let rows = Strided { data: &data[start..], stride: from.column_stride };
                let to = &mut to[offset..][..len * width];
                copy(simd, rows, width.min(vectors.end - start), width, to);
            }
        }
        return;
    }
    let mut wide = [0.0; RUN * STRIP_ACROSS];
    for start in vectors.clone().step_by(RUN) {
        let run = RUN.min(vectors.end - start);
        for strip in depth.clone().step_by(STRIP_ACROSS) {
            let len = STRIP_ACROSS.min(depth.end - strip);
            for (k, wide) in (strip..).zip(wide.chunks_exact_mut(RUN)).take(len) {
                let from = &from.data[k * from.column_stride + start..][..run];
                E::widen_with(simd, from, &mut wide[..run]);
            }
            for v in (0..run).step_by(width) {
                let panel = (start - vectors.start + v) / width;
                let offset = panel * panel_len + (strip - depth.start) * width;
                let rows = Strided { data: &wide[v..], stride: RUN };
                copy(simd, rows, width.min(run - v), width, &mut to[offset..][..len * width]);
            }
        }
    }
}

/// A multiple of every width.
const RUN: usize = 96;
/// Depth that is widened to f32 at a time.
const STRIP_ACROSS: usize = 32;
/// Depth that is copied at a time: so few rows that their cache lines stay in the cache, however far
/// apart they are.
const STRIP_COPIED: usize = 8;

/// Rows to prefetch ahead: they are so far apart that the hardware does not predict them.
const AHEAD: usize = 16;

/// `to[k, v] = rows[k, v]` for `v < filled`, zero up to `width`, and as many `k` as `to` has.
#[inline(always)]
fn copy<S: Simd>(simd: S, rows: Strided<&[f32]>, filled: usize, width: usize, to: &mut [f32]) {
    for (k, to) in to.chunks_exact_mut(width).enumerate() {
        let from = &rows.data[k * rows.stride..];
        simd.prefetch(from, AHEAD * rows.stride);
        if filled == width {
            to.copy_from_slice(&from[..width]);
        } else {
            to[..filled].copy_from_slice(&from[..filled]);
            to[filled..].fill(0.0);
        }
    }
}
