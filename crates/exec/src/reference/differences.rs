//! Checks gradients against central differences.

/// Asserts that `gradient` is the gradient of `f` at `x`.
///
/// Everything is f64 and the inputs are near 1, so a step of 1e-5 leaves an error of about
/// 1e-10 from the third derivative and 1e-11 from rounding; 1e-7 of the largest entry is far
/// above both and far below any wrong term.
pub(super) fn assert_gradient(f: impl Fn(&[f64]) -> f64, x: &[f64], gradient: &[f64]) {
    const STEP: f64 = 1e-5;
    assert_eq!(x.len(), gradient.len());
    let scale = gradient.iter().fold(1e-3, |scale: f64, g| scale.max(g.abs()));
    let mut moved = x.to_vec();
    for (i, expected) in gradient.iter().enumerate() {
        moved[i] = x[i] + STEP;
        let above = f(&moved);
        moved[i] = x[i] - STEP;
        let below = f(&moved);
        moved[i] = x[i];
        let found = (above - below) / (2.0 * STEP);
        let error = (found - expected).abs() / scale;
        assert!(error < 1e-7, "entry {i}: {expected} by the backward, {found} by differences");
    }
}

/// Pseudorandom numbers between -1 and 1.
pub(super) fn numbers(seed: u32, count: usize) -> Vec<f64> {
    (0..count as u32)
        .map(|i| {
            let bits = crate::random::fmix32(crate::random::fmix32(i + 1) ^ seed);
            f64::from(bits) / f64::from(1u32 << 31) - 1.0
        })
        .collect()
}

/// `Σ a · b`: a scalar that depends on every entry of `a`, with gradient `b`.
pub(super) fn dot(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
