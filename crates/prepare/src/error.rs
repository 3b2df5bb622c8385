//! What can go wrong between text and a dataset.

use std::{
    fmt, io,
    path::{Path, PathBuf},
};

use fitgpt_data::{DataError, Split, tokenizer::TokenizerError};
use fitgpt_files::{attempt::Attempt, disk::DiskError, formats::parquet::ParquetError};

use super::{EXTENSIONS, need::DiskNeed};

/// Why no dataset was written.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    /// Nothing to read was named.
    #[error("no input: give files, folders, or `-` for standard input")]
    NoInput,
    /// Standard input can be read once.
    #[error("standard input is given twice")]
    StdinTwice,
    /// A pattern that matches no file.
    #[error("no file matches `{pattern}`")]
    NoMatch {
        /// Which pattern.
        pattern: PathBuf,
    },
    /// A folder without any file of text.
    #[error("`{folder}` has no files ending in `{}`", EXTENSIONS.join("`, `"))]
    NoTexts {
        /// Which folder.
        folder: PathBuf,
    },
    /// A fraction that would leave one split empty.
    #[error("`--val_fraction` must be between 0 and 1: {val_fraction}")]
    ValFraction {
        /// What was asked for.
        val_fraction: f64,
    },
    /// There is already a dataset.
    #[error("`{path}` exists; `--overwrite` replaces it")]
    Exists {
        /// The existing file.
        path: PathBuf,
    },
    /// The operating system refused.
    #[error("cannot {action} `{path}`: {source}")]
    Io {
        /// What was tried: `read`, `write`, …
        action: Attempt,
        /// On which file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// Another process prepares the same folder.
    #[error(
        "`{folder}` is in use by another process{}",
        pid.map_or(String::new(), |pid| format!(", {pid}"))
    )]
    InUse {
        /// The folder.
        folder: PathBuf,
        /// Which process, if that could be read.
        pid: Option<u32>,
    },
    /// The disk filled up while writing.
    #[error("the disk is full: {written_bytes} bytes of `{path}` were written")]
    DiskFull {
        /// The file that did not fit, by its final name.
        path: PathBuf,
        /// How much of it was written.
        written_bytes: u64,
    },
    /// The dataset would not fit on the disk; nothing was written.
    #[error("the dataset needs {need}, the disk has {free_bytes} bytes free")]
    TooLittleDisk {
        /// What the dataset takes.
        need: DiskNeed,
        /// What there is.
        free_bytes: u64,
    },
    /// Bytes that are not text.
    #[error("`{path}` is not valid UTF-8 at byte {offset}; `--lossy` replaces invalid bytes")]
    NotUtf8 {
        /// Which file.
        path: PathBuf,
        /// The offset of the first invalid byte.
        offset: u64,
    },
    /// A row of Parquet that is not text.
    #[error("row {row} of `{path}` is not valid UTF-8; `--lossy` replaces invalid bytes")]
    RowNotUtf8 {
        /// Which file.
        path: PathBuf,
        /// Which row, from 1; null rows are not counted.
        row: u64,
    },
    /// A Parquet file that cannot be read.
    #[error("cannot read `{path}`: {source}")]
    Parquet {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: ParquetError,
    },
    /// A shard that cannot be read.
    #[error("{source}")]
    Shard {
        /// Why.
        source: DataError,
    },
    /// Shards hold GPT-2's tokens.
    #[error("`{path}` contains GPT-2 tokens, not text: leave out `{flag}`")]
    ShardInOther {
        /// Which file.
        path: PathBuf,
        /// The flag that asks for other tokens.
        flag: &'static str,
    },
    /// A tokenizer whose end-of-text token is not known.
    #[error(
        "`{path}` defines no end-of-text token: set one with `--eot_token`, or use `--eot none`"
    )]
    NoEndOfText {
        /// The `tokenizer.json`.
        path: PathBuf,
    },
    /// A line that is not JSON.
    #[error("`{path}` line {line} is not JSON: {reason}, column {column}")]
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
    #[error("`{path}` line {line} has no field `{field}`{}", other_fields(fields))]
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
    #[error("`{path}` line {line}: the field `{field}` should be text, but is {found}")]
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
    #[error("`{path}` line {line} is longer than {limit_bytes} bytes")]
    LineTooLong {
        /// Which file.
        path: PathBuf,
        /// Which line, from 1.
        line: u64,
        /// How long a line may be.
        limit_bytes: u64,
    },
    /// More characters than token files can number.
    #[error(
        "the text has {symbols} different characters, but 16-bit tokens can represent \
         only {limit}; leave out `--chars` for GPT-2's tokens, which have no such limit"
    )]
    TooManySymbols {
        /// How many there are.
        symbols: usize,
        /// How many there may be.
        limit: usize,
    },
    /// The second pass over the input read a different text than the first.
    #[error("the input changed while it was being read")]
    Changed,
    /// Text that cannot be encoded.
    #[error("{source}")]
    Encode {
        /// Why.
        source: TokenizerError,
    },
    /// No text at all.
    #[error("the input has no text")]
    Empty,
    /// All text went to one split.
    #[error(
        "`{}` would be empty: `--val_fraction={val_fraction}` splits {documents} document{} with \
         {characters} characters{}",
        file_name(*split), if *documents == 1 { "" } else { "s" }, match computed {
            Some(HeldOut { val_fraction, documents }) =>
                format!("; `--val_fraction={val_fraction}` works (documents held out: {documents})"),
            None => String::new(),
        }
    )]
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
    #[error("stopped; nothing was written")]
    Stopped,
    /// The caller asked to stop, and the same call can continue from what was written.
    #[error("stopped; run the same command again to continue")]
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

impl fmt::Display for JsonKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Boolean => "a boolean",
            Self::Number => "a number",
            Self::Null => "null",
            Self::Array => "an array",
            Self::Object => "an object",
        })
    }
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

fn other_fields(fields: &[String]) -> String {
    if fields.is_empty() {
        return String::new();
    }
    format!("; choose one of `{}` with `--field`", fields.join("`, `"))
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
