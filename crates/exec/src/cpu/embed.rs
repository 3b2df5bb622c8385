//! Token embeddings, and learned positions if there are any.
//!
//! ```text
//! out = drop(wte[token] + wpe[position])          tokens: (B, T), out: (B, T, C)
//! ```
//!
//! Backward adds `drop(d_x)` to the rows of both tables. Tokens repeat, so several rows of `d_x`
//! may be added to one row of `d_wte`. A task therefore owns some columns of both tables and takes
//! all rows in order: no locks, no copies, and the same sums for any number of threads.

use std::ops::Range;

use crate::{
    arena::Stored,
    cpu::{
        Machine,
        dropout::Masks,
        element::Element,
        isa::{Kernel, Simd},
        parts::{Blocks, Grid, Tile, Tiles, Tiling},
        rows::{self, block_rows},
    },
};

/// Operands of [`forward`].
pub(super) struct EmbedForward<'a, E> {
    /// Rows in use.
    pub(super) tokens: &'a [u32],
    pub(super) wte: &'a [f32],
    pub(super) wpe: Option<&'a [f32]>,
    pub(super) out: &'a mut [E],
    pub(super) channels: usize,
    pub(super) positions: RowPositions,
    pub(super) masks: Option<Masks<'a>>,
}

/// The positions of rows in their sequences.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowPositions {
    /// The position of a sequence's first row.
    pub(super) first: usize,
    /// Rows of a sequence.
    pub(super) seq: usize,
}

impl RowPositions {
    pub(super) fn of(self, row: usize) -> usize {
        self.first + row % self.seq
    }
}

/// Computes `out` of every token. The data loader has checked that tokens are in the table.
pub(super) fn forward<E: Element + Stored>(machine: &mut Machine, args: EmbedForward<'_, E>) {
    let EmbedForward { tokens, wte, wpe, out, channels, positions, masks } = args;
    assert_eq!(tokens.len() * channels, out.len());
    let block = block_rows(channels);
    let isa = machine.isa;
    machine.pool.for_each(Blocks::new(out, block * channels), |task, out| {
        let first = task.index * block;
        isa.run(EmbedRows { tokens, wte, wpe, out, channels, positions, masks, first });
    });
}

struct EmbedRows<'a, E> {
    tokens: &'a [u32],
    wte: &'a [f32],
    wpe: Option<&'a [f32]>,
    out: &'a mut [E],
    channels: usize,
    positions: RowPositions,
    masks: Option<Masks<'a>>,
    first: usize,
}

/// Columns that are widened to f32 on the stack at a time.
const PIECE: usize = 64;

impl<E: Element> Kernel for EmbedRows<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let channels = self.channels;
        for (row, out) in (self.first..).zip(self.out.chunks_exact_mut(channels)) {
            let token = &self.wte[self.tokens[row] as usize * channels..][..channels];
            let position =
                self.wpe.map(|wpe| &wpe[self.positions.of(row) * channels..][..channels]);
            let mask = self.masks.map(|masks| masks.of_row(row, channels));
            let mut sums = [0.0; PIECE];
            for (start, out) in (0..).step_by(PIECE).zip(out.chunks_mut(PIECE)) {
                let sums = &mut sums[..out.len()];
                match position {
                    Some(position) => {
                        let both = token[start..].iter().zip(&position[start..]);
                        sums.iter_mut().zip(both).for_each(|(sum, (a, b))| *sum = a + b);
                    }
                    None => sums.copy_from_slice(&token[start..][..out.len()]),
                }
                if let Some(mask) = mask {
                    mask.apply(start, sums);
                }
                E::narrow_with(simd, sums, out);
            }
        }
    }
}

/// Operands of [`backward`].
pub(super) struct EmbedBackward<'a, E> {
    pub(super) tokens: &'a [u32],
    pub(super) d_x: &'a [E],
    pub(super) d_wte: &'a mut [f32],
    pub(super) d_wpe: Option<&'a mut [f32]>,
    pub(super) channels: usize,
    pub(super) positions: RowPositions,
    pub(super) masks: Option<Masks<'a>>,
}

/// Adds `drop(d_x)` to the rows of both tables.
pub(super) fn backward<E: Element + Stored>(machine: &mut Machine, args: EmbedBackward<'_, E>) {
    let EmbedBackward { tokens, d_x, d_wte, d_wpe, channels, positions, masks } = args;
    assert_eq!(tokens.len() * channels, d_x.len());
    let tiling = |rows: usize| Tiling {
        rows: 0..rows,
        columns: 0..channels,
        tile_rows: rows,
        tile_columns: PIECE,
    };
    let vocab = d_wte.len() / channels;
    let block = d_wpe.as_ref().map_or(0, |d_wpe| d_wpe.len() / channels);
    let mut d_wte = Grid::new(d_wte, channels);
    let mut d_wpe = d_wpe.map(|d_wpe| Grid::new(d_wpe, channels));
    let parts = (
        Tiles::new(&mut d_wte, (vocab, channels), tiling(vocab)),
        d_wpe.as_mut().map(|d_wpe| Tiles::new(d_wpe, (block, channels), tiling(block))),
    );
    let isa = machine.isa;
    machine.pool.for_each(parts, |task, (d_wte, d_wpe)| {
        let columns = task.index * PIECE..channels.min((task.index + 1) * PIECE);
        isa.run(BackwardColumns { tokens, d_x, d_wte, d_wpe, channels, positions, masks, columns });
    });
}

struct BackwardColumns<'a, E> {
    tokens: &'a [u32],
    d_x: &'a [E],
    d_wte: Tile<'a, f32>,
    d_wpe: Option<Tile<'a, f32>>,
    channels: usize,
    positions: RowPositions,
    masks: Option<Masks<'a>>,
    columns: Range<usize>,
}

impl<E: Element> Kernel for BackwardColumns<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        let mut wide = [0.0; PIECE];
        let wide = &mut wide[..self.columns.len()];
        for (row, (d_x, &token)) in
            self.d_x.chunks_exact(self.channels).zip(self.tokens).enumerate()
        {
            E::widen_with(simd, &d_x[self.columns.clone()], wide);
            if let Some(masks) = self.masks {
                masks.of_row(row, self.channels).apply(self.columns.start, wide);
            }
            rows::add_to(simd, wide, self.d_wte.row(token as usize, self.columns.clone()));
            if let Some(d_wpe) = &mut self.d_wpe {
                let position = self.positions.of(row);
                rows::add_to(simd, wide, d_wpe.row(position, self.columns.clone()));
            }
        }
    }
}
