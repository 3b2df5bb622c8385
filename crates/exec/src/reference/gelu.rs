//! The Gaussian error linear unit: exact, and with the approximation of OpenAI's GPT-2.
//!
//! ```text
//! exact: x · Φ(x)          tanh: ½ x (1 + tanh(√(2/π) (x + 0.044715 x³)))
//! ```

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, PI};

use fitgpt_program::Gelu;

const CUBIC: f64 = 0.044_715;

/// The activation of one value.
pub(super) fn gelu(kind: Gelu, x: f64) -> f64 {
    match kind {
        Gelu::Exact => x * normal_cdf(x),
        Gelu::Tanh => 0.5 * x * (1.0 + inner(x).tanh()),
    }
}

/// Its derivative.
pub(super) fn slope(kind: Gelu, x: f64) -> f64 {
    match kind {
        Gelu::Exact => normal_cdf(x) + x * (-0.5 * x * x).exp() / (2.0 * PI).sqrt(),
        Gelu::Tanh => {
            let tanh = inner(x).tanh();
            let d_inner = (2.0 / PI).sqrt() * (1.0 + 3.0 * CUBIC * x * x);
            0.5 * (1.0 + tanh) + 0.5 * x * (1.0 - tanh * tanh) * d_inner
        }
    }
}

fn inner(x: f64) -> f64 {
    (2.0 / PI).sqrt() * (x + CUBIC * x.powi(3))
}

/// Φ, the normal distribution, by `erfc`, which stays accurate far below zero.
fn normal_cdf(x: f64) -> f64 {
    0.5 * erfc(-x * FRAC_1_SQRT_2)
}

/// `1 - erf(x)`, which the standard library lacks.
fn erfc(x: f64) -> f64 {
    if x.is_nan() {
        return x;
    }
    if x < 0.0 {
        return 2.0 - erfc(-x);
    }
    if x < 2.0 {
        // erf x = 2/√π · e^(-x²) · Σ (2x²)ⁿ x / (1 · 3 · … · (2n + 1)); every term is positive.
        let (mut term, mut sum) = (x, x);
        for n in 1..100 {
            term *= 2.0 * x * x / f64::from(2 * n + 1);
            sum += term;
        }
        return 1.0 - FRAC_2_SQRT_PI * (-x * x).exp() * sum;
    }
    // The continued fraction e^(-x²)/√π · 1/(x + ½/(x + 1/(x + 3/2/(x + …)))), from its tail.
    let tail = (1..=100).rev().fold(x, |tail, n| x + 0.5 * f64::from(n) / tail);
    0.5 * FRAC_2_SQRT_PI * (-x * x).exp() / tail
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::differences::{assert_gradient, numbers};

    #[test]
    fn erfc_has_the_values_of_the_tables() {
        // Abramowitz and Stegun's table 7.1, with more digits from later tables.
        for (x, expected) in [
            (0.0, 1.0),
            (0.5, 0.479_500_122_186_953_5),
            (1.0, 0.157_299_207_050_285_13),
            (2.0, 0.004_677_734_981_047_266),
            (3.0, 2.209_049_699_858_544e-5),
            (5.0, 1.537_459_794_428_035e-12),
            (-1.0, 1.842_700_792_949_715),
        ] {
            let error = (erfc(x) - expected).abs() / expected;
            assert!(error < 1e-13, "erfc({x}) = {}", erfc(x));
        }
    }

    #[test]
    fn both_slopes_are_those_of_the_forward() {
        let x: Vec<_> = numbers(1, 40).into_iter().map(|x| 5.0 * x).collect();
        for kind in [Gelu::Exact, Gelu::Tanh] {
            let slopes: Vec<_> = x.iter().map(|x| slope(kind, *x)).collect();
            assert_gradient(|x| x.iter().map(|x| gelu(kind, *x)).sum(), &x, &slopes);
        }
    }

    #[test]
    fn both_forms_are_close_but_not_equal() {
        let apart = |x: f64| (gelu(Gelu::Exact, x) - gelu(Gelu::Tanh, x)).abs();
        let most = (-60..60).map(|x| apart(f64::from(x) / 10.0)).fold(0.0, f64::max);
        assert!(most > 1e-4 && most < 1e-3, "{most}");
    }
}
