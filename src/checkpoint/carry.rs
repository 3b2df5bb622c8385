//! A tokenizer's files, which a folder keeps from the one that its run began with.

use std::{fs, io, path::Path};

use super::{Result, disk::failed};
use crate::attempt::Attempt;

/// What `transformers` reads of a tokenizer, and what it needs to know to generate.
const FILES: [&str; 9] = [
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "tokenizer.model",
    "chat_template.jinja",
    "generation_config.json",
];

/// Copies the files of a tokenizer that are in `from` to `to`, each whole or not at all.
pub fn carry_tokenizer(from: &Path, to: &Path) -> Result<()> {
    let is_same = from.canonicalize().ok().is_some_and(|path| to.canonicalize().ok() == Some(path));
    if is_same {
        return Ok(());
    }
    fs::create_dir_all(to).map_err(failed(Attempt::Create, to))?;
    for name in FILES {
        let (source, target) = (from.join(name), to.join(name));
        let draft = to.join(format!(".{name}.part"));
        match fs::copy(&source, &draft) {
            Ok(_) => fs::rename(&draft, &target).map_err(failed(Attempt::Rename, &target))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(Attempt::Write, &target)(error)),
        }
    }
    Ok(())
}
