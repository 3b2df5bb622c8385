//! Tiles of bfloat16 pairs, and their emulation where the machine has no instruction for them.
//!
//! A pair is two bfloat16 factors that are neighbours along the depth of a product, the first in
//! the lower half of 32 bits. Pairs are kept in slices of f32, because scratch is f32; they are
//! moved but never used as such.
//!
//! The emulation is [`bfloat16::add_pair`], the definition itself, on each lane. It is slow: it
//! exists so that a run which began on a machine with the instruction can continue on any other.

use super::{LANES_MAX, Simd};
use crate::reference::bfloat16;

/// `c (+)= a · b`; a step of depth is a pair.
#[derive(Debug)]
pub struct PairTile<'a> {
    /// Pair (row, step) is at `row * A_ROW + step * a_depth`.
    pub a: &'a [f32],
    /// Distance between steps of `a`.
    pub a_depth: usize,
    /// Step `k` starts at `k * b_stride`.
    pub b: &'a [f32],
    /// Distance between steps of `b`.
    pub b_stride: usize,
    /// Row `m` starts at `m * c_stride`.
    pub c: &'a mut [f32],
    /// Distance between rows of `c`.
    pub c_stride: usize,
    /// Steps.
    pub depth: usize,
    /// The initial value of a sum.
    pub sum: SumStart,
}

/// The initial value of a sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SumStart {
    /// Zero.
    New,
    /// The contents of the result, to which the new sum is added once it is complete.
    Continued,
}

impl PairTile<'_> {
    /// Panics unless every pair and every sum is inside its slice.
    #[inline(always)]
    pub(super) fn check(&self, rows: usize, columns: usize, a_row: usize) {
        // Saturating, because a sum that wraps would pass.
        let last = |count: usize, stride: usize| (count - 1).saturating_mul(stride);
        assert!(rows > 0 && last(rows, self.c_stride).saturating_add(columns) <= self.c.len());
        if self.depth > 0 {
            let corner = last(rows, a_row).saturating_add(last(self.depth, self.a_depth));
            assert!(corner < self.a.len());
            assert!(last(self.depth, self.b_stride).saturating_add(columns) <= self.b.len());
        }
    }

    /// The same without the instruction.
    #[inline(always)]
    pub(super) fn emulate<S: Simd, const ROWS: usize, const VECTORS: usize, const A_ROW: usize>(
        self,
        simd: S,
    ) {
        self.check(ROWS, VECTORS * S::LANES, A_ROW);
        for row in 0..ROWS {
            for v in 0..VECTORS {
                let mut sums = [0.0; LANES_MAX];
                for k in 0..self.depth {
                    let a = pair(self.a[row * A_ROW + k * self.a_depth]);
                    let b = &self.b[k * self.b_stride + v * S::LANES..][..S::LANES];
                    for (sum, b) in sums.iter_mut().zip(b) {
                        *sum = bfloat16::add_pair(*sum, a, pair(*b));
                    }
                }
                let new = simd.load(&sums);
                let c = &mut self.c[row * self.c_stride + v * S::LANES..];
                let all = match self.sum {
                    SumStart::New => new,
                    SumStart::Continued => simd.add(simd.load(c), new),
                };
                simd.store(all, c);
            }
        }
    }
}

/// The factors of a slot.
#[inline(always)]
fn pair(slot: f32) -> [u16; 2] {
    let bits = slot.to_bits();
    [bits as u16, (bits >> 16) as u16]
}

/// A slot of two factors.
#[inline(always)]
pub(in crate::cpu) fn slot(low: u16, high: u16) -> f32 {
    f32::from_bits(u32::from(low) | u32::from(high) << 16)
}

#[inline(always)]
pub(super) fn round_each(low: &[f32], high: &[f32], to: &mut [f32]) {
    assert!(low.len() == to.len() && high.len() == to.len());
    for (to, (low, high)) in to.iter_mut().zip(low.iter().zip(high)) {
        *to = slot(bfloat16::factor(*low), bfloat16::factor(*high));
    }
}

#[inline(always)]
pub(super) fn round_neighbours(from: &[f32], to: &mut [f32]) {
    assert_eq!(from.len(), 2 * to.len());
    for (to, from) in to.iter_mut().zip(from.as_chunks::<2>().0) {
        *to = slot(bfloat16::factor(from[0]), bfloat16::factor(from[1]));
    }
}
