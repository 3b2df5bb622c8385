//! Muon: momentum, and the Newton-Schulz iteration that makes it nearly orthogonal.
//!
//! ```text
//! m += (1 - µ) (g - m)          u = g + µ (m - g), or m without Nesterov
//! X  = u / max(‖u‖, ε)
//! X  = a X + (b G + c G²) X     with G = X Xᵀ, repeated; Xᵀ X if there are more rows
//! p  = p (1 - lr · weight_decay) - lr · adjustment · X
//! ```
//!
//! Matrices are stored and multiplied in float32 by the ordinary units. If the iteration is in
//! bfloat16, every stored number is rounded to it. So devices without that type give the same
//! result.

use cubecl::prelude::*;

use super::{
    math::is_number,
    product::{Factor, FactorLayout, ProductUnits, column_of, number, pass, product, row_of},
    update::factor_of,
};

/// The type that the iteration's numbers are rounded to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum IterationType {
    F32,
    Bf16,
}

/// `x` rounded to nearest, ties to even.
#[cube]
fn stored(x: f32, #[comptime] as_type: IterationType) -> f32 {
    if comptime!(as_type == IterationType::Bf16) {
        let bits = u32::reinterpret(x);
        let rounded = bits + 0x7fffu32 + (bits >> 16 & 1u32);
        f32::reinterpret(rounded & 0xffff_0000u32)
    } else {
        x
    }
}

/// The constants of one step, which all elements of a matrix share.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
pub(crate) struct MuonConstants {
    pub(crate) inverse_loss_scale: f32,
    /// 0 for no clipping.
    pub(crate) grad_clip: f32,
    /// The gradient's weight in the new momentum, `1 - µ`.
    pub(crate) rest: f32,
    /// The gradient's weight in the update: 0 without Nesterov.
    pub(crate) nesterov: f32,
}

/// Updates the momentum and writes the matrix to orthogonalise.
#[cube(launch_unchecked, create_dummy_kernel)]
pub(crate) fn mix(
    norm: &[f32],
    gradient: &[f32],
    momentum: &mut [f32],
    x: &mut [f32],
    count: usize,
    mixing: MuonConstants,
    #[comptime] as_type: IterationType,
) {
    let i = ABSOLUTE_POS;
    if i < count {
        let norm = norm[0];
        let g = gradient[i] * factor_of(norm, mixing.grad_clip, mixing.inverse_loss_scale);
        let m = fma(mixing.rest, g - momentum[i], momentum[i]);
        if is_number(norm) {
            momentum[i] = m;
        }
        x[i] = stored(fma(mixing.nesterov, g - m, m), as_type);
    }
}

/// `x /= max(length, least)`
#[cube(launch_unchecked, create_dummy_kernel)]
pub(crate) fn divide(
    length: &[f32],
    x: &mut [f32],
    count: usize,
    least: f32,
    #[comptime] as_type: IterationType,
) {
    let i = ABSOLUTE_POS;
    if i < count {
        x[i] = stored(x[i] / max(length[0], least), as_type);
    }
}

/// `out = x xᵀ` or `xᵀ x`, depending on the layout; `out` has `side` rows and columns.
#[cube(launch_unchecked, create_dummy_kernel)]
pub(crate) fn gram(
    x: &[f32],
    out: &mut [f32],
    left: Factor,
    right: Factor,
    inners: usize,
    #[comptime] layout: FactorLayout,
    #[comptime] as_type: IterationType,
) {
    let core = comptime!(ProductUnits::Units);
    let mut made = product::<f32, f32, f32>(x, x, &left, &right, inners, layout, layout, core);
    #[unroll]
    for part in 0..comptime!(core.parts()) {
        pass(&mut made, part, core);
        let (row, column) = (row_of(part, 0usize.runtime(), core), column_of(part, core));
        if row < left.outer && column < right.outer {
            let sum = number(&made, part, 0usize.runtime(), core);
            out[row * right.outer + column] = stored(sum, as_type);
        }
    }
}

/// `out = b gram + c gram gram`
#[cube(launch_unchecked, create_dummy_kernel)]
pub(crate) fn polynomial(
    gram: &[f32],
    out: &mut [f32],
    left: Factor,
    right: Factor,
    inners: usize,
    b: f32,
    c: f32,
    #[comptime] as_type: IterationType,
) {
    let core = comptime!(ProductUnits::Units);
    let (first, last) = comptime!((FactorLayout::InnerFirst, FactorLayout::InnerLast));
    let mut made = product::<f32, f32, f32>(gram, gram, &left, &right, inners, last, first, core);
    #[unroll]
    for part in 0..comptime!(core.parts()) {
        pass(&mut made, part, core);
        let (row, column) = (row_of(part, 0usize.runtime(), core), column_of(part, core));
        if row < left.outer && column < right.outer {
            let at = row * right.outer + column;
            let sum = number(&made, part, 0usize.runtime(), core);
            out[at] = stored(fma(c, sum, b * gram[at]), as_type);
        }
    }
}

/// Which side of `x` the polynomial is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum PolynomialSide {
    Left,
    Right,
}

/// `out = a x + polynomial x`, or `a x + x polynomial`
#[cube(launch_unchecked, create_dummy_kernel)]
pub(crate) fn advance(
    x: &[f32],
    polynomial: &[f32],
    out: &mut [f32],
    left: Factor,
    right: Factor,
    inners: usize,
    a: f32,
    #[comptime] side: PolynomialSide,
    #[comptime] as_type: IterationType,
) {
    let core = comptime!(ProductUnits::Units);
    let (first, last) = comptime!((FactorLayout::InnerFirst, FactorLayout::InnerLast));
    let mut made = if comptime!(side == PolynomialSide::Left) {
        product::<f32, f32, f32>(polynomial, x, &left, &right, inners, last, first, core)
    } else {
        product::<f32, f32, f32>(x, polynomial, &left, &right, inners, last, first, core)
    };
    #[unroll]
    for part in 0..comptime!(core.parts()) {
        pass(&mut made, part, core);
        let (row, column) = (row_of(part, 0usize.runtime(), core), column_of(part, core));
        if row < left.outer && column < right.outer {
            let at = row * right.outer + column;
            let sum = number(&made, part, 0usize.runtime(), core);
            out[at] = stored(fma(a, x[at], sum), as_type);
        }
    }
}

/// `parameter = parameter · decay_factor - rate · x`. Sets the gradient to zero; does nothing else
/// if `norm` is not finite.
#[cube(launch_unchecked, create_dummy_kernel)]
pub(crate) fn apply(
    norm: &[f32],
    x: &[f32],
    parameter: &mut [f32],
    gradient: &mut [f32],
    count: usize,
    decay_factor: f32,
    rate: f32,
) {
    let i = ABSOLUTE_POS;
    if i < count {
        gradient[i] = 0.0;
        if is_number(norm[0]) {
            parameter[i] = fma(parameter[i], decay_factor, -(rate * x[i]));
        }
    }
}
