//! A small tokenizer, for tests here and in other crates.

use std::{fs, path::Path};

use super::{TOKENIZER_FILE, Tokenizer, json::Json};

/// A byte-level tokenizer without merges: every byte is a token.
pub fn bytes_tokenizer(folder: &Path) -> Tokenizer {
    // The characters that byte-level tokenizers use for bytes that are not printable.
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
