//! A Hugging Face tokenizer: the `tokenizer.json` next to a model's weights.

use std::{
    fmt,
    panic::{self, AssertUnwindSafe},
    path::Path,
    str::FromStr as _,
    sync::Arc,
};

use fitgpt_files::os;
use serde::Serialize;

use super::{TokenizerError, byte_level::ByteLevel};

/// The file's name.
pub const TOKENIZER_FILE: &str = "tokenizer.json";

/// Larger files are refused; Gemma's has 33 MB.
pub const FILE_LIMIT_BYTES: u64 = 512 << 20;

/// End-of-text tokens of model families: GPT-2, Qwen and `SmolLM`; Llama 3; `DeepSeek`; Llama 2 and
/// Mistral; Gemma; others.
const END_OF_TEXT_NAMES: [&str; 8] = [
    "<|endoftext|>",
    "<|end_of_text|>",
    "<｜end▁of▁sentence｜>",
    "</s>",
    "<eos>",
    "<EOS>",
    "[EOS]",
    "<|eos|>",
];

/// End-of-turn tokens of chat models, which their files list as the token to stop at. They do not
/// separate documents.
const END_OF_TURN_NAMES: [&str; 8] = [
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|eot|>",
    "<|end|>",
    "<|return|>",
    "<end_of_turn>",
    "<|END_OF_TURN_TOKEN|>",
];

/// The end-of-text token, and what determined it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EndOfTextToken {
    /// Its spelling.
    pub token: String,
    /// Its id.
    pub id: u32,
    /// What determined it.
    pub origin: EndOfTextOrigin,
}

/// What determined the end-of-text token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum EndOfTextOrigin {
    /// It is GPT-2's.
    Gpt2,
    /// The command line.
    Option,
    /// `tokenizer_config.json`.
    TokenizerConfig,
    /// `special_tokens_map.json`.
    SpecialTokensMap,
    /// `generation_config.json`.
    GenerationConfig,
    /// `config.json`.
    ModelConfig,
    /// A common name.
    UsualName,
}

/// A tokenizer that was read from a file.
#[derive(Clone)]
pub struct Json {
    tokenizer: Arc<tokenizers::Tokenizer>,
    /// What encodes documents, if the file is of the kind that it reads.
    byte_level: Option<Arc<ByteLevel>>,
}

impl Json {
    /// Reads the file at `path`.
    pub fn open(path: &Path) -> Result<Self, TokenizerError> {
        Self::read(path).map(|(json, _)| json)
    }

    /// The tokenizer and its document.
    fn read(path: &Path) -> Result<(Self, String), TokenizerError> {
        let refuse = |reason| TokenizerError::File { path: path.to_owned(), reason };
        let text =
            os::read_text(path, FILE_LIMIT_BYTES).map_err(|error| refuse(error.to_string()))?;
        // The crate panics on some documents that are not JSON.
        serde_json::from_str::<serde::de::IgnoredAny>(&text)
            .map_err(|error| refuse(error.to_string()))?;
        match quietly(|| tokenizer_of(&text)) {
            Some(Ok(tokenizer)) => {
                Ok((Self { tokenizer: Arc::new(tokenizer), byte_level: None }, text))
            }
            Some(Err(error)) => Err(refuse(error.to_string())),
            None => Err(refuse("its parts are inconsistent".to_owned())),
        }
    }

    /// Reads the file at `path` for documents, in which special tokens are ordinary text.
    pub fn open_for_documents(path: &Path) -> Result<Self, TokenizerError> {
        let (mut json, text) = Self::read(path)?;
        if let Some(tokenizer) = Arc::get_mut(&mut json.tokenizer) {
            tokenizer.set_encode_special_tokens(true);
        }
        json.byte_level = ByteLevel::of(&text).map(Arc::new);
        Ok(json)
    }

    /// One more than the largest id.
    pub fn vocab_size(&self) -> u32 {
        self.tokenizer.get_vocab(true).into_values().max().map_or(0, |id| id.saturating_add(1))
    }

    /// The id of a token.
    pub fn id_of(&self, token: &str) -> Option<u32> {
        self.tokenizer.token_to_id(token)
    }

    /// The token with an id.
    pub(crate) fn token_of(&self, id: u32) -> Option<String> {
        self.tokenizer.id_to_token(id)
    }

    /// The end-of-text token: from the model's files in `folder`, else the first common name in the
    /// vocabulary. If a chat model's files list an end-of-turn token, the common name is preferred.
    pub fn end_of_text(&self, folder: &Path) -> Option<EndOfTextToken> {
        let read = |name: &str| -> Option<serde_json::Value> {
            serde_json::from_slice(&os::read_bytes(&folder.join(name), FILE_LIMIT_BYTES).ok()?).ok()
        };
        let found = |token: &str, origin| {
            let id = self.id_of(token)?;
            Some(EndOfTextToken { token: token.to_owned(), id, origin })
        };
        let spelled = |name, origin| {
            let config = read(name)?;
            let token = &config["eos_token"];
            found(token.as_str().or_else(|| token["content"].as_str())?, origin)
        };
        let numbered = |name, origin| {
            let config = read(name)?;
            let id = &config["eos_token_id"];
            let id = u32::try_from(id.as_u64().or_else(|| id[0].as_u64())?).ok()?;
            Some(EndOfTextToken { token: self.token_of(id)?, id, origin })
        };
        let stated = spelled("tokenizer_config.json", EndOfTextOrigin::TokenizerConfig)
            .or_else(|| spelled("special_tokens_map.json", EndOfTextOrigin::SpecialTokensMap))
            .or_else(|| numbered("generation_config.json", EndOfTextOrigin::GenerationConfig))
            .or_else(|| numbered("config.json", EndOfTextOrigin::ModelConfig));
        let usual = || {
            // Prefer a special token: `</s>` may also occur in web pages.
            let added = self.tokenizer.get_added_vocabulary();
            let is_special = |name: &&&str| added.is_special_token(name);
            let names = || END_OF_TEXT_NAMES.iter();
            let name = names()
                .find(is_special)
                .or_else(|| names().find(|name| self.id_of(name).is_some()))?;
            found(name, EndOfTextOrigin::UsualName)
        };
        match stated {
            Some(stated) if END_OF_TURN_NAMES.contains(&&*stated.token) => usual().or(Some(stated)),
            Some(stated) => Some(stated),
            None => usual(),
        }
    }

    /// The tokens of a prompt, with those that the model expects around it.
    pub(super) fn encode(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        self.ids(text, true)
    }

    /// The tokens of a text without special tokens around it. Special tokens in the text are
    /// ordinary text only if the file was opened for documents.
    pub(super) fn encode_document(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        self.ids(text, false)
    }

    /// What encodes documents many times faster, if the file is of the kind that it reads.
    pub(super) fn byte_level(&self) -> Option<&ByteLevel> {
        self.byte_level.as_deref()
    }

    fn ids(&self, text: &str, has_specials: bool) -> Result<Vec<u32>, TokenizerError> {
        let encoded = self.tokenizer.encode_fast(text, has_specials);
        let encoded =
            encoded.map_err(|error| TokenizerError::NotSplit { reason: error.to_string() })?;
        Ok(encoded.get_ids().to_vec())
    }

    /// The text of some tokens without special ones; bytes that are not text become U+FFFD.
    pub(super) fn decode(&self, ids: &[u32]) -> String {
        self.tokenizer.decode(ids, true).unwrap_or_else(|_| super::NO_SYMBOL.to_owned())
    }
}

/// Reads a document, and encodes a text to check that it works.
fn tokenizer_of(text: &str) -> tokenizers::Result<tokenizers::Tokenizer> {
    let tokenizer = tokenizers::Tokenizer::from_str(text)?;
    tokenizer.encode_fast("A word, 2 words: \u{e9}\n", true)?;
    Ok(tokenizer)
}

/// The result of `work`; `None` if it panics, without printing the panic. The crate panics on
/// inconsistent files.
fn quietly<T>(work: impl FnOnce() -> T) -> Option<T> {
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let result = panic::catch_unwind(AssertUnwindSafe(work));
    panic::set_hook(hook);
    result.ok()
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Json({} tokens)", self.tokenizer.get_vocab_size(true))
    }
}

impl PartialEq for Json {
    /// Whether both share the same tables, which are not compared.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.tokenizer, &other.tokenizer)
    }
}

impl Eq for Json {}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::tokenizer::{Stream, Tokenizer, sample::bytes_tokenizer};

    #[test]
    fn a_prompt_begins_with_the_special_token_and_a_document_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let tokenizer = bytes_tokenizer(folder.path());
        assert_eq!(tokenizer.encode("ab c").unwrap(), [256, 97, 98, 32, 99]);
        assert_eq!(tokenizer.encode_document("ab c").unwrap(), [97, 98, 32, 99]);
        assert_eq!(tokenizer.decode(&[256, 97, 98, 32, 99]), "ab c");
    }

    /// [`bytes_tokenizer`] with these special tokens instead of its own, from id 256 on.
    fn with_specials(folder: &Path, specials: &[&str]) -> Json {
        bytes_tokenizer(folder);
        let path = folder.join(TOKENIZER_FILE);
        let mut json: serde_json::Value =
            serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        let added = (256..).zip(specials).map(|(id, content): (u32, _)| {
            serde_json::json!({ "id": id, "content": content, "special": true,
                "single_word": false, "lstrip": false, "rstrip": false, "normalized": false })
        });
        json["added_tokens"] = added.collect();
        json["post_processor"] = serde_json::Value::Null;
        fs::write(&path, json.to_string()).unwrap();
        Json::open_for_documents(&path).unwrap()
    }

    #[test]
    fn the_end_of_text_is_the_models_or_a_common_name() {
        let folder = tempfile::tempdir().unwrap();
        let Tokenizer::Json(json) = bytes_tokenizer(folder.path()) else { panic!() };
        assert_eq!(json.vocab_size(), 257);
        let found = || json.end_of_text(folder.path()).map(|found| (found.id, found.origin));
        assert_eq!(found(), None);
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write("config.json", r#"{"eos_token_id": 7}"#);
        assert_eq!(found(), Some((7, EndOfTextOrigin::ModelConfig)));
        write("generation_config.json", r#"{"eos_token_id": [9, 7]}"#);
        assert_eq!(found(), Some((9, EndOfTextOrigin::GenerationConfig)));
        write("special_tokens_map.json", r#"{"eos_token": {"content": "<s>"}}"#);
        assert_eq!(found(), Some((256, EndOfTextOrigin::SpecialTokensMap)));
        for token in [r#""<s>""#, r#"{"content": "<s>", "lstrip": false}"#] {
            write("tokenizer_config.json", &format!(r#"{{"eos_token": {token}}}"#));
            assert_eq!(found(), Some((256, EndOfTextOrigin::TokenizerConfig)));
        }
        write("tokenizer_config.json", "[not JSON");
        assert_eq!(found(), Some((256, EndOfTextOrigin::SpecialTokensMap)));
        // An id that is not in the vocabulary is ignored.
        fs::remove_file(folder.path().join("special_tokens_map.json")).unwrap();
        write("generation_config.json", r#"{"eos_token_id": 300}"#);
        assert_eq!(found(), Some((7, EndOfTextOrigin::ModelConfig)));
    }

    #[test]
    fn documents_of_every_family_end_with_its_end_of_text_and_not_with_the_end_of_a_turn() {
        let families: [(&[&str], &str, &str); 7] = [
            // SmolLM2 and Qwen 2.5, then their chat models, then Llama 3.
            (&["<|endoftext|>", "<|im_start|>", "<|im_end|>"], "<|endoftext|>", "<|endoftext|>"),
            (&["<|im_start|>", "<|im_end|>", "<|endoftext|>"], "<|im_end|>", "<|endoftext|>"),
            (&["<|begin_of_text|>", "<|end_of_text|>"], "<|end_of_text|>", "<|end_of_text|>"),
            (
                &["<|begin_of_text|>", "<|eot_id|>", "<|end_of_text|>"],
                "<|eot_id|>",
                "<|end_of_text|>",
            ),
            (&["<s>", "</s>"], "</s>", "</s>"),
            // A name that is only in its file, and a chat model without another token.
            (&["<s>", "<fin>"], "<fin>", "<fin>"),
            (&["<|im_start|>", "<|im_end|>"], "<|im_end|>", "<|im_end|>"),
        ];
        for (specials, stated, expected) in families {
            let folder = tempfile::tempdir().unwrap();
            let json = with_specials(folder.path(), specials);
            let config = serde_json::json!({ "eos_token": stated });
            fs::write(folder.path().join("tokenizer_config.json"), config.to_string()).unwrap();
            let found = json.end_of_text(folder.path()).unwrap();
            let id = 256 + specials.iter().position(|token| *token == expected).unwrap() as u32;
            assert_eq!((&*found.token, found.id), (expected, id), "{specials:?}");
            // Without its config, only common names are found.
            fs::remove_file(folder.path().join("tokenizer_config.json")).unwrap();
            let alone = json.end_of_text(folder.path()).map(|found| found.id);
            let is_usual = END_OF_TEXT_NAMES.contains(&expected);
            assert_eq!(alone, is_usual.then_some(id), "{specials:?}");
        }
    }

    #[test]
    fn special_tokens_in_a_document_are_text() {
        let folder = tempfile::tempdir().unwrap();
        let documents = with_specials(folder.path(), &["<|endoftext|>"]);
        let ids = documents.encode_document("a<|endoftext|>b").unwrap();
        assert!(ids.len() > 3 && !ids.contains(&256), "{ids:?}");
        assert_eq!(documents.decode(&ids), "a<|endoftext|>b");
        let prompts = Json::open(&folder.path().join(TOKENIZER_FILE)).unwrap();
        assert_eq!(prompts.encode("a<|endoftext|>b").unwrap(), [97, 256, 98]);
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
        // An incomplete character at the end is replaced.
        assert_eq!(tokenizer.decode(&[97, 0xe6, 0x97]), "a\u{fffd}");
    }

    #[test]
    fn a_file_that_is_not_a_tokenizer_is_an_error_with_its_path() {
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
