//! GPT-2's BPE: the same tokens as tiktoken, many times faster.
//!
//! Text is split into words by hand-written rules over bytes ([`split`]), and a word's tokens are
//! looked up in a cache of fixed size ([`cache`]) or merged by rank ([`merge`]). The tables are
//! made on first use, in about 20 ms, and shared: 3 MiB. An [`Encoder`] takes 3 MiB more. Only the
//! tokens grow with the text; merging a word of more than 64 bytes temporarily takes about 30 bytes
//! per byte.
//!
//! A regular expression takes most of tiktoken's time. Its few classes of characters are split by
//! hand, and a word is cut where no token can cross, which makes Chinese fast. Every other family's
//! file is read by the crate `tokenizers`.
//!
//! Promise: GPT-2's tokens are tiktoken's, for any text. Test:
//! `crates/data/src/tokenizer/gpt2/tests.rs` (properties, every character), `bench/tokenizer.py` on
//! whole corpora.

mod cache;
mod classes;
mod merge;
mod split;

use std::sync::LazyLock;

pub use self::classes::CharClass;
use self::{
    cache::{LARGE_BYTES, SMALL_BYTES, SmallKey, WordCache},
    classes::CharClasses,
    merge::Merges,
};
use super::{END_OF_TEXT, END_OF_TEXT_SPELLING};

/// Words in the tables of an encoder that reads much text: 2 MiB and 0.6 MiB.
const N_SMALL: usize = 1 << 16;
const N_LARGE: usize = 1 << 12;

/// Words in the tables of an encoder for a prompt.
const N_SMALL_OF_PROMPT: usize = 1 << 6;
const N_LARGE_OF_PROMPT: usize = 1;

struct Tables {
    classes: CharClasses,
    merges: Merges,
}

static TABLES: LazyLock<Tables> =
    LazyLock::new(|| Tables { classes: CharClasses::new(), merges: Merges::new() });

/// The class of a character in GPT-2's pattern.
pub fn class_of(character: char) -> CharClass {
    TABLES.classes.of(character)
}

/// The bytes of a token, if there is such a token.
pub fn bytes_of(id: u32) -> Option<&'static [u8]> {
    match id {
        END_OF_TEXT => Some(END_OF_TEXT_SPELLING.as_bytes()),
        id => TABLES.merges.bytes_of(id),
    }
}

/// The two tokens that each merge joins, in the order of the tokens that they make.
pub fn merges() -> impl Iterator<Item = [u16; 2]> {
    merge::all()
}

/// The printable character that tokenizers' files write for a byte.
pub(crate) fn character_of_byte(byte: u8) -> char {
    merge::character_of_byte(byte)
}

/// The tokens of a text, in which `<|endoftext|>` is ordinary text.
pub(super) fn encode(text: &str) -> Vec<u32> {
    let mut ids = Vec::new();
    Encoder::with_words(N_SMALL_OF_PROMPT, N_LARGE_OF_PROMPT).encode(text, &mut ids);
    ids.into_iter().map(u32::from).collect()
}

/// Encodes text. Each thread has its own.
#[derive(Debug)]
pub struct Encoder {
    cache: WordCache,
}

impl Default for Encoder {
    fn default() -> Self {
        Self::new()
    }
}

impl Encoder {
    /// An encoder for much text.
    pub fn new() -> Self {
        Self::with_words(N_SMALL, N_LARGE)
    }

    fn with_words(n_small: usize, n_large: usize) -> Self {
        Self { cache: WordCache::new(n_small, n_large) }
    }

    /// Appends the tokens of `text`, in which `<|endoftext|>` is ordinary text.
    pub fn encode(&mut self, text: &str, ids: &mut Vec<u16>) {
        let Tables { classes, merges } = &*TABLES;
        let text = text.as_bytes();
        let mut at = 0;
        while at < text.len() {
            let end = classes.word_end(text, at);
            if end - at <= SMALL_BYTES {
                self.small(merges, text, at, end, ids);
            } else {
                self.long(merges, text, at, end, ids);
            }
            at = end;
        }
    }

    /// Appends the tokens of a short word.
    #[inline]
    fn small(&mut self, merges: &Merges, text: &[u8], at: usize, end: usize, ids: &mut Vec<u16>) {
        let key = SmallKey::of(text, at, end);
        if !self.cache.small(key, ids) {
            let start = ids.len();
            merges.encode(&text[at..end], ids);
            self.cache.keep_small(key, &ids[start..]);
        }
    }

    /// Appends the tokens of a longer word, split into parts that no token crosses. Chinese,
    /// written without spaces, has such parts of one or a few characters.
    fn long(&mut self, merges: &Merges, text: &[u8], at: usize, end: usize, ids: &mut Vec<u16>) {
        let mut start = at;
        for cut in at + 1..=end {
            if cut < end && merges.are_neighbours(text[cut - 1], text[cut]) {
                continue;
            }
            let part = &text[start..cut];
            if part.len() <= SMALL_BYTES {
                self.small(merges, text, start, cut, ids);
            } else if part.len() > LARGE_BYTES {
                merges.encode(part, ids);
            } else if !self.cache.large(part, ids) {
                let before = ids.len();
                merges.encode(part, ids);
                self.cache.keep_large(part, &ids[before..]);
            }
            start = cut;
        }
    }
}

#[cfg(test)]
mod tests;
