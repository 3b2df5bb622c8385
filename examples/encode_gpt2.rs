//! Encodes a file on one thread, for `bench/tokenizer.py`.
//!
//!     encode_gpt2 FILE TOKENS REPEATS [TOKENIZER.json [crate]]
//!
//! Reads FILE, encodes it REPEATS times, and writes the tokens of the last time to TOKENS as
//! little-endian numbers: GPT-2's with 16 bits, those of a `tokenizer.json` with 32. Such a
//! tokenizer gets documents of up to 64 KiB, GPT-2's the whole file. With `crate`, the crate
//! `tokenizers` encodes.

use std::{env, error::Error, fs, hint::black_box, path::Path};

use fitgpt_data::tokenizer::{Json, TokenIds, Tokenizer, gpt2::Encoder};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = env::args().skip(1).collect::<Vec<_>>();
    let (file, tokens, repeats, json) = match &*arguments {
        [file, tokens, repeats] => (file, tokens, repeats, None),
        [file, tokens, repeats, json, rest @ ..] => (file, tokens, repeats, Some((json, rest))),
        _ => return Err("usage: encode_gpt2 FILE TOKENS REPEATS [TOKENIZER.json [crate]]".into()),
    };
    let text = fs::read_to_string(file)?;
    let repeats = repeats.parse::<u32>()?;
    let bytes = match json {
        None => gpt2(&text, repeats),
        Some((json, rest)) => {
            let is_crate = rest.first().is_some_and(|word| word == "crate");
            of_json(Path::new(json), is_crate, &text, repeats)?
        }
    };
    fs::write(tokens, bytes)?;
    Ok(())
}

fn gpt2(text: &str, repeats: u32) -> Vec<u8> {
    let mut encoder = Encoder::new();
    let mut ids = Vec::with_capacity(text.len() / 2);
    for _ in 0..repeats {
        ids.clear();
        encoder.encode(black_box(text), &mut ids);
    }
    ids.into_iter().flat_map(u16::to_le_bytes).collect()
}

fn of_json(
    path: &Path,
    is_crate: bool,
    text: &str,
    repeats: u32,
) -> Result<Vec<u8>, Box<dyn Error>> {
    let tokenizer = Tokenizer::Json(Json::open_for_documents(path)?);
    let mut encoder = tokenizer.encoder();
    let mut ids = Vec::with_capacity(text.len() / 2);
    for _ in 0..repeats {
        ids.clear();
        for document in documents(black_box(text)) {
            if is_crate {
                ids.extend(tokenizer.encode_document(document)?);
                continue;
            }
            match encoder.encode(document)? {
                TokenIds::Narrow(found) => ids.extend(found.iter().map(|&id| u32::from(id))),
                TokenIds::Wide(found) => ids.extend_from_slice(found),
            }
        }
    }
    Ok(ids.into_iter().flat_map(u32::to_le_bytes).collect())
}

/// A text in parts of up to 64 KiB that end with a line, if it has such lines.
fn documents(mut text: &str) -> impl Iterator<Item = &str> {
    const LIMIT_BYTES: usize = 64 << 10;
    std::iter::from_fn(move || {
        let limit = text.floor_char_boundary(LIMIT_BYTES);
        let end = if text.len() <= LIMIT_BYTES {
            text.len()
        } else {
            text[..limit].rfind('\n').map_or(limit, |at| at + 1)
        };
        let (document, rest) = text.split_at(end);
        text = rest;
        (!document.is_empty()).then_some(document)
    })
}
