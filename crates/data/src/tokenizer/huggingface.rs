//! A tokenizer as Hugging Face's files, so that `transformers` can use our folders unchanged.
//!
//! GPT-2's tokens are its usual byte-level BPE. Characters are a BPE without merges: every
//! character is a token, and decoding joins them without spaces.

use std::fmt::Write;

use serde_json::{Map, Value, json};

use super::{END_OF_TEXT, END_OF_TEXT_SPELLING, EndOfTextToken, Tokenizer, gpt2};

/// The tokenizer's settings for `transformers`.
pub const TOKENIZER_CONFIG_FILE: &str = "tokenizer_config.json";

/// The settings for generation.
pub const GENERATION_CONFIG_FILE: &str = "generation_config.json";

/// The files of a tokenizer for a model with `vocab` tokens and sequences of `block`; none for
/// token ids without text, and for a `tokenizer.json`, which is already a file.
pub fn files(tokenizer: &Tokenizer, vocab: u32, block: u32) -> Vec<(&'static str, String)> {
    let document = match tokenizer {
        Tokenizer::Gpt2 => gpt2_document(),
        Tokenizer::Chars(chars) => {
            // If two ids have the same symbol, the later one counts, as in `Chars`.
            let symbols = (0_u32..).zip(chars.symbols()).filter(|(_, symbol)| !symbol.is_empty());
            let ids = symbols.map(|(id, symbol)| (symbol.clone(), id.into())).collect();
            document(&ids, &[], &Value::Null, &json!({ "type": "Fuse" }), &json!([]))
        }
        Tokenizer::Json(_) | Tokenizer::Ids => return Vec::new(),
    };
    let mut config = json!({
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": block,
        "clean_up_tokenization_spaces": false,
    });
    let mut generation = sampling();
    if *tokenizer == Tokenizer::Gpt2 && vocab > END_OF_TEXT {
        for token in ["bos_token", "eos_token"] {
            config[token] = json!(END_OF_TEXT_SPELLING);
            generation[format!("{token}_id")] = json!(END_OF_TEXT);
        }
        generation["pad_token_id"] = json!(END_OF_TEXT);
    }
    vec![
        (super::TOKENIZER_FILE, format!("{document}\n")),
        (TOKENIZER_CONFIG_FILE, format!("{config:#}\n")),
        (GENERATION_CONFIG_FILE, format!("{generation:#}\n")),
    ]
}

/// The files next to a `tokenizer.json`, so that `transformers` reads it unchanged and stops at the
/// dataset's end-of-text token.
pub fn files_for_json(end_of_text: Option<&EndOfTextToken>) -> Vec<(&'static str, String)> {
    let mut config = json!({
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": false,
    });
    let mut generation = sampling();
    if let Some(EndOfTextToken { token, id, .. }) = end_of_text {
        config["eos_token"] = json!(token);
        generation["eos_token_id"] = json!(id);
        generation["pad_token_id"] = json!(id);
    }
    vec![
        (TOKENIZER_CONFIG_FILE, format!("{config:#}\n")),
        (GENERATION_CONFIG_FILE, format!("{generation:#}\n")),
    ]
}

/// nanoGPT's defaults for sampling.
fn sampling() -> Value {
    json!({ "do_sample": true, "temperature": 0.8, "top_k": 200 })
}

fn gpt2_document() -> Value {
    let spell = |id| spelled(gpt2::bytes_of(id).unwrap_or_default());
    let mut ids: Map<_, _> = (0..END_OF_TEXT).map(|id| (spell(id), id.into())).collect();
    ids.insert(END_OF_TEXT_SPELLING.to_owned(), END_OF_TEXT.into());
    let merges = gpt2::merges().map(|pair| json!(pair.map(|id| spell(id.into()))));
    let level = json!({ "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true,
        "use_regex": true });
    let added = json!([{ "id": END_OF_TEXT, "content": END_OF_TEXT_SPELLING, "single_word": false,
        "lstrip": false, "rstrip": false, "normalized": false, "special": true }]);
    document(&ids, &merges.collect::<Vec<_>>(), &level, &level, &added)
}

fn document(
    ids: &Map<String, Value>,
    merges: &[Value],
    pre_tokenizer: &Value,
    decoder: &Value,
    added_tokens: &Value,
) -> Value {
    json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": added_tokens,
        "normalizer": null,
        "pre_tokenizer": pre_tokenizer,
        "post_processor": null,
        "decoder": decoder,
        "model": { "type": "BPE", "dropout": null, "unk_token": null,
            "continuing_subword_prefix": null, "end_of_word_suffix": null, "fuse_unk": false,
            "byte_fallback": false, "ignore_merges": false, "vocab": ids, "merges": merges },
    })
}

/// Bytes as byte-level tokenizers write them: a printable character for each.
pub fn spelled(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for &byte in bytes {
        let _ = text.write_char(gpt2::character_of_byte(byte)); // a string accepts any character
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokenizer::{Json, TOKENIZER_FILE};

    fn opened(tokenizer: &Tokenizer) -> Tokenizer {
        let folder = tempfile::tempdir().unwrap();
        let files = files(tokenizer, 60_000, 1024);
        let (_, text) = files.iter().find(|(name, _)| *name == TOKENIZER_FILE).unwrap();
        let path = folder.path().join(TOKENIZER_FILE);
        std::fs::write(&path, text).unwrap();
        Tokenizer::Json(Json::open(&path).unwrap())
    }

    #[test]
    fn gpt2s_file_gives_gpt2s_tokens() {
        let theirs = opened(&Tokenizer::Gpt2);
        let text = include_str!("../../../../README.md");
        for text in [text, "naïve 日本語 😀\n\n  two's <|endoftext|> tales\t\0", ""] {
            let ids = Tokenizer::Gpt2.encode(text).unwrap();
            assert_eq!(theirs.encode(text).unwrap(), ids);
        }
        let ids = Tokenizer::Gpt2.encode("naïve 日本語 😀").unwrap();
        assert_eq!(theirs.decode(&ids), "naïve 日本語 😀");
    }

    #[test]
    fn a_file_of_characters_gives_the_tables_tokens() {
        let ours = Tokenizer::from_text("ab é日\n 😀");
        let theirs = opened(&ours);
        let text = "ba é\n日 😀 ab";
        let ids = ours.encode(text).unwrap();
        assert_eq!(theirs.encode(text).unwrap(), ids);
        assert_eq!(theirs.decode(&ids), text);
    }

    #[test]
    fn the_end_of_text_is_written_only_if_the_model_has_it() {
        let text = |vocab| files(&Tokenizer::Gpt2, vocab, 8).into_iter().map(|file| file.1).skip(1);
        assert!(text(50_304).all(|text| text.contains("eos_token")));
        assert!(text(50_256).all(|text| !text.contains("eos_token")));
        assert!(files(&Tokenizer::Ids, 65, 8).is_empty());
    }
}
