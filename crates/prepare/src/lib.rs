//! From text to a dataset: `train.bin`, `val.bin` and, if tokens are not GPT-2's, `meta.pkl`.
//!
//! The input is files, folders, patterns and standard input: text, JSONL or Parquet, compressed or
//! not, and llm.c's shards of tokens. It is read a piece at a time, encoded on all cores and
//! written in order, so that memory does not depend on the amount of text (`memory.rs` has the
//! limit). What must be known before writing (the characters, the length of a text that is split in
//! two) takes a first pass; input that can be read only once is copied to the folder for it.
//!
//! The files become visible only when they are complete, `train.bin` last. Every few seconds the
//! progress is recorded; after a kill, the same command continues from there.
//!
//! Promise: the memory of `prepare` is what it states, for any amount of text; data by name becomes
//! a model that `transformers`, nanoGPT and llama.cpp load. Test: `tests/runs/prepare.rs`,
//! `scripts/prepare-memory`, `scripts/fineweb-to-models`.

#![forbid(unsafe_code)]

pub mod hub;
mod cut;
mod need;
mod error;
mod encoding;
mod words;
mod draft;
mod lines;
mod memory;
mod pieces;
mod shards;
mod encode;
mod source;
mod split;
mod symbols;
mod walk;
mod journal;
mod vocabulary;
mod input;
mod passes;
mod run;

#[cfg(test)]
mod tests;

use std::{
    io,
    num::{NonZeroU32, NonZeroUsize},
    path::{Path, PathBuf},
    time::Duration,
};

use fitgpt_data::{Split, tokenizer::EndOfTextToken};
use serde::Serialize;

pub use self::{
    error::{HeldOut, JsonKind, PrepareError, file_name},
    need::DiskNeed,
    source::{SkipReason, SkippedFile},
};

/// The extensions of files that are read from a folder, optionally followed by `.gz` or `.zst`. A
/// file that is given by its path needs none.
pub const EXTENSIONS: [&str; 7] = ["txt", "text", "md", "jsonl", "ndjson", "parquet", "bin"];

/// Something to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// A file, a folder with everything below it, or a pattern such as `books/*.txt`.
    Path(PathBuf),
    /// Standard input.
    Stdin,
    /// A downloaded file whose format and split are known.
    Fetched {
        /// Where it is.
        path: PathBuf,
        /// Its format.
        format: Format,
        /// The split that it belongs to, if it belongs to one.
        split: Option<Split>,
    },
    /// Parquet files whose texts, in order, form one text.
    Joined {
        /// Where they are.
        paths: Vec<PathBuf>,
        /// The column of their texts.
        column: String,
    },
}

/// The format of a file with text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The file is one document.
    Text,
    /// Each line is an object, and a field of it is a document.
    Jsonl,
    /// Each row is a document, in a column.
    Parquet,
    /// GPT-2's tokens in llm.c's format.
    Shard,
}

/// The meaning of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Vocabulary {
    /// One token per character, numbered in sorted order, with a `meta.pkl`.
    Chars,
    /// GPT-2's BPE.
    Gpt2,
    /// The tokens of a `tokenizer.json`.
    #[serde(rename = "tokenizer.json")]
    Json,
}

/// The position of the end-of-text token. A character vocabulary has no such token: there, any
/// choice but `None` adds a line break to documents whose last line has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndOfText {
    /// After each document, as in nanoGPT's `openwebtext`.
    After,
    /// Before each document, as in llm.c's shards.
    Before,
    /// Nowhere.
    None,
}

/// The format of a dataset's tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputFormat {
    /// nanoGPT's `train.bin` and `val.bin`.
    Bin,
    /// llm.c's shards with headers: `train_000001.bin` and so on, `val_000000.bin`.
    Shards {
        /// Tokens of each shard but the last.
        tokens: NonZeroU32,
    },
}

/// What to do with bytes that are not UTF-8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invalid {
    /// They are an error.
    Refuse,
    /// They are replaced by U+FFFD.
    Replace,
}

/// What to prepare, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// What to read, in this order.
    pub inputs: Vec<Input>,
    /// The folder of the dataset.
    pub folder: PathBuf,
    /// `None`: by the file's extension; text if that is unknown.
    pub format: Option<Format>,
    /// The field of JSONL or the column of Parquet that has the text, with dots between the levels.
    pub field: String,
    /// The meaning of tokens.
    pub vocabulary: Vocabulary,
    /// The `tokenizer.json` of [`Vocabulary::Json`].
    pub tokenizer: Option<PathBuf>,
    /// The end-of-text token of `tokenizer`; `None`: determined from the files next to it or by
    /// common names.
    pub end_of_text_token: Option<String>,
    /// `None`: after each of several documents, but none in a single text, as in nanoGPT's
    /// `shakespeare`.
    pub end_of_text: Option<EndOfText>,
    /// The fraction of the text that is held out. `None`: a tenth of a single text, or
    /// [`default_val_fraction`] of several documents.
    pub val_fraction: Option<f64>,
    /// Seed for the choice of held-out documents.
    pub seed: u64,
    /// What to do with bytes that are not UTF-8.
    pub invalid: Invalid,
    /// The format of the dataset's tokens.
    pub output: OutputFormat,
    /// How often progress is recorded.
    pub note_every: Duration,
    /// Whether an existing dataset is replaced.
    pub overwrite: bool,
    /// How many threads encode; `None`: all.
    pub threads: Option<NonZeroUsize>,
    /// The free space on the disk of the dataset; `None`: not checked.
    pub disk_free_bytes: Option<u64>,
}

impl Options {
    /// GPT-2's tokens of `inputs`, in `data/` under the first one's name.
    pub fn new(inputs: Vec<Input>) -> Self {
        let name = match inputs.first() {
            Some(Input::Path(path)) if path.is_dir() => path.file_name().map(PathBuf::from),
            Some(Input::Path(path)) if source::is_pattern(path) => {
                let folder = path.parent().filter(|folder| !source::is_pattern(folder));
                folder.and_then(Path::file_name).map(PathBuf::from)
            }
            Some(Input::Path(path)) => path.file_name().map(|name| source::stem(name.as_ref())),
            Some(_) | None => None,
        };
        Self {
            folder: Path::new("data").join(name.unwrap_or_else(|| "text".into())),
            inputs,
            format: None,
            field: "text".to_owned(),
            vocabulary: Vocabulary::Gpt2,
            tokenizer: None,
            end_of_text_token: None,
            end_of_text: None,
            val_fraction: None,
            seed: 1337,
            invalid: Invalid::Refuse,
            output: OutputFormat::Bin,
            note_every: Duration::from_secs(2),
            overwrite: false,
            threads: None,
            disk_free_bytes: None,
        }
    }
}

/// The default fraction of documents that is held out: nanoGPT's 0.0005, or more if that would be
/// too little for an evaluation. The size is that of the input files, compressed or not.
pub(crate) fn default_val_fraction(total_bytes: Option<u64>) -> f64 {
    match total_bytes {
        Some(bytes) if bytes < 10_000_000 => 0.1,
        Some(bytes) if bytes < 1_000_000_000 => 0.01,
        _ => 0.0005,
    }
}

/// The phases of a preparation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// Copying input that cannot be read twice.
    Keep,
    /// Collecting the characters and the length.
    Scan,
    /// Encoding and writing.
    Encode,
}

/// The progress of a preparation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The current phase.
    pub pass: Pass,
    /// How much of the input this pass has read.
    pub bytes: u64,
    /// The length of the input, if it is known.
    pub total_bytes: Option<u64>,
    /// How many documents this pass has read.
    pub documents: u64,
    /// How many tokens are written.
    pub tokens: u64,
}

/// The result of a preparation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PrepareSummary {
    /// The meaning of tokens.
    pub vocabulary: Vocabulary,
    /// One more than the largest token.
    pub vocab_size: u32,
    /// How many documents were read.
    pub documents: u64,
    /// How many of them are held out; `None` for a single text, which is split in two.
    pub val_documents: Option<u64>,
    /// The fraction that was used.
    pub val_fraction: f64,
    /// How much was read.
    pub input_bytes: u64,
    /// How much of it was text, in UTF-8.
    pub text_bytes: u64,
    /// How many characters the text has.
    pub characters: u64,
    /// How many tokens are for training.
    pub train_tokens: u64,
    /// How many tokens are held out.
    pub val_tokens: u64,
    /// How often a document was cut at a position where its tokens may differ from those of the
    /// whole. With GPT-2's tokens: once for each 256 KiB of characters of one class without a
    /// position that no token crosses. With a `tokenizer.json`: once for each 256 KiB of a
    /// document.
    pub forced_cuts: u64,
    /// The token between documents; `None` if there is none.
    pub end_of_text: Option<EndOfTextToken>,
    /// The most memory that the preparation takes; it does not depend on the amount of text.
    pub memory_limit_bytes: u64,
    /// Files in folders that were not read.
    pub skipped: Vec<SkippedFile>,
    /// How many tokens were taken over from a `prepare` that was stopped or killed.
    pub resumed_tokens: u64,
    /// The number of training shards; `None` if the dataset has no shards.
    pub train_shards: Option<u64>,
    /// How long it took.
    pub seconds: f64,
    /// `train.bin`, or `train.u32.bin` if a token needs more than 16 bits, or the first shard.
    pub train_path: PathBuf,
    /// `val.bin`, or `val.u32.bin`.
    pub val_path: PathBuf,
    /// `meta.pkl`, if tokens are not GPT-2's.
    pub meta_path: Option<PathBuf>,
}

impl PrepareSummary {
    /// The mean length of a token.
    pub fn bytes_per_token(&self) -> f64 {
        self.text_bytes as f64 / (self.train_tokens + self.val_tokens) as f64
    }
}

/// Writes a dataset. `progress` and `stop` are called for every piece; if `stop` returns true, only
/// what the same call can continue from is kept ([`PrepareError::Paused`]).
pub fn prepare(
    options: &Options,
    progress: &mut dyn FnMut(Progress),
    stop: &dyn Fn() -> bool,
) -> Result<PrepareSummary, PrepareError> {
    run::prepare_from(options, &mut io::stdin(), progress, stop)
}
