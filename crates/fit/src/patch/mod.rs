//! Patches for nanoGPT under PyTorch: reads the user's own files and makes a diff.
//!
//! A patch finds the sites that it changes by their structure (`pattern`), so it also works on
//! files with other edits. It applies completely or not at all: if one of its sites is missing, it
//! changes nothing and reports what it looked for. A site that is not certain counts as missing.
//! Patched files are recognised, so patching twice equals patching once.
//!
//! Only `folder` reads and writes files; everything else works on text.
//!
//! Promise: a patched nanoGPT trains the same. Test: `tests/patch/check.py`.

mod anchor;
mod diff;
pub mod folder;
mod python;
mod edit;
mod changes;
mod pattern;
mod words;
#[cfg(test)]
mod tests;

use std::fmt;

pub use crate::fit::Patch;
use fitgpt_files::attempt::Attempt;

pub use self::{
    anchor::{Anchor, SyntaxFault},
    diff::unified_diff,
};
use self::{
    edit::{Site, edited},
    python::PythonFile,
};

/// One of the two files that patches change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum File {
    /// `train.py`.
    Train,
    /// `model.py`.
    Model,
}

impl File {
    /// Both, in the order of a diff.
    pub const ALL: [Self; 2] = [Self::Train, Self::Model];

    /// The file's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Train => "train.py",
            Self::Model => "model.py",
        }
    }
}

impl fmt::Display for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The patch that `--only` names.
///
/// # Errors
///
/// No patch has this name.
pub fn named(name: &str) -> Result<Patch, PatchError> {
    Patch::find(name).ok_or_else(|| PatchError::NoSuchPatch { name: name.to_owned() })
}

/// The state of each site of `patch`.
fn sites(patch: Patch, train: &PythonFile<'_>, model: &PythonFile<'_>) -> Vec<Site> {
    match patch {
        Patch::LossAlone => changes::alone::sites(train, model),
        Patch::EvalBatchSize => changes::evaluation::sites(train),
        Patch::DropStaleLogits => changes::logits::sites(train),
        Patch::ChunkedLoss => changes::loss::sites(train, model),
        Patch::CheckpointBlocks => changes::blocks::sites(train, model),
        Patch::CheckpointToCpu => changes::resume::sites(train),
        Patch::SaveBeforeEval => changes::save::sites(train),
        Patch::GradScaler => changes::scaler::sites(train),
    }
}

/// A site that a patch needs and did not find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotFound {
    /// The patch, which changed nothing.
    pub patch: Patch,
    /// The file that was searched.
    pub file: File,
    /// What it looked for.
    pub looked_for: Anchor,
}

/// Both files after patching, and the outcome of every patch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patched {
    /// The text of `train.py`.
    pub train: String,
    /// The text of `model.py`.
    pub model: String,
    /// Patches that changed something.
    pub applied: Vec<Patch>,
    /// Patches that the files already had.
    pub already: Vec<Patch>,
    /// Why the others changed nothing.
    pub not_found: Vec<NotFound>,
}

/// Why a file could not be patched at all.
#[derive(Debug, thiserror::Error)]
pub enum PatchError {
    /// The text does not split into statements.
    NotPython {
        /// Which file.
        file: File,
        /// The line, counted from 1.
        line: usize,
        /// What is wrong there.
        what: SyntaxFault,
    },
    /// No patch has this name.
    NoSuchPatch {
        /// What was asked for.
        name: String,
    },
    /// A file cannot be read or written.
    File {
        /// Read, back up or write.
        doing: Attempt,
        /// Which file.
        path: std::path::PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
}

/// Applies all patches, or only some, to the texts of `train.py` and `model.py`.
///
/// # Errors
///
/// A text that does not split into Python statements. A patch whose site is missing is not an
/// error: it is listed in [`Patched::not_found`].
pub fn apply(train: &str, model: &str, only: Option<&[Patch]>) -> Result<Patched, PatchError> {
    let mut patched = Patched {
        train: train.to_owned(),
        model: model.to_owned(),
        applied: Vec::new(),
        already: Vec::new(),
        not_found: Vec::new(),
    };
    let picked = |patch: &Patch| only.is_none_or(|only| only.contains(patch));
    for patch in Patch::ALL.into_iter().filter(picked) {
        patched.add(patch)?;
    }
    Ok(patched)
}

impl Patched {
    /// The text of a file.
    pub fn text(&self, file: File) -> &str {
        match file {
            File::Train => &self.train,
            File::Model => &self.model,
        }
    }

    fn add(&mut self, patch: Patch) -> Result<(), PatchError> {
        let train = PythonFile::read(File::Train, &self.train)?;
        let model = PythonFile::read(File::Model, &self.model)?;
        let (mut train_edits, mut model_edits, mut missing) = (Vec::new(), Vec::new(), Vec::new());
        for place in sites(patch, &train, &model) {
            match place {
                Site::Change(File::Train, edits) => train_edits.extend(edits),
                Site::Change(File::Model, edits) => model_edits.extend(edits),
                Site::Already => {}
                Site::Missing(file, looked_for) => {
                    missing.push(NotFound { patch, file, looked_for });
                }
            }
        }
        if !missing.is_empty() {
            self.not_found.append(&mut missing);
        } else if train_edits.is_empty() && model_edits.is_empty() {
            self.already.push(patch);
        } else {
            let texts = (edited(&self.train, train_edits), edited(&self.model, model_edits));
            (self.train, self.model) = texts;
            self.applied.push(patch);
        }
        Ok(())
    }
}
