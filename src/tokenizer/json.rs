//! A tokenizer of Hugging Face's: the `tokenizer.json` next to a model's weights.

use std::{fmt, path::Path, sync::Arc};

use super::TokenizerError;

/// The file's name.
pub const TOKENIZER_FILE: &str = "tokenizer.json";

/// A tokenizer that was read from a file.
#[derive(Clone)]
pub struct Json(Arc<tokenizers::Tokenizer>);

impl Json {
    /// Reads the file at `path`.
    pub fn open(path: &Path) -> Result<Self, TokenizerError> {
        match tokenizers::Tokenizer::from_file(path) {
            Ok(tokenizer) => Ok(Self(Arc::new(tokenizer))),
            Err(error) => {
                Err(TokenizerError::File { path: path.to_owned(), reason: error.to_string() })
            }
        }
    }

    /// The tokens of a prompt, with those that the model expects around it.
    pub(super) fn encode(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        self.ids(text, true)
    }

    /// The tokens of a text alone.
    pub(super) fn encode_document(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        self.ids(text, false)
    }

    fn ids(&self, text: &str, has_specials: bool) -> Result<Vec<u32>, TokenizerError> {
        let encoded = self.0.encode_fast(text, has_specials);
        let encoded =
            encoded.map_err(|error| TokenizerError::NotSplit { reason: error.to_string() })?;
        Ok(encoded.get_ids().to_vec())
    }

    /// The text of some tokens, special ones left out; U+FFFD stands for what is not text.
    pub(super) fn decode(&self, ids: &[u32]) -> String {
        self.0.decode(ids, true).unwrap_or_else(|_| super::NO_SYMBOL.to_owned())
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Json({} tokens)", self.0.get_vocab_size(true))
    }
}

impl PartialEq for Json {
    /// Whether both were read at once: tables are not compared.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Json {}

#[cfg(test)]
pub(crate) mod tests {
    use std::fs;

    use super::*;
    use crate::tokenizer::{Stream, Tokenizer};

    /// A byte-level tokenizer without merges: every byte is a token, in the order of its sign.
    pub(crate) fn bytes_tokenizer(folder: &Path) -> Tokenizer {
        // The signs that byte-level tokenizers write for bytes that do not print.
        let is_plain = |b: u32| matches!(b, 33..=126 | 161..=172 | 174..=255);
        let mut next = 256;
        let sign = |b: u32| {
            if is_plain(b) {
                return b;
            }
            next += 1;
            next - 1
        };
        let signs: Vec<_> = (0..256).map(sign).collect();
        let vocab: serde_json::Map<_, _> = (0..)
            .zip(&signs)
            .map(|(id, sign): (u32, _)| (char::from_u32(*sign).unwrap().to_string(), id.into()))
            .collect();
        let level = serde_json::json!({ "type": "ByteLevel", "add_prefix_space": false,
            "trim_offsets": true, "use_regex": true });
        let document = serde_json::json!({
            "version": "1.0",
            "added_tokens": [{ "id": 256, "content": "<s>", "special": true, "single_word": false,
                "lstrip": false, "rstrip": false, "normalized": false }],
            "normalizer": null, "pre_tokenizer": level, "decoder": level,
            "post_processor": { "type": "TemplateProcessing",
                "single": [{ "SpecialToken": { "id": "<s>", "type_id": 0 } },
                    { "Sequence": { "id": "A", "type_id": 0 } }],
                "pair": [{ "Sequence": { "id": "A", "type_id": 0 } },
                    { "Sequence": { "id": "B", "type_id": 1 } }],
                "special_tokens": { "<s>": { "id": "<s>", "ids": [256], "tokens": ["<s>"] } } },
            "model": { "type": "BPE", "vocab": vocab, "merges": [] },
        });
        let path = folder.join(TOKENIZER_FILE);
        fs::write(&path, document.to_string()).unwrap();
        Tokenizer::Json(Json::open(&path).unwrap())
    }

    #[test]
    fn a_prompt_begins_with_the_special_token_and_a_document_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let tokenizer = bytes_tokenizer(folder.path());
        assert_eq!(tokenizer.encode("ab c").unwrap(), [256, 97, 98, 32, 99]);
        assert_eq!(tokenizer.encode_document("ab c").unwrap(), [97, 98, 32, 99]);
        assert_eq!(tokenizer.decode(&[256, 97, 98, 32, 99]), "ab c");
    }

    #[test]
    fn a_character_split_over_tokens_appears_once() {
        let folder = tempfile::tempdir().unwrap();
        let tokenizer = bytes_tokenizer(folder.path());
        let text = "naïve 日本語 😀\n\n  two";
        let ids = tokenizer.encode(text).unwrap();
        let mut stream = Stream::new(&tokenizer);
        let mut shown = String::new();
        for id in ids {
            let before = shown.len();
            stream.push(id, &mut shown);
            assert!(!shown[before..].contains('\u{fffd}'), "{shown}");
        }
        stream.finish(&mut shown);
        assert_eq!(shown, text);
        // Half a character at the end is a mark.
        assert_eq!(tokenizer.decode(&[97, 0xe6, 0x97]), "a\u{fffd}");
    }

    #[test]
    fn a_file_that_is_no_tokenizer_is_an_error_with_its_path() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(TOKENIZER_FILE);
        for text in ["", "{}", "[1]", "{\"model\": 3}"] {
            fs::write(&path, text).unwrap();
            let error = Json::open(&path).unwrap_err().to_string();
            assert!(error.contains("tokenizer.json"), "{error}");
        }
        assert!(Json::open(&folder.path().join("none.json")).is_err());
    }
}
