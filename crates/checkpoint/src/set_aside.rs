//! A run that is replaced is set aside until the new one has saved.
//!
//! ```text
//! .replaced-<id>/   the old run's files; <id> is the run that replaces it
//! ```
//!
//! The first commit of that run decides. Until then the old run is the checkpoint of the folder:
//! readers find its files there ([`current`]), and [`resolve`] puts them back after a failed start
//! or a crash. After it, [`resolve`] removes them. `best/` and `checkpoints/` stay in place until
//! then, because a run that has not saved does not write to them.

use std::path::{Path, PathBuf};

use fitgpt_files::disk::{self, Disk};

use super::{
    CheckpointError, FILES, LOG_FILE, MANIFEST_FILE, Result, carry,
    commit::{self, best_dir},
    id,
    manifest::Manifest,
};

/// A run that is being replaced.
const REPLACED: &str = ".replaced-";

/// The files of a run that are set aside. Its folders stay, with whatever the user has put there.
fn names() -> impl Iterator<Item = &'static str> {
    FILES.into_iter().chain(carry::TOKENIZER_FILES).chain([LOG_FILE])
}

/// Sets the run in `dir` aside for the new run `run_id`. Only for the holder of the folder's
/// [`super::Lock`], after [`super::recover`].
pub fn set_aside(disk: &Disk, dir: &Path, run_id: &str) -> Result<()> {
    let aside = dir.join(format!("{REPLACED}{run_id}"));
    disk.create_dir(&aside)?;
    // Sync before the first file moves into it.
    disk.sync_dir(dir)?;
    for name in names() {
        if disk.is_file(&dir.join(name))? {
            disk.rename(&dir.join(name), &aside.join(name))?;
        }
    }
    disk.sync_dir(&aside)?;
    Ok(disk.sync_dir(dir)?)
}

/// Puts the run that `run_id` was to replace back, unless `run_id` has saved. Returns whether there
/// was one to put back.
pub fn put_back(dir: &Path, run_id: &str) -> Result<bool> {
    let disk = Disk::real();
    let waiting = all(&disk, dir)?.into_iter().find(|(id, _)| id == run_id);
    let Some((id, aside)) = waiting else { return Ok(false) };
    if has_saved(&disk, dir, &id)? {
        return Ok(false);
    }
    restore(&disk, dir, &id, &aside)?;
    Ok(true)
}

/// Decides about every run that was set aside in `dir`: removes it if its successor has saved, and
/// otherwise puts it back.
pub(super) fn resolve(disk: &Disk, dir: &Path) -> Result<()> {
    for (id, aside) in all(disk, dir)? {
        if has_saved(disk, dir, &id)? {
            remove(disk, dir, &id, &aside)?;
        } else {
            restore(disk, dir, &id, &aside)?;
        }
    }
    Ok(())
}

/// The folder of a run that was set aside and is still the checkpoint of `dir`. A file that is not
/// there is in `dir`: a crash came while the files were moved.
pub(super) fn current(disk: &Disk, dir: &Path) -> Result<Option<PathBuf>> {
    for (id, aside) in all(disk, dir)? {
        if !has_saved(disk, dir, &id)? {
            return Ok(Some(aside));
        }
    }
    Ok(None)
}

/// Whether the best weights in `best` are those of a run that has been replaced, and are about to be
/// removed.
pub(super) fn is_replaced(disk: &Disk, dir: &Path, best: &Path) -> Result<bool> {
    for (id, _) in all(disk, dir)? {
        let other = |manifest: Manifest| manifest.run_id != id;
        if has_saved(disk, dir, &id)? && commit::readable_manifest(disk, best)?.is_none_or(other) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The runs that were set aside, with the ids of their successors. There is at most one, unless
/// somebody has copied folders.
fn all(disk: &Disk, dir: &Path) -> Result<Vec<(String, PathBuf)>> {
    let mut found = Vec::new();
    for name in disk.list(dir)? {
        let id = name.to_str().and_then(|name| name.strip_prefix(REPLACED));
        if let Some(id) = id
            && id::is_run_id(id)
            && disk.is_folder(&dir.join(&name))?
        {
            found.push((id.to_owned(), dir.join(&name)));
        }
    }
    Ok(found)
}

/// Whether the run `id` has committed a save in `dir`.
fn has_saved(disk: &Disk, dir: &Path, id: &str) -> Result<bool> {
    let path = commit::placed_or_placing(disk, dir, MANIFEST_FILE)?;
    match Manifest::read(disk, &path) {
        Err(error @ CheckpointError::Io { .. }) => Err(error),
        read => Ok(read.ok().flatten().is_some_and(|it| it.run_id == id && it.is_saved())),
    }
}

/// Puts the files in `aside` back, after removing those of the run `id`.
fn restore(disk: &Disk, dir: &Path, id: &str, aside: &Path) -> Result<()> {
    let top = commit::readable_manifest(disk, dir)?;
    // It was written after the last file was set aside, and it is removed last: while it is there,
    // the files next to it are the new run's.
    if top.is_some_and(|manifest| manifest.run_id == id) {
        for name in names().filter(|name| *name != MANIFEST_FILE) {
            disk.remove_file(&dir.join(name))?;
        }
        disk.sync_dir(dir)?;
        disk.remove_file(&dir.join(MANIFEST_FILE))?;
        disk.sync_dir(dir)?;
    }
    for name in names() {
        let (from, to) = (aside.join(name), dir.join(name));
        if !disk.is_file(&from)? {
            continue;
        }
        if disk.kind(&to)?.is_some() {
            return Err(CheckpointError::Foreign { path: to });
        }
        disk.rename(&from, &to)?;
    }
    disk.sync_dir(aside)?;
    disk.sync_dir(dir)?;
    disk.remove_empty_dir(aside)?;
    Ok(disk.sync_dir(dir)?)
}

/// Removes what the run `id` replaces: the files in `aside`, and the kept checkpoints and best
/// weights of other runs. Files of the user stay.
fn remove(disk: &Disk, dir: &Path, id: &str, aside: &Path) -> Result<()> {
    for (kept, folder) in commit::kept_checkpoints(disk, dir)? {
        if kept.run_id != id {
            commit::remove_checkpoint(disk, &folder)?;
            // Before `aside` goes: nothing else would remove one that comes back.
            disk.sync_dir(disk::parent_of(&folder))?;
        }
    }
    let best = best_dir(dir);
    commit::finish_removing(disk, &best)?;
    let other = |manifest: Manifest| manifest.run_id != id;
    if disk.is_folder(&best)?
        && commit::is_ours(disk, &best)
        && commit::readable_manifest(disk, &best)?.is_none_or(other)
    {
        commit::remove_checkpoint(disk, &best)?;
    }
    for name in names() {
        disk.remove_file(&aside.join(name))?;
    }
    disk.remove_empty_dir(aside)?;
    Ok(disk.sync_dir(dir)?)
}
