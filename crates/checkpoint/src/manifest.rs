//! `manifest.json`: which files make up a checkpoint, with a checksum for each.
//!
//! It does not list the model card or files that the user adds to the folder. A checkpoint without
//! a manifest was written by an earlier version or by another program. A new run writes a manifest
//! that lists no files before anything else, which marks the folder as its own.
//!
//! The checksums are those that the safetensors headers had already, plus one of `config.json`;
//! they are computed while values are streamed. The manifest also names the run and the checkpoints
//! to keep, so that a recovery decides as the save would have.

use std::{collections::BTreeMap, path::Path};

use fitgpt_files::disk::Disk;
use serde::{Deserialize, Serialize};

use super::{CheckpointError, Result, SaveId, header::Checksum, stamp::NanoGptStamp};

/// More than any manifest, which lists four files.
const MAX_BYTES: u64 = 1 << 20;

/// The files of one save.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Manifest {
    /// The run that saved; its log has the same id.
    pub(super) run_id: String,
    /// The save; its files have the same id.
    pub(super) save_id: String,
    /// The step that comes next.
    pub(super) step: u64,
    /// Which earlier checkpoints are kept.
    pub(super) keep: Retention,
    /// The other files, by name.
    pub(super) files: BTreeMap<String, ManifestFile>,
    /// The `ckpt.pt` in the run's folder that the run began from, or was told to leave alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) nanogpt: Option<NanoGptStamp>,
    /// The checksum of this document with sixteen zeros in its place.
    checksum: String,
}

/// Which checkpoints of a run are kept after a save.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retention {
    /// How many of the last ones, including the new one.
    pub last: u64,
    /// The step of the best evaluation, whose checkpoint is also kept.
    pub best_step: Option<u64>,
}

impl Retention {
    /// Only the new one.
    pub const ONE: Self = Self { last: 1, best_step: None };
}

/// A file in a manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ManifestFile {
    pub(super) bytes: u64,
    /// For a safetensors file, the checksum in its header.
    pub(super) checksum: String,
}

/// The checksum before it is known.
const NO_CHECKSUM: &str = "0000000000000000";

impl Manifest {
    pub(super) fn new(
        id: SaveId,
        run_id: &str,
        step: u64,
        keep: Retention,
        files: BTreeMap<String, ManifestFile>,
        nanogpt: Option<&NanoGptStamp>,
    ) -> Self {
        let mut manifest = Self {
            run_id: run_id.to_owned(),
            save_id: id.to_string(),
            step,
            keep,
            files,
            nanogpt: nanogpt.cloned(),
            checksum: String::new(),
        };
        manifest.checksum = manifest.own_checksum();
        manifest
    }

    /// The manifest of a run that has not saved yet.
    pub(super) fn begun(run_id: &str) -> Self {
        Self::new(SaveId::NONE, run_id, 0, Retention::ONE, BTreeMap::new(), None)
    }

    /// Whether it describes a checkpoint, and not only the run.
    pub(super) fn is_saved(&self) -> bool {
        !self.files.is_empty()
    }

    /// Whether it is later than `last`, and not because steps were undone: the run went on from another
    /// `ckpt.pt`, and this is the only checkpoint of the steps before that.
    pub(super) fn is_other_branch(&self, last: &Self) -> bool {
        self.step > last.step && self.nanogpt != last.nanogpt
    }

    /// The text of the file.
    pub(super) fn to_json(&self) -> String {
        let text = serde_json::to_string_pretty(self).expect("a manifest is plain data");
        format!("{text}\n")
    }

    fn own_checksum(&self) -> String {
        let blank = Self { checksum: NO_CHECKSUM.to_owned(), ..self.clone() };
        Checksum::of_bytes(blank.to_json().as_bytes()).to_string()
    }

    /// Reads the manifest at `path`; `None` if there is none.
    pub(super) fn read(disk: &Disk, path: &Path) -> Result<Option<Self>> {
        let text = match disk.read(path, MAX_BYTES) {
            Err(error) if error.is_not_found() => return Ok(None),
            other => other?,
        };
        let manifest: Self = serde_json::from_slice(&text)
            .map_err(|source| CheckpointError::Json { path: path.to_owned(), source })?;
        // Compared byte for byte, so that even a changed space is detected.
        let is_whole =
            manifest.checksum == manifest.own_checksum() && manifest.to_json().as_bytes() == text;
        if is_whole {
            Ok(Some(manifest))
        } else {
            Err(CheckpointError::Changed { path: path.to_owned() })
        }
    }

    /// Checks `text`, the content of the file at `path`, against what is listed under `name`.
    pub(super) fn check_text(&self, name: &str, path: &Path, text: &[u8]) -> Result<()> {
        let checksum = Checksum::of_bytes(text).to_string();
        self.check(name, path, text.len() as u64, &checksum)
    }

    /// Checks a file's length and checksum against what is listed under `name`.
    pub(super) fn check(&self, name: &str, path: &Path, bytes: u64, checksum: &str) -> Result<()> {
        let is_listed = self
            .files
            .get(name)
            .is_some_and(|listed| listed.bytes == bytes && listed.checksum == checksum);
        if is_listed { Ok(()) } else { Err(CheckpointError::Changed { path: path.to_owned() }) }
    }
}

/// Writes a new file of text, and syncs it.
pub(super) fn write_text(disk: &Disk, path: &Path, text: &str) -> Result<ManifestFile> {
    let mut file = disk.create(path)?;
    file.write_all_at(text.as_bytes(), 0)?;
    file.sync()?;
    let checksum = Checksum::of_bytes(text.as_bytes()).to_string();
    Ok(ManifestFile { bytes: text.len() as u64, checksum })
}
