//! Dropout, element by element.
//!
//! Elements of a mask are numbered within their sequence: `t · C + c`.

use fitgpt_program::Dropout;

use crate::{
    Arguments,
    arena::Stored,
    cpu::{
        Machine,
        element::Element,
        isa::{Kernel, Simd},
        parts::Blocks,
        rows::BLOCK,
    },
    random::Mask,
};

/// The masks of one dropout for the rows of a micro-batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Masks<'a> {
    dropout: &'a Dropout,
    arguments: &'a Arguments,
    seq: usize, // rows of a sequence
}

/// The mask of one row.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowMask {
    mask: Mask,
    /// The number of the row's first element.
    first: u32,
}

impl<'a> Masks<'a> {
    /// For sequences of `seq` rows.
    pub(super) fn new(dropout: &'a Dropout, arguments: &'a Arguments, seq: usize) -> Self {
        Self { dropout, arguments, seq }
    }

    /// The mask of row `row` of `channels` elements.
    #[inline(always)]
    pub(super) fn of_row(&self, row: usize, channels: usize) -> RowMask {
        let mask = Mask::new(self.dropout, self.arguments, (row / self.seq) as u64);
        RowMask { mask, first: ((row % self.seq) * channels) as u32 }
    }
}

impl RowMask {
    /// Drops elements of the row's columns from `start` on.
    #[inline(always)]
    pub(super) fn apply(&self, start: usize, x: &mut [f32]) {
        let first = self.first.wrapping_add(start as u32);
        for (i, x) in x.iter_mut().enumerate() {
            *x *= self.mask.factor(first.wrapping_add(i as u32));
        }
    }
}

/// Elements that are widened to f32 on the stack at a time.
const PIECE: usize = 256;

/// Operands of [`dropout`].
pub(super) struct DropoutForward<'a, E> {
    pub(super) x: &'a [E],
    pub(super) out: &'a mut [E],
    pub(super) channels: usize,
    pub(super) masks: Masks<'a>,
}

/// `out = drop(x)`
pub(super) fn dropout<E: Element + Stored>(machine: &mut Machine, args: DropoutForward<'_, E>) {
    let DropoutForward { x, out, channels, masks } = args;
    assert_eq!(x.len(), out.len());
    let block = (BLOCK / channels).max(1) * channels;
    let isa = machine.isa;
    machine.pool.for_each(Blocks::new(out, block), |task, out| {
        let x = &x[task.index * block..][..out.len()];
        let first = task.index * (block / channels);
        isa.run(DropoutRows { x, out, channels, masks, first });
    });
}

struct DropoutRows<'a, E> {
    x: &'a [E],
    out: &'a mut [E],
    channels: usize,
    masks: Masks<'a>,
    first: usize,
}

impl<E: Element> Kernel for DropoutRows<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let rows = self.x.chunks_exact(self.channels).zip(self.out.chunks_exact_mut(self.channels));
        let mut wide = [0.0; PIECE];
        for (row, (x, out)) in (self.first..).zip(rows) {
            let mask = self.masks.of_row(row, self.channels);
            let pieces = x.chunks(PIECE).zip(out.chunks_mut(PIECE));
            for (start, (x, out)) in (0..).step_by(PIECE).zip(pieces) {
                let wide = &mut wide[..x.len()];
                E::widen_with(simd, x, wide);
                mask.apply(start, wide);
                E::narrow_with(simd, wide, out);
            }
        }
    }
}
