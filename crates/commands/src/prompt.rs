//! What is continued: the tokenizer of a model, the tokens of the prompt, and the samples that a run
//! draws.

use std::path::Path;

use fitgpt_checkpoint::Architecture;
use fitgpt_config::{Config, Family};
use fitgpt_data::{
    Dataset,
    tokenizer::{END_OF_TEXT, Json, TOKENIZER_FILE, Tokenizer},
};
use fitgpt_files::os;
use fitgpt_run::{sample::Choice, train::Samples};

use super::{Failure, words::sample as words};

/// Far more than any model's context.
pub const MAX_PROMPT_BYTES: u64 = 64 << 20;

/// Tokens of a sample that a run draws while it trains and at its end.
pub const MAX_TOKENS_OF_A_RUN: u32 = 400;

/// The samples that a run draws while it trains; `None` if it draws none. `folder` has the
/// tokenizer's files.
pub fn in_training(
    config: &Config,
    folder: &Path,
    architecture: &Architecture,
) -> Result<Option<Samples>, Failure> {
    if config.sample_interval() == 0 {
        return Ok(None);
    }
    let tokenizer = tokenizer(config, None, folder, architecture)?;
    let prompt = prompt(config, &tokenizer, architecture.model.vocab)?;
    let n_tokens = config.max_new_tokens().min(MAX_TOKENS_OF_A_RUN);
    Ok(Some(Samples { tokenizer, prompt, choice: Choice::new(config), n_tokens }))
}

/// The tokenizer of a checkpoint: its own, else the `tokenizer.json` next to it, else that of a
/// dataset, first the one that nanoGPT's `ckpt.pt` names.
pub fn tokenizer(
    config: &Config,
    dataset: Option<&str>,
    folder: &Path,
    there: &Architecture,
) -> Result<Tokenizer, Failure> {
    if let Some(tokenizer) = &there.tokenizer {
        return Ok(tokenizer.clone());
    }
    let file = folder.join(TOKENIZER_FILE);
    if file.is_file() {
        return Ok(Tokenizer::Json(Json::open(&file)?));
    }
    let is_gpt2 = there.model.family == Family::Gpt2;
    for dataset in dataset.into_iter().chain([config.dataset()]) {
        if let Ok(data) = Dataset::open(dataset, Path::new("."))
            && data.vocab_size() == there.model.vocab
        {
            return Ok(data.tokenizer().within(data.vocab_size()));
        }
    }
    let is_long = there.model.vocab > END_OF_TEXT;
    Ok(if is_gpt2 && is_long { Tokenizer::Gpt2 } else { Tokenizer::Ids })
}

/// The tokens to continue. An empty prompt becomes the start of a document.
pub fn prompt(config: &Config, tokenizer: &Tokenizer, vocab: u32) -> Result<Vec<u32>, Failure> {
    let start = match config.start().strip_prefix("FILE:") {
        Some(path) => {
            let path = Path::new(path);
            os::read_text(path, MAX_PROMPT_BYTES)
                .map_err(|error| Failure::unreadable(path, &error))?
        }
        None => config.start().to_owned(),
    };
    let tokens = match tokenizer.encode(&start) {
        // nanoGPT's default prompt, which not every character vocabulary has.
        Err(_) if start == "\n" => Vec::new(),
        other => other?,
    };
    if let Some(token) = tokens.iter().find(|token| **token >= vocab) {
        return Err(Failure::new("tokenizer", words::unknown_token(token, vocab)));
    }
    if !tokens.is_empty() {
        return Ok(tokens);
    }
    Ok(match tokenizer {
        Tokenizer::Gpt2 => vec![END_OF_TEXT],
        Tokenizer::Chars(_) => tokenizer.encode("\n").unwrap_or_else(|_| vec![0]),
        Tokenizer::Json(_) | Tokenizer::Ids => vec![0],
    })
}
