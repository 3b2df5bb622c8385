//! Which of two checkpoints in one folder is meant: ours, or nanoGPT's `ckpt.pt`.
//!
//! A run that continues a `ckpt.pt` leaves it where it is, and its manifest records it. As long as
//! that file is unchanged, ours is the later one; also if the file is an export of the run, which
//! names it until nanoGPT writes its own.
//!
//! Promise: of two checkpoints in one folder the older one is never taken silently. Test:
//! `tests/runs/nanogpt.rs`.

use std::path::{Path, PathBuf};

use fitgpt_config::ResumeFrom;
use fitgpt_files::disk::Disk;

use super::{
    CheckpointError, MODEL_FILE, Result, commit, folder,
    manifest::Manifest,
    nanogpt::{NANOGPT_FILE, NanoGpt, nanogpt_file},
    read,
    stamp::NanoGptStamp,
};

/// A checkpoint in a folder, or a file.
#[derive(Clone, Debug)]
pub struct ChosenCheckpoint {
    /// nanoGPT's file, or the folder of any other checkpoint.
    pub path: PathBuf,
    /// The `ckpt.pt` of that folder, if there is one.
    pub nanogpt: Option<NanoGptStamp>,
}

/// The checkpoint at `path` that `from` means. Refuses to guess if the folder has two of which
/// either may be the later one.
pub fn choose(path: &Path, from: Option<ResumeFrom>) -> Result<ChosenCheckpoint> {
    let disk = Disk::real();
    let file = path.join(NANOGPT_FILE);
    if path.is_file() || !file.is_file() {
        return match from {
            Some(ResumeFrom::NanoGpt) if !path.is_file() => {
                Err(CheckpointError::Missing { path: file })
            }
            _ => Ok(ChosenCheckpoint { path: path.to_owned(), nanogpt: None }),
        };
    }
    let nanogpt = Some(stamp(&disk, &file)?);
    let is_alone = nanogpt_file(path).is_some();
    let is_nanogpts = match from {
        Some(ResumeFrom::FitGpt) if is_alone => {
            return Err(CheckpointError::Missing { path: path.join(MODEL_FILE) });
        }
        Some(ResumeFrom::FitGpt) => false,
        Some(ResumeFrom::NanoGpt) => true,
        None if is_alone => true,
        None => {
            check_recorded(&disk, path, nanogpt.as_ref())?;
            false
        }
    };
    Ok(ChosenCheckpoint { path: if is_nanogpts { file } else { path.to_owned() }, nanogpt })
}

/// Identifies the `ckpt.pt` in `folder`; `None` if there is none.
pub fn nanogpt_stamp(folder: &Path) -> Result<Option<NanoGptStamp>> {
    let file = folder.join(NANOGPT_FILE);
    if file.is_file() { stamp(&Disk::real(), &file).map(Some) } else { Ok(None) }
}

/// Also of a file that is damaged, or that nanoGPT is writing now.
fn stamp(disk: &Disk, file: &Path) -> Result<NanoGptStamp> {
    match NanoGpt::open(disk, file) {
        Ok(opened) => Ok(opened.stamp),
        Err(_) => NanoGptStamp::of(&read::open(disk, file)?),
    }
}

/// Refuses a checkpoint of ours in `folder` whose manifest does not record the `ckpt.pt` next to it.
fn check_recorded(disk: &Disk, folder: &Path, stamp: Option<&NanoGptStamp>) -> Result<()> {
    let manifest = folder::manifest_of(disk, folder)?.filter(Manifest::is_saved);
    let is_ours = manifest.is_some() || commit::is_ours(disk, folder);
    let is_known = manifest.as_ref().zip(stamp).is_some_and(|(manifest, now)| {
        let recorded = manifest.nanogpt.as_ref();
        recorded.is_some_and(|then| then.is_same_file(now))
            || now.is_exported_from(&manifest.run_id)
    });
    if !is_ours || is_known {
        return Ok(());
    }
    Err(CheckpointError::TwoCheckpoints {
        folder: folder.to_owned(),
        ours: manifest.map(|manifest| manifest.step),
        theirs: stamp.and_then(NanoGptStamp::iter_num),
    })
}
