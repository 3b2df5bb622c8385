//! Storage types of activations: computed in f32, stored in 32 or 16 bits.
//!
//! Narrowing rounds to nearest, ties to even. Infinities stay infinite, NaN becomes a quiet NaN,
//! and values too large for the type become infinite.

use half::{bf16, f16};

use crate::{
    cpu::isa::{Isa, Kernel, Simd, slot},
    reference::bfloat16::factor,
};

/// A type that activations may be stored in.
pub trait Element: Copy + Send + Sync + Default + 'static {
    /// Whether products over activations of this type may be of bfloat16 pairs.
    const HAS_PAIRS: bool;

    /// The stored value, exactly.
    fn widen(self) -> f32;
    /// The nearest value that can be stored.
    fn narrow(x: f32) -> Self;

    /// [`widen`](Self::widen) of a slice, inside a kernel. The slices have equal lengths.
    fn widen_with<S: Simd>(simd: S, from: &[Self], to: &mut [f32]);
    /// [`narrow`](Self::narrow) of a slice, inside a kernel. The slices have equal lengths.
    fn narrow_with<S: Simd>(simd: S, from: &[f32], to: &mut [Self]);

    /// The slice itself if it is f32, so that f32 needs no copy.
    fn as_f32(slice: &[Self]) -> Option<&[f32]>;
    /// The slice itself if it is f32.
    fn as_f32_mut(slice: &mut [Self]) -> Option<&mut [f32]>;

    /// `low[i]` and `high[i]` as the pair of bfloat16 factors `to[i]`; equal lengths.
    fn pair_with<S: Simd>(simd: S, low: &[Self], high: &[Self], to: &mut [f32]);
    /// `from[2 i]` and `from[2 i + 1]` as the pair `to[i]`. If `from` is one shorter, the last
    /// factor is paired with zero.
    fn pair_neighbours_with<S: Simd>(simd: S, from: &[Self], to: &mut [f32]);
    /// The slice as pairs of neighbours if it is bfloat16, starts at a multiple of 32 bits and has
    /// an even length.
    fn as_pairs(slice: &[Self]) -> Option<&[f32]>;

    /// [`widen`](Self::widen) of a slice. The slices have equal lengths.
    fn widen_slice(from: &[Self], to: &mut [f32]) {
        Isa::best().run(Widen { from, to });
    }
}

struct Widen<'a, E> {
    from: &'a [E],
    to: &'a mut [f32],
}

impl<E: Element> Kernel for Widen<'_, E> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        E::widen_with(simd, self.from, self.to);
    }
}

/// Explicit vectors: rows are so short that a call of `memcpy` takes half of the time.
#[inline(always)]
fn copy<S: Simd>(simd: S, from: &[f32], to: &mut [f32]) {
    assert_eq!(from.len(), to.len());
    let (mut from, mut to) = (from.chunks_exact(S::LANES), to.chunks_exact_mut(S::LANES));
    for (to, from) in (&mut to).zip(&mut from) {
        simd.store(simd.load(from), to);
    }
    for (to, from) in to.into_remainder().iter_mut().zip(from.remainder()) {
        *to = *from;
    }
}

/// Pairs the last of an odd number of factors with zero.
#[inline(always)]
fn pair_last<E: Copy>(from: &[E], to: &mut [f32], factor: impl Fn(E) -> u16) {
    match (from.as_chunks::<2>().1, to) {
        ([], []) => {}
        (&[last], [to]) => *to = slot(factor(last), 0),
        _ => panic!("the pairs of {} factors have another number", from.len()),
    }
}

impl Element for f32 {
    const HAS_PAIRS: bool = false;

    #[inline(always)]
    fn widen(self) -> f32 {
        self
    }
    #[inline(always)]
    fn narrow(x: f32) -> Self {
        x
    }
    #[inline(always)]
    fn widen_with<S: Simd>(simd: S, from: &[Self], to: &mut [f32]) {
        copy(simd, from, to);
    }
    #[inline(always)]
    fn narrow_with<S: Simd>(simd: S, from: &[f32], to: &mut [Self]) {
        copy(simd, from, to);
    }
    #[inline(always)]
    fn as_f32(slice: &[Self]) -> Option<&[f32]> {
        Some(slice)
    }
    #[inline(always)]
    fn as_f32_mut(slice: &mut [Self]) -> Option<&mut [f32]> {
        Some(slice)
    }
    #[inline(always)]
    fn pair_with<S: Simd>(simd: S, low: &[Self], high: &[Self], to: &mut [f32]) {
        simd.pair_factors(low, high, to);
    }
    #[inline(always)]
    fn pair_neighbours_with<S: Simd>(simd: S, from: &[Self], to: &mut [f32]) {
        let (pairs, last) = to.split_at_mut(from.len() / 2);
        simd.neighbour_factors(&from[..2 * pairs.len()], pairs);
        pair_last(from, last, factor);
    }
    #[inline(always)]
    fn as_pairs(_: &[Self]) -> Option<&[f32]> {
        None
    }
}

impl Element for bf16 {
    const HAS_PAIRS: bool = true;

    #[inline(always)]
    fn widen(self) -> f32 {
        f32::from_bits(u32::from(self.to_bits()) << 16)
    }
    // Bit operations without branches, which compilers vectorise.
    #[inline(always)]
    fn narrow(x: f32) -> Self {
        let bits = x.to_bits();
        let half_or_less = 0x7FFF + ((bits >> 16) & 1); // ties go to even
        let rounded = bits.wrapping_add(half_or_less) >> 16;
        let quiet_nan = (bits >> 16) | 0x0040;
        let is_nan = bits & 0x7FFF_FFFF > 0x7F80_0000;
        Self::from_bits(if is_nan { quiet_nan } else { rounded } as u16)
    }
    #[inline(always)]
    fn widen_with<S: Simd>(_: S, from: &[Self], to: &mut [f32]) {
        assert_eq!(from.len(), to.len());
        for (to, from) in to.iter_mut().zip(from) {
            *to = from.widen();
        }
    }
    #[inline(always)]
    fn narrow_with<S: Simd>(_: S, from: &[f32], to: &mut [Self]) {
        assert_eq!(from.len(), to.len());
        for (to, from) in to.iter_mut().zip(from) {
            *to = Self::narrow(*from);
        }
    }
    #[inline(always)]
    fn as_f32(_: &[Self]) -> Option<&[f32]> {
        None
    }
    #[inline(always)]
    fn as_f32_mut(_: &mut [Self]) -> Option<&mut [f32]> {
        None
    }
    #[inline(always)]
    fn pair_with<S: Simd>(_: S, low: &[Self], high: &[Self], to: &mut [f32]) {
        assert!(low.len() == to.len() && high.len() == to.len());
        for (to, (low, high)) in to.iter_mut().zip(low.iter().zip(high)) {
            *to = slot(low.to_bits(), high.to_bits());
        }
    }
    #[inline(always)]
    fn pair_neighbours_with<S: Simd>(_: S, from: &[Self], to: &mut [f32]) {
        let (pairs, last) = to.split_at_mut(from.len() / 2);
        for (to, from) in pairs.iter_mut().zip(from.as_chunks::<2>().0) {
            *to = slot(from[0].to_bits(), from[1].to_bits());
        }
        pair_last(from, last, Self::to_bits);
    }
    #[inline(always)]
    fn as_pairs(slice: &[Self]) -> Option<&[f32]> {
        bytemuck::try_cast_slice(slice).ok()
    }
}

impl Element for f16 {
    const HAS_PAIRS: bool = false;

    #[inline(always)]
    fn widen(self) -> f32 {
        self.to_f32()
    }
    #[inline(always)]
    fn narrow(x: f32) -> Self {
        Self::from_f32(x)
    }
    #[inline(always)]
    fn widen_with<S: Simd>(simd: S, from: &[Self], to: &mut [f32]) {
        assert_eq!(from.len(), to.len());
        simd.widen_f16(from, to);
    }
    #[inline(always)]
    fn narrow_with<S: Simd>(simd: S, from: &[f32], to: &mut [Self]) {
        assert_eq!(from.len(), to.len());
        simd.narrow_f16(from, to);
    }
    #[inline(always)]
    fn as_f32(_: &[Self]) -> Option<&[f32]> {
        None
    }
    #[inline(always)]
    fn as_f32_mut(_: &mut [Self]) -> Option<&mut [f32]> {
        None
    }
    #[inline(always)]
    fn pair_with<S: Simd>(_: S, low: &[Self], high: &[Self], to: &mut [f32]) {
        assert!(low.len() == to.len() && high.len() == to.len());
        for (to, (low, high)) in to.iter_mut().zip(low.iter().zip(high)) {
            *to = slot(factor(low.to_f32()), factor(high.to_f32()));
        }
    }
    #[inline(always)]
    fn pair_neighbours_with<S: Simd>(_: S, from: &[Self], to: &mut [f32]) {
        let (pairs, last) = to.split_at_mut(from.len() / 2);
        for (to, from) in pairs.iter_mut().zip(from.as_chunks::<2>().0) {
            *to = slot(factor(from[0].to_f32()), factor(from[1].to_f32()));
        }
        pair_last(from, last, |x| factor(x.to_f32()));
    }
    #[inline(always)]
    fn as_pairs(_: &[Self]) -> Option<&[f32]> {
        None
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "copies are exact")]
mod tests {
    use super::*;

    struct Narrow<'a, E> {
        from: &'a [f32],
        to: &'a mut [E],
    }

    impl<E: Element> Kernel for Narrow<'_, E> {
        type Output = ();
        #[inline(always)]
        fn run<S: Simd>(self, simd: S) {
            E::narrow_with(simd, self.from, self.to);
        }
    }

    /// Every bit pattern of a 16-bit type, and one more so that no width divides the count.
    fn all_halves<E>(from_bits: fn(u16) -> E) -> Vec<E> {
        (0..=u16::MAX).chain([1]).map(from_bits).collect()
    }

    /// Values halfway between neighbours, and their own neighbours on both sides.
    fn hard_to_round<E: Element>(halves: &[E]) -> Vec<f32> {
        let wide: Vec<f32> = halves.iter().map(|x| x.widen()).collect();
        let middles = wide.windows(2).filter(|pair| pair[0].is_finite() && pair[1].is_finite());
        let middles = middles.map(|pair| f32::midpoint(pair[0], pair[1]));
        let near = middles.flat_map(|x| [x, x.next_up(), x.next_down()]);
        near.chain([f32::MAX, f32::MIN, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 65520.0])
            .chain([f32::from_bits(0x7F80_0001), f32::from_bits(0xFFFF_FFFF)])
            .collect()
    }

    fn agrees_with<E: Element + PartialEq + std::fmt::Debug>(
        from_bits: fn(u16) -> E,
        to_f32: fn(E) -> f32,
        from_f32: fn(f32) -> E,
    ) {
        let halves = all_halves(from_bits);
        for isa in Isa::all() {
            let mut wide = vec![0.0; halves.len()];
            isa.run(Widen { from: &halves, to: &mut wide });
            for (x, &half) in wide.iter().zip(&halves) {
                let expected = to_f32(half);
                assert!(
                    x.to_bits() == expected.to_bits() || (x.is_nan() && expected.is_nan()),
                    "{half:?} became {x}"
                );
            }
            let wide = hard_to_round(&halves);
            let mut narrow = vec![E::default(); wide.len()];
            isa.run(Narrow { from: &wide, to: &mut narrow });
            for (&x, &half) in wide.iter().zip(&narrow) {
                let both_nan = x.is_nan() && half.widen().is_nan();
                assert!(both_nan || half == from_f32(x), "{x:e} became {half:?}");
                let both_nan = x.is_nan() && E::narrow(x).widen().is_nan();
                assert!(both_nan || E::narrow(x) == from_f32(x), "{x:e}, one by one");
            }
        }
    }

    #[test]
    fn bf16_agrees_with_the_half_crate() {
        agrees_with(bf16::from_bits, bf16::to_f32, bf16::from_f32);
    }

    #[test]
    fn f16_agrees_with_the_half_crate() {
        agrees_with(f16::from_bits, f16::to_f32, f16::from_f32);
    }

    #[test]
    fn f32_is_itself() {
        let mut x = [1.0, 2.0];
        assert_eq!(f32::as_f32(&x), Some(&[1.0, 2.0][..]));
        f32::as_f32_mut(&mut x).unwrap()[0] = 3.0;
        let mut y = [0.0; 2];
        f32::widen_slice(&x, &mut y);
        assert_eq!(y, [3.0, 2.0]);
        assert!(bf16::as_f32(&[bf16::ONE]).is_none());
    }
}
