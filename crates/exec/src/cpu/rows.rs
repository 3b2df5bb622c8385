//! Rows of numbers widened to f32, and sums over them.
//!
//! Number `i` is added to lane `i mod LANES`, and the lanes are folded at the end, so the order of
//! summation depends only on the length of the row and the instruction set.

use fitgpt_program::units::DType;

use crate::cpu::{
    element::Element,
    isa::{Portable, Simd},
};

/// The smallest number of elements for which a task pays off. Blocks are at least this large, so
/// small work is one block and stays on the caller's thread.
pub(super) const BLOCK: usize = 1 << 14;

/// For the numbers after a row's last whole vector, one at a time.
pub(super) const ONE: Portable<1> = Portable;

/// Rows of a block, for rows of `columns` numbers.
pub(super) fn block_rows(columns: usize) -> usize {
    (BLOCK / columns.max(1)).max(1)
}

/// Floats of scratch to widen one row of `columns`; none if it is f32.
pub(super) fn space(dtype: DType, columns: usize) -> usize {
    if dtype == DType::F32 { 0 } else { columns }
}

/// `row` as f32: the row itself, or a copy in `space`.
#[inline(always)]
pub(super) fn wide<'a, S: Simd, E: Element>(
    simd: S,
    row: &'a [E],
    space: &'a mut [f32],
) -> &'a [f32] {
    if let Some(row) = E::as_f32(row) {
        return row;
    }
    let space = &mut space[..row.len()];
    E::widen_with(simd, row, space);
    space
}

/// The end of the last whole vector in a row of `len` numbers.
#[inline(always)]
pub(super) fn whole<S: Simd>(_: S, len: usize) -> usize {
    len / S::LANES * S::LANES
}

/// `Σ x`
#[inline(always)]
pub(super) fn sum<S: Simd>(simd: S, x: &[f32]) -> f32 {
    let mut sums = [simd.splat(0.0); 4];
    let mut blocks = x.chunks_exact(4 * S::LANES);
    for block in &mut blocks {
        for (i, sum) in sums.iter_mut().enumerate() {
            *sum = simd.add(*sum, simd.load(&block[i * S::LANES..]));
        }
    }
    let mut vectors = blocks.remainder().chunks_exact(S::LANES);
    for vector in &mut vectors {
        sums[0] = simd.add(sums[0], simd.load(vector));
    }
    let rest: f32 = vectors.remainder().iter().sum();
    simd.sum(folded(simd, sums)) + rest
}

/// `Σ (x - mean)²`
#[inline(always)]
pub(super) fn sum_of_squares<S: Simd>(simd: S, x: &[f32], mean: f32) -> f32 {
    let mut sums = [simd.splat(0.0); 4];
    let minus = simd.splat(mean);
    let mut blocks = x.chunks_exact(4 * S::LANES);
    for block in &mut blocks {
        for (i, sum) in sums.iter_mut().enumerate() {
            let x = simd.sub(simd.load(&block[i * S::LANES..]), minus);
            *sum = simd.fma(x, x, *sum);
        }
    }
    let mut vectors = blocks.remainder().chunks_exact(S::LANES);
    for vector in &mut vectors {
        let x = simd.sub(simd.load(vector), minus);
        sums[0] = simd.fma(x, x, sums[0]);
    }
    let rest: f32 = vectors.remainder().iter().map(|x| (x - mean) * (x - mean)).sum();
    simd.sum(folded(simd, sums)) + rest
}

/// `Σ x y`; the slices have equal lengths.
#[inline(always)]
pub(super) fn dot<S: Simd>(simd: S, x: &[f32], y: &[f32]) -> f32 {
    assert_eq!(x.len(), y.len());
    let mut sums = [simd.splat(0.0); 4];
    let (mut xs, mut ys) = (x.chunks_exact(4 * S::LANES), y.chunks_exact(4 * S::LANES));
    for (x, y) in (&mut xs).zip(&mut ys) {
        for (i, sum) in sums.iter_mut().enumerate() {
            *sum = simd.fma(simd.load(&x[i * S::LANES..]), simd.load(&y[i * S::LANES..]), *sum);
        }
    }
    let (mut xs, mut ys) =
        (xs.remainder().chunks_exact(S::LANES), ys.remainder().chunks_exact(S::LANES));
    for (x, y) in (&mut xs).zip(&mut ys) {
        sums[0] = simd.fma(simd.load(x), simd.load(y), sums[0]);
    }
    let rest: f32 = xs.remainder().iter().zip(ys.remainder()).map(|(x, y)| x * y).sum();
    simd.sum(folded(simd, sums)) + rest
}

/// The largest number; unspecified if any is NaN.
#[inline(always)]
pub(super) fn largest<S: Simd>(simd: S, x: &[f32]) -> f32 {
    let mut most = [simd.splat(f32::NEG_INFINITY); 4];
    let mut blocks = x.chunks_exact(4 * S::LANES);
    for block in &mut blocks {
        for (i, most) in most.iter_mut().enumerate() {
            *most = simd.max(*most, simd.load(&block[i * S::LANES..]));
        }
    }
    let mut vectors = blocks.remainder().chunks_exact(S::LANES);
    for vector in &mut vectors {
        most[0] = simd.max(most[0], simd.load(vector));
    }
    let most = simd.max(simd.max(most[0], most[1]), simd.max(most[2], most[3]));
    vectors.remainder().iter().fold(simd.largest(most), |most, &x| if x > most { x } else { most })
}

/// `to += from`; the slices have equal lengths.
#[inline(always)]
pub(super) fn add_to<S: Simd>(simd: S, from: &[f32], to: &mut [f32]) {
    assert_eq!(from.len(), to.len());
    let (mut from, mut to) = (from.chunks_exact(S::LANES), to.chunks_exact_mut(S::LANES));
    for (from, to) in (&mut from).zip(&mut to) {
        simd.store(simd.add(simd.load(to), simd.load(from)), to);
    }
    for (to, from) in to.into_remainder().iter_mut().zip(from.remainder()) {
        *to += from;
    }
}

#[inline(always)]
fn folded<S: Simd>(simd: S, [a, b, c, d]: [S::Lanes; 4]) -> S::Lanes {
    simd.add(simd.add(a, b), simd.add(c, d))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::isa::{Isa, Kernel};

    /// Small integers, so that every order of summation gives the same sum.
    struct EveryLength;

    impl Kernel for EveryLength {
        type Output = ();
        #[inline(always)]
        #[expect(clippy::float_cmp, reason = "sums of small integers are exact")]
        fn run<S: Simd>(self, simd: S) {
            for length in 0..150 {
                let x: Vec<f32> = (0..length).map(|i| (i * 7 % 13) as f32 - 6.0).collect();
                let y: Vec<f32> = (0..length).map(|i| (i * 5 % 11) as f32 - 4.0).collect();
                assert_eq!(sum(simd, &x), x.iter().sum::<f32>());
                let squares = x.iter().map(|x| (x - 2.0) * (x - 2.0)).sum::<f32>();
                assert_eq!(sum_of_squares(simd, &x, 2.0), squares);
                assert_eq!(dot(simd, &x, &y), x.iter().zip(&y).map(|(x, y)| x * y).sum::<f32>());
                let most = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                assert_eq!(largest(simd, &x), most);
                let mut to = y.clone();
                add_to(simd, &x, &mut to);
                assert!(to.iter().zip(x.iter().zip(&y)).all(|(to, (x, y))| *to == x + y));
            }
        }
    }

    #[test]
    fn sums_take_every_number_once_at_any_length() {
        Isa::all().for_each(|isa| isa.run(EveryLength));
    }
}
