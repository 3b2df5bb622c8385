//! Rotary positions: every pair of a head's channels is rotated by its angle.
//!
//! ```text
//! y[i]       = x[i] cos - x[i + D/2] sin          x: (B, T, heads·D)
//! y[i + D/2] = x[i + D/2] cos + x[i] sin          table: (positions, D), cosines then sines
//! ```
//!
//! The gradient of a rotation is the inverse rotation.

use fitgpt_program::{Op, Turn};

use super::{misplaced, values::OpValues};

/// Rotates one row by one row of the table, head by head.
fn rotate(x: &mut [f64], angles: &[f64], turn: Turn) {
    let half = angles.len() / 2;
    let (cos, sin) = angles.split_at(half);
    let sign = if turn == Turn::Forward { 1.0 } else { -1.0 };
    for head in x.chunks_mut(angles.len()) {
        for i in 0..half {
            let (low, high) = (head[i], head[i + half]);
            head[i] = low * cos[i] - high * sign * sin[i];
            head[i + half] = high * cos[i] + low * sign * sin[i];
        }
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "`run` sends no other op here")]
pub(super) fn run(op: &Op, values: &mut OpValues<'_, '_>) {
    match *op {
        Op::Rotary { x, table, turn, .. } => {
            let [_, seq, columns] = values.shape(x);
            let channels = values.columns(table);
            let first = values.arguments.first_position(values.program) as usize;
            let rows = values.rows_in_use(x);
            let table = values.load(table);
            let mut changed = values.take(x);
            let mut turned = changed.get();
            turned.truncate(rows * columns);
            for (row, x) in turned.chunks_mut(columns).enumerate() {
                let position = first + row % seq;
                rotate(x, &table[position * channels..][..channels], turn);
            }
            changed.put(0, &turned);
        }
        _ => misplaced(op),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::differences::numbers;

    #[test]
    fn the_inverse_undoes_a_rotation_and_rotations_keep_the_length() {
        let angles: Vec<f64> =
            [0.3f64, 1.9].iter().map(|a| a.cos()).chain([0.3f64, 1.9].map(f64::sin)).collect();
        let x = numbers(1, 12);
        let mut turned = x.clone();
        rotate(&mut turned, &angles, Turn::Forward);
        let length = |x: &[f64]| x.iter().map(|x| x * x).sum::<f64>();
        assert!((length(&turned) - length(&x)).abs() < 1e-12);
        assert!((turned[0] - (x[0] * 0.3f64.cos() - x[2] * 0.3f64.sin())).abs() < 1e-15);
        rotate(&mut turned, &angles, Turn::Back);
        for (turned, x) in turned.iter().zip(&x) {
            assert!((turned - x).abs() < 1e-12);
        }
    }
}
