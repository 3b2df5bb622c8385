//! Chooses the sequences of a step or an evaluation.
//!
//! The sequences of step *s* depend only on (seed, *s*, position in the effective batch), those of
//! an evaluation only on (seed, split, index). So 4 × 128 and 16 × 32 train on the same data in the
//! same order, and so do one worker and four.
//!
//! The position of a sequence in the data is a hash of (seed, step, position in the effective
//! batch). It is never stored, and any split of the batch sees the same sequences.

use super::{DataError, Split, Tokens, counter};

/// The purpose of a batch. Each purpose has its own stream of random numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Sequences to train on.
    Training {
        /// Which optimizer update, counted from zero.
        step: u64,
    },
    /// Sequences to evaluate, the same ones at every evaluation.
    Evaluation {
        /// Which file they come from.
        split: Split,
    },
}

/// Draws sequences of one length from token files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batches {
    seed: u64,
    block_size: usize,
    vocab_size: u32,
}

impl Batches {
    /// Sequences of `block_size` tokens below `vocab_size`.
    ///
    /// # Panics
    ///
    /// If `block_size` is zero; a resolved config has no such value.
    pub fn new(seed: u64, block_size: usize, vocab_size: u32) -> Self {
        assert!(block_size > 0, "a sequence has at least one token");
        Self { seed, block_size, vocab_size }
    }

    /// Refuses a file that is shorter than one sequence and its last target.
    pub fn admits(&self, file: &Tokens) -> Result<(), DataError> {
        if file.len() > self.block_size as u64 {
            return Ok(());
        }
        Err(DataError::TooShort {
            path: file.path().to_owned(),
            tokens: file.len(),
            block_size: self.block_size,
        })
    }

    /// The first token of a sequence in `file`.
    ///
    /// `sequence` is its position in the effective batch or its index in the evaluation. Every
    /// start whose last target is still in the file is equally likely.
    pub fn start(&self, file: &Tokens, purpose: Purpose, sequence: u64) -> Result<u64, DataError> {
        self.admits(file)?;
        let (stream, step) = match purpose {
            Purpose::Training { step } => (0, step),
            Purpose::Evaluation { split: Split::Train } => (1, 0),
            Purpose::Evaluation { split: Split::Val } => (2, 0),
        };
        let draw = counter::draw([self.seed, stream, step, sequence]);
        Ok(counter::below(draw, file.len() - self.block_size as u64))
    }

    /// Fills a micro-batch with the sequences from `first_sequence`, as many as the slices hold;
    /// `targets` are `tokens` one position later. Allocates nothing.
    ///
    /// # Panics
    ///
    /// If the slices differ in length or do not hold whole sequences.
    pub fn fill(
        &self,
        file: &Tokens,
        purpose: Purpose,
        first_sequence: u64,
        tokens: &mut [u32],
        targets: &mut [u32],
    ) -> Result<(), DataError> {
        assert_eq!(tokens.len(), targets.len());
        assert_eq!(tokens.len() % self.block_size, 0, "a micro-batch holds whole sequences");
        let rows = tokens.chunks_exact_mut(self.block_size);
        let target_rows = targets.chunks_exact_mut(self.block_size);
        for ((row, target_row), sequence) in rows.zip(target_rows).zip(first_sequence..) {
            let start = self.start(file, purpose, sequence)?;
            file.read(start, &mut row[..1])?;
            file.read(start + 1, target_row)?;
            row[1..].copy_from_slice(&target_row[..self.block_size - 1]);
            self.check(file, start, &row[..1])?;
            self.check(file, start + 1, target_row)?;
        }
        Ok(())
    }

    fn check(&self, file: &Tokens, start: u64, tokens: &[u32]) -> Result<(), DataError> {
        match tokens.iter().position(|&token| token >= self.vocab_size) {
            None => Ok(()),
            Some(index) => Err(DataError::OutsideVocabulary {
                path: file.path().to_owned(),
                position: start + index as u64,
                token: tokens[index],
                vocab_size: self.vocab_size,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens::tests::write_plain;

    const TRAINING: Purpose = Purpose::Training { step: 3 };

    /// A file whose token at position `i` is `i`.
    fn counting(len: u16) -> (tempfile::TempDir, Tokens) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("train.bin");
        write_plain(&path, 0..len);
        let tokens = Tokens::open(path).unwrap();
        (folder, tokens)
    }

    fn filled(
        batches: &Batches,
        file: &Tokens,
        purpose: Purpose,
        sequences: std::ops::Range<u64>,
    ) -> (Vec<u32>, Vec<u32>) {
        let len = (sequences.end - sequences.start) as usize * batches.block_size;
        let (mut tokens, mut targets) = (vec![0; len], vec![0; len]);
        batches.fill(file, purpose, sequences.start, &mut tokens, &mut targets).unwrap();
        (tokens, targets)
    }

    #[test]
    fn targets_are_the_tokens_one_position_later() {
        let (_folder, file) = counting(5_000);
        for block_size in [1, 2, 64, 3_000] {
            let batches = Batches::new(1337, block_size, 5_000);
            let (tokens, targets) = filled(&batches, &file, TRAINING, 0..20);
            for (row, target_row) in tokens.chunks(block_size).zip(targets.chunks(block_size)) {
                let run = (row[0]..).take(block_size + 1).collect::<Vec<_>>();
                assert_eq!(row, &run[..block_size]);
                assert_eq!(target_row, &run[1..]);
            }
        }
    }

    #[test]
    fn a_step_sees_the_same_sequences_under_any_split() {
        let (_folder, file) = counting(5_000);
        let batches = Batches::new(1337, 16, 5_000);
        let whole = filled(&batches, &file, TRAINING, 0..48);
        for micro in [1, 3, 16, 24] {
            let (mut tokens, mut targets) = (Vec::new(), Vec::new());
            for first in (0..48).step_by(micro) {
                let part = first..first + micro as u64;
                let (t, y) = filled(&batches, &file, TRAINING, part);
                tokens.extend(t);
                targets.extend(y);
            }
            assert_eq!((tokens, targets), whole);
        }
    }

    #[test]
    fn seeds_steps_splits_and_purposes_draw_differently() {
        let (_folder, file) = counting(60_000);
        let batches = Batches::new(1337, 16, 60_000);
        let of = |batches: &Batches, purpose| filled(batches, &file, purpose, 0..8).0;
        let drawn = [
            of(&batches, Purpose::Training { step: 0 }),
            of(&batches, Purpose::Training { step: 1 }),
            of(&batches, Purpose::Evaluation { split: Split::Train }),
            of(&batches, Purpose::Evaluation { split: Split::Val }),
            of(&Batches::new(1338, 16, 60_000), Purpose::Evaluation { split: Split::Val }),
        ];
        for (i, one) in drawn.iter().enumerate() {
            assert!(drawn[i + 1..].iter().all(|other| other != one));
        }
    }

    #[test]
    fn starts_reach_both_ends_of_the_file_and_no_further() {
        let (_folder, file) = counting(20);
        let batches = Batches::new(1337, 16, 20);
        let mut seen = [false; 4]; // 20 - 16: the last target is the last token
        for sequence in 0..200 {
            let start = batches.start(&file, TRAINING, sequence).unwrap();
            seen[start as usize] = true;
        }
        assert_eq!(seen, [true; 4]);
    }

    #[test]
    fn the_shortest_file_has_one_sequence_and_its_target() {
        let (_folder, file) = counting(17);
        let (tokens, targets) = filled(&Batches::new(1, 16, 17), &file, TRAINING, 0..1);
        assert_eq!((tokens[0], targets[15]), (0, 16));
        let error = Batches::new(1, 17, 17).admits(&file).unwrap_err();
        let text = error.to_string();
        assert!(
            text.ends_with("holds 17 tokens, a sequence of `block_size` 17 needs 18"),
            "{text}"
        );
    }

    #[test]
    fn a_token_outside_the_vocabulary_is_named_with_its_position() {
        let (_folder, file) = counting(20);
        let mut rows = ([0; 16], [0; 16]);
        for sequence in 0..50 {
            let batches = Batches::new(1337, 16, 10);
            let error =
                batches.fill(&file, TRAINING, sequence, &mut rows.0, &mut rows.1).unwrap_err();
            let DataError::OutsideVocabulary { position, token, vocab_size, .. } = error else {
                panic!("{error}");
            };
            assert_eq!((position, token, vocab_size), (10, 10, 10));
        }
    }
}
