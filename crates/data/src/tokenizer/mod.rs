//! Text to tokens and back.
//!
//! A tokenizer is small data that a checkpoint stores (`config.json`); GPT-2's tables are built
//! into the program, and those of other families are a `tokenizer.json` next to the weights.
//! Decoding never fails: a model may produce any id below its vocabulary size, including ids that
//! no text encodes to.

mod chars;
mod bpe;
pub mod gpt2;
mod byte_level;
mod json;
pub mod huggingface;
mod stream;
#[cfg(any(test, feature = "sample"))]
pub mod sample;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub use self::{
    chars::Chars,
    json::{EndOfTextOrigin, EndOfTextToken, FILE_LIMIT_BYTES, Json, TOKENIZER_FILE},
    stream::Stream,
};

/// The end of a document, in GPT-2's vocabulary.
pub const END_OF_TEXT: u32 = 50_256;

/// Its spelling.
pub const END_OF_TEXT_SPELLING: &str = "<|endoftext|>";

/// The text of an id without a symbol.
const NO_SYMBOL: &str = "\u{fffd}";

/// Converts text to tokens and back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Tokenizer {
    /// One token per character, by a dataset's table.
    Chars(Chars),
    /// GPT-2's byte pairs.
    Gpt2,
    /// The `tokenizer.json` of a folder. Not stored in `config.json`: the file is next to it.
    #[serde(skip)]
    Json(Json),
    /// Unknown: text is ids as decimal numbers, separated by spaces.
    Ids,
}

/// Why text cannot be encoded.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenizerError {
    /// A character that is not in the vocabulary.
    UnknownCharacter {
        /// The character.
        character: char,
        /// Counted in characters, from 1.
        position: usize,
    },
    /// A word that is not an id.
    NotAnId {
        /// The word.
        word: String,
    },
    /// A `tokenizer.json` that cannot be read.
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A token that is not in a `tokenizer.json`.
    NoToken {
        /// The file.
        path: PathBuf,
        /// The token.
        token: String,
    },
    /// The regular expression engine gave up on the text.
    NotSplit {
        /// The engine's reason.
        reason: String,
    },
}

impl Tokenizer {
    /// One token for each symbol of a dataset's table, as in nanoGPT: text is looked up
    /// character by character.
    pub fn from_symbols(itos: Vec<String>) -> Self {
        Self::Chars(Chars::from_symbols(itos))
    }

    /// The characters of a text, sorted, as nanoGPT's `prepare.py` numbers them.
    pub fn from_text(text: &str) -> Self {
        Self::Chars(Chars::from_text(text))
    }

    /// Returns `self`, or [`Self::Ids`] if a model of `vocab` tokens is too small for it. Data
    /// without a table is assumed to be GPT-2's, and a smaller vocabulary shows that it is not.
    #[must_use]
    pub fn within(self, vocab: u32) -> Self {
        match self {
            Self::Gpt2 if vocab <= END_OF_TEXT => Self::Ids,
            tokenizer => tokenizer,
        }
    }

    /// The tokens of a prompt. In GPT-2's vocabulary `<|endoftext|>` means that token.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        match self {
            Self::Chars(chars) => chars.encode(text),
            Self::Gpt2 => Ok(gpt2_prompt(text)),
            Self::Json(json) => json.encode(text),
            Self::Ids => text
                .split_whitespace()
                .map(|word| {
                    word.parse().map_err(|_| TokenizerError::NotAnId { word: word.to_owned() })
                })
                .collect(),
        }
    }

    /// The tokens of a document. All of it is text, including `<|endoftext|>`.
    pub fn encode_document(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        match self {
            Self::Gpt2 => Ok(gpt2::encode(text)),
            Self::Json(json) => json.encode_document(text),
            Self::Chars(_) | Self::Ids => self.encode(text),
        }
    }

    /// Appends the bytes of one token. They need not be UTF-8: a GPT-2 token may be part of a
    /// character. [`Stream`] joins those.
    fn decode_into(&self, id: u32, bytes: &mut Vec<u8>) {
        match self {
            Self::Chars(chars) => {
                bytes.extend_from_slice(chars.symbol(id).unwrap_or(NO_SYMBOL).as_bytes());
            }
            // Padding up to 50,304 has no meaning, but a model can produce it.
            Self::Gpt2 => {
                bytes.extend_from_slice(gpt2::bytes_of(id).unwrap_or(NO_SYMBOL.as_bytes()));
            }
            Self::Json(json) => bytes.extend_from_slice(json.decode(&[id]).as_bytes()),
            Self::Ids => bytes.extend_from_slice(format!("{id} ").as_bytes()),
        }
    }

    /// An encoder of many documents, for one thread.
    pub fn encoder(&self) -> DocumentEncoder<'_> {
        if let Self::Json(json) = self
            && let Some(byte_level) = json.byte_level()
        {
            let encoder = byte_level::Encoder::new(byte_level);
            return DocumentEncoder::ByteLevel { json, encoder, ids: Vec::new() };
        }
        match self {
            Self::Gpt2 => DocumentEncoder::Gpt2 { encoder: gpt2::Encoder::new(), ids: Vec::new() },
            tokenizer => DocumentEncoder::Plain { tokenizer, ids: Vec::new() },
        }
    }

    /// The text of some tokens; invalid bytes become U+FFFD.
    pub fn decode(&self, ids: &[u32]) -> String {
        let mut stream = Stream::new(self);
        let mut text = String::new();
        for &id in ids {
            stream.push(id, &mut text);
        }
        stream.finish(&mut text);
        text
    }
}

/// Encodes documents one after the other. Each thread has its own.
#[derive(Debug)]
pub enum DocumentEncoder<'a> {
    /// GPT-2's tokenizer, with a cache of words.
    Gpt2 {
        /// The encoder and its cache.
        encoder: gpt2::Encoder,
        /// The tokens of the last document.
        ids: Vec<u16>,
    },
    /// A byte-level `tokenizer.json`, with a cache of words.
    ByteLevel {
        /// The tokenizer, for what the encoder leaves to it.
        json: &'a Json,
        /// The encoder and its cache.
        encoder: byte_level::Encoder<'a>,
        /// The tokens of the last document.
        ids: Vec<u32>,
    },
    /// Any other tokenizer, without a cache.
    Plain {
        /// The tokenizer.
        tokenizer: &'a Tokenizer,
        /// The tokens of the last document.
        ids: Vec<u32>,
    },
}

/// Token ids, as wide as the vocabulary needs.
#[derive(Clone, Copy, Debug)]
pub enum TokenIds<'a> {
    /// All are below 2^16.
    Narrow(&'a [u16]),
    /// Some may be larger.
    Wide(&'a [u32]),
}

impl DocumentEncoder<'_> {
    /// The tokens of a document, as [`Tokenizer::encode_document`] gives them.
    pub fn encode(&mut self, text: &str) -> Result<TokenIds<'_>, TokenizerError> {
        match self {
            Self::Gpt2 { encoder, ids } => {
                ids.clear();
                encoder.encode(text, ids);
                Ok(TokenIds::Narrow(ids))
            }
            Self::ByteLevel { json, encoder, ids } => {
                ids.clear();
                if !encoder.encode(text, ids) {
                    *ids = json.encode_document(text)?;
                }
                Ok(TokenIds::Wide(ids))
            }
            Self::Plain { tokenizer, ids } => {
                *ids = tokenizer.encode_document(text)?;
                Ok(TokenIds::Wide(ids))
            }
        }
    }
}

/// The tokens of a prompt: `<|endoftext|>` is that token.
fn gpt2_prompt(text: &str) -> Vec<u32> {
    let mut ids = Vec::new();
    for (i, part) in text.split(END_OF_TEXT_SPELLING).enumerate() {
        ids.extend((i > 0).then_some(END_OF_TEXT));
        ids.extend(gpt2::encode(part));
    }
    ids
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpt2_agrees_with_openais_tokenizer() {
        // What `tiktoken.get_encoding("gpt2").encode(text)` gives.
        let gpt2 = Tokenizer::Gpt2;
        assert_eq!(gpt2.encode("hello world").unwrap(), [31373, 995]);
        assert_eq!(
            gpt2.encode("Hello, I'm a language model,").unwrap(),
            [15496, 11, 314, 1101, 257, 3303, 2746, 11]
        );
        assert_eq!(gpt2.encode("\n").unwrap(), [198]);
        assert_eq!(gpt2.encode("").unwrap(), [0; 0]);
    }

    #[test]
    fn end_of_text_is_a_token_in_a_prompt_and_text_in_a_document() {
        let gpt2 = Tokenizer::Gpt2;
        assert_eq!(gpt2.encode("<|endoftext|>").unwrap(), [END_OF_TEXT]);
        let spelled = gpt2.encode_document("<|endoftext|>").unwrap();
        assert!(spelled.len() > 1 && !spelled.contains(&END_OF_TEXT));
        assert_eq!(gpt2.decode(&spelled), "<|endoftext|>");
        assert_eq!(gpt2.decode(&[END_OF_TEXT]), "<|endoftext|>");
    }

    #[test]
    fn any_text_round_trips_through_gpt2() {
        for text in ["  two  spaces\n\n", "naïve 日本語 😀👩‍👩‍👧", "a\tb\r\n\0", &"ab ".repeat(5_000)]
        {
            assert_eq!(Tokenizer::Gpt2.decode(&Tokenizer::Gpt2.encode(text).unwrap()), text);
        }
    }

    #[test]
    fn ids_that_gpt2_does_not_have_decode_to_a_replacement_character() {
        for id in [50_257, 50_303, u32::MAX] {
            assert_eq!(Tokenizer::Gpt2.decode(&[31373, id, 995]), "hello\u{fffd} world");
        }
    }

    #[test]
    fn an_unknown_vocabulary_prints_and_reads_ids() {
        assert_eq!(Tokenizer::Ids.decode(&[12, 7, 50_303]), "12 7 50303 ");
        assert_eq!(Tokenizer::Ids.encode(" 12 7\n50303").unwrap(), [12, 7, 50_303]);
        let error = Tokenizer::Ids.encode("12 hello").unwrap_err();
        assert_eq!(error, TokenizerError::NotAnId { word: "hello".into() });
    }

    #[test]
    fn a_tokenizer_is_stored_as_plain_json() {
        let table = [
            (Tokenizer::from_text("ba\n"), r#"{"kind":"chars","itos":["\n","a","b"]}"#),
            (Tokenizer::Gpt2, r#"{"kind":"gpt2"}"#),
            (Tokenizer::Ids, r#"{"kind":"ids"}"#),
        ];
        for (tokenizer, json) in table {
            assert_eq!(serde_json::to_string(&tokenizer).unwrap(), json);
            assert_eq!(serde_json::from_str::<Tokenizer>(json).unwrap(), tokenizer);
        }
        for json in [r#"{"kind":"words"}"#, r#"{"kind":"chars"}"#, r#"{"kind":"chars","itos":[1]}"#]
        {
            assert!(serde_json::from_str::<Tokenizer>(json).is_err());
        }
    }

    #[test]
    fn a_stored_table_still_encodes() {
        let stored = r#"{"kind":"chars","itos":["a","","é"]}"#;
        let tokenizer = serde_json::from_str::<Tokenizer>(stored).unwrap();
        assert_eq!(tokenizer.encode("éa").unwrap(), [2, 0]);
    }
}
