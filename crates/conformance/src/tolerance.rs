//! How far a backend may be from the reference, and why.
//!
//! Inputs of the cases are random with both signs, so sums cancel: an error is relative to the
//! largest element of its tensor, not to the element itself, which may be tiny. Only the rounding of
//! a 16-bit type is relative to the element itself.

use fitgpt_program::units::DType;

/// An allowed error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Tolerance {
    /// Relative to the tensor's largest element.
    of_scale: f64,
    /// Relative to the element itself.
    of_value: f64,
    /// Absolute.
    absolute: f64,
    /// Where the error comes from.
    pub(super) why: &'static str,
}

const EPSILON: f64 = f32::EPSILON as f64;

impl Tolerance {
    const fn new(of_scale: f64, why: &'static str) -> Self {
        Self { of_scale, of_value: 0.0, absolute: 0.0, why }
    }

    /// The allowed error of an element.
    pub(super) fn allowed(&self, expected: f64, scale: f64) -> f64 {
        self.of_scale * scale + self.of_value * expected.abs() + self.absolute
    }

    /// For results stored in a 16-bit type: one more spacing, because two values that differ by
    /// less than any tolerance may be rounded to different neighbours.
    pub(super) fn stored(self, dtype: DType) -> Self {
        let (of_value, absolute) = match dtype {
            DType::Bf16 => (spacing(dtype), 0.0),
            DType::F16 => (spacing(dtype), 2f64.powi(-24)), // the spacing of its subnormals
            _ => (0.0, 0.0),
        };
        Self { of_value: self.of_value + of_value, absolute: self.absolute + absolute, ..self }
    }

    /// For sums of products with one factor rounded to a half type: each product has a relative error
    /// of at most half a spacing with a random sign, and the sum has less.
    pub(super) fn with_rounded_factor(self, dtype: DType) -> Self {
        Self { of_scale: self.of_scale + 0.5 * spacing(dtype), ..self }
    }

    /// For results of a function whose slope is at most 1.13 (both GELUs), if its argument was
    /// rounded to a 16-bit type: one spacing of the largest argument.
    pub(super) fn through(self, dtype: DType) -> Self {
        Self { of_scale: self.of_scale + 1.13 * spacing(dtype), ..self }
    }
}

/// The largest distance between neighbours, relative to them.
pub(super) fn spacing(dtype: DType) -> f64 {
    match dtype {
        DType::Bf16 => 2f64.powi(-7),
        DType::F16 => 2f64.powi(-10),
        _ => EPSILON,
    }
}

/// For copies.
pub(super) const fn copy() -> Tolerance {
    Tolerance::new(0.0, "copies are exact")
}

/// For a few f32 operations on each element, without long sums.
pub(super) const fn elementwise() -> Tolerance {
    Tolerance::new(8.0 * EPSILON, "a few roundings of f32")
}

/// For sums of `n` f32 terms or products of random sign.
pub(super) fn sum(n: u64) -> Tolerance {
    let why = "f32 sum in any order: errors of random sign grow as the root of its length";
    Tolerance::new(EPSILON * (8.0 + 2.0 * (n as f64).sqrt()), why)
}

/// For a matrix after Newton-Schulz iterations with products that are sums of `n`, stored as
/// `dtype` in between. Its entries are random, so that no singular value grows much faster than the
/// matrix, and relative errors add up.
pub(super) fn iterated(dtype: DType, growth: f64, steps: u32, n: u64) -> Tolerance {
    let in_sums = EPSILON * (8.0 + 2.0 * (n as f64).sqrt()) * f64::from(steps);
    if dtype == DType::Bf16 {
        // The CPU kernels were up to 1.2 spacings away, on 64 by 64.
        let why = "a sum close to the midpoint of two values may be rounded in the other direction, \
                   and an iteration multiplies the difference by at most `growth`";
        return Tolerance::new(in_sums + growth * spacing(dtype), why);
    }
    Tolerance::new(in_sums, "each iteration adds the errors of its f32 sums")
}

/// For GELU of a sum of `n` products, or its slope.
pub(super) fn activation(n: u64) -> Tolerance {
    let why = "f32 erf, tanh and exp within a few spacings, of an f32 sum";
    Tolerance::new(EPSILON * (32.0 + 2.0 * (n as f64).sqrt()), why)
}

/// For sums over `n` weighted by a softmax of scores up to `largest`, each a sum of `inner`.
///
/// An absolute error of a score is a relative error of its exponential.
pub(super) fn softmax(inner: u64, largest: f64, n: u64) -> Tolerance {
    let score = largest * (2.0 + (inner as f64).sqrt());
    let why = "exponentials carry the absolute error of f32 scores; then an f32 sum";
    Tolerance::new(EPSILON * (32.0 + score + 2.0 * (n as f64).sqrt()), why)
}

/// For logarithms of a sum of exponentials of scores up to `largest`, each a sum of `inner`.
pub(super) fn log_sum(inner: u64, largest: f64) -> Tolerance {
    let score = largest * (2.0 + (inner as f64).sqrt());
    let why = "a logarithm carries the absolute error of f32 scores";
    Tolerance { absolute: EPSILON * (8.0 + score), ..Tolerance::new(8.0 * EPSILON, why) }
}

/// For whole models of `ops` ops: errors of random sign grow as the root of their number.
///
/// The error that one op adds, in spacings of its type:
///
/// - A 16-bit type: half a spacing, the largest error of rounding to nearest. Backends round the
///   same values, so the actual error is smaller: the worst gradient of the suite's models (45 ops)
///   was off by 0.03 spacings per op in bfloat16 and 0.12 in float16, over AVX-512, AVX2 and the
///   portable kernels.
/// - float32: an op is a sum, which rounds several times. The worst was 1.6 spacings per op; the
///   margin is for backends that sum in longer chains.
pub(super) fn model(dtype: DType, ops: usize) -> Tolerance {
    let (of_one, why) = match dtype {
        DType::F32 => (6.0, "each op adds an f32 sum's error; signs are random"),
        _ => (0.5, "each op rounds to a half type once; signs are random"),
    };
    Tolerance::new(of_one * spacing(dtype) * (ops as f64).sqrt(), why)
}
