//! The most memory that a preparation takes, which does not depend on the amount of text.
//!
//! It is printed in every summary, and checked by `scripts/prepare-memory` and a test. Only one
//! line of JSONL or one page of Parquet, which are kept whole, depend on the input.

use super::Vocabulary;

/// The program, its tables, buffers for text and tokens, and the window of a Zstandard file, which
/// is 8 MiB unless the file was compressed with `--long`.
const BASE_BYTES: u64 = 64 << 20;

/// A thread that encodes: its cache of words, and two jobs with their tokens.
const WORKER_BYTES: u64 = 8 << 20;

/// A thread that encodes with a `tokenizer.json`, which needs much memory for every token of a job.
const JSON_WORKER_BYTES: u64 = 64 << 20;

/// The tables of a `tokenizer.json`, in bytes per byte of the file.
const JSON_FACTOR: u64 = 32;

/// A line or a page is kept as bytes and as text, and a growing vector is copied.
const HELD_FACTOR: u64 = 4;

/// The most memory of a preparation with `workers` threads whose longest line or page has
/// `held_bytes`.
pub(super) fn limit_bytes(
    vocabulary: Vocabulary,
    tokenizer_bytes: u64,
    workers: usize,
    held_bytes: u64,
) -> u64 {
    let worker_bytes = match vocabulary {
        Vocabulary::Json => JSON_WORKER_BYTES,
        Vocabulary::Chars | Vocabulary::Gpt2 => WORKER_BYTES,
    };
    let of_input = held_bytes.saturating_mul(HELD_FACTOR);
    (BASE_BYTES + tokenizer_bytes * JSON_FACTOR + worker_bytes * workers as u64)
        .saturating_add(of_input)
}
