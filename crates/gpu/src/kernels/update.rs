//! The optimizer: the norm of the whole gradient, AdamW and Lion.
//!
//! ```text
//! p *= 1 - lr · weight_decay
//! m = β₁ m + (1 - β₁) g;  v = β₂ v + (1 - β₂) g²
//! p -= lr / (1 - β₁ᵗ) · m / (√v / √(1 - β₂ᵗ) + ε)
//! ```
//!
//! Lion:
//!
//! ```text
//! p *= 1 - lr · weight_decay
//! p -= lr · sign(β₁ m + (1 - β₁) g)
//! m = β₂ m + (1 - β₂) g
//! ```
//!
//! The norm stays on the device: the kernel itself checks that it is finite and clips.

use cubecl::prelude::*;

use super::math::{SumOrder, UNITS, is_number, sum_of_cube};

/// Elements whose squares one cube sums.
pub(crate) const BLOCK: usize = UNITS as usize * 32;

/// `clip_grad_norm_` adds this, so that it never divides by zero.
const CLIP_EPSILON: f32 = 1e-6;

/// `blocks[first + block] = Σ gradient²` over each block.
#[cube(launch_unchecked, create_dummy_kernel)]
pub(crate) fn squares(
    gradient: &[f32],
    blocks: &mut [f32],
    first: usize,
    count: usize,
    #[comptime] sums: SumOrder,
) {
    let block = CUBE_POS;
    if block * BLOCK < count {
        let last = min(count, (block + 1) * BLOCK);
        let mut sum = 0.0f32;
        let mut i = block * BLOCK + UNIT_POS as usize;
        while i < last {
            sum = fma(gradient[i], gradient[i], sum);
            i += CUBE_DIM as usize;
        }
        let sum = sum_of_cube(sum, sums);
        if UNIT_POS == 0 {
            blocks[first + block] = sum;
        }
    }
}

/// `norm = √ Σ blocks / loss_scale`, by one cube.
#[cube(launch_unchecked, create_dummy_kernel)]
pub(crate) fn norm(
    blocks: &[f32],
    norm: &mut [f32],
    count: usize,
    loss_scale: f32,
    #[comptime] sums: SumOrder,
) {
    let mut sum = 0.0f32;
    let mut i = UNIT_POS as usize;
    while i < count {
        sum += blocks[i];
        i += CUBE_DIM as usize;
    }
    let sum = sum_of_cube(sum, sums);
    if UNIT_POS == 0 {
        norm[0] = sum.sqrt() / loss_scale;
    }
}

/// The constants of one step, which all elements of a parameter share.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
pub(crate) struct AdamConstants {
    pub(crate) inverse_loss_scale: f32,
    /// 0 for no clipping.
    pub(crate) grad_clip: f32,
    pub(crate) decay_factor: f32,
    pub(crate) beta1: f32,
    pub(crate) beta2: f32,
    pub(crate) rest1: f32,
    pub(crate) rest2: f32,
    pub(crate) rate: f32,
    pub(crate) root_correction: f32,
    pub(crate) epsilon: f32,
}

/// The factor of a gradient.
#[cube]
pub(crate) fn factor_of(norm: f32, grad_clip: f32, inverse_loss_scale: f32) -> f32 {
    let limit = grad_clip / (norm + CLIP_EPSILON);
    let clip = select(grad_clip > 0.0, clamp_max(limit, 1.0), 1.0);
    clip * inverse_loss_scale
}

/// One update. Sets the gradient to zero; does nothing else if `norm` is not finite.
#[cube(launch_unchecked, create_dummy_kernel)]
pub(crate) fn adamw(
    norm: &[f32],
    parameter: &mut [f32],
    gradient: &mut [f32],
    exp_avg: &mut [f32],
    exp_avg_sq: &mut [f32],
    count: usize,
    step: AdamConstants,
) {
    let i = ABSOLUTE_POS;
    if i < count {
        let norm = norm[0];
        if is_number(norm) {
            let g = gradient[i] * factor_of(norm, step.grad_clip, step.inverse_loss_scale);
            let m = fma(step.beta1, exp_avg[i], step.rest1 * g);
            let v = fma(step.beta2, exp_avg_sq[i], step.rest2 * g * g);
            let root = v.sqrt() / step.root_correction + step.epsilon;
            exp_avg[i] = m;
            exp_avg_sq[i] = v;
            parameter[i] = fma(parameter[i], step.decay_factor, -(step.rate * m / root));
        }
        gradient[i] = 0.0;
    }
}

/// As [`AdamConstants`], for Lion.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
pub(crate) struct LionConstants {
    pub(crate) inverse_loss_scale: f32,
    pub(crate) grad_clip: f32,
    pub(crate) decay_factor: f32,
    pub(crate) beta1: f32,
    pub(crate) beta2: f32,
    pub(crate) rest1: f32,
    pub(crate) rest2: f32,
    pub(crate) rate: f32,
}

/// As [`adamw`], with Lion's rule.
#[cube(launch_unchecked, create_dummy_kernel)]
pub(crate) fn lion(
    norm: &[f32],
    parameter: &mut [f32],
    gradient: &mut [f32],
    exp_avg: &mut [f32],
    count: usize,
    step: LionConstants,
) {
    let i = ABSOLUTE_POS;
    if i < count {
        let norm = norm[0];
        if is_number(norm) {
            let g = gradient[i] * factor_of(norm, step.grad_clip, step.inverse_loss_scale);
            let direction = fma(step.beta1, exp_avg[i], step.rest1 * g);
            exp_avg[i] = fma(step.beta2, exp_avg[i], step.rest2 * g);
            let down = select(direction < 0.0, -step.rate, 0.0);
            let change = select(direction > 0.0, step.rate, down);
            parameter[i] = fma(parameter[i], step.decay_factor, -change);
        }
        gradient[i] = 0.0;
    }
}

/// `out[0] = number`, with more arguments than any other kernel: see `pools::settle`.
#[cube(launch_unchecked, create_dummy_kernel)]
pub(crate) fn with_many_arguments(
    out: &mut [f32],
    number: f32,
    a: AdamConstants,
    b: AdamConstants,
    c: AdamConstants,
    d: AdamConstants,
) {
    if UNIT_POS == 0 {
        out[0] = number + a.rate + b.rate + c.rate + d.rate;
    }
}
