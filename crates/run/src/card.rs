//! The model card: a `README.md` that states what was trained, on what and how.
//!
//! It is written after every save, next to the checkpoint; the manifest does not list it. Its last
//! line has a checksum of the rest, so that a card that the user has edited is never overwritten.
//! Cards are in English, as on the hub.
//!
//! Promise: an edited model card is not replaced. Test: this file, `tests/runs/outputs.rs`.

use std::{fmt::Write as _, path::Path};

use fitgpt_checkpoint::{CARD_FILE, CheckpointError, RunPosition};
use fitgpt_config::Config;
use fitgpt_files::disk::{Disk, FileKind};
use fitgpt_model::Model;
use fitgpt_program::hash::{FNV_1A_START, fnv_1a};

use super::trainer::Evaluated;

/// More than any card that we write; a larger file is the user's.
const MAX_BYTES: u64 = 1 << 20;

/// The last line: the text before the checksum and the text after it.
const MARK: [&str; 2] = ["\n<!-- written by fitgpt, ", "; an edited card is kept -->\n"];

/// The contents of a card.
#[derive(Clone, Copy, Debug)]
pub struct ModelCard<'a> {
    /// The resolved config.
    pub config: &'a Config,
    /// The model that was trained.
    pub model: &'a Model,
    /// How far the run is.
    pub position: &'a RunPosition,
    /// The last evaluation and its step.
    pub evaluated: Option<(u64, Evaluated)>,
    /// Tokens for training and for validation.
    pub tokens: [u64; 2],
    /// The command line of this run.
    pub command: &'a str,
}

/// Writes the card of the run to `dir`, unless the user has edited it. Its title is the name of
/// `out_dir`, which is the same folder.
pub fn write(dir: &Path, out_dir: &Path, card: &ModelCard<'_>) -> Result<(), CheckpointError> {
    let (disk, path) = (Disk::real(), dir.join(CARD_FILE));
    let is_ours = match disk.kind(&path)? {
        None => true,
        Some(FileKind::File { bytes }) if bytes <= MAX_BYTES => {
            is_unchanged(&disk.read(&path, MAX_BYTES)?)
        }
        Some(_) => false,
    };
    if !is_ours {
        return Ok(());
    }
    let draft = dir.join(format!(".{CARD_FILE}.part"));
    disk.remove_file(&draft)?; // left by an interrupted write
    let mut file = disk.create(&draft)?;
    file.write_all_at(signed(&card.text(out_dir)).as_bytes(), 0)?;
    file.sync()?;
    Ok(disk.rename(&draft, &path)?)
}

/// The command line of this process, quoted for a shell.
pub fn command_line() -> String {
    let mut words: Vec<_> = std::env::args().map(|word| quoted(&word)).collect();
    if let Some(program) = words.first_mut() {
        "fitgpt".clone_into(program); // without the path of its installation
    }
    words.join(" ")
}

/// A word quoted for a POSIX shell.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_@%+=:,./-".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// A text with its last line.
fn signed(text: &str) -> String {
    format!("{text}{}{:016x}{}", MARK[0], checksum(text.as_bytes()), MARK[1])
}

/// Whether a file is a card as we wrote it.
fn is_unchanged(bytes: &[u8]) -> bool {
    let parts = str::from_utf8(bytes).ok().and_then(|text| {
        let (text, mark) = text.rsplit_once(MARK[0])?;
        Some((text, mark.strip_suffix(MARK[1])?))
    });
    parts.is_some_and(|(text, sum)| format!("{:016x}", checksum(text.as_bytes())) == sum)
}

fn checksum(bytes: &[u8]) -> u64 {
    fnv_1a(FNV_1A_START, bytes)
}

impl ModelCard<'_> {
    fn text(&self, out_dir: &Path) -> String {
        let Self { config, model, position, tokens: [train, val], .. } = *self;
        let family = model.family;
        let name = out_dir.file_name().unwrap_or(out_dir.as_os_str()).to_string_lossy();
        let millions = model.parameter_count() as f64 / 1e6;
        let batch = config.effective_batch();
        let steps = position.step;
        let mut text = format!(
            "---\nlibrary_name: transformers\npipeline_tag: text-generation\ntags:\n- fitgpt\n- {family}\n---\n\n\
             # {name}\n\n\
             A `{family}` model of {millions:.2} million parameters: {layers} layers, {heads} heads, {channels} \
             channels, sequences of {block} tokens, a vocabulary of {vocab}. Trained with FitGPT {version}.\n\n\
             | | |\n|---|---|\n\
             | data | `{dataset}`: {train} tokens for training, {val} for validation |\n\
             | steps | {steps}, each of {sequences} sequences ({step_tokens} tokens) |\n",
            layers = model.layers,
            heads = model.heads,
            channels = model.channels,
            block = model.block,
            vocab = model.vocab,
            version = env!("CARGO_PKG_VERSION"),
            dataset = config.dataset(),
            sequences = batch.sequences,
            step_tokens = batch.tokens,
        );
        // Writing to a string does not fail.
        if let Some((step, Evaluated { train, val })) = self.evaluated {
            let _ = writeln!(
                text,
                "| loss at step {step} | training {:.4}, validation {:.4} |",
                train.mean, val.mean
            );
        }
        if let Some(best) = position.best_val_loss {
            let at = position.best_step.map_or(String::new(), |step| format!(", at step {step}"));
            let _ = writeln!(text, "| best validation loss | {best:.4}{at} |");
        }
        let _ = write!(
            text,
            "\n## Use\n\n```python\nfrom transformers import pipeline\n\n\
             generate = pipeline(\"text-generation\", \"{name}\")\n\
             print(generate(\"Once\", max_new_tokens=100)[0][\"generated_text\"])\n```\n\n\
             ## Command\n\n```sh\n{command}\n```\n\n\
             ## Config\n\n```python\n{config}```\n",
            command = self.command,
            config = config.to_python(),
        );
        text
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::trainer::Estimate;
    use fitgpt_checkpoint::Scaler;

    fn write_at(folder: &Path, step: u64) -> String {
        let config = Config::default();
        let position = RunPosition {
            step,
            updates: step,
            best_val_loss: Some(1.25),
            best_step: Some(step - 1),
            scaler: Scaler::NONE,
        };
        let loss = Estimate { mean: 1.5, standard_error: 0.1 };
        let card = ModelCard {
            config: &config,
            model: &Model::new(&config, 65),
            position: &position,
            evaluated: Some((step - 1, Evaluated { train: loss, val: loss })),
            tokens: [1000, 100],
            command: "fitgpt train --max_iters=5",
        };
        write(folder, folder, &card).unwrap();
        fs::read_to_string(folder.join(CARD_FILE)).unwrap()
    }

    #[test]
    fn a_card_is_updated_until_the_user_edits_it() {
        let folder = tempfile::tempdir().unwrap();
        let first = write_at(folder.path(), 5);
        for stated in ["openwebtext", "| steps | 5,", "validation 1.5000", "1.2500, at step 4"] {
            assert!(first.contains(stated), "{stated}: {first}");
        }
        assert!(first.contains("fitgpt train --max_iters=5") && first.contains("n_layer = 12"));
        assert!(write_at(folder.path(), 6).contains("| steps | 6,"));
        for edited in [first.replace("Trained", "trained"), String::new(), "# Mine\n".to_owned()] {
            fs::write(folder.path().join(CARD_FILE), &edited).unwrap();
            assert_eq!(write_at(folder.path(), 7), edited);
        }
    }

    #[test]
    fn words_are_quoted_for_a_shell() {
        assert_eq!(quoted("--out_dir=out-a"), "--out_dir=out-a");
        assert_eq!(quoted("--start=it's"), r"'--start=it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
