//! A tokenizer of Hugging Face's: the `tokenizer.json` next to a model's weights.

use std::{
    fmt, fs,
    panic::{self, AssertUnwindSafe},
    path::Path,
    str::FromStr as _,
    sync::Arc,
};

use super::TokenizerError;
use crate::os;

/// The file's name.
pub const TOKENIZER_FILE: &str = "tokenizer.json";

/// Larger files are refused; Gemma's has 33 MB.
const FILE_LIMIT_BYTES: u64 = 512 << 20;

/// How families of models spell the end of a text: GPT-2 and Qwen, Llama 3, Llama 2 and Mistral,
/// Gemma.
const END_OF_TEXT_NAMES: [&str; 4] = ["<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>"];

/// A tokenizer that was read from a file.
#[derive(Clone)]
pub struct Json(Arc<tokenizers::Tokenizer>);

impl Json {
    /// Reads the file at `path`.
    pub fn open(path: &Path) -> Result<Self, TokenizerError> {
        let refuse = |reason| TokenizerError::File { path: path.to_owned(), reason };
        let text =
            os::read_text(path, FILE_LIMIT_BYTES).map_err(|error| refuse(error.to_string()))?;
        // The crate panics on some documents that are not JSON.
        serde_json::from_str::<serde::de::IgnoredAny>(&text)
            .map_err(|error| refuse(error.to_string()))?;
        match quietly(|| read(&text)) {
            Some(Ok(tokenizer)) => Ok(Self(Arc::new(tokenizer))),
            Some(Err(error)) => Err(refuse(error.to_string())),
            None => Err(refuse("its parts do not fit together".to_owned())),
        }
    }

    /// One more than the largest id.
    pub fn vocab_size(&self) -> u32 {
        self.0.get_vocab(true).into_values().max().map_or(0, |id| id.saturating_add(1))
    }

    /// The id of a token.
    pub fn id_of(&self, token: &str) -> Option<u32> {
        self.0.token_to_id(token)
    }

    /// The id of the token that ends a text: what the files of a model in `folder` say, else the
    /// first of the usual names that the vocabulary has.
    pub fn end_of_text(&self, folder: &Path) -> Option<u32> {
        let read = |name: &str| -> Option<serde_json::Value> {
            serde_json::from_slice(&fs::read(folder.join(name)).ok()?).ok()
        };
        let of_tokenizer = read("tokenizer_config.json").and_then(|config| {
            let token = &config["eos_token"];
            self.id_of(token.as_str().or_else(|| token["content"].as_str())?)
        });
        let of_model = |name| {
            let config = read(name)?;
            let id = &config["eos_token_id"];
            u32::try_from(id.as_u64().or_else(|| id[0].as_u64())?).ok()
        };
        of_tokenizer
            .or_else(|| of_model("generation_config.json"))
            .or_else(|| of_model("config.json"))
            .or_else(|| END_OF_TEXT_NAMES.iter().find_map(|name| self.id_of(name)))
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

    /// The text of some tokens without special ones; what is not text becomes U+FFFD.
    pub(super) fn decode(&self, ids: &[u32]) -> String {
        self.0.decode(ids, true).unwrap_or_else(|_| super::NO_SYMBOL.to_owned())
    }
}

/// Reads a document, and splits a text to see that it works.
fn read(text: &str) -> tokenizers::Result<tokenizers::Tokenizer> {
    let tokenizer = tokenizers::Tokenizer::from_str(text)?;
    tokenizer.encode_fast("A word, 2 words: \u{e9}\n", true)?;
    Ok(tokenizer)
}

/// What `work` returns; `None` if it panics, which is not printed. The crate panics on files whose
/// parts contradict each other.
fn quietly<T>(work: impl FnOnce() -> T) -> Option<T> {
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let result = panic::catch_unwind(AssertUnwindSafe(work));
    panic::set_hook(hook);
    result.ok()
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Json({} tokens)", self.0.get_vocab_size(true))
    }
}

impl PartialEq for Json {
    /// Whether both are the same reading of a file: tables are not compared.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Json {}

#[cfg(test)]
pub(crate) mod tests {
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
    fn the_end_of_text_is_what_the_model_says_or_a_usual_name() {
        let folder = tempfile::tempdir().unwrap();
        let Tokenizer::Json(json) = bytes_tokenizer(folder.path()) else { panic!() };
        assert_eq!(json.vocab_size(), 257);
        assert_eq!(json.end_of_text(folder.path()), None);
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write("config.json", r#"{"eos_token_id": 7}"#);
        assert_eq!(json.end_of_text(folder.path()), Some(7));
        write("generation_config.json", r#"{"eos_token_id": [9, 7]}"#);
        assert_eq!(json.end_of_text(folder.path()), Some(9));
        for token in [r#""<s>""#, r#"{"content": "<s>", "lstrip": false}"#] {
            write("tokenizer_config.json", &format!(r#"{{"eos_token": {token}}}"#));
            assert_eq!(json.end_of_text(folder.path()), Some(256));
        }
        write("tokenizer_config.json", "[not JSON");
        assert_eq!(json.end_of_text(folder.path()), Some(9));
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
        // The crate `tokenizers` panics on the last one.
        let control = "{\"version\": \"1.0\", \"decoder\": {\"type\": \"Byte\nLevel\"}}";
        for text in ["", "{}", "[1]", "{\"model\": 3}", control] {
            fs::write(&path, text).unwrap();
            let error = Json::open(&path).unwrap_err().to_string();
            assert!(error.contains("tokenizer.json"), "{error}");
        }
        assert!(Json::open(&folder.path().join("none.json")).is_err());
    }
}
