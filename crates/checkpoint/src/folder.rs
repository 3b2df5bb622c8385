//! The folder of a run: how a run begins in it, where its files are, and the recovery after a crash.
//!
//! Promise: a new run never replaces an old one without `--overwrite`; NaN is never saved; links in
//! a folder are not followed, and other files are not removed. Test: `tests/runs/nothing_lost.rs`,
//! `tests/runs/folders.rs`.

use std::path::{Path, PathBuf};

use fitgpt_files::disk::Disk;

use super::{
    MANIFEST_FILE, MODEL_FILE, Result, commit, id,
    manifest::{Manifest, write_text},
    set_aside,
};

/// A manifest that is being written.
const BEGINNING: &str = ".begin-";

/// Marks `dir` as the folder of the run `run_id`, unless its manifest has that id already. Only for the
/// holder of the folder's [`super::Lock`].
pub fn begin(disk: &Disk, dir: &Path, run_id: &str) -> Result<()> {
    let present = commit::readable_manifest(disk, dir)?;
    if present.is_some_and(|manifest| manifest.run_id == run_id) {
        return Ok(());
    }
    let draft = dir.join(format!("{BEGINNING}{run_id}"));
    write_text(disk, &draft, &Manifest::begun(run_id).to_json())?;
    disk.rename(&draft, &dir.join(MANIFEST_FILE))?;
    Ok(disk.sync_dir(dir)?)
}

/// Removes manifests that a crash left half written.
fn remove_drafts(disk: &Disk, dir: &Path) -> Result<()> {
    for name in disk.list(dir)? {
        let id = name.to_str().and_then(|name| name.strip_prefix(BEGINNING));
        if id.is_some_and(id::is_run_id) {
            disk.remove_file(&dir.join(&name))?;
        }
    }
    Ok(())
}

/// Completes what a crash interrupted, in `dir` and its `best/`: moves the files of a committed
/// save to their names and removes an uncommitted one. A run that was set aside is put back, or
/// removed if the run that replaces it has saved. Only for the holder of the folder's
/// [`super::Lock`], because it would remove what another run is writing.
pub fn recover(disk: &Disk, dir: &Path) -> Result<()> {
    for dir in [dir.to_owned(), commit::best_dir(dir)] {
        if disk.is_folder(&dir)? {
            commit::recover_one(disk, &dir)?;
        }
    }
    remove_drafts(disk, dir)?;
    set_aside::resolve(disk, dir)
}

/// Whether `dir` has a checkpoint's weights.
pub fn exists(dir: &Path) -> bool {
    locate(&Disk::real(), dir, MODEL_FILE).is_ok_and(|path| path.is_file())
}

/// The path of the file `name` of the checkpoint in `dir`, whether or not it exists.
pub fn locate(disk: &Disk, dir: &Path, name: &str) -> Result<PathBuf> {
    if let Some(aside) = set_aside::current(disk, dir)?
        && disk.is_file(&aside.join(name))?
    {
        return Ok(aside.join(name));
    }
    commit::placed_or_placing(disk, dir, name)
}

/// The manifest of the checkpoint in `dir`, or of its run; `None` if there is none.
pub(super) fn manifest_of(disk: &Disk, dir: &Path) -> Result<Option<Manifest>> {
    Manifest::read(disk, &locate(disk, dir, MANIFEST_FILE)?)
}
