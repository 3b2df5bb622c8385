//! What can be wrong with a dataset.

use std::{io, path::PathBuf};

use fitgpt_files::attempt::Attempt;
use fitgpt_pickle::PickleError;

/// Why a dataset or a part of it could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// No folder by that name or path.
    NoDataset {
        /// As the config names it.
        dataset: String,
        /// Every folder that was tried.
        looked_at: Vec<PathBuf>,
    },
    /// A required file does not exist.
    Missing {
        /// Which file.
        path: PathBuf,
    },
    /// A folder, a pipe, a device.
    NotAFile {
        /// What was opened.
        path: PathBuf,
    },
    /// The operating system reported an error.
    Io {
        /// What was tried: `read`, `write`, …
        action: Attempt,
        /// On which file.
        path: PathBuf,
        /// What the operating system reported.
        source: io::Error,
    },
    /// A token file of zero tokens.
    Empty {
        /// Which file.
        path: PathBuf,
    },
    /// Git LFS has not fetched the file.
    LfsPointer {
        /// Which file.
        path: PathBuf,
    },
    /// The file ends inside a token.
    OddLength {
        /// Which file.
        path: PathBuf,
        /// Its length.
        bytes: u64,
        /// Bytes of a token.
        width: u64,
    },
    /// The header of a shard announces a different number of tokens than the file has.
    WrongCount {
        /// Which file.
        path: PathBuf,
        /// The number in the header.
        announced: i64,
        /// The number after the header.
        held: u64,
    },
    /// A shard that ends inside its header.
    HeaderCut {
        /// Which file.
        path: PathBuf,
        /// Its length.
        bytes: u64,
    },
    /// A shard of another version.
    ShardVersion {
        /// Which file.
        path: PathBuf,
        /// The first word of its header.
        magic: i32,
        /// The second.
        version: i32,
    },
    /// The file is shorter than one sequence and its target.
    TooShort {
        /// Which file.
        path: PathBuf,
        /// How many it holds.
        tokens: u64,
        /// How long a sequence is.
        block_size: usize,
    },
    /// A token that is not in the vocabulary.
    OutsideVocabulary {
        /// Which file.
        path: PathBuf,
        /// Counted in tokens from the start.
        position: u64,
        /// The token.
        token: u32,
        /// One more than the largest allowed.
        vocab_size: u32,
    },
    /// The file was truncated after it was opened.
    Shrank {
        /// Which file.
        path: PathBuf,
        /// Its length when it was opened.
        tokens: u64,
        /// One past the last token that was asked for.
        end: u64,
    },
    /// A `meta.pkl` that is too large.
    MetaTooLarge {
        /// Which file.
        path: PathBuf,
        /// Its length.
        bytes: u64,
        /// The most that is read.
        limit: u64,
    },
    /// A `meta.pkl` that is not a plain pickle.
    Pickle {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        source: PickleError,
    },
    /// A `meta.pkl` that is a plain pickle, but not a vocabulary.
    Meta {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        source: MetaError,
    },
}

/// Why a pickle is not a vocabulary.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum MetaError {
    /// Not a dict.
    NotADict {
        /// What it is.
        found: &'static str,
    },
    /// A required key is missing.
    NoKey {
        /// Which key.
        key: &'static str,
    },
    /// A value whose type is not the one that nanoGPT writes.
    WrongType {
        /// Which value.
        place: &'static str,
        /// What it should be.
        expected: &'static str,
        /// What it is.
        found: &'static str,
    },
    /// A vocabulary that is too large for token files.
    VocabSize {
        /// The size in the file.
        vocab_size: i64,
        /// The most that is read: 2^16 with symbols, 2^24 without.
        limit: i64,
    },
    /// An id outside `0..vocab_size`.
    IdOutside {
        /// In which dict.
        place: &'static str,
        /// The id.
        id: i64,
        /// The size of the vocabulary.
        vocab_size: u32,
    },
    /// Two ids for one symbol, or two symbols for one id.
    Disagree {
        /// The id.
        id: i64,
        /// The symbol, escaped.
        symbol: String,
    },
}
