//! Rotary positions: every pair of a head's channels is rotated by its angle, in place.
//!
//! ```text
//! y[i]       = x[i] cos - x[i + D/2] sin          x: (B, T, heads·D)
//! y[i + D/2] = x[i + D/2] cos + x[i] sin          table: (positions, D), cosines then sines
//! ```
//!
//! The gradient of a rotation is the inverse rotation.

use cubecl::prelude::*;

/// Rotates rows of `columns` channels, starting with row `first_row` of the tensor. One unit for
/// each pair; the angles of a sequence's first row are at `first_angle`.
#[cube(launch_unchecked, create_dummy_kernel)]
pub(crate) fn rotate<E: Float>(
    x: &mut [E],
    table: &[f32],
    count: usize,
    columns: usize,
    seq: usize,
    first_row: usize,
    first_angle: usize,
    size: usize,
    #[comptime] turns_back: bool,
    #[define(E)] _stored: ElemType,
) {
    let half = size / 2;
    let pair = ABSOLUTE_POS;
    if pair < count {
        let (head, i) = (pair / half, pair % half);
        let row = first_row + head * size / columns;
        let angle = first_angle + row % seq * size + i;
        let (cos, sin) = (table[angle], table[angle + half]);
        let sin = if comptime!(turns_back) { -sin } else { sin };
        let low = head * size + i;
        let high = low + half;
        let (a, b) = (f32::cast_from(x[low]), f32::cast_from(x[high]));
        x[low] = E::cast_from(fma(a, cos, -(b * sin)));
        x[high] = E::cast_from(fma(b, cos, a * sin));
    }
}
