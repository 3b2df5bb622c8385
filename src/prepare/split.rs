//! Which text is for training and which for validation.

use super::{PrepareError, error::Share};
use crate::data::{Split, counter::draw};

/// Keeps these draws apart from the others that are made with the same seed.
const PURPOSE: u64 = 0x7370_6c69_7400; // "split"

/// The shares that are tried if one turned out too small or too large.
const OTHER_SHARES: [f64; 5] = [0.001, 0.01, 0.05, 0.1, 0.5];

/// A rule that sends text to a split.
#[derive(Debug)]
pub(super) enum Rule {
    /// One text: its end is kept for validation, as nanoGPT does with Shakespeare.
    Position {
        /// How many characters are learned from.
        train_characters: u64,
    },
    /// Documents: a draw for each by its position, so that the same documents give the same splits
    /// on any machine, and more documents behind them change nothing.
    Documents(Documents),
}

/// Documents by chance.
#[derive(Debug)]
pub(super) struct Documents {
    seed: u64,
    val_fraction: f64,
    moved: Option<(u64, Split)>, // the one that goes elsewhere, so that no split is empty
    drawn: u64,
    val_of_other: [u64; OTHER_SHARES.len()],
}

impl Rule {
    /// By position: the last `val_fraction` of `characters`.
    pub(super) fn position(characters: u64, val_fraction: f64) -> Self {
        // As Python's `int(n * 0.9)`.
        Self::Position { train_characters: (characters as f64 * (1.0 - val_fraction)) as u64 }
    }

    /// By chance. If the number of documents is known and all would go to one split, the one
    /// nearest to the other split goes there.
    pub(super) fn documents(seed: u64, val_fraction: f64, n_documents: Option<u64>) -> Self {
        let mut documents = Documents {
            seed,
            val_fraction,
            moved: None,
            drawn: 0,
            val_of_other: [0; OTHER_SHARES.len()],
        };
        let by_draw = |&index: &u64| draw([seed, PURPOSE, index]);
        if let Some(n) = n_documents.filter(|&n| n > 1) {
            let n_val = (0..n).filter(|&i| documents.split_of(i) == Split::Val).count() as u64;
            documents.moved = match n_val {
                0 => (0..n).min_by_key(by_draw).map(|index| (index, Split::Val)),
                _ if n_val == n => (0..n).max_by_key(by_draw).map(|index| (index, Split::Train)),
                _ => None,
            };
        }
        Self::Documents(documents)
    }
}

impl Documents {
    /// The split of the next document.
    pub(super) fn next(&mut self) -> Split {
        let index = self.drawn;
        self.drawn += 1;
        for (i, &share) in OTHER_SHARES.iter().enumerate() {
            self.val_of_other[i] += u64::from(self.is_below(index, share));
        }
        match self.moved {
            Some((moved, split)) if moved == index => split,
            _ => self.split_of(index),
        }
    }

    fn split_of(&self, index: u64) -> Split {
        if self.is_below(index, self.val_fraction) { Split::Val } else { Split::Train }
    }

    fn is_below(&self, index: u64, share: f64) -> bool {
        let limit = (share * 2.0_f64.powi(64)) as u64; // saturates, and a share is below 1
        draw([self.seed, PURPOSE, index]) < limit
    }

    /// The error for a `split` without documents.
    pub(super) fn empty(&self, split: Split, characters: u64) -> PrepareError {
        let share = |(&val_fraction, &documents): (&f64, &u64)| Share { val_fraction, documents };
        let mut shares = OTHER_SHARES.iter().zip(&self.val_of_other).map(share);
        let computed = shares.find(|share| (1..self.drawn).contains(&share.documents));
        let (documents, val_fraction) = (self.drawn, self.val_fraction);
        PrepareError::EmptySplit { split, documents, characters, val_fraction, computed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn splits(val_fraction: f64, known: Option<u64>, n: u64) -> (Vec<Split>, Documents) {
        match Rule::documents(1337, val_fraction, known) {
            Rule::Documents(mut documents) => {
                ((0..n).map(|_| documents.next()).collect(), documents)
            }
            other @ Rule::Position { .. } => panic!("{other:?}"),
        }
    }

    fn n_val(splits: &[Split]) -> usize {
        splits.iter().filter(|&&split| split == Split::Val).count()
    }

    #[test]
    fn a_text_is_split_where_nanogpt_splits_shakespeare() {
        let rule = Rule::position(1_115_394, 0.1);
        assert!(matches!(rule, Rule::Position { train_characters: 1_003_854 }), "{rule:?}");
    }

    #[test]
    fn documents_go_by_the_share_that_is_asked_for() {
        for share in [0.0005, 0.1, 0.9] {
            let n = 200_000;
            let got = n_val(&splits(share, None, n).0) as f64;
            let expected = share * n as f64;
            // Binomial: six deviations.
            assert!((got - expected).abs() < 6.0 * (expected * (1.0 - share)).sqrt(), "{got}");
        }
    }

    #[test]
    fn more_documents_leave_the_others_where_they_were() {
        let (few, many) = (splits(0.1, None, 50).0, splits(0.1, None, 500).0);
        assert_eq!(few, many[..50]);
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
    fn an_empty_split_is_reported_with_a_share_that_was_counted() {
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
                "`val.bin` would be empty: a share of 0.000000001 of 300 documents with 4000 \
                 characters is kept aside; `--val_fraction={}` keeps {} documents aside",
                share.val_fraction, share.documents
            )
        );
        let alone = splits(1e-9, None, 1).1.empty(Split::Val, 10);
        assert!(alone.to_string().ends_with("of 1 document with 10 characters is kept aside"));
    }
}
