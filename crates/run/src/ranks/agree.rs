//! Checks that all ranks have the same program, config and data.

use std::{fs, hash::Hasher};

use super::{ROOT, Ranks};

/// A rank in a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankName {
    /// Counted from 0.
    pub rank: usize,
    /// The machine that it runs on.
    pub host: String,
}

/// Something that differs between ranks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Mismatch {
    /// What differs.
    pub what: SharedInput,
    /// The first rank that differs from the root.
    pub other: RankName,
    /// The root.
    pub root: RankName,
}

/// Something that all ranks must have in common. Displays as a noun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedInput {
    /// The program.
    Program,
    /// The config.
    Config,
    /// The token files.
    Data,
}

impl std::fmt::Display for SharedInput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Program => "the programs",
            Self::Config => "the configs",
            Self::Data => "the data files",
        })
    }
}

impl Ranks {
    /// Checks that all ranks pass the same bytes. All of them get the same result.
    pub fn check_same(&self, what: SharedInput, bytes: &[u8]) -> Result<(), Mismatch> {
        let all = self.gather_numbers(hash(bytes));
        match all.iter().position(|hash| *hash != all[ROOT]) {
            None => Ok(()),
            Some(other) => Err(Mismatch { what, other: self.name(other), root: self.name(ROOT) }),
        }
    }

    /// Checks that all ranks run the same program file.
    pub fn check_same_program(&self) -> Result<(), Mismatch> {
        if self.count() == 1 {
            return Ok(());
        }
        let program = std::env::current_exe().and_then(fs::read).unwrap_or_default();
        self.check_same(SharedInput::Program, &program)
    }
}

/// A hash like FNV-1a, 8 bytes at a time. Detects accidental differences, not deliberate ones.
pub fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = Fnv(0xCBF2_9CE4_8422_2325);
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        hasher.write_u64(u64::from_le_bytes(*word));
    }
    hasher.write(rest);
    hasher.write_u64(bytes.len() as u64);
    hasher.finish()
}

struct Fnv(u64);

impl Hasher for Fnv {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(0x0000_0100_0000_01B3).rotate_left(23);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_changed_byte_and_any_length_changes_the_hash() {
        let whole: Vec<u8> = (0..100).collect();
        let hashes = (0..100).map(|at| {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            hash(&changed)
        });
        let mut all: Vec<_> = hashes.chain((0..=100).map(|end| hash(&whole[..end]))).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 201);
    }

    #[test]
    fn a_single_process_agrees_with_itself() {
        let ranks = Ranks::single();
        assert_eq!(ranks.check_same(SharedInput::Config, b"anything"), Ok(()));
        assert_eq!(ranks.gather_numbers(7), [7]);
        assert_eq!(ranks.gather_texts("host"), ["host"]);
        assert_eq!(ranks.from_root("a config"), "a config");
    }
}
