//! Exports a complete Hugging Face folder: weights, config and tokenizer.

use std::path::Path;

use crate as checkpoint;
use crate::{Architecture, NanoGptRun, Weights};
use fitgpt_config::Family;
use fitgpt_data::{
    Dataset,
    tokenizer::{END_OF_TEXT, TOKENIZER_FILE, Tokenizer, huggingface},
};
use fitgpt_files::{
    attempt::Attempt,
    disk::{Disk, DraftName},
};

use super::{ExportError, Exported};
use crate::{CARD_FILE, output};

/// Writes the weights in `folder` to the folder `out`. A new folder appears complete or not at all;
/// in one that exists, each file is replaced atomically.
pub fn to_folder(folder: &Path, out: &Path, overwrite: bool) -> Result<Exported, ExportError> {
    output::check_folder(out, folder, overwrite)?;
    if out.symlink_metadata().is_err() {
        let draft = DraftName::of(out)?;
        let exported = write(folder, draft.path())?;
        draft.publish(&Disk::real())?;
        return Ok(exported);
    }
    write(folder, out)
}

/// Writes all files to `out`.
fn write(folder: &Path, out: &Path) -> Result<Exported, ExportError> {
    let folder = checkpoint::weights_dir(folder);
    let mut weights = Weights::open(&folder)?;
    let mut architecture = weights.architecture().clone();
    let model = architecture.model;
    let has_file = folder.join(TOKENIZER_FILE).is_file();
    if architecture.tokenizer.is_none() && !has_file {
        let dataset = weights.nanogpt().and_then(NanoGptRun::dataset);
        architecture.tokenizer = tokenizer(dataset, &architecture);
    }
    let (n_tensors, bytes) = checkpoint::copy_weights(&mut weights, &architecture, out)?;
    if let Some(tokenizer) = architecture.tokenizer.as_ref().filter(|_| !has_file) {
        let files = huggingface::files(tokenizer, model.vocab, model.block);
        checkpoint::write_tokenizer(&files, out)?;
    }
    if folder.is_dir() {
        checkpoint::carry_tokenizer(&folder, out)?;
    }
    let (card, copy) = (folder.join(CARD_FILE), out.join(CARD_FILE));
    if card.is_file() && !copy.exists() {
        let failed =
            |source| ExportError::Io { action: Attempt::Write, path: copy.clone(), source };
        std::fs::copy(&card, &copy).map_err(failed)?;
    }
    // `transformers` has both kinds of GELU.
    Ok(Exported { n_tensors, bytes, has_other_gelu: false })
}

/// The tokenizer of weights that do not include one: that of the dataset named in nanoGPT's
/// `ckpt.pt`, else GPT-2's if the vocabulary is large enough.
fn tokenizer(dataset: Option<&str>, there: &Architecture) -> Option<Tokenizer> {
    let vocab = there.model.vocab;
    let data = dataset.and_then(|name| Dataset::open(name, Path::new(".")).ok());
    match data {
        Some(data) if data.vocab_size() == vocab => Some(data.tokenizer().within(vocab)),
        _ if there.model.family == Family::Gpt2 && vocab > END_OF_TEXT => Some(Tokenizer::Gpt2),
        _ => None,
    }
}
