//! `AdamW` with 8-bit moments.
//!
//! A moment is `map[code] · scale`, with one scale for 256 elements, their largest magnitude. The
//! update is that of [`super::update`] and uses the new moments before they are rounded.

use fitgpt_program::{Op, QUANTISED_BLOCK};

use super::{
    misplaced,
    update::{AdamElement, AdamStep},
    values::OpValues,
};
use crate::codebook::Codebook;

/// Elements that share a scale.
const SHARING: usize = QUANTISED_BLOCK as usize;

/// The values of codes and their scales.
pub fn decoded(book: &Codebook, codes: &[u8], scales: &[f64]) -> Vec<f64> {
    let value =
        |(i, code): (usize, &u8)| f64::from(book.values[usize::from(*code)]) * scales[i / SHARING];
    codes.iter().enumerate().map(value).collect()
}

/// Codes and scales of `values`.
fn encoded(book: &Codebook, values: &[f64]) -> (Vec<u8>, Vec<f64>) {
    let (mut codes, mut scales) = (Vec::new(), Vec::new());
    for block in values.chunks(SHARING) {
        let scale = block.iter().fold(0.0, |most: f64, value| most.max(value.abs()));
        scales.push(scale);
        codes.extend(block.iter().map(|value| nearest(book, value / scale)));
    }
    (codes, scales)
}

/// The code of the number nearest to `x`, negative if `x` is; the code of zero in a block of zeros.
fn nearest(book: &Codebook, x: f64) -> u8 {
    let x = if x.is_nan() { 0.0 } else { x };
    let numbers = (0..=255_u8).zip(book.values.map(f64::from));
    let candidates = numbers.filter(|(_, number)| x >= 0.0 || *number < 0.0);
    let by_distance = |a: &(u8, f64), b: &(u8, f64)| (a.1 - x).abs().total_cmp(&(b.1 - x).abs());
    candidates.min_by(by_distance).expect("the map has a number with the sign of x").0
}

pub(super) fn run(op: &Op, values: &mut OpValues<'_, '_>) {
    let Op::AdamW8bit {
        norm,
        parameter,
        gradient,
        exp_avg,
        exp_avg_scale,
        exp_avg_sq,
        exp_avg_sq_scale,
        first,
        decays,
        ref adam,
    } = *op
    else {
        misplaced(op)
    };
    let norm = values.load(norm)[0];
    let mut gradient = values.take(gradient);
    let codes = [exp_avg, exp_avg_sq].map(|tensor| values.take_codes(tensor));
    let first = first as usize;
    let owned = first..first + codes[0].len();
    let gradients = gradient.get()[owned.clone()].to_vec();
    gradient.put(first, &vec![0.0; gradients.len()]);
    if !norm.is_finite() {
        return;
    }
    let step = AdamStep::new(adam, values.arguments, norm, decays);
    let mut parameter = values.take(parameter);
    let mut scales = [exp_avg_scale, exp_avg_sq_scale].map(|tensor| values.take(tensor));
    let books = [Codebook::signed(), Codebook::unsigned()];
    let mut p = parameter.get()[owned].to_vec();
    let mut m = decoded(books[0], codes[0], &scales[0].get());
    let mut v = decoded(books[1], codes[1], &scales[1].get());
    for (i, gradient) in gradients.into_iter().enumerate() {
        let old = AdamElement { parameter: p[i], exp_avg: m[i], exp_avg_sq: v[i] };
        let new = step.update(old, gradient);
        [p[i], m[i], v[i]] = [new.parameter, new.exp_avg, new.exp_avg_sq];
    }
    parameter.put(first, &p);
    for (moment, values) in [m, v].iter().enumerate() {
        let (new_codes, new_scales) = encoded(books[moment], values);
        codes[moment].copy_from_slice(&new_codes);
        scales[moment].put(0, &new_scales);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_of_zeros_has_the_code_of_zero_and_no_scale() {
        assert_eq!(encoded(Codebook::signed(), &[0.0; 3]), (vec![127; 3], vec![0.0]));
        assert_eq!(encoded(Codebook::unsigned(), &[0.0; 3]), (vec![0; 3], vec![0.0]));
    }

    #[test]
    fn each_block_has_its_own_scale_and_the_last_may_be_short() {
        let mut values = vec![0.5; 300];
        values[256..].fill(-4.0);
        let (codes, scales) = encoded(Codebook::signed(), &values);
        assert_eq!(scales, [0.5, 4.0]);
        assert_eq!((codes[0], codes[299]), (255, 0)); // 1, and the number nearest to -1
        let back = decoded(Codebook::signed(), &codes, &scales);
        assert!((back[0] - 0.5).abs() < 1e-9 && (back[299] + 4.0).abs() < 0.03);
    }
}
