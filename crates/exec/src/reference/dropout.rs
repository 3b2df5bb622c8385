//! Dropout: elements kept with probability `1 - rate` and divided by it.
//!
//! The mask is a function of (seed, step, sequence, layer, site, element), so the gradient of a
//! dropout is the same dropout. Elements are numbered within the sequence: `t · C + c`.

use fitgpt_program::{Dropout, Op};

use super::{misplaced, values::OpValues};
use crate::{Arguments, random::Mask};

/// Drops elements of `x` (B, T, C) in place, a sequence of `per_sequence` at a time.
pub(super) fn drop_in_place(
    x: &mut [f64],
    per_sequence: usize,
    dropout: Option<&Dropout>,
    arguments: &Arguments,
) {
    let Some(dropout) = dropout else { return };
    for (index, sequence) in (0..).zip(x.chunks_mut(per_sequence)) {
        let mask = Mask::new(dropout, arguments, index);
        for (element, value) in (0..).zip(sequence) {
            *value *= f64::from(mask.factor(element));
        }
    }
}

pub(super) fn run(op: &Op, values: &mut OpValues<'_, '_>) {
    let Op::Dropout { x, out, ref dropout } = *op else { misplaced(op) };
    let [_, seq, channels] = values.shape(x);
    let mut kept = values.load(x);
    drop_in_place(&mut kept, seq * channels, Some(dropout), values.arguments);
    values.store(out, &kept);
}
