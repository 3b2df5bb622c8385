//! Files and folders that take their name only when they are complete.
//!
//! Promise: a failed export leaves nothing, and two exports of one file do not mix. Test: this
//! file, `tests/runs/nanogpt.rs`.

use std::{
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
};

use super::{Disk, DiskError, DiskFile, Result, parent_of};
use crate::attempt::Attempt;

/// The name of a file or folder until it is complete, next to its target.
///
/// The name is random, so that neither another process nor a file of the user has it. If it is
/// dropped before [`publish`](Self::publish), the draft is removed, and the target is as before.
#[derive(Debug)]
pub struct DraftName<'a> {
    path: PathBuf,
    target: &'a Path,
}

impl<'a> DraftName<'a> {
    /// A name for a draft of `target`.
    pub fn of(target: &'a Path) -> Result<Self> {
        let mut random = [0; 8];
        getrandom::fill(&mut random)
            .map_err(|error| DiskError::of(Attempt::Create, target)(io::Error::other(error)))?;
        let mut name = OsString::from(".");
        name.push(target.file_name().unwrap_or_default());
        name.push(format!(".{:016x}.part", u64::from_le_bytes(random)));
        Ok(Self { path: target.with_file_name(name), target })
    }

    /// Where the draft is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Creates the draft as a file.
    pub fn create(&self, disk: &Disk) -> Result<DiskFile> {
        disk.create(&self.path)
    }

    /// Renames the draft to its target, replacing a file with that name.
    pub fn publish(self, disk: &Disk) -> Result<()> {
        disk.rename(&self.path, self.target)
            .map_err(|error| DiskError { path: self.target.to_owned(), ..error })?;
        match disk.sync_dir(parent_of(self.target)) {
            // A folder without read permission cannot be synced.
            Err(error) if error.source.kind() == io::ErrorKind::PermissionDenied => Ok(()),
            other => other,
        }
    }
}

impl Drop for DraftName<'_> {
    fn drop(&mut self) {
        // After `publish` there is nothing to remove; after an error, that error is reported.
        if self.path.is_dir() {
            let _ = fs::remove_dir_all(&self.path);
        } else {
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Disk {
    /// Writes a file that appears complete or not at all. A link in its place is replaced.
    pub fn replace(&self, path: &Path, bytes: &[u8]) -> Result<()> {
        let draft = DraftName::of(path)?;
        let mut file = draft.create(self)?;
        file.write_all_at(bytes, 0)?;
        file.sync()?;
        draft.publish(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<OsString> {
        Disk::real().list(folder).unwrap()
    }

    #[test]
    fn a_published_draft_replaces_its_target_and_leaves_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("model.gguf");
        fs::write(&target, "old").unwrap();
        Disk::real().replace(&target, b"new").unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"new");
        assert_eq!(names(folder.path()), ["model.gguf"]);
    }

    #[test]
    fn a_dropped_draft_leaves_the_target_and_the_users_files() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("model.gguf");
        for name in ["model.gguf", "model.gguf.part", ".model.gguf.part"] {
            fs::write(folder.path().join(name), name).unwrap();
        }
        let draft = DraftName::of(&target).unwrap();
        draft.create(&Disk::real()).unwrap().write_all_at(b"half", 0).unwrap();
        drop(draft);
        assert_eq!(fs::read(&target).unwrap(), b"model.gguf");
        assert_eq!(names(folder.path()), [".model.gguf.part", "model.gguf", "model.gguf.part"]);
    }

    #[test]
    fn two_drafts_of_one_target_do_not_meet() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("model.gguf");
        let (disk, first) = (Disk::real(), DraftName::of(&target).unwrap());
        let mut slow = first.create(&disk).unwrap();
        disk.replace(&target, b"second").unwrap();
        slow.write_all_at(b"first", 0).unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"second");
        first.publish(&disk).unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"first");
    }
}
