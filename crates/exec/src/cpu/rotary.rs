//! Rotary positions, in place.
//!
//! ```text
//! x[i], x[i + D/2]  =  x[i] cos - x[i + D/2] sin,  x[i + D/2] cos + x[i] sin
//! ```
//!
//! x is (B, T, heads·D); a row of the table has D/2 cosines, then D/2 sines. One pass over memory.
//! The inverse rotation negates the sines.

use fitgpt_program::{Turn, units::DType};

use crate::{
    arena::Stored,
    cpu::{
        Machine,
        element::Element,
        embed::RowPositions,
        isa::{Kernel, Simd},
        parts::{Blocks, PerWorker},
        rows::{self, ONE, block_rows, whole},
    },
};

/// Floats of scratch: one head for each worker.
pub(super) fn scratch(dtype: DType, head_channels: usize, threads: usize) -> usize {
    rows::space(dtype, head_channels) * threads
}

/// Operands of [`rotate`].
pub(super) struct Rotation<'a, E> {
    /// Rows in use.
    pub(super) x: &'a mut [E],
    pub(super) columns: usize,
    pub(super) table: &'a [f32],
    pub(super) head_channels: usize,
    pub(super) positions: RowPositions,
    pub(super) turn: Turn,
    pub(super) scratch: &'a mut [f32],
}

/// Rotates every head of every row.
pub(super) fn rotate<E: Element + Stored>(machine: &mut Machine, args: Rotation<'_, E>) {
    let Rotation { x, columns, table, head_channels, positions, turn, scratch } = args;
    assert!(columns.is_multiple_of(head_channels) && head_channels.is_multiple_of(2));
    let block = block_rows(columns);
    let space = rows::space(E::DTYPE, head_channels);
    let parts = (Blocks::new(x, block * columns), PerWorker::new(scratch, space));
    let isa = machine.isa;
    machine.pool.for_each(parts, |task, (x, space)| {
        let first = task.index * block;
        isa.run(RotatedRows { x, columns, table, head_channels, positions, turn, first, space });
    });
}

struct RotatedRows<'a, E> {
    x: &'a mut [E],
    columns: usize,
    table: &'a [f32],
    head_channels: usize,
    positions: RowPositions,
    turn: Turn,
    first: usize,
    space: &'a mut [f32],
}

impl<E: Element> Kernel for RotatedRows<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let size = self.head_channels;
        for (row, x) in (self.first..).zip(self.x.chunks_exact_mut(self.columns)) {
            let angles = &self.table[self.positions.of(row) * size..][..size];
            for head in x.chunks_exact_mut(size) {
                if let Some(head) = E::as_f32_mut(head) {
                    turn(simd, head, angles, self.turn);
                } else {
                    let space = &mut self.space[..size];
                    E::widen_with(simd, head, space);
                    turn(simd, space, angles, self.turn);
                    E::narrow_with(simd, space, head);
                }
            }
        }
    }
}

#[inline(always)]
fn turn<S: Simd>(simd: S, head: &mut [f32], angles: &[f32], turn: Turn) {
    let half = head.len() / 2;
    let (low, high) = head.split_at_mut(half);
    let (cos, sin) = angles.split_at(half);
    let end = whole(simd, half);
    for c in (0..end).step_by(S::LANES) {
        turn_at(simd, c, low, high, (cos, sin), turn);
    }
    for c in end..half {
        turn_at(ONE, c, low, high, (cos, sin), turn);
    }
}

#[inline(always)]
fn turn_at<S: Simd>(
    simd: S,
    c: usize,
    low: &mut [f32],
    high: &mut [f32],
    (cos, sin): (&[f32], &[f32]),
    turn: Turn,
) {
    let (x, y) = (simd.load(&low[c..]), simd.load(&high[c..]));
    let (cos, sin) = (simd.load(&cos[c..]), simd.load(&sin[c..]));
    let sin = match turn {
        Turn::Forward => sin,
        Turn::Back => simd.sub(simd.splat(0.0), sin),
    };
    let minus = simd.mul(simd.sub(simd.splat(0.0), y), sin);
    simd.store(simd.fma(x, cos, minus), &mut low[c..]);
    simd.store(simd.fma(y, cos, simd.mul(x, sin)), &mut high[c..]);
}
