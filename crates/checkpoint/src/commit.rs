//! Saves are atomic commits, and earlier checkpoints are kept.
//!
//! ```text
//! .saving-<id>/         the new files, written and synced next to the old ones
//! .saved-<id>/          the same folder, renamed: this commits the save
//! checkpoints/step-…/   the old checkpoint, if it is kept: hard links to the same files
//! .placing-<id>/        the new folder, renamed again
//! model.safetensors, …  the new files, moved to their names one after the other
//! ```
//!
//! The rename to `.saved-<id>` is the commit. The steps after it are completed at once, or by
//! `recover` after a crash. The checkpoint of a folder is therefore, file by file, the content of
//! the newest `.saved-<id>` or `.placing-<id>`, and otherwise of the folder itself. Readers look up
//! files in this order (`locate`) and change nothing, so a folder can be sampled from while a run
//! saves into it.
//!
//! Only real folders and files with our names are moved or removed, never links.
//!
//! The checkpoint before the last one gets a second name in `checkpoints/step-…` (hard links)
//! before the new files are renamed over it, so that the folder holds a model at any instant; a
//! file system without hard links moves them.
//!
//! Promise: a crash at any time leaves a checkpoint that resumes bit for bit. Test: a simulated
//! crash before every file operation in `crates/checkpoint/src/tests`; kills in
//! `tests/runs/training.rs`.

use std::{
    io,
    path::{Path, PathBuf},
};

use fitgpt_files::disk::{self, Disk};

use super::{
    CONFIG_FILE, CheckpointError, FILES, MANIFEST_FILE, MODEL_FILE, Result, carry,
    config::{Architecture, MAX_CONFIG_BYTES},
    id::SaveId,
    manifest::{Manifest, Retention},
};

/// A save that is not committed; abandoned if its run has ended.
const SAVING: &str = ".saving-";
/// A committed save; the old files may still be in the folder.
const SAVED: &str = ".saved-";
/// A committed save; the old files are no longer needed in the folder.
const PLACING: &str = ".placing-";
/// Earlier checkpoints, in `out_dir`.
const KEPT: &str = "checkpoints";
/// A checkpoint that is being moved into [`KEPT`].
const KEEPING: &str = ".keeping-";
/// An earlier checkpoint.
const STEP: &str = "step-";
/// A checkpoint that is being removed.
const REMOVING: &str = ".removing-";

/// The folder of the best weights, in `out_dir`.
pub fn best_dir(out_dir: &Path) -> PathBuf {
    out_dir.join("best")
}

/// Replaces the last checkpoint of the run in `dir`, which turned out to be useless, by the newest
/// kept one, and returns its step; `None` if none is kept.
pub fn roll_back(disk: &Disk, dir: &Path) -> Result<Option<u64>> {
    recover_one(disk, dir)?;
    let Some(last) = readable_manifest(disk, dir)? else { return Ok(None) };
    let earlier = kept_checkpoints(disk, dir)?
        .into_iter()
        .filter(|(kept, _)| kept.run_id == last.run_id && kept.save_id < last.save_id);
    let Some((kept, folder)) = earlier.max_by(|(a, _), (b, _)| a.save_id.cmp(&b.save_id)) else {
        return Ok(None);
    };
    let saved = dir.join(format!("{SAVED}{}", SaveId::after(present_id(disk, dir)?, 0)));
    disk.rename(&folder, &saved)?;
    disk.sync_dir(&dir.join(KEPT))?;
    disk.sync_dir(dir)?;
    complete(disk, dir, &saved, Phase::Saved)?;
    Ok(Some(kept.step))
}

/// The path of the file `name` of the checkpoint that was saved last in `dir`, whether or not it
/// exists.
pub(super) fn placed_or_placing(disk: &Disk, dir: &Path, name: &str) -> Result<PathBuf> {
    if let Some((_, folder, _)) = committed(disk, dir)?.pop() {
        let path = folder.join(name);
        if disk.is_file(&path)? {
            return Ok(path);
        }
    }
    Ok(dir.join(name))
}

/// Writes files with `fill`, which gets a folder and the save's id (which includes `fingerprint`),
/// and commits them as the checkpoint of `dir`. `fill` syncs what it writes. Nothing is written
/// unless `check` finds that the folder is still the run's; it is called again before the commit,
/// because `fill` may take minutes. If the folder is moved between that check and the rename, the rename fails:
/// what it would rename has moved too.
pub(super) fn commit(
    disk: &Disk,
    dir: &Path,
    check: impl Fn() -> Result<()>,
    fingerprint: u64,
    fill: impl FnOnce(&Path, SaveId) -> Result<()>,
) -> Result<SaveId> {
    check()?;
    disk.create_dirs(dir)?;
    recover_one(disk, dir)?;
    let id = SaveId::after(present_id(disk, dir)?, fingerprint);
    let saving = dir.join(format!("{SAVING}{id}"));
    let saved = dir.join(format!("{SAVED}{id}"));
    disk.create_dir(&saving)?;
    let committed = fill(&saving, id)
        .and_then(|()| Ok(disk.sync_dir(&saving)?))
        .and_then(|()| check())
        .and_then(|()| Ok(disk.rename(&saving, &saved)?));
    if let Err(error) = committed {
        // An equal run that now has the folder may have given its save the same name.
        check()?;
        // Report the first error; the next save or resume cleans up if this cannot.
        let _ = disk.remove_files_in(&saving, &FILES);
        return Err(error);
    }
    disk.sync_dir(dir)?;
    complete(disk, dir, &saved, Phase::Saved)?;
    Ok(id)
}

/// Completes what a crash interrupted in one folder: moves the files of a committed save to their
/// names and removes an uncommitted one.
pub(super) fn recover_one(disk: &Disk, dir: &Path) -> Result<()> {
    let mut all = committed(disk, dir)?;
    if let Some((_, newest, phase)) = all.pop() {
        // Remove the older ones first: if a crash came in between, they would look like the newest,
        // and their remaining files would replace this one's.
        for (_, older, _) in all {
            disk.remove_files_in(&older, &FILES)?;
        }
        complete(disk, dir, &newest, phase)?;
    }
    for (_, abandoned) in folders(disk, dir, SAVING)? {
        disk.remove_files_in(&abandoned, &FILES)?;
    }
    // A power failure may have undone the last rename of a kept checkpoint.
    despite_removals(|| finish_keeping(disk, &dir.join(KEPT)))
}

/// The progress of a committed save.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Saved,
    Placing,
}

/// Moves the files of `folder`, a committed save, to their names in `dir`.
fn complete(disk: &Disk, dir: &Path, folder: &Path, phase: Phase) -> Result<()> {
    let mut placing = folder.to_owned();
    // A power failure may have undone the rename below and not the moves after it. If the model is
    // not there, the files in `dir` already belong to this save.
    if phase == Phase::Saved && disk.is_file(&folder.join(MODEL_FILE))? {
        let manifest = Manifest::read(disk, &folder.join(MANIFEST_FILE))?;
        set_old_aside(disk, dir, manifest.as_ref())?;
        let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        placing = dir.join(name.replacen(SAVED, PLACING, 1));
        disk.rename(folder, &placing)?;
    }
    for name in FILES {
        if disk.is_file(&placing.join(name))? {
            disk.rename(&placing.join(name), &dir.join(name))?;
        }
    }
    disk.sync_dir(dir)?;
    disk.remove_files_in(&placing, &FILES)?;
    despite_removals(|| prune(disk, dir))
}

/// Moves the checkpoint in `dir` to the kept ones if the new manifest keeps it; otherwise removes
/// its manifest, which would not match the new files.
fn set_old_aside(disk: &Disk, dir: &Path, new: Option<&Manifest>) -> Result<()> {
    let kept = dir.join(KEPT);
    let manifest_path = dir.join(MANIFEST_FILE);
    let old = readable_manifest(disk, dir)?;
    if let (Some(old), Some(new)) = (old, new)
        && old.is_saved()
        && (is_kept(&old, new.keep, 1) || old.is_other_branch(new))
        && old.run_id == new.run_id
    {
        return despite_removals(|| keep(disk, dir, &kept, old.step));
    }
    disk.remove_file(&manifest_path)?;
    despite_removals(|| finish_keeping(disk, &kept))
}

/// Does something to kept checkpoints. Somebody may remove them, or their whole folder, at the same
/// time: that must not end a run, so it begins again.
fn despite_removals(mut work: impl FnMut() -> Result<()>) -> Result<()> {
    const ATTEMPTS: u32 = 10;
    let mut attempt = 1;
    loop {
        match work() {
            Err(CheckpointError::Io { source, .. })
                if source.kind() == io::ErrorKind::NotFound && attempt < ATTEMPTS =>
            {
                attempt += 1;
            }
            done => return done,
        }
    }
}

/// Moves the checkpoint of `step` in `dir` to `kept`.
fn keep(disk: &Disk, dir: &Path, kept: &Path, step: u64) -> Result<()> {
    disk.ensure_dir(kept)?;
    let keeping = kept.join(format!("{KEEPING}{step}"));
    disk.ensure_dir(&keeping)?;
    // Sync before the first file moves into it.
    disk.sync_dir(kept)?;
    disk.sync_dir(dir)?;
    keep_files(disk, dir, &keeping)?;
    disk.sync_dir(&keeping)?;
    disk.sync_dir(dir)?;
    finish_keeping(disk, kept)
}

/// The manifest in `folder`; `None` if it is missing or damaged, which must not stop a committed
/// save. A disk error must, or a good checkpoint would be lost.
pub(super) fn readable_manifest(disk: &Disk, folder: &Path) -> Result<Option<Manifest>> {
    match Manifest::read(disk, &folder.join(MANIFEST_FILE)) {
        Err(error @ CheckpointError::Io { .. }) => Err(error),
        other => Ok(other.ok().flatten()),
    }
}

/// Links the files of `dir` into `keeping`, so that other programs find a model in `dir` at any
/// time; moves them if the file system has no hard links.
fn keep_files(disk: &Disk, dir: &Path, keeping: &Path) -> Result<()> {
    if disk.is_file(&keeping.join(MANIFEST_FILE))? {
        return Ok(());
    }
    // The manifest is the last of `FILES`: while it is missing there, files are left to move.
    for name in FILES {
        let (from, to) = (dir.join(name), keeping.join(name));
        if !disk.is_file(&from)? {
            continue; // moved before a crash
        }
        disk.remove_file(&to)?;
        if !disk.link(&from, &to)? {
            disk.rename(&from, &to)?;
        }
    }
    Ok(())
}

/// Renames checkpoints that were moved completely to their final names.
fn finish_keeping(disk: &Disk, kept: &Path) -> Result<()> {
    if !disk.is_folder(kept)? {
        return Ok(());
    }
    for name in disk.list(kept)? {
        if name.to_str().is_some_and(|name| name.starts_with(REMOVING)) {
            empty(disk, &kept.join(&name))?; // left by a crash
        }
        let Some(step) = name.to_str().and_then(|name| name.strip_prefix(KEEPING)) else {
            continue;
        };
        let keeping = kept.join(&name);
        let (Ok(step), true) = (step.parse::<u64>(), disk.is_folder(&keeping)?) else { continue };
        let Some(manifest) = readable_manifest(disk, &keeping)? else { continue };
        let named = kept.join(format!("{STEP}{step:08}"));
        let target = match readable_manifest(disk, &named)? {
            // A crash came after the rename: only clean up.
            Some(there) if there.save_id == manifest.save_id => {
                remove_checkpoint(disk, &keeping)?;
                continue;
            }
            // The same step again, after a resume from an earlier one: keep the newer one.
            Some(there) if there.run_id == manifest.run_id => {
                remove_checkpoint(disk, &named)?;
                named
            }
            _ if disk.kind(&named)?.is_none() => named,
            _ => kept.join(format!("{STEP}{step:08}-{}", manifest.save_id)),
        };
        disk.rename(&keeping, &target)?;
    }
    // Also if nothing was renamed now: an earlier sync may have failed.
    Ok(disk.sync_dir(kept)?)
}

/// Removes the kept checkpoints of the run in `dir` that its last save does not keep.
fn prune(disk: &Disk, dir: &Path) -> Result<()> {
    let Some(last) = readable_manifest(disk, dir)? else { return Ok(()) };
    let mut all: Vec<_> = kept_checkpoints(disk, dir)?
        .into_iter()
        .filter(|(kept, _)| kept.run_id == last.run_id && !kept.is_other_branch(&last))
        .collect();
    all.sort_by(|(a, _), (b, _)| b.save_id.cmp(&a.save_id));
    let mut is_changed = false;
    for (later, (kept, folder)) in (1..).zip(all) {
        // Steps after the last one belong to a run that was rolled back.
        let is_undone = kept.step > last.step && last.keep.best_step != Some(kept.step);
        if is_undone || !is_kept(&kept, last.keep, later) {
            remove_checkpoint(disk, &folder)?;
            is_changed = true;
        }
    }
    // One that comes back after a power failure would count as the last one.
    if is_changed { Ok(disk.sync_dir(&dir.join(KEPT))?) } else { Ok(()) }
}

/// Whether a checkpoint with `later` later ones is kept.
fn is_kept(kept: &Manifest, keep: Retention, later: u64) -> bool {
    later < keep.last || keep.best_step == Some(kept.step)
}

/// The kept checkpoints of `dir`, with their folders.
pub(super) fn kept_checkpoints(disk: &Disk, dir: &Path) -> Result<Vec<(Manifest, PathBuf)>> {
    let kept = dir.join(KEPT);
    let mut found = Vec::new();
    if !disk.is_folder(&kept)? {
        return Ok(found);
    }
    for name in disk.list(&kept)? {
        let folder = kept.join(&name);
        if name.to_str().is_some_and(|name| name.starts_with(STEP))
            && disk.is_folder(&folder)?
            && let Some(manifest) = readable_manifest(disk, &folder)?
        {
            found.push((manifest, folder));
        }
    }
    Ok(found)
}

/// Removes a checkpoint of ours, and its folder if nothing else is in it. The folder is renamed
/// first, so that what is left after a crash is not taken for a checkpoint and is removed later.
pub(super) fn remove_checkpoint(disk: &Disk, folder: &Path) -> Result<()> {
    let removing = name_while_removed(folder);
    empty(disk, &removing)?;
    if disk.kind(&removing)?.is_some() {
        // The user put files into it: remove those of the checkpoint and keep the folder.
        return empty(disk, folder);
    }
    disk.rename(folder, &removing)?;
    // Otherwise a power failure could leave the old name on a folder without a manifest.
    disk.sync_dir(disk::parent_of(folder))?;
    finish_removing(disk, folder)
}

/// Completes [`remove_checkpoint`] after a crash.
pub(super) fn finish_removing(disk: &Disk, folder: &Path) -> Result<()> {
    let removing = name_while_removed(folder);
    empty(disk, &removing)?;
    if disk.is_folder(&removing)? && disk.kind(folder)?.is_none() {
        disk.rename(&removing, folder)?; // the user's files keep their path
    }
    Ok(())
}

fn name_while_removed(folder: &Path) -> PathBuf {
    let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    folder.with_file_name(format!("{REMOVING}{}", name.trim_start_matches('.')))
}

/// Removes our files in `folder`, the manifest first, and the folder itself if nothing else is in
/// it.
fn empty(disk: &Disk, folder: &Path) -> Result<()> {
    if !disk.is_folder(folder)? {
        return Ok(());
    }
    disk.remove_file(&folder.join(MANIFEST_FILE))?;
    for name in FILES.iter().chain(&carry::TOKENIZER_FILES) {
        disk.remove_file(&folder.join(name))?;
    }
    Ok(disk.remove_empty_dir(folder)?)
}

/// Whether the weights in `dir` are ours.
pub(super) fn is_ours(disk: &Disk, dir: &Path) -> bool {
    let config = disk.read(&dir.join(CONFIG_FILE), MAX_CONFIG_BYTES);
    config.is_ok_and(|text| Architecture::save_id(&text).is_some())
}

/// The id of the save whose files are in `dir`. After [`recover_one`] all files have the same id.
fn present_id(disk: &Disk, dir: &Path) -> Result<Option<SaveId>> {
    match disk.read(&dir.join(CONFIG_FILE), MAX_CONFIG_BYTES) {
        Ok(text) => Ok(Architecture::save_id(&text)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error.into()), // the next id must be greater than this one
    }
}

/// The committed saves in `dir` whose files are not in place yet, oldest first.
fn committed(disk: &Disk, dir: &Path) -> Result<Vec<(SaveId, PathBuf, Phase)>> {
    let mut all = Vec::new();
    for (prefix, phase) in [(SAVED, Phase::Saved), (PLACING, Phase::Placing)] {
        let found = folders(disk, dir, prefix)?;
        all.extend(found.into_iter().map(|(id, folder)| (id, folder, phase)));
    }
    all.sort_by_key(|(id, _, phase)| (*id, *phase));
    Ok(all)
}

/// The folders in `dir` that are named `prefix` and a save id, oldest first.
fn folders(disk: &Disk, dir: &Path, prefix: &str) -> Result<Vec<(SaveId, PathBuf)>> {
    let mut found = Vec::new();
    for name in disk.list(dir)? {
        let id = name.to_str().and_then(|name| name.strip_prefix(prefix)?.parse().ok());
        if let Some(id) = id
            && disk.is_folder(&dir.join(&name))?
        {
            found.push((id, dir.join(&name)));
        }
    }
    found.sort();
    Ok(found)
}
