//! Elementwise ops: dropout, copies of rows.

use cubecl::prelude::*;

use super::mask::{DropoutMask, factor};

/// `out = drop(x)`. A sequence has `per_sequence` elements, and `first` elements come before these.
#[cube(launch_unchecked, create_dummy_kernel)]
pub(crate) fn dropped<E: Float>(
    x: &[E],
    out: &mut [E],
    mask: DropoutMask,
    count: usize,
    first: usize,
    per_sequence: usize,
    #[define(E)] _stored: ElemType,
) {
    let i = ABSOLUTE_POS;
    if i < count {
        let at = first + i;
        let factor = factor(&mask, at / per_sequence, at % per_sequence);
        out[i] = E::cast_from(f32::cast_from(x[i]) * factor);
    }
}

/// `out[i] = x[first + i]`
#[cube(launch_unchecked, create_dummy_kernel)]
pub(crate) fn copied<E: Float>(
    x: &[E],
    out: &mut [E],
    first: usize,
    count: usize,
    #[define(E)] _stored: ElemType,
) {
    let i = ABSOLUTE_POS;
    if i < count {
        out[i] = x[first + i];
    }
}

/// `out[first + i] = x[i]`, converted to another type.
#[cube(launch_unchecked, create_dummy_kernel)]
pub(crate) fn converted<F: Float, E: Float>(
    x: &[F],
    out: &mut [E],
    first: usize,
    count: usize,
    #[define(F)] _from: ElemType,
    #[define(E)] _stored: ElemType,
) {
    let i = ABSOLUTE_POS;
    if i < count {
        out[first + i] = E::cast_from(x[i]);
    }
}

/// Copies columns from `from` on of `rows` (n, stride) into rows of `out` (…, width). The first
/// output row starts at `to`, and the others follow at intervals of `step`.
#[cube(launch_unchecked, create_dummy_kernel)]
pub(crate) fn columns<E: Float>(
    rows: &[E],
    out: &mut [E],
    count: usize,
    width: usize,
    stride: usize,
    from: usize,
    to: usize,
    step: usize,
    #[define(E)] _stored: ElemType,
) {
    let i = ABSOLUTE_POS;
    if i < count {
        let (row, column) = (i / width, i % width);
        out[to + row * step + column] = rows[row * stride + from + column];
    }
}
