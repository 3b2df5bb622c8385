//! Normalisation of rows: layer norm, and RMS norm, which takes the mean as 0.
//!
//! ```text
//! out = (x - mean) * rstd * weight + bias          x, out: (N, C); mean, rstd: (N)
//! ```
//!
//! A row is the last axis of a tensor, or one head of it, and is processed by one cube or one
//! plane. The gradients of weight and bias are sums over rows: each cube of the first kernel sums a
//! block of rows, and a second kernel sums the blocks in order.

use cubecl::prelude::*;

use super::math::{SumOrder, UNITS, sum_of_cube};

/// Rows of a tensor that one unit sums over, with all their heads.
pub(crate) const BLOCK_ROWS: usize = 64;

/// The units that work on one row together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum RowTeam {
    /// A cube, with the order of its sums.
    Cube(SumOrder),
    /// A plane of a cube. Heads are short, and most units of a cube would be idle.
    Plane,
}

impl RowTeam {
    /// The order of its cube's sums.
    fn sums(self) -> SumOrder {
        match self {
            Self::Cube(sums) => sums,
            Self::Plane => SumOrder::Planes,
        }
    }
}

/// The row of this unit's team.
#[cube]
fn team_row(#[comptime] team: RowTeam) -> usize {
    if comptime!(team == RowTeam::Plane) {
        CUBE_POS * (UNITS / PLANE_DIM) as usize + PLANE_POS as usize
    } else {
        CUBE_POS
    }
}

/// This unit's index in its team.
#[cube]
fn member(#[comptime] team: RowTeam) -> usize {
    if comptime!(team == RowTeam::Plane) { UNIT_POS_PLANE as usize } else { UNIT_POS as usize }
}

#[cube]
fn members(#[comptime] team: RowTeam) -> usize {
    if comptime!(team == RowTeam::Plane) { PLANE_DIM as usize } else { CUBE_DIM as usize }
}

#[cube]
fn sum_of_team(value: f32, #[comptime] team: RowTeam) -> f32 {
    if comptime!(team == RowTeam::Plane) {
        plane_sum(value)
    } else {
        sum_of_cube(value, comptime!(team.sums()))
    }
}

#[cube]
fn normal(x: f32, mean: f32, rstd: f32) -> f32 {
    (x - mean) * rstd
}

/// The mean to subtract from a row; 0 if no means are kept.
#[cube]
fn mean_of(mean: &ComptimeOption<Box<[f32]>>, row: usize) -> f32 {
    #[comptime]
    let value = match mean {
        ComptimeOption::Some(mean) => mean[row],
        ComptimeOption::None => 0.0f32.runtime(),
    };
    value
}

/// The mean of the row that starts at `first`.
#[cube]
fn average<E: Float>(x: &[E], first: usize, channels: usize, #[comptime] team: RowTeam) -> f32 {
    let mut sum = 0.0f32;
    let mut c = member(team);
    while c < channels {
        sum += f32::cast_from(x[first + c]);
        c += members(team);
    }
    sum_of_team(sum, team) / channels as f32
}

#[cube]
fn affine<E: Float>(
    x: &[E],
    weight: &[f32],
    bias: &ComptimeOption<Box<[f32]>>,
    out: &mut [E],
    first: usize,
    channels: usize,
    mean: f32,
    rstd: f32,
    #[comptime] team: RowTeam,
) {
    let mut c = member(team);
    while c < channels {
        let n = normal(f32::cast_from(x[first + c]), mean, rstd);
        #[comptime]
        let bias = match bias {
            ComptimeOption::Some(bias) => bias[c],
            ComptimeOption::None => 0.0f32.runtime(),
        };
        out[first + c] = E::cast_from(fma(n, weight[c], bias));
        c += members(team);
    }
}

/// `out`, `mean` and `rstd` of each row.
#[cube(launch_unchecked, create_dummy_kernel)]
pub(crate) fn forward<E: Float>(
    x: &[E],
    weight: &[f32],
    bias: ComptimeOption<Box<[f32]>>,
    out: &mut [E],
    mut mean: ComptimeOption<Box<[f32]>>,
    rstd: &mut [f32],
    rows: usize,
    channels: usize,
    epsilon: f32,
    #[comptime] team: RowTeam,
    #[define(E)] _stored: ElemType,
) {
    let row = team_row(team);
    if row < rows {
        let first = row * channels;
        #[comptime]
        let centre = match &mut mean {
            ComptimeOption::Some(mean) => {
                let average = average::<E>(x, first, channels, team);
                if member(team) == 0 {
                    mean[row] = average;
                }
                average
            }
            ComptimeOption::None => 0.0f32.runtime(),
        };
        let mut squares = 0.0f32;
        let mut c = member(team);
        while c < channels {
            let apart = f32::cast_from(x[first + c]) - centre;
            squares = fma(apart, apart, squares);
            c += members(team);
        }
        let variance = sum_of_team(squares, team) / channels as f32;
        let scale = 1.0 / (variance + epsilon).sqrt();
        if member(team) == 0 {
            rstd[row] = scale;
        }
        affine::<E>(x, weight, &bias, out, first, channels, centre, scale, team);
    }
}

/// Recomputes `out` from the stored statistics, with the bits of `forward`.
#[cube(launch_unchecked, create_dummy_kernel)]
pub(crate) fn recompute<E: Float>(
    x: &[E],
    weight: &[f32],
    bias: ComptimeOption<Box<[f32]>>,
    mean: ComptimeOption<Box<[f32]>>,
    rstd: &[f32],
    out: &mut [E],
    rows: usize,
    channels: usize,
    #[comptime] team: RowTeam,
    #[define(E)] _stored: ElemType,
) {
    let row = team_row(team);
    if row < rows {
        let first = row * channels;
        affine::<E>(x, weight, &bias, out, first, channels, mean_of(&mean, row), rstd[row], team);
    }
}

/// Assigns or adds to `d_x` of each row.
#[cube(launch_unchecked, create_dummy_kernel)]
pub(crate) fn backward_input<E: Float>(
    x: &[E],
    weight: &[f32],
    mean: ComptimeOption<Box<[f32]>>,
    rstd: &[f32],
    d_out: &[E],
    d_x: &mut [E],
    rows: usize,
    channels: usize,
    #[comptime] adds: bool,
    #[comptime] team: RowTeam,
    #[define(E)] _stored: ElemType,
) {
    let row = team_row(team);
    if row < rows {
        let first = row * channels;
        let has_mean = comptime!(mean.is_some());
        let (mean, rstd) = (mean_of(&mean, row), rstd[row]);
        let mut along_mean = 0.0f32;
        let mut along_normal = 0.0f32;
        let mut c = member(team);
        while c < channels {
            let n = normal(f32::cast_from(x[first + c]), mean, rstd);
            let d = f32::cast_from(d_out[first + c]) * weight[c];
            if comptime!(has_mean) {
                along_mean += d;
            }
            along_normal = fma(d, n, along_normal);
            c += members(team);
        }
        if comptime!(has_mean) {
            along_mean = sum_of_team(along_mean, team) / channels as f32;
        }
        let along_normal = sum_of_team(along_normal, team) / channels as f32;
        let mut c = member(team);
        while c < channels {
            let n = normal(f32::cast_from(x[first + c]), mean, rstd);
            let d = f32::cast_from(d_out[first + c]) * weight[c];
            let gradient = rstd * fma(-n, along_normal, d - along_mean);
            if comptime!(adds) {
                d_x[first + c] = E::cast_from(f32::cast_from(d_x[first + c]) + gradient);
            } else {
                d_x[first + c] = E::cast_from(gradient);
            }
            c += members(team);
        }
    }
}

/// Sums of `d_out · normal` and of `d_out` over blocks of `block_rows` rows: `sums` is
/// (blocks, 2, C).
#[cube(launch_unchecked, create_dummy_kernel)]
pub(crate) fn weight_sums<E: Float>(
    x: &[E],
    mean: ComptimeOption<Box<[f32]>>,
    rstd: &[f32],
    d_out: &[E],
    sums: &mut [f32],
    first_block: usize,
    block_rows: usize,
    rows: usize,
    channels: usize,
    #[define(E)] _stored: ElemType,
) {
    let c = CUBE_POS_X as usize * UNITS as usize + UNIT_POS as usize;
    let block = CUBE_POS_Y as usize;
    if c < channels {
        let first = block * block_rows;
        let last = min(first + block_rows, rows);
        let mut products = 0.0f32;
        let mut plain = 0.0f32;
        for row in first..last {
            let x = f32::cast_from(x[row * channels + c]);
            let n = normal(x, mean_of(&mean, row), rstd[row]);
            let d = f32::cast_from(d_out[row * channels + c]);
            products = fma(d, n, products);
            plain += d;
        }
        let at = (first_block + block) * 2 * channels + c;
        sums[at] = products;
        sums[at + channels] = plain;
    }
}

/// Sums of columns over blocks of rows: `sums` is (blocks, C).
#[cube(launch_unchecked, create_dummy_kernel)]
pub(crate) fn column_sums<E: Float>(
    x: &[E],
    sums: &mut [f32],
    first_block: usize,
    rows: usize,
    channels: usize,
    #[define(E)] _stored: ElemType,
) {
    let c = CUBE_POS_X as usize * UNITS as usize + UNIT_POS as usize;
    let block = CUBE_POS_Y as usize;
    if c < channels {
        let first = block * BLOCK_ROWS;
        let last = min(first + BLOCK_ROWS, rows);
        let mut plain = 0.0f32;
        for row in first..last {
            plain += f32::cast_from(x[row * channels + c]);
        }
        sums[(first_block + block) * channels + c] = plain;
    }
}

/// `out[c] += Σ sums[block · stride + first + c]`, block by block.
#[cube(launch_unchecked, create_dummy_kernel)]
pub(crate) fn add_blocks(
    sums: &[f32],
    out: &mut [f32],
    blocks: usize,
    stride: usize,
    first: usize,
    channels: usize,
) {
    let c = ABSOLUTE_POS;
    if c < channels {
        let mut sum = 0.0f32;
        for block in 0..blocks {
            sum += sums[block * stride + first + c];
        }
        out[c] += sum;
    }
}
