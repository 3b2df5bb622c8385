//! Cross-entropy, a chunk of rows at a time.
//!
//! ```text
//! loss of a row = log Σ exp(logits) - logits[target]
//! d_logits = factor · (softmax - onehot)
//! ```
//!
//! One cube for each row. The losses of rows stay in scratch until all chunks are done; then they
//! are summed in order.

use cubecl::prelude::*;

use super::math::{SumOrder, max_of_cube, sum_of_cube};

/// The loss of each row and, if requested, its gradient in place of the logits.
#[cube(launch_unchecked, create_dummy_kernel)]
pub(crate) fn row_losses(
    logits: &mut [f32],
    targets: &[u32],
    losses: &mut [f32],
    first_row: usize,
    rows: usize,
    vocab: usize,
    factor: f32,
    #[comptime] sums: SumOrder,
    #[comptime] wants_gradient: bool,
) {
    let row = CUBE_POS;
    if row < rows {
        let first = row * vocab;
        let target = targets[first_row + row] as usize;
        let mut largest = logits[first];
        let mut v = UNIT_POS as usize;
        while v < vocab {
            largest = max(largest, logits[first + v]);
            v += CUBE_DIM as usize;
        }
        let largest = max_of_cube(largest, sums);
        let mut sum = 0.0f32;
        let mut v = UNIT_POS as usize;
        while v < vocab {
            sum += (logits[first + v] - largest).exp();
            v += CUBE_DIM as usize;
        }
        let sum = sum_of_cube(sum, sums);
        let of_target = logits[first + target];
        sync_cube();
        if UNIT_POS == 0 {
            losses[first_row + row] = sum.ln() + (largest - of_target);
        }
        if comptime!(wants_gradient) {
            let scale = factor / sum;
            let mut v = UNIT_POS as usize;
            while v < vocab {
                let p = (logits[first + v] - largest).exp() * scale;
                logits[first + v] = select(v == target, p - factor, p);
                v += CUBE_DIM as usize;
            }
        }
    }
}

/// `out[i] = scale · Σ losses[i · per …]` for each of `count`, or added to `out[i]`. One cube for
/// each.
#[cube(launch_unchecked, create_dummy_kernel)]
pub(crate) fn means(
    losses: &[f32],
    out: &mut [f32],
    count: usize,
    per: usize,
    scale: f32,
    #[comptime] sums: SumOrder,
    #[comptime] adds: bool,
) {
    let i = CUBE_POS;
    if i < count {
        let mut sum = 0.0f32;
        let mut row = UNIT_POS as usize;
        while row < per {
            sum += losses[i * per + row];
            row += CUBE_DIM as usize;
        }
        let mean = sum_of_cube(sum, sums) * scale;
        if UNIT_POS == 0 {
            if comptime!(adds) {
                out[i] += mean;
            } else {
                out[i] = mean;
            }
        }
    }
}
