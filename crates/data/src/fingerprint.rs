//! A fingerprint of a dataset: its size and a hash of samples of its content.
//!
//! It is stored in every checkpoint, so that a resume on other data is reported. Reading a whole
//! dataset would take minutes; 64 blocks of each file take milliseconds.

use fitgpt_program::hash::{FNV_1A_START, fnv_1a};
use serde::{Deserialize, Serialize};

use super::{DataError, Tokens};

/// How many blocks are read, evenly spaced from the first to the last.
const N_BLOCKS: u64 = 64;
/// Bytes of a block.
const BLOCK_BYTES: u64 = 4096;

/// The fingerprint of a dataset.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    /// The training file.
    pub train: FileFingerprint,
    /// The validation file.
    pub val: FileFingerprint,
}

/// The fingerprint of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileFingerprint {
    /// Its length.
    pub bytes: u64,
    /// A hash of its sampled blocks, in hexadecimal.
    pub blocks: String,
}

impl FileFingerprint {
    /// Reads the blocks of `file`.
    pub(super) fn of(file: &Tokens) -> Result<Self, DataError> {
        let bytes = file.bytes();
        let last = bytes.saturating_sub(BLOCK_BYTES);
        let mut block = [0; BLOCK_BYTES as usize];
        let mut hash = FNV_1A_START;
        let mut after_previous = 0;
        for index in 0..N_BLOCKS {
            let start = (u128::from(last) * u128::from(index) / u128::from(N_BLOCKS - 1)) as u64;
            // In a short file the blocks overlap.
            let start = start.max(after_previous);
            let end = (start + BLOCK_BYTES).min(bytes);
            let part = &mut block[..end.saturating_sub(start) as usize];
            file.read_bytes(start, part)?;
            hash = fnv_1a(hash, part);
            after_previous = end;
        }
        Ok(Self { bytes, blocks: format!("{hash:016x}") })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_change_of_the_length_the_start_the_end_or_a_short_file_is_detected() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("train.bin");
        let of = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            FileFingerprint::of(&Tokens::open(&path).unwrap()).unwrap()
        };
        for length in [2, 3000, 4096, 100_000, 1 << 20] {
            let whole: Vec<u8> = (0..length).map(|i| (i % 251) as u8).collect();
            let before = of(&whole);
            assert_eq!(before, of(&whole));
            assert_ne!(before, of(&[&whole[..], &[0, 0]].concat()), "{length}");
            let mut positions = vec![0, length - 1];
            if length <= 100_000 {
                positions.extend((0..length).step_by(997)); // all of it is read
            }
            for position in positions {
                let mut changed = whole.clone();
                changed[position] ^= 1;
                assert_ne!(before, of(&changed), "byte {position} of {length}");
            }
        }
    }
}
