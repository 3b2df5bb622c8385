//! A run holds its folder, not the folder's path.
//!
//! On Linux a run writes through the open handle's path (`/proc/self/fd/…`), so that a folder that
//! is moved during a save stays the one that is written to. Before every commit and every line of
//! the log, the path must still refer to that folder.
//!
//! Promise: a run writes only into its own folder, also if its path comes to refer to another one,
//! and a run that is replaced is kept until the new one has saved. Test:
//! `crates/checkpoint/src/tests/owner.rs`, `tests/runs/folders.rs`.

use std::{
    io::ErrorKind,
    path::{Path, PathBuf},
};

use fitgpt_files::{
    disk::{self, Disk, HeldPath},
    os::FileIdentity,
};

use super::{CheckpointError, MANIFEST_FILE, Result, commit, manifest::Manifest};

/// How many names are tried for a folder next to another.
const NAMES: u32 = 100;

/// The folder of a run, checked before everything that the run writes.
///
/// A path may come to refer to another folder while a run trains: after `mv out out.old`, a second
/// run may begin in `out`. The lock does not prevent that, because it moves with its folder. A folder
/// that moves after the check is still the one that is written to, if the system can express it
/// ([`Self::dir`]).
#[derive(Debug)]
pub struct HeldFolder {
    disk: Disk,
    path: PathBuf,
    identity: Option<FileIdentity>,
    run_id: String,
    held: HeldPath,
}

impl HeldFolder {
    /// The folder at `path`, where the run `run_id` has begun.
    pub fn of(path: &Path, run_id: &str) -> Result<Self> {
        Self::on(&Disk::real(), path, run_id)
    }

    /// [`Self::of`] on `disk`.
    pub(crate) fn on(disk: &Disk, path: &Path, run_id: &str) -> Result<Self> {
        let held = disk.hold(path)?;
        Ok(Self {
            disk: disk.clone(),
            path: path.to_owned(),
            identity: disk.identity(&held.path)?,
            run_id: run_id.to_owned(),
            held,
        })
    }

    /// Its path when the run began, for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path to write to: it refers to this folder wherever it was moved to, if possible.
    pub fn dir(&self) -> &Path {
        &self.held.path
    }

    /// An error with the path that the user knows.
    pub fn named(&self, error: CheckpointError) -> CheckpointError {
        match error {
            CheckpointError::Io { action, path, source } => {
                let path =
                    path.strip_prefix(self.dir()).map_or(path.clone(), |rest| self.path.join(rest));
                CheckpointError::Io { action, path, source }
            }
            other => other,
        }
    }

    /// Whether the path still refers to this folder. One call of the operating system, so that
    /// every line of a log can be checked.
    pub fn check_path(&self) -> Result<()> {
        let now = self.disk.identity(&self.path)?;
        if now.is_some() && now == self.identity {
            return Ok(());
        }
        Err(CheckpointError::FolderLost { path: self.path.clone() })
    }

    /// Whether it is still the run's folder: its path refers to it, and its manifest has the run's
    /// id. A folder that was emptied may have been given to another run.
    pub fn check(&self) -> Result<()> {
        self.check_path()?;
        let path = commit::placed_or_placing(&self.disk, &self.path, MANIFEST_FILE)?;
        match Manifest::read(&self.disk, &path) {
            Ok(Some(manifest)) if manifest.run_id != self.run_id => {
                Err(CheckpointError::FolderLost { path: self.path.clone() })
            }
            Err(error @ CheckpointError::Io { .. }) => Err(error),
            // A manifest that is missing or damaged is nobody's.
            _ => Ok(()),
        }
    }
}

/// Creates a folder next to `folder` for its run, or in the current folder if that is not possible.
pub fn new_folder_next_to(disk: &Disk, folder: &Path, run_id: &str) -> Result<PathBuf> {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let mut first_error = None;
    for place in [folder, Path::new("here")] {
        for number in 1..NAMES {
            let number = if number == 1 { String::new() } else { format!("-{number}") };
            let path = place.with_file_name(format!("{name}-{run_id}{number}"));
            match disk.create_dir(&path) {
                Ok(()) => {
                    disk.sync_dir(disk::parent_of(&path))?;
                    return Ok(path);
                }
                Err(error) if error.source.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => {
                    first_error.get_or_insert(error);
                    break;
                }
            }
        }
    }
    let taken = || CheckpointError::FolderLost { path: folder.to_owned() };
    Err(first_error.map_or_else(taken, CheckpointError::from))
}
