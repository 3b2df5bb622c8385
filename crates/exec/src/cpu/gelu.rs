//! GELU, value and slope.
//!
//! ```text
//! exact   x Φ(x)                                Φ: the normal distribution
//! tanh    x / (1 + exp(-2u))                    u = sqrt(2/π) (x + 0.044715 x³)
//! ```
//!
//! Without branches, so that loops vectorise. The second form equals `x (1 + tanh u) / 2` and
//! avoids its cancellation.

use std::f32::consts::FRAC_2_SQRT_PI;

use fitgpt_program::Gelu;

use crate::cpu::{
    exp::{exp, power_and_rest},
    isa::Simd,
};

/// `out = gelu(x)`; the slices have equal lengths.
#[inline(always)]
pub(crate) fn values<S: Simd>(simd: S, gelu: Gelu, x: &[f32], out: &mut [f32]) {
    assert_eq!(x.len(), out.len());
    let pairs = out.iter_mut().zip(x);
    match gelu {
        Gelu::Exact => pairs.for_each(|(out, &x)| *out = exact(simd, x).0),
        Gelu::Tanh => pairs.for_each(|(out, &x)| *out = tanh(simd, x).0),
    }
}

/// `d *= gelu'(x)`, `x = gelu(x)`, with one exponential for both. The slices have equal lengths.
#[inline(always)]
pub(crate) fn values_and_slopes<S: Simd>(simd: S, gelu: Gelu, x: &mut [f32], d: &mut [f32]) {
    assert_eq!(x.len(), d.len());
    let take = |(value, slope), x: &mut f32, d: &mut f32| {
        *x = value;
        *d *= slope;
    };
    let pairs = d.iter_mut().zip(x);
    match gelu {
        Gelu::Exact => pairs.for_each(|(d, x)| take(exact(simd, *x), x, d)),
        Gelu::Tanh => pairs.for_each(|(d, x)| take(tanh(simd, *x), x, d)),
    }
}

/// `x Φ(x)` and its slope `Φ(x) + x φ(x)`. The compiler removes the one that is not used.
#[inline(always)]
pub(crate) fn exact<S: Simd>(simd: S, x: f32) -> (f32, f32) {
    // Beyond `END`, Φ is 0 or 1 in f32 and φ is negligible. NaN stays NaN.
    let left = if x < -END { -END } else { x };
    let x = if left > END { END } else { left };
    let square = x * x;
    let below = normal(simd, x, square);
    (left * below, simd.fma1(x, density(simd, square), below))
}

const END: f32 = 6.0;

/// `Φ(x)` for |x| up to [`END`], to 1.5 units in the last place of 1.
///
/// `Φ(x) - 1/2` is `x` times a ratio of two polynomials in `x²`, accurate to 8e-9 before rounding
/// up to 5.3. Beyond that it exceeds 1/2, so that clamping gives exactly 0 and 1.
#[inline(always)]
fn normal<S: Simd>(simd: S, x: f32, square: f32) -> f32 {
    const OVER: [f32; 6] = [
        0.398_942_23,
        0.033_316_087,
        0.004_647_846_3,
        1.638_029_5e-4,
        6.361_798e-6,
        2.346_725_1e-8,
    ];
    const UNDER: [f32; 6] =
        [1.0, 0.250_177_15, 0.028_347_67, 0.001_856_057_8, 7.226_060_6e-5, 1.219_053_6e-6];
    let from_half = x * polynomial(simd, OVER, square) / polynomial(simd, UNDER, square);
    let from_half = if from_half < -0.5 { -0.5 } else { from_half };
    let from_half = if from_half > 0.5 { 0.5 } else { from_half };
    0.5 + from_half
}

/// `φ(x) = exp(-x²/2) / sqrt(2π)`, for `x²` up to 36.
///
/// Computed as `2^n 2^r`; the polynomial gives `2^r / sqrt(2π)` with a relative error of 8e-8.
#[inline(always)]
fn density<S: Simd>(simd: S, square: f32) -> f32 {
    const POWER: [f32; 6] =
        [0.398_942_32, 0.276_525_65, 0.095_834_39, 0.022_144_143, 0.003_859_982_6, 5.296_546e-4];
    let (power, r) = power_and_rest(-0.5 * std::f32::consts::LOG2_E * square);
    power * polynomial(simd, POWER, r)
}

/// Evaluates terms in pairs, which halves the chain of dependent operations.
#[inline(always)]
fn polynomial<S: Simd, const N: usize>(simd: S, coefficients: [f32; N], x: f32) -> f32 {
    const { assert!(N.is_multiple_of(2), "coefficients come in pairs") };
    let square = x * x;
    let (pairs, _) = coefficients.as_chunks::<2>();
    let mut pairs = pairs.iter().rev().map(|&[low, high]| simd.fma1(high, x, low));
    let first = pairs.next().unwrap_or_default();
    pairs.fold(first, |sum, pair| simd.fma1(sum, square, pair))
}

const CUBIC: f32 = 0.044_715;
/// `2 sqrt(2/π)`
const TWICE: f32 = std::f32::consts::SQRT_2 * FRAC_2_SQRT_PI;

/// `x / (1 + exp(-2u))`, and its slope `s + x s (1 - s) 2u'`, with `s = 1 / (1 + exp(-2u))`.
#[inline(always)]
pub(crate) fn tanh<S: Simd>(simd: S, x: f32) -> (f32, f32) {
    let minus_2u = -TWICE * x * simd.fma1(CUBIC * x, x, 1.0);
    let e = exp(simd, minus_2u);
    let value = x / (1.0 + e);
    // Far to the left `e` must stay finite for the product below; `s` is then 1e-38.
    let most = exp(simd, 87.0);
    let e = if e > most { most } else { e };
    let s = 1.0 / (1.0 + e);
    let slope_2u = TWICE * simd.fma1(3.0 * CUBIC * x, x, 1.0);
    (value, simd.fma1(x * slope_2u, (e * s) * s, s)) // e s = 1 - s, without cancellation
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::isa::{Isa, Kernel};

    /// `Φ(x)` in f64: the series with positive terms in the middle, Laplace's continued
    /// fraction in the tails.
    fn normal_f64(x: f64) -> f64 {
        let density = density_f64(x);
        let t = x.abs();
        let tail = if t < 3.0 {
            let (mut term, mut sum, mut n) = (t, t, 1.0);
            while term > sum * 1e-18 {
                n += 2.0;
                term *= t * t / n;
                sum += term;
            }
            0.5 - density * sum
        } else {
            let fraction = (1..=200).rev().fold(t, |below, n| t + f64::from(n) / below);
            density / fraction
        };
        if x < 0.0 { tail } else { 1.0 - tail }
    }

    fn density_f64(x: f64) -> f64 {
        (-x * x / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt()
    }

    /// `1 / (1 + exp(-2u))` and `2u'` in f64.
    fn sigmoid_f64(x: f64) -> (f64, f64) {
        let twice = 2.0 * (2.0 / std::f64::consts::PI).sqrt();
        let s = 1.0 / (1.0 + (-twice * (x + 0.044_715 * x.powi(3))).exp());
        (s, twice * (1.0 + 3.0 * 0.044_715 * x * x))
    }

    /// The worst errors of the value and of the slope, in units of f32's epsilon.
    ///
    /// For the exact form, relative to x and to 1, because Φ is computed from its distance to 1/2,
    /// as in PyTorch. For the tanh form, relative to the result and to the larger term of the
    /// slope.
    struct Worst(Gelu);

    impl Kernel for Worst {
        type Output = (f64, f64);
        #[inline(always)]
        fn run<S: Simd>(self, simd: S) -> (f64, f64) {
            let (mut worst_value, mut worst_slope) = (0.0_f64, 0.0_f64);
            for i in -400_000..400_000 {
                let x = 12.5 * i as f32 / 400_000.0;
                let wide = f64::from(x);
                let (share, term, scale) = match self.0 {
                    Gelu::Exact => (normal_f64(wide), wide * density_f64(wide), 1.0),
                    Gelu::Tanh => {
                        let (s, slope_2u) = sigmoid_f64(wide);
                        // An exponential turns the two roundings of its argument into a
                        // relative error.
                        let carried = 1.0 + 2.0 * (1.6 * wide * (1.0 + 0.0447 * wide * wide)).abs();
                        if carried > 100.0 {
                            continue; // e^-50 and beyond: nothing to compare
                        }
                        (s, wide * s * (1.0 - s) * slope_2u, carried * s)
                    }
                };
                let (mut value, mut slope) = ([0.0], [1.0]);
                values(simd, self.0, &[x], &mut value);
                values_and_slopes(simd, self.0, &mut [x], &mut slope);
                let unit = f64::from(f32::EPSILON) * scale;
                let error = (f64::from(value[0]) - wide * share).abs();
                worst_value =
                    worst_value.max(if x == 0.0 { error } else { error / wide.abs() / unit });
                let error = (f64::from(slope[0]) - (share + term)).abs() / unit;
                worst_slope = worst_slope.max(match self.0 {
                    Gelu::Exact => error,
                    Gelu::Tanh => error / (term / share).abs().max(1.0),
                });
            }
            (worst_value, worst_slope)
        }
    }

    #[test]
    fn both_forms_are_right_to_a_few_units_in_the_last_place() {
        for isa in Isa::all() {
            // The tanh form rounds about a dozen times.
            for (form, most) in [(Gelu::Exact, 2.5), (Gelu::Tanh, 6.0)] {
                let (value, slope) = isa.run(Worst(form));
                assert!(value < most, "{form:?} on {}: {value}", isa.name());
                assert!(slope < most, "slope of {form:?} on {}: {slope}", isa.name());
            }
        }
    }

    struct GeluAt(f32);

    impl Kernel for GeluAt {
        type Output = [f32; 4];
        #[inline(always)]
        fn run<S: Simd>(self, simd: S) -> [f32; 4] {
            let Self(x) = self;
            let (exact, tanh) = (exact(simd, x), tanh(simd, x));
            [exact.0, tanh.0, exact.1, tanh.1]
        }
    }

    #[test]
    #[expect(clippy::float_cmp, reason = "far from zero the function is exactly a line")]
    fn far_from_zero_the_function_is_linear() {
        for isa in Isa::all() {
            assert_eq!(isa.run(GeluAt(1000.0)), [1000.0, 1000.0, 1.0, 1.0]);
            let [exact, tanh, exact_slope, tanh_slope] = isa.run(GeluAt(-1000.0));
            assert_eq!(exact, 0.0);
            assert!(exact_slope.abs() < 4e-8, "6 φ(6)");
            // The smallest factor, 1e-38, times the cube of x.
            assert!(tanh.abs() < 1e-29 && tanh_slope.abs() < 1e-29);
            assert!(isa.run(GeluAt(f32::NAN)).iter().all(|x| x.is_nan()));
            assert_eq!(isa.run(GeluAt(0.0)), [0.0, 0.0, 0.5, 0.5]);
        }
    }
}
