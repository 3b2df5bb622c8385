//! Matrix products, alone and with what follows them.
//!
//! A cube makes a square tile of the product: 16 × 16 units, each of them `PER` × `PER` numbers
//! in registers. Tiles of both factors pass through shared memory, 16 columns at a time. Every
//! number is one chain of `fma` over the inner axis, first to last, whatever the tile: so its
//! bits depend on neither the other rows nor the size of a tile.

use cubecl::prelude::*;

use super::{
    mask::{Mask, factor},
    math::{Gelu, gelu, gelu_slope},
};

/// Units along each side of a cube.
pub(crate) const SIDE: u32 = 16;
/// Numbers of a unit along each side.
const PER: usize = 4;
/// Rows and columns of a tile.
pub(crate) const TILE: usize = SIDE as usize * PER;
/// Columns of the factors that lie in shared memory at a time.
const DEPTH: usize = 16;
/// One more than a tile: units that walk down a column meet other banks.
const PITCH: usize = TILE + 1;

/// How a factor lies in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Layout {
    /// The inner axis is the last: rows of x, rows of a weight.
    InnerLast,
    /// The inner axis is the first.
    InnerFirst,
}

/// `outer × inner` numbers of a factor, from element `first` on, with `stride` elements from one
/// row in memory to the next.
#[derive(CubeType, CubeLaunch)]
pub(crate) struct Factor {
    pub(crate) first: usize,
    pub(crate) stride: usize,
    pub(crate) outer: usize,
}

/// Where a product goes: element `first` is its corner.
#[derive(CubeType, CubeLaunch)]
pub(crate) struct Corner {
    pub(crate) first: usize,
    pub(crate) stride: usize,
}

/// Loads a tile of a factor, transposed so that a column of it lies in a row of `tile`.
#[cube]
fn load<F: Float>(
    tile: &mut Shared<[f32]>,
    from: &[F],
    factor: &Factor,
    outer: usize,
    inner: usize,
    inners: usize,
    #[comptime] layout: Layout,
) {
    let unit = UNIT_POS as usize;
    let units = comptime!((SIDE * SIDE) as usize);
    #[unroll]
    for part in 0..comptime!(TILE * DEPTH / units) {
        let i = unit + part * units;
        let (o, k) = if comptime!(layout == Layout::InnerLast) {
            (i / DEPTH, i % DEPTH)
        } else {
            (i % TILE, i / TILE)
        };
        let (row, column) = (outer + o, inner + k);
        let mut value = 0.0f32;
        if row < factor.outer && column < inners {
            let at = if comptime!(layout == Layout::InnerLast) {
                row * factor.stride + column
            } else {
                column * factor.stride + row
            };
            value = f32::cast_from(from[factor.first + at]);
        }
        tile[k * PITCH + o] = value;
    }
}

/// This unit's numbers of `a · b`, row by row.
#[cube]
fn product<A: Float, B: Float>(
    a: &[A],
    b: &[B],
    of_a: &Factor,
    of_b: &Factor,
    inners: usize,
    #[comptime] layout_a: Layout,
    #[comptime] layout_b: Layout,
) -> Array<f32> {
    let mut tile_a = Shared::<[f32]>::new_slice(DEPTH * PITCH);
    let mut tile_b = Shared::<[f32]>::new_slice(DEPTH * PITCH);
    let (row, column) = (CUBE_POS_Y as usize * TILE, CUBE_POS_X as usize * TILE);
    let (y, x) = (UNIT_POS_Y as usize, UNIT_POS_X as usize);
    let side = comptime!(SIDE as usize);
    let mut sums = Array::<f32>::new(PER * PER);
    #[unroll]
    for i in 0..PER * PER {
        sums[i] = 0.0;
    }
    let mut left = Array::<f32>::new(PER);
    let mut right = Array::<f32>::new(PER);
    let mut inner = 0usize;
    while inner < inners {
        load::<A>(&mut tile_a, a, of_a, row, inner, inners, layout_a);
        load::<B>(&mut tile_b, b, of_b, column, inner, inners, layout_b);
        sync_cube();
        for k in 0..DEPTH {
            #[unroll]
            for i in 0..PER {
                left[i] = tile_a[k * PITCH + y + i * side];
                right[i] = tile_b[k * PITCH + x + i * side];
            }
            #[unroll]
            for i in 0..PER {
                #[unroll]
                for j in 0..PER {
                    sums[i * PER + j] = fma(left[i], right[j], sums[i * PER + j]);
                }
            }
        }
        sync_cube();
        inner += DEPTH;
    }
    sums
}

/// The row of the product that number `i` of this unit's rows is.
#[cube]
fn row_of(#[comptime] i: usize) -> usize {
    CUBE_POS_Y as usize * TILE + UNIT_POS_Y as usize + i * SIDE as usize
}

#[cube]
fn column_of(#[comptime] j: usize) -> usize {
    CUBE_POS_X as usize * TILE + UNIT_POS_X as usize + j * SIDE as usize
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
#[cube(launch_unchecked)]
pub(crate) fn multiply<A: Float, B: Float, O: Float>(
    a: &[A],
    b: &[B],
    bias: ComptimeOption<Box<[f32]>>,
    out: &mut [O],
    of_a: Factor,
    of_b: Factor,
    inners: usize,
    corner: Corner,
    #[comptime] layouts: (Layout, Layout),
    #[comptime] adds: bool,
    #[define(A)] _a: ElemType,
    #[define(B)] _b: ElemType,
    #[define(O)] _out: ElemType,
) {
    let (layout_a, layout_b) = comptime!(layouts);
    let sums = product::<A, B>(a, b, &of_a, &of_b, inners, layout_a, layout_b);
    #[unroll]
    for i in 0..PER {
        #[unroll]
        for j in 0..PER {
            let (row, column) = (row_of(i), column_of(j));
            if row < of_a.outer && column < of_b.outer {
                let at = corner.first + row * corner.stride + column;
                let sum = sums[i * PER + j] + bias_at(&bias, column);
                if comptime!(adds) {
                    out[at] = O::cast_from(f32::cast_from(out[at]) + sum);
                } else {
                    out[at] = O::cast_from(sum);
                }
            }
        }
    }
}

/// `pre = x · weightᵀ + bias; out = gelu(pre)`, where `pre` is kept only if it is given.
#[cube(launch_unchecked)]
pub(crate) fn activate<E: Float>(
    x: &[E],
    weight: &[f32],
    bias: ComptimeOption<Box<[f32]>>,
    mut pre: ComptimeOption<Box<[E]>>,
    out: &mut [E],
    of_x: Factor,
    of_weight: Factor,
    inners: usize,
    #[comptime] kind: Gelu,
    #[define(E)] _stored: ElemType,
) {
    let last = comptime!(Layout::InnerLast);
    let sums = product::<E, f32>(x, weight, &of_x, &of_weight, inners, last, last);
    #[unroll]
    for i in 0..PER {
        #[unroll]
        for j in 0..PER {
            let (row, column) = (row_of(i), column_of(j));
            if row < of_x.outer && column < of_weight.outer {
                let at = row * of_weight.outer + column;
                // Rounded also where it is not kept: an evaluation sees what training saw.
                let value = E::cast_from(sums[i * PER + j] + bias_at(&bias, column));
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

/// `out = residual + drop(x · weightᵀ + bias)`; `first_row` rows come before these.
#[cube(launch_unchecked)]
pub(crate) fn onto_residual<E: Float>(
    x: &[E],
    weight: &[f32],
    bias: ComptimeOption<Box<[f32]>>,
    residual: &[E],
    out: &mut [E],
    mask: ComptimeOption<Mask>,
    of_x: Factor,
    of_weight: Factor,
    inners: usize,
    first_row: usize,
    seq: usize,
    #[define(E)] _stored: ElemType,
) {
    let last = comptime!(Layout::InnerLast);
    let sums = product::<E, f32>(x, weight, &of_x, &of_weight, inners, last, last);
    #[unroll]
    for i in 0..PER {
        #[unroll]
        for j in 0..PER {
            let (row, column) = (row_of(i), column_of(j));
            if row < of_x.outer && column < of_weight.outer {
                let at = row * of_weight.outer + column;
                let sum = sums[i * PER + j] + bias_at(&bias, column);
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

/// `d_pre = (d_out · weight) * gelu'(pre)`
#[cube(launch_unchecked)]
pub(crate) fn through_gelu<E: Float>(
    d_out: &[E],
    weight: &[f32],
    pre: &[E],
    d_pre: &mut [E],
    of_d_out: Factor,
    of_weight: Factor,
    inners: usize,
    #[comptime] kind: Gelu,
    #[define(E)] _stored: ElemType,
) {
    let (last, first) = comptime!((Layout::InnerLast, Layout::InnerFirst));
    let sums = product::<E, f32>(d_out, weight, &of_d_out, &of_weight, inners, last, first);
    #[unroll]
    for i in 0..PER {
        #[unroll]
        for j in 0..PER {
            let (row, column) = (row_of(i), column_of(j));
            if row < of_d_out.outer && column < of_weight.outer {
                let at = row * of_weight.outer + column;
                let slope = gelu_slope(f32::cast_from(pre[at]), kind);
                d_pre[at] = E::cast_from(sums[i * PER + j] * slope);
            }
        }
    }
}
