//! What can go wrong between text and a dataset.

use std::{
    io,
    path::{Path, PathBuf},
};

use fitgpt_data::{DataError, Split, tokenizer::TokenizerError};
use fitgpt_files::{attempt::Attempt, disk::DiskError, formats::parquet::ParquetError};

use super::need::DiskNeed;

/// Why no dataset was written.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    /// Nothing to read was named.
    NoInput,
    /// Standard input can be read once.
    StdinTwice,
    /// A pattern that matches no file.
    NoMatch {
        /// Which pattern.
        pattern: PathBuf,
    },
    /// A folder without any file of text.
    NoTexts {
        /// Which folder.
        folder: PathBuf,
    },
    /// A fraction that would leave one split empty.
    ValFraction {
        /// What was asked for.
        val_fraction: f64,
    },
    /// There is already a dataset.
    Exists {
        /// The existing file.
        path: PathBuf,
    },
    /// The operating system refused.
    Io {
        /// What was tried: `read`, `write`, …
        action: Attempt,
        /// On which file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// Another process prepares the same folder.
    InUse {
        /// The folder.
        folder: PathBuf,
        /// Which process, if that could be read.
        pid: Option<u32>,
    },
    /// The disk filled up while writing.
    DiskFull {
        /// The file that did not fit, by its final name.
        path: PathBuf,
        /// How much of it was written.
        written_bytes: u64,
    },
    /// The dataset would not fit on the disk; nothing was written.
    TooLittleDisk {
        /// What the dataset takes.
        need: DiskNeed,
        /// What there is.
        free_bytes: u64,
    },
    /// Bytes that are not text.
    NotUtf8 {
        /// Which file.
        path: PathBuf,
        /// The offset of the first invalid byte.
        offset: u64,
        /// The encoding that they look like, as `iconv` spells it.
        encoding: Option<&'static str>,
    },
    /// A row of Parquet that is not text.
    RowNotUtf8 {
        /// Which file.
        path: PathBuf,
        /// Which row, from 1; null rows are not counted.
        row: u64,
    },
    /// A Parquet file that cannot be read.
    Parquet {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: ParquetError,
    },
    /// A shard that cannot be read.
    Shard {
        /// Why.
        source: DataError,
    },
    /// Shards hold GPT-2's tokens.
    ShardInOther {
        /// Which file.
        path: PathBuf,
        /// The flag that asks for other tokens.
        flag: &'static str,
    },
    /// A tokenizer whose end-of-text token is not known.
    NoEndOfText {
        /// The `tokenizer.json`.
        path: PathBuf,
    },
    /// A line that is not JSON.
    NotJson {
        /// Which file.
        path: PathBuf,
        /// Which line, from 1.
        line: u64,
        /// Which byte of the line, from 1.
        column: usize,
        /// The JSON reader's reason.
        reason: String,
    },
    /// A line without the text.
    NoField {
        /// Which file.
        path: PathBuf,
        /// Which line, from 1.
        line: u64,
        /// The field, dots between its levels.
        field: String,
        /// The first fields that the line has.
        fields: Vec<String>,
    },
    /// A line whose field is not text.
    NotText {
        /// Which file.
        path: PathBuf,
        /// Which line, from 1.
        line: u64,
        /// The field, dots between its levels.
        field: String,
        /// What it is.
        found: JsonKind,
    },
    /// Lines are held whole, so they have a limit.
    LineTooLong {
        /// Which file.
        path: PathBuf,
        /// Which line, from 1.
        line: u64,
        /// How long a line may be.
        limit_bytes: u64,
    },
    /// More characters than token files can number.
    TooManySymbols {
        /// How many there are.
        symbols: usize,
        /// How many there may be.
        limit: usize,
    },
    /// The second pass over the input read a different text than the first.
    Changed,
    /// Text that cannot be encoded.
    Encode {
        /// Why.
        source: TokenizerError,
    },
    /// No text at all.
    Empty,
    /// All text went to one split.
    EmptySplit {
        /// Which split.
        split: Split,
        /// How many documents were read.
        documents: u64,
        /// How many characters they have.
        characters: u64,
        /// The fraction that was used.
        val_fraction: f64,
        /// A fraction that gives both splits documents, if one was found.
        computed: Option<HeldOut>,
    },
    /// The caller asked to stop.
    Stopped,
    /// The caller asked to stop, and the same call can continue from what was written.
    Paused,
}

/// The kind of a value that should be text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonKind {
    /// `true` or `false`.
    Boolean,
    /// A number.
    Number,
    /// `null`.
    Null,
    /// `[…]`.
    Array,
    /// `{…}`.
    Object,
}

/// A fraction and how many documents it holds out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HeldOut {
    /// The fraction held out.
    pub val_fraction: f64,
    /// How many of the documents that is.
    pub documents: u64,
}

impl From<DiskError> for PrepareError {
    fn from(error: DiskError) -> Self {
        let DiskError { action, path, source } = error;
        Self::Io { action, path, source }
    }
}

impl PrepareError {
    /// An error of writing `path`, of which `written_bytes` are there.
    pub(super) fn writing(path: &Path, written_bytes: u64, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Self::DiskFull { path, written_bytes }
            }
            _ => Self::Io { action: Attempt::Write, path, source },
        }
    }

    /// An error of reading `path`.
    pub(super) fn reading(path: &Path, source: io::Error) -> Self {
        Self::Io { action: Attempt::Read, path: path.to_owned(), source }
    }
}

/// The file of a split.
pub const fn file_name(split: Split) -> &'static str {
    match split {
        Split::Train => "train.bin",
        Split::Val => "val.bin",
    }
}

/// The file of a split of 32-bit tokens.
pub(crate) const fn wide_file_name(split: Split) -> &'static str {
    match split {
        Split::Train => "train.u32.bin",
        Split::Val => "val.u32.bin",
    }
}
