//! `AdamW` with 8-bit moments: a cube for each block of 256 elements, a unit for each element.
//!
//! A moment is the number of its code times the block's scale; `fitgpt-exec`'s `codebook.rs`
//! defines the numbers. Here they are computed rather than looked up: number `n` of decade `d` is
//! the midpoint of one of the equal parts that a decade is divided into.
//!
//! Codes are bound as words of four codes.

use cubecl::prelude::*;

use super::{
    math::{SumOrder, UNITS, is_number, max_of_cube},
    update::{AdamConstants, factor_of},
};

/// Units of a cube, and elements that share a scale.
const BLOCK: usize = UNITS as usize;
/// Codes in a word.
const IN_WORD: usize = 4;

/// Which map: first moments have signs, second moments have twice as many numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Map {
    Signed,
    Unsigned,
}

impl Map {
    /// The index of the first number above zero. Indices are chosen so that a decade starts at a
    /// power of two, which is also its count of numbers.
    const fn first(self) -> u32 {
        match self {
            Self::Signed => 1,
            Self::Unsigned => 2,
        }
    }

    /// The index of one.
    const fn one(self) -> u32 {
        self.first() << 7
    }
}

/// `10^(decade - 6)`
#[cube]
fn power(decade: u32) -> f32 {
    let mut power = 1e-6f32;
    if decade == 1 {
        power = 1e-5f32;
    } else if decade == 2 {
        power = 1e-4f32;
    } else if decade == 3 {
        power = 1e-3f32;
    } else if decade == 4 {
        power = 1e-2f32;
    } else if decade == 5 {
        power = 1e-1f32;
    } else if decade >= 6 {
        power = 1.0f32;
    }
    power
}

/// The number at `index`, which is zero below the first.
#[cube]
fn number(index: u32, #[comptime] map: Map) -> f32 {
    let mut decade = 0u32;
    #[unroll]
    for d in 1..7u32 {
        if index >= comptime!(map.first()) << d {
            decade = d;
        }
    }
    let count = comptime!(map.first()) << decade;
    let part = (f32::cast_from(index) - f32::cast_from(count) + 0.5) / f32::cast_from(count);
    let inside = power(decade) * fma(0.9, part, 0.1);
    let above = select(index >= comptime!(map.one()), 1.0, inside);
    select(index < comptime!(map.first()), 0.0, above)
}

/// The index of the number nearest to `x`, from 0 to 1.
#[cube]
fn nearest(x: f32, #[comptime] map: Map) -> u32 {
    let mut decade = 0u32;
    #[unroll]
    for d in 1..7u32 {
        if x >= power(d) * 0.1 {
            decade = d;
        }
    }
    let count = comptime!(map.first()) << decade;
    let part = clamp((x / power(decade) - 0.1) / 0.9, 0.0, 1.0);
    let parts = u32::cast_from(part * f32::cast_from(count));
    let guess = count + min(parts, count - 1);
    // A neighbour may be nearer, in this decade or the next.
    let distance = (number(guess, map) - x).abs();
    let below = (number(guess - 1, map) - x).abs();
    let above = (number(guess + 1, map) - x).abs();
    let mut best = guess;
    if below < distance {
        best = guess - 1;
    } else if above < distance {
        best = guess + 1;
    }
    best
}

#[cube]
fn decoded(code: u32, #[comptime] map: Map) -> f32 {
    if comptime!(map == Map::Signed) {
        let below = number(127 - min(code, 127u32), map);
        let above = number(max(code, 127u32) - 127, map);
        select(code < 127, -below, above)
    } else {
        number(code + 1, map)
    }
}

#[cube]
fn encoded(x: f32, #[comptime] map: Map) -> u32 {
    let index = nearest(x.abs(), map);
    if comptime!(map == Map::Signed) {
        // Negative codes include neither one nor zero, so a sign is never lost.
        let below = 127 - clamp(index, 1u32, 127u32);
        select(u32::reinterpret(x) >> 31 == 1, below, 127 + index)
    } else {
        max(index, 1u32) - 1
    }
}

#[cube]
fn code_at(word: u32, i: usize) -> u32 {
    word >> (8 * (i % IN_WORD) as u32) & 255u32
}

/// Stores every unit's code; one unit in four writes a word.
#[cube]
fn put_codes(words: &mut [u32], codes: &mut Shared<[u32]>, code: u32, i: usize, count: usize) {
    let unit = UNIT_POS as usize;
    codes[unit] = code;
    sync_cube();
    if unit & (IN_WORD - 1) == 0 && i < count {
        let low = codes[unit] | codes[unit + 1] << 8u32;
        let high = codes[unit + 2] | codes[unit + 3] << 8u32;
        words[i / IN_WORD] = low | high << 16u32;
    }
    sync_cube();
}

/// One update. Sets the gradient to zero; does nothing else if `norm` is not finite.
#[cube(launch_unchecked, create_dummy_kernel)]
pub(crate) fn adamw(
    norm: &[f32],
    parameter: &mut [f32],
    gradient: &mut [f32],
    exp_avg: &mut [u32],
    exp_avg_scale: &mut [f32],
    exp_avg_sq: &mut [u32],
    exp_avg_sq_scale: &mut [f32],
    count: usize,
    step: AdamConstants,
    #[comptime] sums: SumOrder,
) {
    let block = CUBE_POS;
    if block * BLOCK < count {
        let i = block * BLOCK + UNIT_POS as usize;
        let is_inside = i < count;
        let norm = norm[0];
        let is_number = is_number(norm);
        // Codes past the end do not change.
        let word = min(i, count - 1) / IN_WORD;
        let old_m = code_at(exp_avg[word], i);
        let old_v = code_at(exp_avg_sq[word], i);
        let mut m = 0.0f32;
        let mut v = 0.0f32;
        if is_inside {
            let g = gradient[i] * factor_of(norm, step.grad_clip, step.inverse_loss_scale);
            let rest = decoded(old_m, Map::Signed) * exp_avg_scale[block];
            m = fma(step.beta1, rest, step.rest1 * g);
            let rest = decoded(old_v, Map::Unsigned) * exp_avg_sq_scale[block];
            v = fma(step.beta2, rest, step.rest2 * g * g);
            gradient[i] = 0.0;
            if is_number {
                let root = v.sqrt() / step.root_correction + step.epsilon;
                parameter[i] = fma(parameter[i], step.decay_factor, -(step.rate * m / root));
            }
        }
        let scale_m = max_of_cube(m.abs(), sums);
        let scale_v = max_of_cube(v, sums);
        // A block of zeros is divided by one.
        let new_m = encoded(m / select(scale_m > 0.0, scale_m, 1.0), Map::Signed);
        let new_v = encoded(v / select(scale_v > 0.0, scale_v, 1.0), Map::Unsigned);
        let changes = is_inside && is_number;
        let mut codes = Shared::<[u32]>::new_slice(BLOCK);
        put_codes(exp_avg, &mut codes, select(changes, new_m, old_m), i, count);
        put_codes(exp_avg_sq, &mut codes, select(changes, new_v, old_v), i, count);
        if UNIT_POS == 0 && is_number {
            exp_avg_scale[block] = scale_m;
            exp_avg_sq_scale[block] = scale_v;
        }
    }
}
