//! Copies a tokenizer's files to a run's folder.

use std::path::Path;

use fitgpt_files::disk::Disk;

use super::Result;

/// The files that `transformers` reads for a tokenizer and for generation.
pub(super) const TOKENIZER_FILES: [&str; 9] = [
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

/// Bytes copied at a time.
const CHUNK_BYTES: usize = 256 << 10;

/// Copies the tokenizer files in `from` to `to`, each atomically.
pub fn carry_tokenizer(from: &Path, to: &Path) -> Result<()> {
    let is_same = from.canonicalize().ok().is_some_and(|path| to.canonicalize().ok() == Some(path));
    if is_same { Ok(()) } else { carry(&Disk::real(), from, to) }
}

/// Writes tokenizer files, given as name and text, to `to`, each atomically.
pub fn write_tokenizer(files: &[(&str, String)], to: &Path) -> Result<()> {
    let disk = Disk::real();
    disk.create_dirs(to)?;
    for (name, text) in files {
        let draft = to.join(format!(".{name}.part"));
        disk.remove_file(&draft)?; // left by an interrupted write
        let mut file = disk.create(&draft)?;
        file.write_all_at(text.as_bytes(), 0)?;
        file.sync()?;
        disk.rename(&draft, &to.join(name))?;
    }
    Ok(disk.sync_dir(to)?)
}

/// [`carry_tokenizer`] between two folders of `disk`.
pub(super) fn carry(disk: &Disk, from: &Path, to: &Path) -> Result<()> {
    disk.create_dirs(to)?;
    let mut chunk = vec![0; CHUNK_BYTES];
    for name in TOKENIZER_FILES {
        let source = match disk.open(&from.join(name)) {
            Err(error) if error.is_not_found() => continue,
            other => other?,
        };
        let draft = to.join(format!(".{name}.part"));
        disk.remove_file(&draft)?; // left by an interrupted copy
        let mut copy = disk.create(&draft)?;
        let mut position = 0;
        loop {
            let count = source.read_at(&mut chunk, position)?;
            if count == 0 {
                break;
            }
            copy.write_all_at(&chunk[..count], position)?;
            position += count as u64;
        }
        copy.sync()?;
        disk.rename(&draft, &to.join(name))?;
    }
    Ok(disk.sync_dir(to)?)
}
