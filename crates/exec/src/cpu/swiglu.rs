//! The gate of an MLP: `silu(gate) * up`, and its gradients.
//!
//! ```text
//! silu(g) = g s            s = 1 / (1 + e^-g)
//! out     = silu(g) u      d_g = d u s (1 + g (1 - s))      d_u = d silu(g)
//! ```
//!
//! Without branches, so that loops vectorise.

use crate::cpu::{exp::exp, isa::Simd};

/// `1 / (1 + e^-x)`
#[inline(always)]
fn sigmoid<S: Simd>(simd: S, x: f32) -> f32 {
    1.0 / (1.0 + exp(simd, -x))
}

/// `out = silu(gate) * up`; the slices have equal lengths.
#[inline(always)]
pub(super) fn values<S: Simd>(simd: S, gate: &[f32], up: &[f32], out: &mut [f32]) {
    for (out, (gate, up)) in out.iter_mut().zip(gate.iter().zip(up)) {
        *out = gate * sigmoid(simd, *gate) * up;
    }
}

/// On entry `out` holds the gradient of the value. Replaces it with the value, and `gate` and `up`
/// with their gradients. The slices have equal lengths.
#[inline(always)]
pub(super) fn values_and_gradients<S: Simd>(
    simd: S,
    gate: &mut [f32],
    up: &mut [f32],
    out: &mut [f32],
) {
    for (out, (gate, up)) in out.iter_mut().zip(gate.iter_mut().zip(up)) {
        let (d, g, u) = (*out, *gate, *up);
        let s = sigmoid(simd, g);
        let silu = g * s;
        *out = silu * u;
        *gate = d * u * simd.fma1(silu, 1.0 - s, s);
        *up = d * silu;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::isa::{Isa, Kernel};

    struct InputGrid;

    impl Kernel for InputGrid {
        type Output = f64;

        /// The worst error, in units of float32's epsilon of the largest term.
        #[inline(always)]
        fn run<S: Simd>(self, simd: S) -> f64 {
            let mut worst = 0.0_f64;
            for i in -4000..4000 {
                let g = i as f32 / 100.0;
                let (mut gate, mut up, mut out) = ([g], [1.5_f32], [0.75_f32]);
                let mut value = [0.0];
                values(simd, &gate, &up, &mut value);
                values_and_gradients(simd, &mut gate, &mut up, &mut out);
                let wide = f64::from(g);
                let s = 1.0 / (1.0 + (-wide).exp());
                assert_eq!(
                    value[0].to_bits(),
                    out[0].to_bits(),
                    "both functions give the same value"
                );
                // Each expected value, and the terms that it is the sum of.
                let expected = [
                    (wide * s * 1.5, wide * s * 1.5),
                    (
                        0.75 * 1.5 * s * (1.0 + wide * (1.0 - s)),
                        0.75 * 1.5 * s * (1.0 + wide.abs() * (1.0 - s)),
                    ),
                    (0.75 * wide * s, 0.75 * wide * s),
                ];
                for (found, (expected, terms)) in [out[0], gate[0], up[0]].into_iter().zip(expected)
                {
                    let error = (f64::from(found) - expected).abs() / terms.abs().max(1e-30);
                    // An exponential turns the rounding of its argument into a relative error.
                    worst = worst.max(error / (1.0 + wide.abs()));
                }
            }
            worst / f64::from(f32::EPSILON)
        }
    }

    #[test]
    fn values_and_gradients_are_right_to_a_few_units_in_the_last_place() {
        for isa in Isa::all() {
            let worst = isa.run(InputGrid);
            assert!(worst < 8.0, "{worst} on {}", isa.name());
        }
    }

    struct Far(f32);

    impl Kernel for Far {
        type Output = [f32; 3];
        #[inline(always)]
        fn run<S: Simd>(self, simd: S) -> [f32; 3] {
            let (mut gate, mut up, mut out) = ([self.0], [1.0], [1.0]);
            values_and_gradients(simd, &mut gate, &mut up, &mut out);
            [out[0], gate[0], up[0]]
        }
    }

    #[test]
    #[expect(clippy::float_cmp, reason = "far from zero the function is exactly a line")]
    fn far_from_zero_the_function_is_linear() {
        for isa in Isa::all() {
            assert_eq!(isa.run(Far(1000.0)), [1000.0, 1.0, 1000.0]);
            assert!(isa.run(Far(-1000.0)).iter().all(|x| *x == 0.0));
            assert!(isa.run(Far(f32::NAN)).iter().all(|x| x.is_nan()));
        }
    }
}
