//! GPT-2's BPE: the same tokens as tiktoken, many times faster.
//!
//! The machinery is [`super::bpe`]; this is its data. The tables are made on first use, in about
//! 20 ms, and shared: less than 3 MiB. An [`Encoder`] takes 3 MiB more. Only the tokens grow with the text.
//!
//! Promise: GPT-2's tokens are tiktoken's, for any text. Test:
//! `crates/data/src/tokenizer/gpt2/tests.rs` (properties, every character), `bench/tokenizer.py` on
//! whole corpora.

use std::sync::LazyLock;

pub use super::bpe::classes::CharClass;
use super::{
    END_OF_TEXT, END_OF_TEXT_SPELLING,
    bpe::{
        WordEncoder,
        classes::CharClasses,
        merge::{Merge, Merges, Tokens},
        split::Pattern,
    },
};

/// Two ids per merge; merge i makes token 256 + i. Written by `tools/gpt2_merges.py`.
static MERGES: &[u8] = include_bytes!("merges.bin");

/// Words in the tables of an encoder that reads much text: 2 MiB and 0.6 MiB.
const N_SMALL: usize = 1 << 17;
const N_LARGE: usize = 1 << 12;

/// Words in the tables of an encoder for a prompt.
const N_SMALL_OF_PROMPT: usize = 1 << 6;
const N_LARGE_OF_PROMPT: usize = 1;

/// The tables: first the bytes, then the tokens that the merges make, in order.
static TABLES: LazyLock<Merges> = LazyLock::new(|| {
    let mut tokens = Tokens::new();
    for byte in byte_order() {
        tokens.push(&[byte]);
    }
    let mut made = Vec::new();
    for (id, pair) in (256..).zip(merges()) {
        let pair = pair.map(u32::from);
        let token =
            pair.map(|part| tokens.get(part).expect("a merge joins earlier tokens")).concat();
        tokens.push(&token);
        made.push(Merge { pair, made: id });
    }
    Merges::new(tokens, &made).expect("GPT-2's merges are in order")
});

/// The tables of GPT-2's tokens.
#[cfg(test)]
pub(super) fn tables() -> &'static Merges {
    &TABLES
}

/// The class of a character in GPT-2's pattern.
pub fn class_of(character: char) -> CharClass {
    CharClasses::get().of(character)
}

/// Whether some token has the last byte of `before` and then the first of `after`. If none does, a
/// word that is cut between them has the same tokens.
pub fn are_neighbours(before: char, after: char) -> bool {
    let mut bytes = [0; 4];
    let last = |text: &str| text.as_bytes()[text.len() - 1];
    let left = last(before.encode_utf8(&mut bytes));
    let right = after.encode_utf8(&mut bytes).as_bytes()[0];
    TABLES.are_neighbours(left, right)
}

/// The bytes of a token, if there is such a token.
pub fn bytes_of(id: u32) -> Option<&'static [u8]> {
    match id {
        END_OF_TEXT => Some(END_OF_TEXT_SPELLING.as_bytes()),
        id => TABLES.tokens().get(id),
    }
}

/// The two tokens that each merge joins, in the order of the tokens that they make.
pub fn merges() -> impl Iterator<Item = [u16; 2]> {
    let (merges, _) = MERGES.as_chunks::<4>();
    merges.iter().map(|&[a, b, c, d]| [u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d])])
}

/// The bytes in the order of their ids: first the printable characters of Latin 1.
fn byte_order() -> [u8; 256] {
    let mut order = std::array::from_fn(|byte| byte as u8);
    order.sort_by_key(|&byte| !is_printable(byte));
    order
}

fn is_printable(byte: u8) -> bool {
    matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff)
}

/// The printable character that tokenizers' files write for a byte: its own, or one from U+0100.
pub(crate) fn character_of_byte(byte: u8) -> char {
    if is_printable(byte) {
        return char::from(byte);
    }
    let before = (0..byte).filter(|&other| !is_printable(other)).count() as u32;
    char::from_u32(0x100 + before).unwrap_or_default() // at most U+0143
}

/// The tokens of a text, in which `<|endoftext|>` is ordinary text.
pub(super) fn encode(text: &str) -> Vec<u32> {
    let mut ids = Vec::<u32>::new();
    WordEncoder::with_words(Pattern::Gpt2, N_SMALL_OF_PROMPT, N_LARGE_OF_PROMPT)
        .encode(&TABLES, text, &mut ids);
    ids
}

/// Encodes text. Each thread has its own.
#[derive(Debug)]
pub struct Encoder(WordEncoder<u16>);

impl Default for Encoder {
    fn default() -> Self {
        Self::new()
    }
}

impl Encoder {
    /// An encoder for much text.
    pub fn new() -> Self {
        Self(WordEncoder::with_words(Pattern::Gpt2, N_SMALL, N_LARGE))
    }

    /// Appends the tokens of `text`, in which `<|endoftext|>` is ordinary text.
    pub fn encode(&mut self, text: &str, ids: &mut Vec<u16>) {
        self.0.encode(&TABLES, text, ids);
    }
}

#[cfg(test)]
pub(super) mod tests;
