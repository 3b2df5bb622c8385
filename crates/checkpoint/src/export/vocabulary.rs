//! Writes a tokenizer as llama.cpp's metadata.
//!
//! llama.cpp calls byte-level BPE `gpt2`, and has names for the rules that split text into words.
//! GPT-2's tokens, characters of one byte, and a `tokenizer.json` whose rule has such a name can be
//! written; everything else is refused, since llama.cpp would encode text differently.

use std::{collections::BTreeMap, path::Path};

use fitgpt_data::tokenizer::{
    END_OF_TEXT, END_OF_TEXT_SPELLING, FILE_LIMIT_BYTES, Json, TOKENIZER_FILE, Tokenizer, gpt2,
    huggingface::{TOKENIZER_CONFIG_FILE, spelled},
};
use fitgpt_files::{attempt::Attempt, os};
use serde_json::Value;

use super::{ExportError, TokenizerGap, gguf::GgufValue};
use crate::Architecture;

/// llama.cpp's kinds of tokens.
const NORMAL: i32 = 1;
const CONTROL: i32 = 3;
const USER_DEFINED: i32 = 4;
const UNUSED: i32 = 5;

/// The rules of Llama 3 and Qwen 2, which differ in how many digits are a word.
const LLAMA_3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN_2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// A tokenizer in llama.cpp's terms.
struct GgufVocabulary {
    /// The rule that splits text into words.
    rule: &'static str,
    /// By id, with its kind; missing ids are filled in later.
    tokens: BTreeMap<u32, (String, i32)>,
    merges: Vec<String>,
    begin_id: Option<u32>,
    end_id: Option<u32>,
    unknown_id: Option<u32>,
    /// Whether a prompt begins with the token `begin_id`; `None`: llama.cpp decides.
    begins: Option<bool>,
}

/// The metadata of the tokenizer of a model in `folder`.
pub(super) fn metadata(
    folder: &Path,
    architecture: &Architecture,
) -> Result<Vec<(String, GgufValue)>, ExportError> {
    let vocab = architecture.model.vocab;
    let file = folder.join(TOKENIZER_FILE);
    let gap = |kind| ExportError::NoTokenizer { folder: folder.to_owned(), kind };
    let vocabulary = match &architecture.tokenizer {
        Some(Tokenizer::Gpt2) => of_gpt2(vocab),
        Some(Tokenizer::Chars(chars)) => of_symbols(chars.symbols()).map_err(gap)?,
        Some(Tokenizer::Json(_)) | None if file.is_file() => {
            let failed = |source| {
                let (action, path) = (Attempt::Read, file.clone());
                ExportError::Io { action, path, source }
            };
            let bytes = os::read_bytes(&file, FILE_LIMIT_BYTES).map_err(failed)?;
            let document = serde_json::from_slice(&bytes).map_err(|error| failed(error.into()))?;
            of_document(&document, folder).map_err(gap)?
        }
        Some(Tokenizer::Json(_)) => return Err(gap(TokenizerGap::Json)),
        Some(Tokenizer::Ids) | None => {
            let none = GgufValue::Text("no_vocab".to_owned());
            return Ok(vec![("tokenizer.ggml.model".to_owned(), none)]);
        }
    };
    let largest = vocabulary.tokens.last_key_value().map(|(id, _)| *id);
    if largest.is_some_and(|id| id >= vocab) {
        return Err(gap(TokenizerGap::TooLarge));
    }
    Ok(vocabulary.pairs(vocab))
}

impl GgufVocabulary {
    /// Keys and values, with as many tokens as the model has.
    fn pairs(mut self, vocab: u32) -> Vec<(String, GgufValue)> {
        let mut all = Vec::new();
        let mut add = |key: &str, value| all.push((format!("tokenizer.ggml.{key}"), value));
        add("model", GgufValue::Text("gpt2".to_owned()));
        add("pre", GgufValue::Text(self.rule.to_owned()));
        let ids = [
            ("bos_token_id", self.begin_id),
            ("eos_token_id", self.end_id),
            ("unknown_token_id", self.unknown_id),
        ];
        for (key, id) in ids {
            if let Some(id) = id {
                add(key, GgufValue::Count(id));
            }
        }
        if let Some(begins) = self.begins {
            add("add_bos_token", GgufValue::Flag(begins));
        }
        // Rows of the embedding that no text uses, up to the trained vocabulary.
        for id in 0..vocab {
            self.tokens.entry(id).or_insert_with(|| (format!("[PAD{id}]"), UNUSED));
        }
        let (texts, kinds) = self.tokens.into_values().unzip();
        add("tokens", GgufValue::Texts(texts));
        add("token_type", GgufValue::Numbers(kinds));
        add("merges", GgufValue::Texts(self.merges));
        all
    }
}

fn of_gpt2(vocab: u32) -> GgufVocabulary {
    let spell = |id: u32| spelled(gpt2::bytes_of(id).unwrap_or_default());
    let ids = 0..vocab.min(END_OF_TEXT);
    let mut tokens: BTreeMap<_, _> = ids.map(|id| (id, (spell(id), NORMAL))).collect();
    let end_id = (vocab > END_OF_TEXT).then_some(END_OF_TEXT);
    tokens.extend(end_id.map(|id| (id, (END_OF_TEXT_SPELLING.to_owned(), CONTROL))));
    let merges = gpt2::merges()
        .map(|[left, right]| format!("{} {}", spell(left.into()), spell(right.into())));
    GgufVocabulary {
        rule: "gpt-2",
        tokens,
        merges: merges.collect(),
        begin_id: end_id,
        end_id,
        unknown_id: end_id,
        begins: None,
    }
}

/// A byte-level vocabulary without merges: each character must be one byte.
fn of_symbols(symbols: &[String]) -> Result<GgufVocabulary, TokenizerGap> {
    if symbols.iter().any(|symbol| symbol.len() > 1 || !symbol.is_ascii()) {
        return Err(TokenizerGap::Characters);
    }
    let symbol = |symbol: &String| (spelled(symbol.as_bytes()), NORMAL);
    Ok(GgufVocabulary {
        rule: "gpt-2",
        tokens: (0..).zip(symbols.iter().map(symbol)).collect(),
        merges: Vec::new(),
        begin_id: None,
        end_id: None,
        unknown_id: None,
        begins: None,
    })
}

/// A `tokenizer.json` with byte-level BPE.
fn of_document(document: &Value, folder: &Path) -> Result<GgufVocabulary, TokenizerGap> {
    let model = &document["model"];
    // Old files do not name their model.
    let is_bpe = model["type"].as_str().is_none_or(|kind| kind == "BPE");
    let (Some(vocab), Some(merges), true) =
        (model["vocab"].as_object(), model["merges"].as_array(), is_bpe)
    else {
        return Err(TokenizerGap::Json);
    };
    let rule = rule(document).ok_or(TokenizerGap::Json)?;
    let id = |value: &Value| value.as_u64().and_then(|id| u32::try_from(id).ok());
    let mut tokens = BTreeMap::new();
    for (token, value) in vocab {
        tokens.insert(id(value).ok_or(TokenizerGap::Json)?, (token.clone(), NORMAL));
    }
    for added in document["added_tokens"].as_array().into_iter().flatten() {
        let (Some(id), Some(token)) = (id(&added["id"]), added["content"].as_str()) else {
            return Err(TokenizerGap::Json);
        };
        let kind = if added["special"] == true { CONTROL } else { USER_DEFINED };
        tokens.insert(id, (token.to_owned(), kind));
    }
    let merge = |merge: &Value| match merge {
        Value::String(pair) => Some(pair.clone()),
        Value::Array(pair) => match &**pair {
            [left, right] => Some(format!("{} {}", left.as_str()?, right.as_str()?)),
            _ => None,
        },
        _ => None,
    };
    let merges = merges.iter().map(merge).collect::<Option<_>>().ok_or(TokenizerGap::Json)?;

    let json = Json::open(&folder.join(TOKENIZER_FILE)).map_err(|_| TokenizerGap::Json)?;
    let config = os::read_bytes(&folder.join(TOKENIZER_CONFIG_FILE), FILE_LIMIT_BYTES).ok();
    let config = config.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let config: Value = config.unwrap_or_default();
    let begin = &config["bos_token"];
    let begin = begin.as_str().or_else(|| begin["content"].as_str());
    // A template that begins with a special token, as Llama 3's.
    let single = &document["post_processor"];
    let single = match &single["processors"] {
        Value::Array(all) => all.iter().find(|one| one["type"] == "TemplateProcessing"),
        _ => Some(single),
    };
    let first = single.and_then(|single| single["single"][0]["SpecialToken"]["id"].as_str());
    let begin_id = first.or(begin).and_then(|token| json.id_of(token));
    let end_id = json.end_of_text(folder).map(|token| token.id);
    let begins = Some(first.is_some() || config["add_bos_token"] == true);
    Ok(GgufVocabulary { rule, tokens, merges, begin_id, end_id, unknown_id: None, begins })
}

/// llama.cpp's name for a document's rule that splits text into words, if it has one.
fn rule(document: &Value) -> Option<&'static str> {
    let is_plain = |value: &Value| value.is_null() || value["type"] == "NFC";
    if !is_plain(&document["normalizer"]) || document["model"]["byte_fallback"] == true {
        return None;
    }
    let first = &document["pre_tokenizer"];
    let steps = match &first["pretokenizers"] {
        Value::Array(steps) => steps.iter().collect(),
        _ => vec![first],
    };
    let is_bytes = |step: &Value, with_regex: bool| {
        let regex = step["use_regex"].as_bool().unwrap_or(true);
        step["type"] == "ByteLevel" && step["add_prefix_space"] != true && regex == with_regex
    };
    match *steps {
        [bytes] if is_bytes(bytes, true) => Some("gpt-2"),
        [digits, bytes]
            if digits["type"] == "Digits"
                && digits["individual_digits"] == true
                && is_bytes(bytes, true) =>
        {
            Some("smollm")
        }
        [split, bytes]
            if split["type"] == "Split"
                && split["behavior"] == "Isolated"
                && split["invert"] != true
                && is_bytes(bytes, false) =>
        {
            match split["pattern"]["Regex"].as_str()? {
                LLAMA_3 => Some("llama-bpe"),
                QWEN_2 => Some("qwen2"),
                _ => None,
            }
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::json;

    use super::*;

    fn level(use_regex: bool) -> Value {
        json!({ "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true,
            "use_regex": use_regex })
    }

    fn split(pattern: &str) -> Value {
        let split = json!({ "type": "Split", "pattern": { "Regex": pattern }, "behavior": "Isolated",
            "invert": false });
        json!({ "type": "Sequence", "pretokenizers": [split, level(false)] })
    }

    #[test]
    fn only_known_rules_have_a_name_in_llama_cpp() {
        let digits = json!({ "type": "Digits", "individual_digits": true });
        let sequence =
            |first: &Value| json!({ "type": "Sequence", "pretokenizers": [first, level(true)] });
        let table = [
            (level(true), Some("gpt-2")),
            (sequence(&digits), Some("smollm")),
            (split(LLAMA_3), Some("llama-bpe")),
            (split(QWEN_2), Some("qwen2")),
            (split("[a-z]+"), None),
            (level(false), None),
            (json!({ "type": "Digits", "individual_digits": false }), None),
            (json!({ "type": "Metaspace" }), None),
            (Value::Null, None),
        ];
        for (pre_tokenizer, expected) in table {
            let document = json!({ "pre_tokenizer": pre_tokenizer, "model": { "type": "BPE" } });
            assert_eq!(rule(&document), expected, "{document}");
        }
        let lower = json!({ "pre_tokenizer": level(true), "normalizer": { "type": "Lowercase" } });
        assert_eq!(rule(&lower), None);
    }

    #[test]
    fn a_tokenizer_json_keeps_its_ids_its_merges_and_its_special_tokens() {
        let folder = tempfile::tempdir().unwrap();
        let document = json!({
            "version": "1.0",
            "added_tokens": [
                { "id": 3, "content": "<|endoftext|>", "special": true, "single_word": false,
                    "lstrip": false, "rstrip": false, "normalized": false },
                { "id": 5, "content": "<tool>", "special": false, "single_word": false,
                    "lstrip": false, "rstrip": false, "normalized": false },
            ],
            "normalizer": null, "post_processor": null, "decoder": level(true),
            "pre_tokenizer": level(true),
            "model": { "type": "BPE", "vocab": { "a": 0, "b": 1, "ab": 2 }, "merges": [["a", "b"]] },
        });
        fs::write(folder.path().join(TOKENIZER_FILE), document.to_string()).unwrap();
        let vocabulary = of_document(&document, folder.path()).unwrap();
        assert_eq!(vocabulary.end_id, Some(3));
        let pairs = vocabulary.pairs(7);
        let find = |key: &str| {
            &pairs.iter().find(|(name, _)| name == &format!("tokenizer.ggml.{key}")).unwrap().1
        };
        let texts =
            |texts: &[&str]| GgufValue::Texts(texts.iter().map(|&t| t.to_owned()).collect());
        let tokens = ["a", "b", "ab", "<|endoftext|>", "[PAD4]", "<tool>", "[PAD6]"];
        assert_eq!(*find("tokens"), texts(&tokens));
        assert_eq!(*find("token_type"), GgufValue::Numbers(vec![1, 1, 1, 3, 5, 4, 5]));
        assert_eq!(*find("merges"), texts(&["a b"]));
        assert_eq!(*find("eos_token_id"), GgufValue::Count(3));
        assert_eq!(*find("add_bos_token"), GgufValue::Flag(false));
        let unigram = json!({ "pre_tokenizer": level(true),
            "model": { "type": "Unigram", "vocab": [["a", 0.0]] } });
        assert!(of_document(&unigram, folder.path()).is_err());
    }
}
