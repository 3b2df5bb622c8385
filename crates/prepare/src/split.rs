//! Divides text into training and validation.
//!
//! A document's split is a draw on a hash of its first piece (at most 256 KiB), so the order of
//! files, the number of threads and the kind of input do not matter, and copies get the same split.
//! One text is cut by position, as nanoGPT does.
//!
//! Promise: which documents are held out for validation does not depend on the order of files or
//! the kind of input. Test: this file, `crates/prepare/src/tests/outputs.rs`.

use fitgpt_data::{Split, counter::draw};
use serde::{Deserialize, Serialize};

use super::{PrepareError, error::HeldOut};

/// Separates these random numbers from others with the same seed.
const PURPOSE: u64 = 0x7370_6c69_7400; // "split"

/// Fractions that are tried for a hint if the given one leaves a split empty.
const OTHER_SHARES: [f64; 5] = [0.001, 0.01, 0.05, 0.1, 0.5];

/// The rule that assigns text to a split.
#[derive(Debug)]
pub(super) enum SplitRule {
    /// One text: its end is for validation, as in nanoGPT's Shakespeare.
    Position {
        /// How many characters are for training.
        train_characters: u64,
    },
    /// Documents: a random number for each from its own text, so that its split does not depend on
    /// the order of files, the number of threads or the kind of input, and copies get the same
    /// split.
    Documents(Documents),
}

/// Assigns documents at random.
#[derive(Debug)]
pub(super) struct Documents {
    seed: u64,
    val_fraction: f64,
    moved: Option<(u64, Split)>, // the one that is reassigned so that no split is empty
    pub(super) count: DocumentCount,
}

/// The documents assigned so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct DocumentCount {
    drawn: u64,
    has_moved: bool, // only one of several copies is reassigned
    val_of_other: [u64; OTHER_SHARES.len()],
}

impl SplitRule {
    /// By position: the last `val_fraction` of `characters`.
    pub(super) fn position(characters: u64, val_fraction: f64) -> Self {
        // As Python's `int(n * 0.9)`.
        Self::Position { train_characters: (characters as f64 * (1.0 - val_fraction)) as u64 }
    }

    /// At random. If the hashes of all documents are known and all would go to one split, the one
    /// with the nearest random number is reassigned.
    pub(super) fn documents(seed: u64, val_fraction: f64, known: Option<&[u64]>) -> Self {
        let mut documents =
            Documents { seed, val_fraction, moved: None, count: DocumentCount::default() };
        if let Some(hashes) = known.filter(|hashes| hashes.len() > 1) {
            let hashes = || hashes.iter().copied();
            let n_val = hashes().filter(|&hash| documents.drawn(hash) == Split::Val).count();
            documents.moved = match n_val {
                0 => hashes().min_by_key(|&h| draw_of(seed, h)).map(|hash| (hash, Split::Val)),
                n if n == hashes().count() => {
                    hashes().max_by_key(|&h| draw_of(seed, h)).map(|hash| (hash, Split::Train))
                }
                _ => None,
            };
        }
        Self::Documents(documents)
    }
}

/// A hash of the first piece of a document, which determines its split. A piece is at most 256 KiB,
/// the same for a file, a line, a row and standard input.
pub(super) fn hash_of(piece: &[u8]) -> u64 {
    let mut hash = piece.len() as u64;
    let mut chunks = piece.chunks_exact(8);
    let mut add = |word: u64| {
        hash = (hash ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        hash ^= hash >> 32;
    };
    for chunk in &mut chunks {
        let mut word = [0; 8];
        word.copy_from_slice(chunk);
        add(u64::from_le_bytes(word));
    }
    let mut word = [0; 8];
    word[..chunks.remainder().len()].copy_from_slice(chunks.remainder());
    add(u64::from_le_bytes(word));
    hash
}

fn draw_of(seed: u64, hash: u64) -> u64 {
    draw([seed, PURPOSE, hash])
}

impl Documents {
    /// The split of the document with this hash.
    pub(super) fn split(&mut self, hash: u64) -> Split {
        self.count.drawn += 1;
        for (i, &share) in OTHER_SHARES.iter().enumerate() {
            self.count.val_of_other[i] += u64::from(self.is_below(hash, share));
        }
        match self.moved {
            Some((moved, split)) if moved == hash && !self.count.has_moved => {
                self.count.has_moved = true;
                split
            }
            _ => self.drawn(hash),
        }
    }

    fn drawn(&self, hash: u64) -> Split {
        if self.is_below(hash, self.val_fraction) { Split::Val } else { Split::Train }
    }

    fn is_below(&self, hash: u64, share: f64) -> bool {
        let limit = (share * 2.0_f64.powi(64)) as u64; // saturates, and a share is below 1
        draw_of(self.seed, hash) < limit
    }

    /// The error for a `split` without documents.
    pub(super) fn empty(&self, split: Split, characters: u64) -> PrepareError {
        let share = |(&val_fraction, &documents): (&f64, &u64)| HeldOut { val_fraction, documents };
        let mut shares = OTHER_SHARES.iter().zip(&self.count.val_of_other).map(share);
        let computed = shares.find(|share| (1..self.count.drawn).contains(&share.documents));
        let (documents, val_fraction) = (self.count.drawn, self.val_fraction);
        PrepareError::EmptySplit { split, documents, characters, val_fraction, computed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The hash of document `i` of a list of different ones.
    fn hash(i: u64) -> u64 {
        hash_of(format!("document {i}").as_bytes())
    }

    fn splits(val_fraction: f64, known: Option<u64>, n: u64) -> (Vec<Split>, Documents) {
        let known = known.map(|n| (0..n).map(hash).collect::<Vec<_>>());
        match SplitRule::documents(1337, val_fraction, known.as_deref()) {
            SplitRule::Documents(mut documents) => {
                ((0..n).map(|i| documents.split(hash(i))).collect(), documents)
            }
            other @ SplitRule::Position { .. } => panic!("{other:?}"),
        }
    }

    fn n_val(splits: &[Split]) -> usize {
        splits.iter().filter(|&&split| split == Split::Val).count()
    }

    #[test]
    fn a_text_is_split_like_nanogpts_shakespeare() {
        let rule = SplitRule::position(1_115_394, 0.1);
        assert!(matches!(rule, SplitRule::Position { train_characters: 1_003_854 }), "{rule:?}");
    }

    #[test]
    fn documents_are_held_out_in_the_given_fraction() {
        for share in [0.0005, 0.1, 0.9] {
            let n = 200_000;
            let got = n_val(&splits(share, None, n).0) as f64;
            let expected = share * n as f64;
            // Binomial: six deviations.
            assert!((got - expected).abs() < 6.0 * (expected * (1.0 - share)).sqrt(), "{got}");
        }
    }

    #[test]
    fn a_documents_split_depends_only_on_its_text() {
        let SplitRule::Documents(mut backwards) = SplitRule::documents(1337, 0.1, None) else {
            panic!("documents were asked for")
        };
        let mut there: Vec<_> = (0..500).rev().map(|i| backwards.split(hash(i))).collect();
        there.reverse();
        assert_eq!(splits(0.1, None, 500).0, there);
        assert_eq!(splits(0.1, None, 50).0, there[..50]);
        // Copies get the same split, and other seeds give other splits.
        assert_eq!(backwards.split(hash(7)), there[7]);
        let SplitRule::Documents(mut other) = SplitRule::documents(1, 0.1, None) else {
            panic!("documents were asked for")
        };
        assert_ne!((0..500).map(|i| other.split(hash(i))).collect::<Vec<_>>(), there);
    }

    #[test]
    fn every_byte_and_the_length_change_the_hash() {
        let text: Vec<u8> = (0..100).collect();
        for len in 0..text.len() {
            let whole = hash_of(&text[..len]);
            for at in 0..len {
                let mut changed = text[..len].to_vec();
                changed[at] ^= 128;
                assert_ne!(hash_of(&changed), whole, "byte {at} of {len}");
            }
            assert_ne!(hash_of(&[&text[..len], &[0][..]].concat()), whole);
        }
    }

    #[test]
    fn a_known_number_of_documents_never_leaves_a_split_empty() {
        for n in 2..40 {
            for share in [1e-9, 0.01, 0.5, 0.999_999_999] {
                let val = n_val(&splits(share, Some(n), n).0) as u64;
                assert!((1..n).contains(&val), "{val} of {n} at {share}");
            }
        }
        assert_eq!(n_val(&splits(1e-9, Some(30), 30).0), 1);
    }

    #[test]
    fn an_empty_split_is_reported_with_a_fraction_that_works() {
        let (drawn, documents) = splits(1e-9, None, 300);
        assert_eq!(n_val(&drawn), 0);
        let error = documents.empty(Split::Val, 4000);
        let PrepareError::EmptySplit { computed: Some(share), documents: 300, .. } = &error else {
            panic!("{error}");
        };
        assert_eq!(n_val(&splits(share.val_fraction, None, 300).0) as u64, share.documents);
        assert_eq!(
            error.to_string(),
            format!(
                "`val.bin` would be empty: `--val_fraction=0.000000001` splits 300 documents with 4000 \
                 characters; `--val_fraction={}` works (documents held out: {})",
                share.val_fraction, share.documents
            )
        );
        let alone = splits(1e-9, None, 1).1.empty(Split::Val, 10);
        assert!(alone.to_string().ends_with("splits 1 document with 10 characters"));
    }
}
