//! Encodes a file with GPT-2's tokens on one thread, for `bench/tokenizer.py`.
//!
//!     encode_gpt2 FILE TOKENS REPEATS
//!
//! Reads FILE, encodes it REPEATS times, and writes the tokens of the last time to TOKENS as
//! little-endian 16-bit numbers.

use std::{env, error::Error, fs, hint::black_box};

use fitgpt_data::tokenizer::gpt2::Encoder;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = env::args().skip(1).collect::<Vec<_>>();
    let [file, tokens, repeats] = &*arguments else {
        return Err("usage: encode_gpt2 FILE TOKENS REPEATS".into());
    };
    let text = fs::read_to_string(file)?;
    let mut encoder = Encoder::new();
    let mut ids = Vec::with_capacity(text.len() / 2);
    for _ in 0..repeats.parse::<u32>()? {
        ids.clear();
        encoder.encode(black_box(&text), &mut ids);
    }
    fs::write(tokens, ids.into_iter().flat_map(u16::to_le_bytes).collect::<Vec<_>>())?;
    Ok(())
}
