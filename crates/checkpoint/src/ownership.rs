//! Whose folder it is: ours only if our manifest says so.
//!
//! A new run writes a manifest with its id before any other file ([`super::begin`]). In a folder without
//! one, every file with a name that a run would write belongs to somebody else ([`inspect`]).
//! Only the lock is created earlier, so that two runs cannot begin in one folder.

use std::path::Path;

use fitgpt_files::disk::{Disk, FileKind};

use super::{
    FILES, LOG_FILE, MODEL_FILE, Result, STATE_FILE, carry,
    commit::{self, best_dir},
    folder,
    read::TensorFile,
    set_aside,
};

/// The folders of a run.
const FOLDERS: [&str; 2] = ["best", "checkpoints"];
/// The lock of a folder.
const LOCK_FILE: &str = ".lock";
/// More than the lock of any process, which has the process's id.
const MAX_LOCK_BYTES: u64 = 32;
/// How the log of every run begins.
const LOG_START: &[u8] = br#"{"event":"plan","step":"#;

/// What a new run finds in its folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FolderContents {
    /// Nothing with a name that a run writes.
    Free,
    /// A run of ours that has not saved.
    Begun,
    /// A run of ours with a checkpoint, whether or not all of its files are still there.
    Run,
    /// Files and folders of others with names that a run writes.
    Foreign(Vec<String>),
}

/// What is in `dir`, as a new run sees it.
pub fn inspect(disk: &Disk, dir: &Path) -> Result<FolderContents> {
    if set_aside::current(disk, dir)?.is_some() {
        return Ok(FolderContents::Run);
    }
    let exists = |name: &str| disk.kind(&dir.join(name)).map(|kind| kind.is_some());
    let best_is_ours = commit::is_ours(disk, &best_dir(dir));
    // Also in a folder of ours: a save would replace them.
    if exists("best")? && disk.kind(&best_dir(dir).join(MODEL_FILE))?.is_some() && !best_is_ours {
        return Ok(FolderContents::Foreign(vec![format!("best/{MODEL_FILE}")]));
    }
    let manifest = folder::manifest_of(disk, dir).ok().flatten();
    if let Some(manifest) = &manifest {
        let mut is_run = manifest.is_saved();
        for name in [MODEL_FILE, STATE_FILE].into_iter().chain(FOLDERS) {
            is_run |= exists(name)?;
        }
        return Ok(if is_run { FolderContents::Run } else { FolderContents::Begun });
    }
    if is_of_earlier_version(disk, dir)? {
        return Ok(FolderContents::Run);
    }
    let has_kept = !commit::kept_checkpoints(disk, dir)?.is_empty();
    let log = our_log(disk, dir)?;
    let mut foreign = Vec::new();
    let mut has_checkpoint = false;
    for name in own_names() {
        let is_present = exists(&name)?;
        match name.as_str() {
            _ if !is_present => {}
            "best" if best_is_ours => has_checkpoint = true,
            "checkpoints" if has_kept => has_checkpoint = true,
            LOG_FILE if log.is_some() => {}
            LOCK_FILE if is_our_lock(disk, dir) => {}
            name if log == Some(LogState::Written) && carry::TOKENIZER_FILES.contains(&name) => {}
            _ => foreign.push(name),
        }
    }
    Ok(match (foreign.is_empty(), has_checkpoint, log) {
        (false, ..) => FolderContents::Foreign(foreign),
        (true, true, _) => FolderContents::Run,
        (true, false, Some(_)) => FolderContents::Begun,
        (true, false, None) => FolderContents::Free,
    })
}

/// The names that a run writes in its folder. The model card is not one of them: it is never written
/// over a file of somebody else.
fn own_names() -> impl Iterator<Item = String> {
    let files = FILES.into_iter().chain(carry::TOKENIZER_FILES);
    let drafts = carry::TOKENIZER_FILES.into_iter().map(|name| format!(".{name}.part"));
    let rest = [LOG_FILE, "events.jsonl.cut", LOCK_FILE].into_iter().chain(FOLDERS);
    files.chain(rest).map(str::to_owned).chain(drafts)
}

/// Whether a run writes a file or a folder of this name in its folder.
pub fn is_own_name(name: &str) -> bool {
    own_names().any(|own| own == name)
}

/// Whether `dir` is a folder that was exported earlier: weights of ours, and no run.
pub fn is_exported(dir: &Path) -> bool {
    commit::is_ours(&Disk::real(), dir)
}

/// Whether `dir` has a checkpoint of a version that wrote no manifest: config and state have ids of
/// saves. Exported weights have no state.
fn is_of_earlier_version(disk: &Disk, dir: &Path) -> Result<bool> {
    let state = dir.join(STATE_FILE);
    if !disk.is_file(&state)? || !commit::is_ours(disk, dir) {
        return Ok(false);
    }
    Ok(TensorFile::open(disk, state).is_ok_and(|file| file.header.text("save_id").is_some()))
}

/// A log of a run without a manifest: an earlier version was killed before its first save.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LogState {
    /// Without a line.
    Empty,
    /// It begins as ours do.
    Written,
}

/// The log in `dir`, if it is one of ours.
fn our_log(disk: &Disk, dir: &Path) -> Result<Option<LogState>> {
    let path = dir.join(LOG_FILE);
    match disk.kind(&path)? {
        Some(FileKind::File { bytes: 0 }) => Ok(Some(LogState::Empty)),
        Some(FileKind::File { .. }) => {
            let mut start = [0; LOG_START.len()];
            let read = disk.open(&path)?.read_exact_at(&mut start, 0);
            Ok((read.is_ok() && start == LOG_START).then_some(LogState::Written))
        }
        _ => Ok(None),
    }
}

/// Whether the lock in `dir` is one of ours: empty, or the id of a process.
fn is_our_lock(disk: &Disk, dir: &Path) -> bool {
    let path = dir.join(LOCK_FILE);
    disk.is_file(&path).unwrap_or(false)
        && disk
            .read(&path, MAX_LOCK_BYTES)
            .is_ok_and(|text| text.iter().all(|byte| byte.is_ascii_digit() || *byte == b'\n'))
}
