//! One save is one commit.
//!
//! ```text
//! .saving-<id>/   the new files, written and synced beside the old ones
//! .saved-<id>/    the same folder, renamed: from here on the save has happened
//! model.safetensors, config.json, state.safetensors
//!                 the files, renamed one after the other onto their names
//! ```
//!
//! The one rename of the folder decides. What comes after it is rolled forward, now or by
//! [`recover`] after a crash. The checkpoint of a folder is therefore, file by file, what the
//! newest `.saved-<id>/` still holds, and else what lies in the folder itself. Readers look at
//! it this way ([`locate`]) and change nothing, so that one may sample beside a run.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use super::{
    CONFIG_FILE, MODEL_FILE, Result, STATE_FILE,
    config::Architecture,
    disk::{Disk, failed},
    id::SaveId,
};
use crate::attempt::Attempt;

/// A save that has not happened, and never will once its run has ended.
const SAVING: &str = ".saving-";
/// A save that has happened and is not yet in place.
const SAVED: &str = ".saved-";

/// Everything that a save may write.
const FILES: [&str; 3] = [MODEL_FILE, CONFIG_FILE, STATE_FILE];

/// Finishes what a crash interrupted, in `dir` and its `best/`: a save that was committed is put
/// in place, one that was not is removed. For the holder of the folder's [`super::Lock`] only:
/// it would remove what another run is writing.
pub fn recover(dir: &Path) -> Result<()> {
    let disk = Disk::default();
    for dir in [dir.to_owned(), super::best_dir(dir)] {
        if dir.is_dir() {
            recover_one(&disk, &dir)?;
        }
    }
    Ok(())
}

/// Whether `dir` holds a checkpoint's weights.
pub fn exists(dir: &Path) -> bool {
    locate(dir, MODEL_FILE).is_ok_and(|path| path.is_file())
}

/// Where the file called `name` of the checkpoint in `dir` is, or would be.
pub fn locate(dir: &Path, name: &str) -> Result<PathBuf> {
    let newest = folders(dir, SAVED)?.pop().map(|(_, folder)| folder.join(name));
    Ok(newest.filter(|path| path.exists()).unwrap_or_else(|| dir.join(name)))
}

/// Writes files with `fill`, which gets a folder and the save's id, and makes them the checkpoint
/// of `dir`. `fill` syncs what it writes.
pub(super) fn commit(
    disk: &Disk,
    dir: &Path,
    fill: impl FnOnce(&Path, SaveId) -> Result<()>,
) -> Result<SaveId> {
    disk.create_dirs(dir)?;
    recover_one(disk, dir)?;
    let id = SaveId::after(present_id(dir));
    let saving = dir.join(format!("{SAVING}{id}"));
    let saved = dir.join(format!("{SAVED}{id}"));
    disk.create_dir(&saving)?;
    let committed = fill(&saving, id)
        .and_then(|()| disk.sync_dir(&saving))
        .and_then(|()| disk.rename(&saving, &saved));
    if let Err(error) = committed {
        // What went wrong is worth more than that it could not be cleaned up; the next save or
        // resume tries again.
        let _ = disk.remove_dir(&saving);
        return Err(error);
    }
    disk.sync_dir(dir)?;
    roll_forward(disk, dir, &saved)?;
    Ok(id)
}

/// [`recover`] for one folder.
pub(super) fn recover_one(disk: &Disk, dir: &Path) -> Result<()> {
    let mut saved = folders(dir, SAVED)?;
    if let Some((_, newest)) = saved.pop() {
        // The older ones first: left alone they would look like the newest after a crash, and
        // their remains would be rolled over this one's files.
        for (_, older) in saved {
            disk.remove_dir(&older)?;
        }
        roll_forward(disk, dir, &newest)?;
    }
    for (_, abandoned) in folders(dir, SAVING)? {
        disk.remove_dir(&abandoned)?;
    }
    Ok(())
}

/// Puts the files of the folder `saved` in their places in `dir`.
fn roll_forward(disk: &Disk, dir: &Path, saved: &Path) -> Result<()> {
    for name in FILES {
        let from = saved.join(name);
        if from.exists() {
            disk.rename(&from, &dir.join(name))?;
        }
    }
    disk.sync_dir(dir)?;
    disk.remove_dir(saved)
}

/// The save whose files lie in `dir`. After [`recover_one`] `config.json` is as good as any.
fn present_id(dir: &Path) -> Option<SaveId> {
    Architecture::save_id(&fs::read(dir.join(CONFIG_FILE)).ok()?)
}

/// The folders in `dir` that are named `prefix` and a save id, oldest first.
fn folders(dir: &Path, prefix: &str) -> Result<Vec<(SaveId, PathBuf)>> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(failed(Attempt::List, dir))?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(failed(Attempt::List, dir))?;
        let name = entry.file_name();
        let id = name.to_str().and_then(|name| name.strip_prefix(prefix)?.parse().ok());
        if let Some(id) = id {
            found.push((id, entry.path()));
        }
    }
    found.sort();
    Ok(found)
}
