//! Token and position embeddings.
//!
//! ```text
//! out = drop(wte[token] + wpe[position])          tokens: (B, T); out: (B, T, C)
//! ```
//!
//! Backward adds to `d_wte` and `d_wpe`, because a token may occur many times.

use fitgpt_program::Op;

use super::{dropout::drop_in_place, misplaced, values::OpValues};

/// `tokens` and `positions` have one entry for each row.
fn forward(
    tokens: &[u32],
    positions: &[usize],
    (wte, wpe): (&[f64], Option<&[f64]>),
    channels: usize,
) -> Vec<f64> {
    let mut out = Vec::with_capacity(tokens.len() * channels);
    for (token, position) in tokens.iter().zip(positions) {
        let token = &wte[*token as usize * channels..][..channels];
        match wpe {
            Some(wpe) => {
                let position = &wpe[position * channels..][..channels];
                out.extend(token.iter().zip(position).map(|(t, p)| t + p));
            }
            None => out.extend(token),
        }
    }
    out
}

/// A table of `height` rows, in which row `rows[i]` sums row `i` of `d_x`.
fn backward(rows: impl Iterator<Item = usize>, d_x: &[f64], height: usize) -> Vec<f64> {
    let rows: Vec<_> = rows.collect();
    let channels = d_x.len() / rows.len();
    let mut d_table = vec![0.0; height * channels];
    for (row, d_x) in rows.into_iter().zip(d_x.chunks(channels)) {
        for (sum, d) in d_table[row * channels..][..channels].iter_mut().zip(d_x) {
            *sum += d;
        }
    }
    d_table
}

#[expect(clippy::wildcard_enum_match_arm, reason = "`run` sends no other op here")]
pub(super) fn run(op: &Op, values: &mut OpValues<'_, '_>) {
    match *op {
        Op::Embed { tokens, wte, wpe, out, ref dropout } => {
            let [_, seq, channels] = values.shape(out);
            let rows = values.rows_in_use(out);
            let positions = positions(values, rows, seq);
            let tokens = &values.tokens(tokens)[..rows];
            let (wte, wpe) = (values.load(wte), wpe.map(|wpe| values.load(wpe)));
            let mut embedded = forward(tokens, &positions, (&wte, wpe.as_deref()), channels);
            drop_in_place(&mut embedded, seq * channels, dropout.as_ref(), values.arguments);
            values.store(out, &embedded);
        }
        Op::EmbedBackward { tokens, d_x, d_wte, d_wpe, ref dropout } => {
            let [_, seq, channels] = values.shape(d_x);
            let rows = values.rows_in_use(d_x);
            let mut dropped = values.load(d_x);
            drop_in_place(&mut dropped, seq * channels, dropout.as_ref(), values.arguments);
            let positions = positions(values, rows, seq).into_iter();
            let tokens = values.tokens(tokens).iter().map(|t| *t as usize);
            let [vocab, _] = values.shape(d_wte);
            values.add(d_wte, &backward(tokens, &dropped, vocab));
            if let Some(d_wpe) = d_wpe {
                let [block, _] = values.shape(d_wpe);
                values.add(d_wpe, &backward(positions, &dropped, block));
            }
        }
        _ => misplaced(op),
    }
}

fn positions(values: &OpValues<'_, '_>, rows: usize, seq: usize) -> Vec<usize> {
    let first = values.arguments.first_position(values.program) as usize;
    (0..rows).map(|row| first + row % seq).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::differences::{assert_gradient, dot, numbers};

    #[test]
    fn gradients_are_those_of_the_forward() {
        let (channels, vocab, block) = (3, 4, 2);
        let tokens = [1, 3, 1, 1];
        let positions = [0, 1, 0, 1];
        let (wte, wpe) = (numbers(1, vocab * channels), numbers(2, block * channels));
        let d_out = numbers(3, tokens.len() * channels);
        let d_wte = backward(tokens.iter().map(|t| *t as usize), &d_out, vocab);
        let d_wpe = backward(positions.into_iter(), &d_out, block);
        let loss = |wte: &[f64], wpe: &[f64]| {
            dot(&forward(&tokens, &positions, (wte, Some(wpe)), channels), &d_out)
        };
        assert_gradient(|wte| loss(wte, &wpe), &wte, &d_wte);
        assert_gradient(|wpe| loss(&wte, wpe), &wpe, &d_wpe);
    }
}
