//! How much memory a preparation takes: a limit that does not depend on the amount of text.
//!
//! It is stated in every summary, and `scripts/prepare-memory` and a test hold it. What grows with
//! the input is one line of JSONL or one page of Parquet, which are held whole.

use super::Vocabulary;

/// The program, its tables, the text that is read and the tokens that are written, and the window of
/// a Zstandard file, which is 8 MiB unless the file was compressed with `--long`.
const BASE_BYTES: u64 = 64 << 20;

/// A thread that encodes: the words it has seen, and two jobs with their tokens.
const WORKER_BYTES: u64 = 8 << 20;

/// The same with a `tokenizer.json`, which keeps much about every token of a job.
const JSON_WORKER_BYTES: u64 = 64 << 20;

/// A `tokenizer.json` as tables, in bytes for each byte of the file.
const JSON_FACTOR: u64 = 32;

/// A line or a page is held as it is and as text, and a table that grows is copied.
const HELD_FACTOR: u64 = 4;

/// The most memory of a preparation with `workers` threads, whose longest line or page takes
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
