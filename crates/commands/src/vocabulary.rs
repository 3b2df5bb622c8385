//! Whether the tokens of the data mean what those of the weights mean.

use std::path::Path;

use fitgpt_checkpoint::{Architecture, Checkpoint, Document, NANOGPT_FILE, Weights};
use fitgpt_config::{Config, Family};
use fitgpt_data::{
    Dataset, Vocabulary, VocabularyKind,
    tokenizer::{END_OF_TEXT, TOKENIZER_FILE, Tokenizer},
};
use fitgpt_run::setup;
use fitgpt_say::Sentence;

use super::{Failure, begin::Start};
use crate::words::train as words;

/// Refuses to resume a run on data whose tokens mean something else, unless the config allows it, and
/// notes it for a new run. Returns whether a resumed run takes over the data's tokenizer.
pub(crate) fn check(
    start: &Start,
    config: &Config,
    data: &Dataset,
    note: fn(&Sentence),
) -> Result<bool, Failure> {
    let (there, folder) = match start {
        Start::Scratch => return Ok(false),
        Start::Resume(checkpoint, document) => {
            let folder = setup::out_dir(config);
            (of_run(checkpoint, document, &folder)?, folder)
        }
        Start::Pretrained(weights, folder) => (of_weights(weights, folder)?, folder.clone()),
    };
    let here = data.vocabulary()?;
    let Some(there) = there.filter(|there| !there.is_same(&here, [&folder, data.folder()])) else {
        return Ok(false);
    };
    let data = data.folder().display();
    let [is, was] = [&here, &there].map(words::vocabulary);
    if matches!(start, Start::Pretrained(..)) {
        note(&words::other_vocabulary_of_weights(data, is, folder.display(), was));
        return Ok(false);
    }
    if config.new_vocabulary() {
        note(&words::takes_vocabulary(data, is));
        return Ok(true);
    }
    let failure =
        Failure::new("vocabulary", words::other_vocabulary(data, is, folder.display(), was));
    Err(failure.hint(words::allow_new_vocabulary(folder.display())))
}

/// What a run was trained on; `None` if nothing says it.
fn of_run(
    checkpoint: &Checkpoint,
    document: &Document,
    folder: &Path,
) -> Result<Option<Vocabulary>, Failure> {
    // nanoGPT's file names a dataset, which may have changed.
    if checkpoint.nanogpt().is_some() {
        return Ok(None);
    }
    match &document.vocabulary {
        Some(vocabulary) => Ok(Some(vocabulary.clone())),
        // An earlier version stored only the tokenizer.
        None => of_files(checkpoint.architecture(), folder),
    }
}

fn of_weights(weights: &Weights, folder: &Path) -> Result<Option<Vocabulary>, Failure> {
    if weights.nanogpt().is_some() || folder.ends_with(NANOGPT_FILE) {
        return Ok(None);
    }
    let there = weights.architecture();
    let known = of_files(there, folder)?;
    let is_gpt2 = there.model.family == Family::Gpt2 && there.model.vocab > END_OF_TEXT;
    if known.is_none() && there.tokenizer.is_none() && is_gpt2 {
        return Ok(Some(Vocabulary::of(&Tokenizer::Gpt2, there.model.vocab, None)?));
    }
    Ok(known)
}

/// The vocabulary in the files of a model.
fn of_files(there: &Architecture, folder: &Path) -> Result<Option<Vocabulary>, Failure> {
    let tokens = there.model.vocab;
    let vocabulary = match &there.tokenizer {
        Some(tokenizer) => Vocabulary::of(tokenizer, tokens, None)?,
        None if folder.join(TOKENIZER_FILE).is_file() => {
            Vocabulary::of(&Tokenizer::Ids, tokens, Some(folder))?
        }
        None => return Ok(None),
    };
    Ok(Some(vocabulary).filter(|known| known.kind != VocabularyKind::Ids))
}
