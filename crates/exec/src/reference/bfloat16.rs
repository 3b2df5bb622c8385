//! Products of bfloat16 factors: the arithmetic of `vdpbf16ps`, defined in plain loops.
//!
//! ```text
//! sum = sum + a[1] · b[1]      rounded once, to float32
//! sum = sum + a[0] · b[0]      rounded once, to float32
//! ```
//!
//! Factors are taken in pairs along the depth, the second of a pair first. A product of two
//! bfloat16 numbers is exact. Factors and sums below the normal range of float32 count as zero,
//! and so does a result: one that rounding to 24 bits leaves below it, whatever the exponent could
//! hold. Ties go to even. An odd depth ends with a pair of zeros.
//!
//! A float32 factor, such as a weight or the gradient of a logit, is first rounded to bfloat16.
//!
//! The arithmetic is integral to the bits of a training run, so a CPU without the instruction
//! emulates it with [`add_pair`]. Which NaN a product gives is not defined.

use half::bf16;

/// Pairs that are summed in one go; the sums of such blocks are added in order.
const BLOCK_PAIRS: usize = 384;
/// Blocks are a multiple of this many pairs.
const ALIGNED_PAIRS: usize = 8;

/// Results whose magnitude is below this are zero: halfway between the smallest normal number and
/// the 24-bit number below it. The tie goes up, to the even one.
const LEAST: f64 = f32::MIN_POSITIVE as f64 * (1.0 - f32::EPSILON as f64 / 4.0);

/// A float32 number as a factor, to nearest, ties to even.
#[inline(always)]
pub fn factor(x: f32) -> u16 {
    let bits = without_subnormal(x).to_bits();
    let rounded = bits.wrapping_add(0x7FFF + ((bits >> 16) & 1)) >> 16; // ties go to even
    let quiet_nan = (bits >> 16) | 0x0040;
    if bits & 0x7FFF_FFFF > 0x7F80_0000 { quiet_nan as u16 } else { rounded as u16 }
}

/// Adds both products of a pair.
#[inline(always)]
pub fn add_pair(sum: f32, a: [u16; 2], b: [u16; 2]) -> f32 {
    add_product(add_product(sum, a[1], b[1]), a[0], b[0])
}

#[inline(always)]
fn add_product(sum: f32, a: u16, b: u16) -> f32 {
    let wide = |x| without_subnormal(f32::from_bits(u32::from(x) << 16));
    let (a, b, sum) = (wide(a), wide(b), without_subnormal(sum));
    let rounded = a.mul_add(b, sum);
    // Exact if the result is near the smallest normal number: all bits of both terms are then within
    // the 53 of a float64.
    let exact = f64::from(a) * f64::from(b) + f64::from(sum);
    if exact.abs() < LEAST { 0.0_f32.copysign(rounded) } else { rounded }
}

#[inline(always)]
fn without_subnormal(x: f32) -> f32 {
    if x.abs() < f32::MIN_POSITIVE { 0.0_f32.copysign(x) } else { x }
}

/// Pairs of one block of a product of this depth: blocks are about equal.
fn block_pairs(depth: usize) -> usize {
    let pairs = depth.div_ceil(2);
    let blocks = pairs.div_ceil(BLOCK_PAIRS).max(1);
    pairs.div_ceil(blocks).next_multiple_of(ALIGNED_PAIRS)
}

/// The product of a row of one matrix and a column of another.
pub fn dot(a: &[bf16], b: &[bf16]) -> f32 {
    assert_eq!(a.len(), b.len());
    let block = 2 * block_pairs(a.len()).max(1);
    let mut total = 0.0;
    for (index, (a, b)) in a.chunks(block).zip(b.chunks(block)).enumerate() {
        let mut sum = 0.0;
        for (a, b) in a.chunks(2).zip(b.chunks(2)) {
            let pair = |x: &[bf16]| [x[0].to_bits(), x.get(1).map_or(0, |x| x.to_bits())];
            sum = add_pair(sum, pair(a), pair(b));
        }
        total = if index == 0 { sum } else { total + sum };
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits(x: f32) -> u16 {
        (x.to_bits() >> 16) as u16
    }

    #[test]
    fn the_second_product_is_added_first() {
        // 2²⁴ + 1 rounds to 2²⁴; 1 + 1 is exact, and so is 2²⁴ + 2.
        let large = 16_777_216.0;
        let [one, big] = [bits(1.0), bits(large)];
        assert_eq!(add_pair(1.0, [one, big], [one, one]).to_bits(), (large + 0.0).to_bits());
        assert_eq!(add_pair(1.0, [big, one], [one, one]).to_bits(), (large + 2.0).to_bits());
    }

    #[test]
    fn numbers_below_the_normal_range_count_as_zero() {
        let least = f32::MIN_POSITIVE;
        let one = bits(1.0);
        let add = |sum: f32, a: u16, b: u16| add_product(sum, a, b).to_bits();
        assert_eq!(add(0.0, 0x007F, one), 0);
        assert_eq!(add(least.next_down(), 0, 0), 0);
        assert_eq!(add(-least.next_down(), bits(-0.0), one), (-0.0_f32).to_bits());
        assert_eq!(add(least, 0, 0), least.to_bits());
        // The smallest normal number less 2⁻¹⁵⁰, which has 24 bits, is below the range; less half
        // of that, the tie goes to the smallest normal number.
        let power = |exponent: i32| bits(2f32.powi(exponent));
        assert_eq!(add(least, power(-75), power(-75) | 0x8000), 0);
        assert_eq!(add(least, power(-75), power(-76) | 0x8000), least.to_bits());
        assert_eq!(add(least, power(-75), bits(2f32.powi(-76) * 1.5) | 0x8000), 0);
    }

    #[test]
    fn factors_are_rounded_once() {
        assert_eq!(factor(1.0 + 2f32.powi(-8)), bits(1.0));
        assert_eq!(factor((1.0 + 2f32.powi(-8)).next_up()), bits(1.0 + 2f32.powi(-7)));
        assert_eq!(factor(f32::MAX), bits(f32::INFINITY));
        assert_eq!(factor(f32::MIN_POSITIVE.next_down()), 0);
        assert_eq!(factor(-f32::MIN_POSITIVE.next_down()), bits(-0.0));
        assert!(f32::from_bits(u32::from(factor(f32::NAN)) << 16).is_nan());
    }

    #[test]
    fn blocks_are_about_equal() {
        assert_eq!([1, 16, 17, 768, 769].map(block_pairs), [8, 8, 16, 384, 200]);
        assert_eq!([3072, 4096, 50304].map(block_pairs), [384, 344, 384]);
    }

    #[test]
    fn a_product_is_the_sum_of_its_blocks() {
        let ones = vec![bf16::ONE; 1537];
        assert_eq!(dot(&ones, &ones).to_bits(), 1537.0_f32.to_bits());
        assert_eq!(dot(&[], &[]).to_bits(), 0);
    }
}
