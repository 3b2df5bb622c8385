//! Counter-based random numbers: a pure function of their purpose.
//!
//! There is no state between numbers, so one can be repeated, skipped or computed by another
//! worker, and a checkpoint has no generator to store.

use fitgpt_program::hash::splitmix64;

/// One 64-bit random number for a tuple of words.
///
/// Each word goes through splitmix64's finaliser, which is a bijection: two tuples that differ only
/// in their last word never collide.
pub fn draw<const N: usize>(words: [u64; N]) -> u64 {
    words.into_iter().fold(0, |state, word| splitmix64(state ^ word))
}

/// A random number in `0..n` from `draw`, by multiply and shift.
///
/// The probabilities of two results differ by at most one part in `2^64 / n`.
///
/// # Panics
///
/// If `n` is zero.
pub fn below(draw: u64, n: u64) -> u64 {
    assert!(n > 0, "no number is below zero");
    ((u128::from(draw) * u128::from(n)) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Chi-squared of `counts` against all being equal.
    fn chi_squared(counts: &[u64]) -> f64 {
        let total: u64 = counts.iter().sum();
        let expected = total as f64 / counts.len() as f64;
        counts.iter().map(|&n| (n as f64 - expected).powi(2) / expected).sum()
    }

    /// A limit that chi-squared of fair numbers exceeds about once in ten million times: mean plus
    /// six standard deviations.
    fn limit(bins: usize) -> f64 {
        let freedom = (bins - 1) as f64;
        freedom + 6.0 * (2.0 * freedom).sqrt()
    }

    #[test]
    fn the_first_number_of_splitmix64_is_the_published_one() {
        // The sequence of seed 0 in the reference implementation by Sebastiano Vigna.
        assert_eq!(draw([0]), 0xE220_A839_7B1D_CDAF);
    }

    #[test]
    fn draws_are_uniform_along_every_word() {
        for word in 0..3 {
            let mut counts = [0_u64; 256];
            for i in 0..100_000 {
                let mut words = [1337, 5, 9];
                words[word] = i;
                counts[below(draw(words), 256) as usize] += 1;
            }
            let chi = chi_squared(&counts);
            assert!(chi < limit(256), "word {word}: chi-squared {chi}");
        }
    }

    #[test]
    fn neighbouring_steps_and_positions_are_independent() {
        let mut pairs = [[0_u64; 256]; 2];
        for step in 0..300 {
            for position in 0..300 {
                let here = below(draw([1337, step, position]), 16);
                let right = below(draw([1337, step, position + 1]), 16);
                let under = below(draw([1337, step + 1, position]), 16);
                pairs[0][(here * 16 + right) as usize] += 1;
                pairs[1][(here * 16 + under) as usize] += 1;
            }
        }
        for counts in pairs {
            assert!(chi_squared(&counts) < limit(256));
        }
    }

    #[test]
    fn one_flipped_bit_flips_half_of_the_bits() {
        for word in 0..3 {
            for bit in 0..64 {
                let mut flipped = 0;
                for i in 0..256_u64 {
                    let mut words = [1337, i, i * 7];
                    let before = draw(words);
                    words[word] ^= 1 << bit;
                    flipped += (before ^ draw(words)).count_ones();
                }
                // 256 × 64 coin flips: six standard deviations of 64.
                assert!(flipped.abs_diff(256 * 32) < 6 * 64, "word {word} bit {bit}: {flipped}");
            }
        }
    }

    #[test]
    fn the_order_of_the_words_matters() {
        assert_ne!(draw([1, 2, 3]), draw([1, 3, 2]));
        assert_ne!(draw([1, 2, 3]), draw([2, 1, 3]));
        assert_ne!(draw([1, 2]), draw([1, 2, 0]));
    }

    #[test]
    fn below_reaches_both_ends() {
        assert_eq!(below(0, 10), 0);
        assert_eq!(below(u64::MAX, 10), 9);
        assert_eq!(below(u64::MAX, 1), 0);
        assert_eq!(below(u64::MAX, u64::MAX), u64::MAX - 1);
    }
}
