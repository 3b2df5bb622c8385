//! The exponential function without branches, so that loops over it vectorise.

use crate::cpu::isa::Simd;

/// Below this the result would be subnormal; it is zero instead.
const LEAST: f32 = -87.336_54;
/// Above this, the result is infinite.
const MOST: f32 = 88.722_83;

/// Adding this leaves no bits for a fraction: the sum is rounded to an integer, held in the low
/// bits.
const ROUND: f32 = 12_582_912.0; // 1.5 * 2^23
/// ln 2 as a sum of two; the first times an integer below 2^8 is exact.
const LN_2: [f32; 2] = [0.693_359_4, -2.121_944_4e-4];

/// `e^x` for `x` up to 88, which is enough for a softmax and takes half the instructions.
#[inline(always)]
pub(crate) fn exp_below<S: Simd>(simd: S, x: f32) -> f32 {
    let clamped = if x < LEAST { LEAST } else { x };
    let shifted = simd.fma1(clamped, std::f32::consts::LOG2_E, ROUND);
    let n = shifted - ROUND;
    let r = simd.fma1(n, -LN_2[0], clamped);
    let r = simd.fma1(n, -LN_2[1], r);
    let scaled = exp_of_small(simd, r) * power_in(shifted);
    if x < LEAST { 0.0 } else { scaled }
}

/// `2^n` and `x - n`, with `n` the integer nearest to `x`, which must be in -126..=127.
#[inline(always)]
pub(crate) fn power_and_rest(x: f32) -> (f32, f32) {
    let shifted = x + ROUND;
    (power_in(shifted), x - (shifted - ROUND))
}

/// `2^n` for the `n` that was rounded by adding [`ROUND`].
#[inline(always)]
fn power_in(shifted: f32) -> f32 {
    // The low bits of `shifted` are `n`; the others are shifted out.
    f32::from_bits((shifted.to_bits() << 23).wrapping_add(1.0_f32.to_bits()))
}

/// `e^x` to about one unit in the last place; zero below the normal numbers.
///
/// With `x = n ln 2 + r` it is `2^n e^r`.
#[inline(always)]
pub(crate) fn exp<S: Simd>(simd: S, x: f32) -> f32 {
    let clamped = if x < LEAST { LEAST } else { x };
    let clamped = if clamped > MOST { MOST } else { clamped };
    let shifted = simd.fma1(clamped, std::f32::consts::LOG2_E, ROUND);
    let n = shifted - ROUND;
    let r = simd.fma1(n, -LN_2[0], clamped);
    let r = simd.fma1(n, -LN_2[1], r);
    let p = exp_of_small(simd, r);
    // 2^128 is not finite, so multiply by two powers of about half the exponent.
    let n = shifted.to_bits().wrapping_sub(ROUND.to_bits()) as i32;
    let half = n >> 1;
    let scaled = p * power_of_two(half) * power_of_two(n - half);
    let scaled = if x < LEAST { 0.0 } else { scaled };
    if x > MOST { f32::INFINITY } else { scaled }
}

/// `e^r` for |r| < 0.35, by a minimax polynomial with a relative error of 4e-9.
#[inline(always)]
fn exp_of_small<S: Simd>(simd: S, r: f32) -> f32 {
    // Terms in pairs, which halves the chain of dependent operations.
    let square = r * r;
    let p = simd.fma1(0.008_369_411, r, 0.041_668_456);
    let p = simd.fma1(0.001_381_312_3, square, p);
    let p = simd.fma1(p, square, simd.fma1(0.166_665_15, r, 0.499_999_94));
    simd.fma1(p, square, r) + 1.0
}

/// `2^n` for `n` in -126..=127.
#[inline(always)]
fn power_of_two(n: i32) -> f32 {
    f32::from_bits((n.wrapping_add(127) as u32) << 23)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::isa::{Isa, Kernel};

    struct WorstError;

    impl Kernel for WorstError {
        type Output = f64;
        #[inline(always)]
        fn run<S: Simd>(self, simd: S) -> f64 {
            let steps = (0..400_000).map(|i| -87.3 + 0.000_44 * i as f32);
            steps.fold(0.0, |worst, x| {
                let exact = f64::from(x).exp();
                let error = |found: f32| (f64::from(found) - exact).abs() / exact;
                let below = if x > 0.0 { 0.0 } else { error(exp_below(simd, x)) };
                worst.max(error(exp(simd, x))).max(below)
            })
        }
    }

    #[test]
    fn the_exponential_is_right_to_two_units_in_the_last_place() {
        for isa in Isa::all() {
            let worst = isa.run(WorstError);
            assert!(worst < 2.0 * f64::from(f32::EPSILON), "{}: {worst:e}", isa.name());
        }
    }

    struct Edges;

    impl Kernel for Edges {
        type Output = [f32; 7];
        #[inline(always)]
        fn run<S: Simd>(self, simd: S) -> [f32; 7] {
            let edges = [0.0, -0.0, -88.0, 89.0, f32::NEG_INFINITY, f32::INFINITY, f32::NAN];
            edges.map(|x| exp(simd, x))
        }
    }

    struct EdgesBelow;

    impl Kernel for EdgesBelow {
        type Output = [f32; 5];
        #[inline(always)]
        fn run<S: Simd>(self, simd: S) -> [f32; 5] {
            [0.0, -0.0, -88.0, f32::NEG_INFINITY, f32::NAN].map(|x| exp_below(simd, x))
        }
    }

    #[test]
    #[expect(clippy::float_cmp, reason = "edges have exact values")]
    fn the_exponential_is_exact_at_its_edges() {
        for isa in Isa::all() {
            let [rest @ .., nan] = isa.run(Edges);
            assert_eq!(rest, [1.0, 1.0, 0.0, f32::INFINITY, 0.0, f32::INFINITY]);
            assert!(nan.is_nan());
            let [rest @ .., nan] = isa.run(EdgesBelow);
            assert_eq!(rest, [1.0, 1.0, 0.0, 0.0]);
            assert!(nan.is_nan());
        }
    }
}
