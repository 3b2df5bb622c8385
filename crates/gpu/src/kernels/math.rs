//! Functions of one number, and sums over a cube in a fixed order.
//!
//! A multiplication followed by an addition is always written as `fma`, because a compiler may or
//! may not fuse them: a function inlined into two kernels must give the same bits, so that
//! recomputing does.

use std::f32::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, SQRT_2};

use cubecl::{ir::HardwareProperties, prelude::*};
use fitgpt_program::Gelu;

/// Units of a cube that works on one row or on a range of elements.
pub(crate) const UNITS: u32 = 256;

/// `1 / √(2π)`
const DENSITY: f32 = FRAC_2_SQRT_PI * FRAC_1_SQRT_2 / 2.0;
/// `2 √(2/π)`
const TWICE: f32 = SQRT_2 * FRAC_2_SQRT_PI;
const CUBIC: f32 = 0.044_715;

/// `1 / (1 + exp(-x))`
#[cube]
pub(crate) fn sigmoid(x: f32) -> f32 {
    // On some devices an exponential that overflows is NaN.
    let bounded: f32 = clamp_max(-x, 80.0f32);
    1.0 / (1.0 + bounded.exp())
}

/// The activation of `x`.
#[cube]
pub(crate) fn gelu(x: f32, #[comptime] kind: Gelu) -> f32 {
    if comptime!(kind == Gelu::Exact) {
        let bell = bell(x);
        x * below(x, bell)
    } else {
        x * logistic(x)
    }
}

/// Its derivative.
#[cube]
pub(crate) fn gelu_slope(x: f32, #[comptime] kind: Gelu) -> f32 {
    if comptime!(kind == Gelu::Exact) {
        let bell = bell(x);
        fma(x, bell * DENSITY, below(x, bell))
    } else {
        // s + x s (1 - s) 2u', with s = 1 / (1 + exp(-2u))
        let s = logistic(x);
        let slope_2u = TWICE * fma(3.0 * CUBIC * x, x, 1.0);
        fma(x * slope_2u, s * (1.0 - s), s)
    }
}

/// `1 / (1 + exp(-2u))` with `u = √(2/π) (x + 0.044715 x³)`, which is `(1 + tanh u) / 2`.
#[cube]
fn logistic(x: f32) -> f32 {
    sigmoid(TWICE * x * fma(CUBIC * x, x, 1.0))
}

/// `exp(-x²/2)`
#[cube]
fn bell(x: f32) -> f32 {
    let t: f32 = clamp_max(x.abs(), 13.0f32); // 2e-37, about the smallest normal number
    let exponent: f32 = t * t * -0.5f32;
    exponent.exp()
}

/// The share of a normal distribution below `x`; `bell` is `exp(-x²/2)`.
///
/// With `t = |x|` its left tail is `bell · q(t)`, and `q` is so smooth that `u` times a polynomial
/// of degree 9 in `u = 1 / (1 + 0.24 t)` has a relative error of 4e-9.
#[cube]
fn below(x: f32, bell: f32) -> f32 {
    let u = 1.0 / fma(0.24, x.abs(), 1.0);
    let q = fma(0.025_399_055, u, -0.123_908_79);
    let q = fma(q, u, 0.203_661_52);
    let q = fma(q, u, -0.141_681_63);
    let q = fma(q, u, 0.139_137_63);
    let q = fma(q, u, 0.029_498_124);
    let q = fma(q, u, 0.087_256_5);
    let q = fma(q, u, 0.089_053_12);
    let q = fma(q, u, 0.095_841_52);
    let q = u * fma(q, u, 0.095_742_97);
    select(x < 0.0, bell * q, fma(-bell, q, 1.0))
}

/// Whether `x` is finite. Tests the bits, because compilers may assume that floats are finite.
#[cube]
pub(crate) fn is_number(x: f32) -> bool {
    let exponent = u32::reinterpret(x) & 0x7f80_0000u32;
    exponent != 0x7f80_0000u32
}

/// The order in which the numbers of a cube's units are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum SumOrder {
    /// First within each plane, then the planes in order.
    Planes,
    /// As a tree in shared memory: for devices without planes, or whose planes vary in size.
    Tree,
}

impl SumOrder {
    /// The order for a device with planes: in planes only if their size is fixed, so that a repeated
    /// sum has the same bits.
    pub(crate) fn with_planes_of(hardware: &HardwareProperties) -> Self {
        let is_fixed = hardware.plane_size_min == hardware.plane_size_max;
        if is_fixed { Self::Planes } else { Self::Tree }
    }
}

/// The sum of every unit's `value`, for all units, in an order that is fixed on one device.
#[cube]
pub(crate) fn sum_of_cube(value: f32, #[comptime] sums: SumOrder) -> f32 {
    of_cube(value, Fold::Sum, sums)
}

/// The largest of every unit's `value`, for all units.
#[cube]
pub(crate) fn max_of_cube(value: f32, #[comptime] sums: SumOrder) -> f32 {
    of_cube(value, Fold::Max, sums)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Fold {
    Sum,
    Max,
}

#[cube]
fn of_two(a: f32, b: f32, #[comptime] fold: Fold) -> f32 {
    if comptime!(fold == Fold::Sum) { a + b } else { max(a, b) }
}

#[cube]
fn of_plane(value: f32, #[comptime] fold: Fold) -> f32 {
    if comptime!(fold == Fold::Sum) { plane_sum(value) } else { plane_max(value) }
}

#[cube]
fn of_cube(value: f32, #[comptime] fold: Fold, #[comptime] sums: SumOrder) -> f32 {
    let mut shared = Shared::<[f32]>::new_slice(UNITS as usize);
    if comptime!(sums == SumOrder::Planes) {
        let of_plane = of_plane(value, fold);
        if UNIT_POS_PLANE == 0 {
            shared[PLANE_POS as usize] = of_plane;
        }
        sync_cube();
        let mut all = shared[0];
        for plane in 1..UNITS / PLANE_DIM {
            all = of_two(all, shared[plane as usize], fold);
        }
        sync_cube();
        all
    } else {
        let unit = UNIT_POS as usize;
        shared[unit] = value;
        sync_cube();
        #[unroll]
        for level in 1..9usize {
            let half = comptime!(UNITS as usize >> level);
            if unit < half {
                shared[unit] = of_two(shared[unit], shared[unit + half], fold);
            }
            sync_cube();
        }
        let all = shared[0];
        sync_cube();
        all
    }
}
