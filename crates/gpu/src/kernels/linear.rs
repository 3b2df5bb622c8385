//! Matrix products fused with what follows them: bias, sum, activation, residual stream.
//!
//! `product` computes the products. Here every unit takes its numbers and does the rest in
//! registers, so that intermediate results are never stored.

use cubecl::{ir::ElemType, prelude::*};
use fitgpt_program::Gelu;

use super::{
    mask::{DropoutMask, factor},
    math::{gelu, gelu_slope, sigmoid},
    product::{Factor, FactorLayout, ProductUnits, column_of, number, pass, product, row_of},
};

/// The position of a product in a buffer: `first` is its first element.
#[derive(CubeType, CubeLaunch)]
pub(crate) struct Corner {
    pub(crate) first: usize,
    pub(crate) stride: usize,
}

#[cube]
fn bias_at(bias: &ComptimeOption<Box<[f32]>>, column: usize) -> f32 {
    #[comptime]
    let value = match bias {
        ComptimeOption::Some(bias) => bias[column],
        ComptimeOption::None => 0.0f32.runtime(),
    };
    value
}

/// `out = a · b + bias`, or `out += a · b`.
#[cube(launch_unchecked, create_dummy_kernel)]
pub(crate) fn multiply<A: Float, B: Float, O: Float, H: Float>(
    a: &[A],
    b: &[B],
    bias: ComptimeOption<Box<[f32]>>,
    out: &mut [O],
    of_a: Factor,
    of_b: Factor,
    inners: usize,
    corner: Corner,
    #[comptime] layouts: (FactorLayout, FactorLayout),
    #[comptime] adds: bool,
    #[comptime] core: ProductUnits,
    #[define(A)] _a: ElemType,
    #[define(B)] _b: ElemType,
    #[define(O)] _out: ElemType,
    #[define(H)] _factors: ElemType,
) {
    let (layout_a, layout_b) = comptime!(layouts);
    let mut made = product::<A, B, H>(a, b, &of_a, &of_b, inners, layout_a, layout_b, core);
    #[unroll]
    for part in 0..comptime!(core.parts()) {
        pass(&mut made, part, core);
        for e in 0..comptime!(core.share()) {
            let (row, column) = (row_of(part, e, core), column_of(part, core));
            if row < of_a.outer && column < of_b.outer {
                let at = corner.first + row * corner.stride + column;
                let sum = number(&made, part, e, core) + bias_at(&bias, column);
                if comptime!(adds) {
                    out[at] = O::cast_from(f32::cast_from(out[at]) + sum);
                } else {
                    out[at] = O::cast_from(sum);
                }
            }
        }
    }
}

/// `pre = x · weightᵀ + bias; out = gelu(pre)`. `pre` is stored only if it is bound.
#[cube(launch_unchecked, create_dummy_kernel)]
pub(crate) fn activate<E: Float, H: Float>(
    x: &[E],
    weight: &[f32],
    bias: ComptimeOption<Box<[f32]>>,
    mut pre: ComptimeOption<Box<[E]>>,
    out: &mut [E],
    of_x: Factor,
    of_weight: Factor,
    inners: usize,
    #[comptime] kind: Gelu,
    #[comptime] core: ProductUnits,
    #[define(E)] _stored: ElemType,
    #[define(H)] _factors: ElemType,
) {
    let last = comptime!(FactorLayout::InnerLast);
    let mut made = product::<E, f32, H>(x, weight, &of_x, &of_weight, inners, last, last, core);
    #[unroll]
    for part in 0..comptime!(core.parts()) {
        pass(&mut made, part, core);
        for e in 0..comptime!(core.share()) {
            let (row, column) = (row_of(part, e, core), column_of(part, core));
            if row < of_x.outer && column < of_weight.outer {
                let at = row * of_weight.outer + column;
                // Rounded even if it is not stored, so that evaluation computes what training does.
                let value = E::cast_from(number(&made, part, e, core) + bias_at(&bias, column));
                #[comptime]
                match &mut pre {
                    ComptimeOption::Some(pre) => {
                        pre[at] = value;
                    }
                    ComptimeOption::None => {}
                }
                out[at] = E::cast_from(gelu(f32::cast_from(value), kind));
            }
        }
    }
}

/// `up = x · weightᵀ + bias; out = silu(gate) * up`. `up` is stored only if it is bound.
#[cube(launch_unchecked, create_dummy_kernel)]
pub(crate) fn gated<E: Float, H: Float>(
    x: &[E],
    weight: &[f32],
    bias: ComptimeOption<Box<[f32]>>,
    gate: &[E],
    mut up: ComptimeOption<Box<[E]>>,
    out: &mut [E],
    of_x: Factor,
    of_weight: Factor,
    inners: usize,
    #[comptime] core: ProductUnits,
    #[define(E)] _stored: ElemType,
    #[define(H)] _factors: ElemType,
) {
    let last = comptime!(FactorLayout::InnerLast);
    let mut made = product::<E, f32, H>(x, weight, &of_x, &of_weight, inners, last, last, core);
    #[unroll]
    for part in 0..comptime!(core.parts()) {
        pass(&mut made, part, core);
        for e in 0..comptime!(core.share()) {
            let (row, column) = (row_of(part, e, core), column_of(part, core));
            if row < of_x.outer && column < of_weight.outer {
                let at = row * of_weight.outer + column;
                // Rounded even if it is not stored, as above.
                let value = E::cast_from(number(&made, part, e, core) + bias_at(&bias, column));
                #[comptime]
                match &mut up {
                    ComptimeOption::Some(up) => {
                        up[at] = value;
                    }
                    ComptimeOption::None => {}
                }
                let gate = f32::cast_from(gate[at]);
                out[at] = E::cast_from(gate * sigmoid(gate) * f32::cast_from(value));
            }
        }
    }
}

/// `out = residual + drop(x · weightᵀ + bias)`; `first_row` rows come before these.
#[cube(launch_unchecked, create_dummy_kernel)]
pub(crate) fn onto_residual<E: Float, H: Float>(
    x: &[E],
    weight: &[f32],
    bias: ComptimeOption<Box<[f32]>>,
    residual: &[E],
    out: &mut [E],
    mask: ComptimeOption<DropoutMask>,
    of_x: Factor,
    of_weight: Factor,
    inners: usize,
    first_row: usize,
    seq: usize,
    #[comptime] core: ProductUnits,
    #[define(E)] _stored: ElemType,
    #[define(H)] _factors: ElemType,
) {
    let last = comptime!(FactorLayout::InnerLast);
    let mut made = product::<E, f32, H>(x, weight, &of_x, &of_weight, inners, last, last, core);
    #[unroll]
    for part in 0..comptime!(core.parts()) {
        pass(&mut made, part, core);
        for e in 0..comptime!(core.share()) {
            let (row, column) = (row_of(part, e, core), column_of(part, core));
            if row < of_x.outer && column < of_weight.outer {
                let at = row * of_weight.outer + column;
                let sum = number(&made, part, e, core) + bias_at(&bias, column);
                let rest = f32::cast_from(residual[at]);
                #[comptime]
                let total = match &mask {
                    ComptimeOption::Some(mask) => {
                        let row = first_row + row;
                        let element = row % seq * of_weight.outer + column;
                        fma(sum, factor(mask, row / seq, element), rest)
                    }
                    ComptimeOption::None => sum + rest,
                };
                out[at] = E::cast_from(total);
            }
        }
    }
}

/// `d_pre = (d_out · weight) * gelu'(pre); pre = gelu(pre)`
#[cube(launch_unchecked, create_dummy_kernel)]
pub(crate) fn through_gelu<E: Float, H: Float>(
    d_out: &[E],
    weight: &[f32],
    pre: &mut [E],
    d_pre: &mut [E],
    of_d_out: Factor,
    of_weight: Factor,
    inners: usize,
    #[comptime] kind: Gelu,
    #[comptime] core: ProductUnits,
    #[define(E)] _stored: ElemType,
    #[define(H)] _factors: ElemType,
) {
    let (last, first) = comptime!((FactorLayout::InnerLast, FactorLayout::InnerFirst));
    let mut made =
        product::<E, f32, H>(d_out, weight, &of_d_out, &of_weight, inners, last, first, core);
    #[unroll]
    for part in 0..comptime!(core.parts()) {
        pass(&mut made, part, core);
        for e in 0..comptime!(core.share()) {
            let (row, column) = (row_of(part, e, core), column_of(part, core));
            if row < of_d_out.outer && column < of_weight.outer {
                let at = row * of_weight.outer + column;
                let input = f32::cast_from(pre[at]);
                let slope = gelu_slope(input, kind);
                d_pre[at] = E::cast_from(number(&made, part, e, core) * slope);
                pre[at] = E::cast_from(gelu(input, kind));
            }
        }
    }
}

/// With `d = d_out · weight` and `s = sigmoid(gate)`, all from the values before:
/// `out = gate * s * up; gate = d * up * s * (1 + gate * (1 - s)); up = d * gate * s`
#[cube(launch_unchecked, create_dummy_kernel)]
pub(crate) fn through_swiglu<E: Float, H: Float>(
    d_out: &[E],
    weight: &[f32],
    gate: &mut [E],
    up: &mut [E],
    out: &mut [E],
    of_d_out: Factor,
    of_weight: Factor,
    inners: usize,
    #[comptime] core: ProductUnits,
    #[define(E)] _stored: ElemType,
    #[define(H)] _factors: ElemType,
) {
    let (last, first) = comptime!((FactorLayout::InnerLast, FactorLayout::InnerFirst));
    let mut made =
        product::<E, f32, H>(d_out, weight, &of_d_out, &of_weight, inners, last, first, core);
    #[unroll]
    for part in 0..comptime!(core.parts()) {
        pass(&mut made, part, core);
        for e in 0..comptime!(core.share()) {
            let (row, column) = (row_of(part, e, core), column_of(part, core));
            if row < of_d_out.outer && column < of_weight.outer {
                let at = row * of_weight.outer + column;
                let d = number(&made, part, e, core);
                let (g, u) = (f32::cast_from(gate[at]), f32::cast_from(up[at]));
                let s = sigmoid(g);
                let silu = g * s;
                out[at] = E::cast_from(silu * u);
                gate[at] = E::cast_from(d * u * s * fma(g, 1.0 - s, 1.0));
                up[at] = E::cast_from(d * silu);
            }
        }
    }
}
