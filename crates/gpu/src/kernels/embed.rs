//! Token and position embeddings.
//!
//! ```text
//! out = drop(wte[token] + wpe[position])          tokens: (B, T); out: (B, T, C)
//! ```
//!
//! Models without learned positions have no `wpe`.
//!
//! A token may occur many times, and if many units added to one row at once the order would vary.
//! So the backward first links each row to the next one with the same token; then one cube for the
//! first row of each chain sums the whole chain, and no other cube writes there.
//!
//! `wte` may exceed the device's binding limit, so every kernel that uses it gets only the rows of
//! tokens `low … high`.

use cubecl::prelude::*;

use super::mask::{DropoutMask, factor};

/// Marks the end of a chain.
const NONE: u32 = 0xffff_ffff;

/// Writes the rows of `out` whose token is bound.
#[cube(launch_unchecked, create_dummy_kernel)]
pub(crate) fn forward<E: Float>(
    tokens: &[u32],
    wte: &[f32],
    wpe: ComptimeOption<Box<[f32]>>,
    out: &mut [E],
    mask: ComptimeOption<DropoutMask>,
    count: usize,
    channels: usize,
    seq: usize,
    first_row: usize,
    first_position: usize,
    low: u32,
    high: u32,
    #[define(E)] _stored: ElemType,
) {
    let i = ABSOLUTE_POS;
    if i < count {
        let (row, c) = (first_row + i / channels, i % channels);
        let token = tokens[row];
        if token >= low && token < high {
            let value = wte[(token - low) as usize * channels + c];
            #[comptime]
            let value = match wpe {
                ComptimeOption::Some(wpe) => {
                    value + wpe[(first_position + row % seq) * channels + c]
                }
                ComptimeOption::None => value,
            };
            #[comptime]
            let value = match mask {
                ComptimeOption::Some(mask) => {
                    value * factor(&mask, row / seq, row % seq * channels + c)
                }
                ComptimeOption::None => value,
            };
            out[i] = E::cast_from(value);
        }
    }
}

/// For each row the next one with the same token, and whether an earlier row has that token:
/// `links` is (2, rows).
#[cube(launch_unchecked, create_dummy_kernel)]
pub(crate) fn link(tokens: &[u32], links: &mut [u32], rows: usize) {
    let row = ABSOLUTE_POS;
    if row < rows {
        let token = tokens[row];
        let mut next = NONE.runtime();
        let mut other = row + 1;
        while other < rows {
            if tokens[other] == token {
                next = other as u32;
                other = rows;
            }
            other += 1;
        }
        let mut earlier = 0u32;
        let mut other = 0usize;
        while other < row {
            if tokens[other] == token {
                earlier = 1u32;
                other = row;
            }
            other += 1;
        }
        links[row] = next;
        links[rows + row] = earlier;
    }
}

/// `d_wte[token] += Σ drop(d_x)`, by the first row of each chain. One cube for each row.
#[cube(launch_unchecked, create_dummy_kernel)]
pub(crate) fn backward_tokens<E: Float>(
    tokens: &[u32],
    links: &[u32],
    d_x: &[E],
    d_wte: &mut [f32],
    mask: ComptimeOption<DropoutMask>,
    rows: usize,
    channels: usize,
    seq: usize,
    first_sequence: usize,
    low: u32,
    high: u32,
    #[define(E)] _stored: ElemType,
) {
    let first = CUBE_POS;
    if first < rows {
        let token = tokens[first];
        if token >= low && token < high && links[rows + first] == 0u32 {
            let mut c = UNIT_POS as usize;
            while c < channels {
                let mut sum = 0.0f32;
                let mut row = first as u32;
                while row != NONE {
                    let at = row as usize;
                    let d = f32::cast_from(d_x[at * channels + c]);
                    #[comptime]
                    let d = match &mask {
                        ComptimeOption::Some(mask) => {
                            d * factor(mask, first_sequence + at / seq, at % seq * channels + c)
                        }
                        ComptimeOption::None => d,
                    };
                    sum += d;
                    row = links[at];
                }
                d_wte[(token - low) as usize * channels + c] += sum;
                c += CUBE_DIM as usize;
            }
        }
    }
}

/// `d_wpe[t] += Σ drop(d_x)` over the sequences, in order.
#[cube(launch_unchecked, create_dummy_kernel)]
pub(crate) fn backward_positions<E: Float>(
    d_x: &[E],
    d_wpe: &mut [f32],
    mask: ComptimeOption<DropoutMask>,
    sequences: usize,
    channels: usize,
    seq: usize,
    first_sequence: usize,
    #[define(E)] _stored: ElemType,
) {
    let i = ABSOLUTE_POS;
    let per_sequence = seq * channels;
    if i < per_sequence {
        let mut sum = 0.0f32;
        for b in 0..sequences {
            let d = f32::cast_from(d_x[b * per_sequence + i]);
            #[comptime]
            let d = match &mask {
                ComptimeOption::Some(mask) => d * factor(mask, first_sequence + b, i),
                ComptimeOption::None => d,
            };
            sum += d;
        }
        d_wpe[i] += sum;
    }
}
