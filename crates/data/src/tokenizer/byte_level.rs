//! Documents with a byte-level `tokenizer.json`: the same tokens as the crate `tokenizers`, many
//! times faster.
//!
//! A file is read here if it splits text as GPT-2, Llama 3 or Qwen do, merges bytes, and changes no
//! text but by Unicode's composition (NFC). Text that composition might change, or that contains an
//! added token which is not special, is left to the crate, as is every other file.
//!
//! Promise: tokens of a `tokenizer.json` are the crate's, for any text. Test:
//! `crates/data/src/tokenizer/byte_level.rs`, `bench/tokenizer.py --json`.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::Value;
use unicode_normalization_alignments::is_nfc;

use super::{
    bpe::{
        WordEncoder,
        merge::{Merge, Merges, Tokens},
        split::Pattern,
    },
    gpt2,
};

/// The patterns of Llama 3 and of Qwen.
const LLAMA_3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// Words in the tables of an encoder: 6 MiB and 0.9 MiB.
const N_SMALL: usize = 1 << 16;
const N_LARGE: usize = 1 << 12;

/// The first byte, in UTF-8, of the first character that composition can change: U+0300.
const FIRST_COMPOSED: u8 = 0xcc;

/// The tables of a file.
#[derive(Debug)]
pub(super) struct ByteLevel {
    pattern: Pattern,
    merges: Merges,
    /// Whether text is composed before it is split.
    is_composed: bool,
    /// Added tokens that are not special, and a flag for the first byte of each.
    added: Vec<String>,
    starts_added: [bool; 256],
}

/// The parts of a file that matter here.
#[derive(Deserialize)]
struct File {
    truncation: Option<Value>,
    padding: Option<Value>,
    #[serde(default)]
    added_tokens: Vec<AddedToken>,
    normalizer: Option<Value>,
    pre_tokenizer: Value,
    model: Model,
}

#[derive(Deserialize)]
struct AddedToken {
    content: String,
    special: bool,
}

#[derive(Deserialize)]
struct Model {
    #[serde(rename = "type")]
    kind: String,
    dropout: Option<f64>,
    #[serde(default)]
    continuing_subword_prefix: Option<String>,
    #[serde(default)]
    end_of_word_suffix: Option<String>,
    #[serde(default)]
    ignore_merges: bool,
    vocab: HashMap<String, u32>,
    merges: Vec<WrittenMerge>,
}

/// A merge as new and as old files write it.
#[derive(Deserialize)]
#[serde(untagged)]
enum WrittenMerge {
    Pair([String; 2]),
    Joined(String),
}

impl ByteLevel {
    /// The tables of a file that the crate has accepted. `None` if it is of another kind.
    pub(super) fn of(text: &str) -> Option<Self> {
        let file = serde_json::from_str::<File>(text).ok()?;
        let is_none = |value: &Option<Value>| value.as_ref().is_none_or(Value::is_null);
        let is_empty = |text: &Option<String>| text.as_ref().is_none_or(String::is_empty);
        let model = &file.model;
        let is_plain = is_none(&file.truncation)
            && is_none(&file.padding)
            && model.kind == "BPE"
            && model.dropout.is_none_or(|share| share == 0.0)
            && is_empty(&model.continuing_subword_prefix)
            && is_empty(&model.end_of_word_suffix);
        let is_composed = match &file.normalizer {
            None => false,
            Some(normalizer) if normalizer["type"] == "NFC" => true,
            Some(_) => return None,
        };
        let pattern = pattern_of(&file.pre_tokenizer)?;
        let added = file.added_tokens.into_iter().filter(|token| !token.special);
        let added = added.map(|token| token.content).collect::<Vec<_>>();
        // The crate composes an added token too.
        let is_simple = added.iter().all(|token| !token.is_empty() && token.is_ascii());
        if !is_plain || !is_simple {
            return None;
        }
        let merges = merges_of(&file.model)?;
        let merges = if file.model.ignore_merges { merges.with_whole_words() } else { merges };
        let mut starts_added = [false; 256];
        for token in &added {
            starts_added[usize::from(token.as_bytes()[0])] = true;
        }
        Some(Self { pattern, merges, is_composed, added, starts_added })
    }

    /// Whether the text is not composed and has no added token, so that its words are all there is.
    fn is_words(&self, text: &str) -> bool {
        let is_normal =
            !self.is_composed || text.bytes().all(|byte| byte < FIRST_COMPOSED) || is_nfc(text);
        let starts = |byte: u8| self.starts_added[usize::from(byte)];
        is_normal
            && (self.added.is_empty()
                || text.bytes().enumerate().filter(|&(_, byte)| starts(byte)).all(|(at, _)| {
                    let rest = &text.as_bytes()[at..];
                    !self.added.iter().any(|token| rest.starts_with(token.as_bytes()))
                }))
    }
}

/// The pattern of a pre-tokenizer, if it is one of the known ones.
fn pattern_of(pre_tokenizer: &Value) -> Option<Pattern> {
    let is_byte_level = |step: &Value, splits: bool| {
        step["type"] == "ByteLevel"
            && step["add_prefix_space"] == false
            && step["use_regex"].as_bool().unwrap_or(true) == splits
    };
    if is_byte_level(pre_tokenizer, true) {
        return Some(Pattern::Gpt2);
    }
    let [split, bytes] = pre_tokenizer["pretokenizers"].as_array()?.as_slice() else {
        return None;
    };
    let is_split = pre_tokenizer["type"] == "Sequence"
        && split["type"] == "Split"
        && split["behavior"] == "Isolated"
        && split["invert"] == false
        && is_byte_level(bytes, false);
    match split["pattern"]["Regex"].as_str()? {
        LLAMA_3 if is_split => Some(Pattern::Gpt4 { digits: 3 }),
        QWEN if is_split => Some(Pattern::Gpt4 { digits: 1 }),
        _ => None,
    }
}

/// The tables of a model, whose tokens are written with a printable character for each byte.
fn merges_of(model: &Model) -> Option<Merges> {
    let byte_of =
        (0..=u8::MAX).map(|byte| (gpt2::character_of_byte(byte), byte)).collect::<HashMap<_, _>>();
    let n_ids = model.vocab.values().max()?.checked_add(1)?;
    // A file with a few tokens may not ask for tables of any size.
    if n_ids as usize > 2 * model.vocab.len() {
        return None;
    }
    let mut by_id = vec![None; n_ids as usize];
    for (token, &id) in &model.vocab {
        // A token with other characters is spelled by no word.
        let bytes = token.chars().map(|character| byte_of.get(&character).copied());
        let bytes = bytes.collect::<Option<Vec<_>>>().unwrap_or_default();
        if by_id[id as usize].replace(bytes).is_some() {
            return None; // two tokens with one id
        }
    }
    let mut tokens = Tokens::new();
    for token in by_id {
        tokens.push(&token.unwrap_or_default());
    }
    let mut merges = Vec::with_capacity(model.merges.len());
    let mut joined = String::new();
    for merge in &model.merges {
        let (left, right) = match merge {
            WrittenMerge::Pair([left, right]) => (&**left, &**right),
            WrittenMerge::Joined(both) => both.split_once(' ')?,
        };
        joined.clear();
        joined.extend([left, right]);
        let id = |token: &str| model.vocab.get(token).copied();
        merges.push(Merge { pair: [id(left)?, id(right)?], made: id(&joined)? });
    }
    Merges::new(tokens, &merges)
}

/// Encodes documents with a [`ByteLevel`]. Each thread has its own.
#[derive(Debug)]
pub struct Encoder<'a> {
    byte_level: &'a ByteLevel,
    words: WordEncoder<u32>,
}

impl<'a> Encoder<'a> {
    /// An encoder for much text.
    pub(super) fn new(byte_level: &'a ByteLevel) -> Self {
        let words = WordEncoder::with_words(byte_level.pattern, N_SMALL, N_LARGE);
        Self { byte_level, words }
    }

    /// Appends the tokens of a document; false if it is left to the crate.
    pub(super) fn encode(&mut self, text: &str, ids: &mut Vec<u32>) -> bool {
        let is_words = self.byte_level.is_words(text);
        if is_words {
            self.words.encode(&self.byte_level.merges, text, ids);
        }
        is_words
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use proptest::prelude::*;

    use super::*;
    use crate::tokenizer::{Json, TOKENIZER_FILE, TokenIds, Tokenizer, gpt2::tests::snippet};

    /// A file with GPT-2's tokens and one that no merge makes, changed by `change`.
    fn file(folder: &Path, change: impl FnOnce(&mut Value)) -> Tokenizer {
        let written = |bytes: &[u8]| -> String {
            bytes.iter().map(|&byte| gpt2::character_of_byte(byte)).collect()
        };
        let token = |id: u32| written(gpt2::bytes_of(id).unwrap());
        let mut vocab: serde_json::Map<_, _> =
            (0..50_256).map(|id| (token(id), id.into())).collect();
        vocab.insert(written(b" unmergeable"), 50_300.into());
        let merges: Vec<_> =
            gpt2::merges().map(|pair| pair.map(|id| token(id.into())).join(" ")).collect();
        let mut file = serde_json::json!({
            "version": "1.0", "normalizer": null, "decoder": null, "post_processor": null,
            "pre_tokenizer": { "type": "ByteLevel", "add_prefix_space": false,
                "trim_offsets": true, "use_regex": true },
            "added_tokens": [
                { "id": 50_301, "content": "<|end|>", "special": true, "single_word": false,
                    "lstrip": false, "rstrip": false, "normalized": false },
                { "id": 50_302, "content": "<tool>", "special": false, "single_word": false,
                    "lstrip": false, "rstrip": false, "normalized": true },
            ],
            "model": { "type": "BPE", "vocab": vocab, "merges": merges },
        });
        change(&mut file);
        let path = folder.join(TOKENIZER_FILE);
        fs::write(&path, file.to_string()).unwrap();
        Tokenizer::Json(Json::open_for_documents(&path).unwrap())
    }

    fn split_by(pattern: &str) -> Value {
        serde_json::json!({ "type": "Sequence", "pretokenizers": [
            { "type": "Split", "pattern": { "Regex": pattern }, "behavior": "Isolated",
                "invert": false },
            { "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true,
                "use_regex": false },
        ] })
    }

    /// Files of the forms of GPT-2, Llama 3 and Qwen.
    fn forms(folder: &Path) -> [Tokenizer; 3] {
        [
            file(folder, |_| {}),
            file(folder, |file| {
                file["pre_tokenizer"] = split_by(LLAMA_3);
                file["model"]["ignore_merges"] = true.into();
            }),
            file(folder, |file| {
                file["pre_tokenizer"] = split_by(QWEN);
                file["normalizer"] = serde_json::json!({ "type": "NFC" });
            }),
        ]
    }

    /// Compares with the crate, using one encoder for all texts.
    fn assert_equal<'a>(tokenizer: &Tokenizer, texts: impl IntoIterator<Item = &'a str>) {
        let mut encoder = tokenizer.encoder();
        for text in texts {
            let TokenIds::Wide(ids) = encoder.encode(text).unwrap() else { panic!("{text:?}") };
            assert_eq!(ids, tokenizer.encode_document(text).unwrap(), "{text:?}");
        }
    }

    #[test]
    fn writing_of_any_kind_has_the_crates_tokens() {
        let folder = tempfile::tempdir().unwrap();
        let special = prop_oneof![
            Just("<tool>".to_owned()),
            Just("<|end|>".to_owned()),
            Just(" unmergeable".to_owned()),
            "'(S|T|Re|vE|LL|ſ|ſt)[a-z]?|[\\r\\n]{1,3}|[.!?] ?[\\r\\n]{1,2}|[0-9]{3,8}",
        ];
        let text = prop::collection::vec(prop_oneof![4 => snippet(), 1 => special], 1..30);
        let forms = forms(folder.path());
        let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(300));
        let equal = runner.run(&text, |snippets| {
            for tokenizer in &forms {
                assert_equal(tokenizer, [&*snippets.concat()]);
            }
            Ok(())
        });
        equal.unwrap();
    }

    #[test]
    fn every_character_has_the_crates_tokens_alone_and_between_others() {
        let folder = tempfile::tempdir().unwrap();
        let all = ('\0'..=char::MAX).filter(|&c| c < '\u{3000}' || (c as u32).is_multiple_of(61));
        let all = all.collect::<Vec<_>>();
        for tokenizer in forms(folder.path()) {
            let mut texts = Vec::new();
            for block in all.chunks(64) {
                texts.push(String::new());
                let text = texts.last_mut().unwrap();
                for &c in block {
                    text.extend([c, ' ', c, 'a', c, '1', c, '\'', c, '\n', c, '!', c, ' ', ' ', c]);
                }
            }
            assert_equal(&tokenizer, texts.iter().map(String::as_str));
        }
    }

    #[test]
    fn a_whole_word_that_no_merge_makes_is_a_token_only_if_the_file_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let [gpt2, llama, _] = forms(folder.path());
        let texts = ["an unmergeable word, unmergeables, unmergeable"; 2];
        let is_whole = |tokenizer: &Tokenizer| {
            assert_equal(tokenizer, texts);
            tokenizer.encode_document(texts[0]).unwrap().contains(&50_300)
        };
        assert!(!is_whole(&gpt2) && is_whole(&llama));
    }

    #[test]
    fn a_file_of_another_kind_is_left_to_the_crate() {
        let folder = tempfile::tempdir().unwrap();
        let is_read = |change: &dyn Fn(&mut Value)| {
            let tokenizer = file(folder.path(), change);
            assert!(!tokenizer.encode_document("two words").unwrap().is_empty());
            matches!(&tokenizer, Tokenizer::Json(json) if json.byte_level().is_some())
        };
        assert!(is_read(&|_| {}));
        assert!(!is_read(&|file| file["pre_tokenizer"] = split_by(r"\w+|[^\w]+")));
        assert!(!is_read(&|file| file["pre_tokenizer"]["add_prefix_space"] = true.into()));
        assert!(!is_read(&|file| file["normalizer"] = serde_json::json!({ "type": "NFKC" })));
        assert!(!is_read(&|file| file["model"]["dropout"] = 0.000_001.into()));
        assert!(!is_read(&|file| file["added_tokens"][1]["content"] = "é".into()));
        assert!(!is_read(&|file| file["truncation"] = serde_json::json!({ "max_length": 9,
            "strategy": "LongestFirst", "stride": 0, "direction": "Right" })));
    }
}
