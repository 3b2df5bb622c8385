//! Files that become visible only when they are complete.

use std::{
    io::{BufWriter, Write},
    path::{Path, PathBuf},
};

use fitgpt_data::publish;
use fitgpt_files::disk::{Disk, DiskError, DiskWriter, FolderLock, LockError};

use super::PrepareError;

/// More than any journal: a text has at most 65,536 different characters.
const JOURNAL_BYTES_LIMIT: u64 = 16 << 20;

/// The locked folder of a dataset, with a folder in it for files that are being written. Dropping
/// it removes those files, and the folder itself if it is new and nothing was published.
#[derive(Debug)]
pub(super) struct LockedFolder {
    path: PathBuf,
    staged: PathBuf,
    abandoned: Vec<PathBuf>,
    is_new: bool,
    is_published: bool,
    keeps_drafts: bool,
    disk: Disk,
    lock: Option<FolderLock>,
}

impl LockedFolder {
    /// Locks the folder, creating it if it is missing. Files that a killed `prepare` left are kept
    /// until [`Self::resume`].
    pub(super) fn make(path: &Path) -> Result<Self, PrepareError> {
        let disk = Disk::real();
        let is_new = disk.kind(path)?.is_none();
        disk.create_dirs(path)?;
        let lock = FolderLock::take(path).map_err(|error| match error {
            LockError::InUse { pid } => PrepareError::InUse { folder: path.to_owned(), pid },
            LockError::Disk(error) => error.into(),
        })?;
        publish::complete_pending(&disk, path)?;
        let abandoned = publish::abandoned(&disk, path)?;
        let staged = publish::stage(&disk, path)?;
        Ok(Self {
            path: path.to_owned(),
            staged,
            abandoned,
            is_new,
            is_published: false,
            keeps_drafts: false,
            disk,
            lock: Some(lock),
        })
    }

    /// Continues the drafts of a killed `prepare`: the first ones whose journal `read` accepts. All
    /// others are removed.
    pub(super) fn resume<T>(
        &mut self,
        read: impl Fn(&[u8]) -> Option<T>,
    ) -> Result<Option<T>, PrepareError> {
        let mut found = None;
        for folder in std::mem::take(&mut self.abandoned) {
            let journal = self.disk.read(&folder.join(publish::JOURNAL), JOURNAL_BYTES_LIMIT);
            match journal.ok().and_then(|bytes| read(&bytes)) {
                Some(journal) if found.is_none() => {
                    publish::discard(&self.disk, &self.staged)?;
                    self.staged = folder;
                    found = Some(journal);
                }
                _ => publish::discard(&self.disk, &folder)?,
            }
        }
        Ok(found)
    }

    /// Replaces the journal of the drafts, which from now on survive this process.
    pub(super) fn write_journal(&mut self, bytes: &[u8]) -> Result<(), PrepareError> {
        let path = self.staged.join(publish::JOURNAL);
        let new = self.staged.join(format!("{}.new", publish::JOURNAL));
        let replace = || -> Result<(), DiskError> {
            self.disk.remove_file(&new)?;
            let mut file = self.disk.create(&new)?;
            file.write_all_at(bytes, 0)?;
            file.sync()?;
            self.disk.rename(&new, &path)?;
            self.disk.sync_dir(&self.staged)
        };
        replace().map_err(|error| PrepareError::writing(&path, 0, error.source))
    }

    /// Keeps the drafts and the journal for the next `prepare`.
    pub(super) fn keep_drafts(&mut self) {
        self.keeps_drafts = true;
    }

    /// Removes drafts that are not in `names`: a killed process may have created them after its
    /// last journal entry.
    pub(super) fn retain(&self, names: &[String]) -> Result<(), PrepareError> {
        for name in self.disk.list(&self.staged)? {
            let is_ours = name.to_str().is_some_and(|name| {
                name == publish::JOURNAL || names.iter().any(|wanted| wanted == name)
            });
            if !is_ours {
                self.disk.remove_file(&self.staged.join(name))?;
            }
        }
        Ok(())
    }

    /// The folder for drafts.
    pub(super) fn drafts(&self) -> DraftFolder {
        DraftFolder {
            disk: self.disk.clone(),
            staged: self.staged.clone(),
            target: self.path.clone(),
        }
    }

    /// Publishes the finished files as the dataset, replacing all earlier files.
    pub(super) fn publish(&mut self) -> Result<(), PrepareError> {
        publish::commit(&self.disk, &self.path, &self.staged)?;
        self.is_published = true;
        Ok(())
    }
}

impl Drop for LockedFolder {
    fn drop(&mut self) {
        if self.keeps_drafts && !self.is_published {
            return;
        }
        // Errors are ignored: an earlier one is the one to report.
        let _ = publish::discard(&self.disk, &self.staged);
        if self.is_new && !self.is_published {
            self.lock = None;
            let _ = self.disk.remove_files_in(&self.path, &[".lock"]);
        }
    }
}

/// Where drafts are written, and where they will be published.
#[derive(Clone, Debug)]
pub(super) struct DraftFolder {
    disk: Disk,
    staged: PathBuf,
    target: PathBuf,
}

/// A file that is being written. Dropping it removes it.
#[derive(Debug)]
pub(super) struct Draft {
    file: Option<BufWriter<DiskWriter>>, // `None` once it is finished
    disk: Disk,
    path: PathBuf,
    target: PathBuf,
    bytes: u64,
    is_left: bool,
}

impl DraftFolder {
    /// A draft of the file `name` of a dataset, empty or with `bytes` already written. It is
    /// removed with its folder, not when it is dropped.
    pub(super) fn draft(&self, name: &str, bytes: u64) -> Result<Draft, PrepareError> {
        let mut draft = Draft::open(self, name, bytes)?;
        draft.is_left = true;
        Ok(draft)
    }
}

impl Draft {
    /// An empty draft of the file `name` of a dataset.
    pub(super) fn create(folder: &LockedFolder, name: &str) -> Result<Self, PrepareError> {
        Self::open(&folder.drafts(), name, 0)
    }

    fn open(folder: &DraftFolder, name: &str, bytes: u64) -> Result<Self, PrepareError> {
        let target = folder.target.join(name);
        let path = folder.staged.join(name);
        let opened = if bytes == 0 {
            folder.disk.remove_file(&path)?;
            folder.disk.create(&path)
        } else {
            folder.disk.change(&path)
        };
        let file = opened.map_err(|error| PrepareError::writing(&target, bytes, error.source))?;
        Ok(Self {
            file: Some(BufWriter::with_capacity(64 << 10, file.into_writer_at(bytes))),
            disk: folder.disk.clone(),
            path,
            target,
            bytes,
            is_left: false,
        })
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), PrepareError> {
        let written = self.file.as_mut().expect("it is not finished").write_all(bytes);
        written.map_err(|source| PrepareError::writing(&self.target, self.bytes, source))?;
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    /// Flushes everything to the operating system, so that others can read it.
    pub(super) fn flush(&mut self) -> Result<(), PrepareError> {
        let flushed = self.file.as_mut().expect("it is not finished").flush();
        flushed.map_err(|source| PrepareError::writing(&self.target, self.bytes, source))
    }

    /// Syncs everything that was written to the disk.
    pub(super) fn sync(&mut self) -> Result<(), PrepareError> {
        self.flush()?;
        let file = self.file.as_ref().expect("it is not finished");
        let synced = file.get_ref().file().sync();
        synced.map_err(|error| PrepareError::writing(&self.target, self.bytes, error.source))
    }

    /// Overwrites its first bytes.
    pub(super) fn write_first(&mut self, bytes: &[u8]) -> Result<(), PrepareError> {
        self.flush()?;
        let file = self.file.as_mut().expect("it is not finished");
        let written = file.get_mut().file_mut().write_all_at(bytes, 0);
        written.map_err(|error| PrepareError::writing(&self.target, self.bytes, error.source))
    }

    /// How much was written.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Its path until it is published.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Syncs the complete file to the disk, to be published by [`LockedFolder::publish`].
    pub(super) fn finish(mut self) -> Result<(), PrepareError> {
        self.sync()?;
        let file = self.file.as_ref().expect("it is not finished");
        // A killed process may have written more than its journal records, but the same bytes.
        if file.get_ref().file().bytes()? != self.bytes {
            return Err(PrepareError::Changed);
        }
        self.file = None;
        Ok(())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if self.file.take().is_some() && !self.is_left {
            let _ = self.disk.remove_file(&self.path); // an earlier error is the one to report
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use fitgpt_files::disk::simulated::{Faults, SimulatedFiles};

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn files_appear_when_they_are_published_and_not_before() {
        let dir = tempfile::tempdir().unwrap();
        let mut folder = LockedFolder::make(dir.path()).unwrap();
        for name in ["train.bin", "val.bin"] {
            let mut draft = Draft::create(&folder, name).unwrap();
            draft.write(b"tokens").unwrap();
            draft.finish().unwrap();
        }
        assert!(!dir.path().join("train.bin").exists());
        folder.publish().unwrap();
        drop(folder);
        assert_eq!(fs::read(dir.path().join("train.bin")).unwrap(), b"tokens");
        assert_eq!(names(dir.path()), [".lock", "train.bin", "val.bin"]);
    }

    #[test]
    fn dropping_removes_everything() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("data");
        let folder = LockedFolder::make(&path).unwrap();
        drop(Draft::create(&folder, "train.bin").unwrap());
        Draft::create(&folder, "val.bin").unwrap().finish().unwrap();
        drop(folder);
        assert!(!path.exists());
        // A folder that existed before stays.
        drop(LockedFolder::make(parent.path()).unwrap());
        assert_eq!(names(parent.path()), [".lock"]);
    }

    #[test]
    fn a_disk_that_fills_up_or_fails_is_an_error_that_leaves_nothing() {
        let mut full = 0;
        for seed in 0..20 {
            let files = SimulatedFiles::new(seed);
            let disk = files.disk();
            let path = Path::new("data");
            disk.create_dirs(path).unwrap();
            let staged = publish::stage(&disk, path).unwrap();
            let folder = LockedFolder {
                path: path.to_owned(),
                staged,
                abandoned: Vec::new(),
                is_new: false,
                is_published: false,
                keeps_drafts: false,
                disk,
                lock: None,
            };
            let mut draft = Draft::create(&folder, "train.bin").unwrap();
            draft.write(&[0; 1000]).unwrap();
            files.set_faults(Faults { fail_at: Some(0), ..Faults::default() });
            let error = draft.write(&vec![0; 1 << 20]).unwrap_err();
            match &error {
                PrepareError::DiskFull { written_bytes: 1000, .. } => full += 1,
                PrepareError::Io { .. } => {}
                other => panic!("{other}"),
            }
            assert!(error.to_string().contains("train.bin"), "{error}");
            drop(draft);
            assert!(folder.disk.list(&folder.staged).unwrap().is_empty());
        }
        assert!((1..20).contains(&full), "{full}");
    }

    #[test]
    fn a_folder_is_prepared_by_one_process_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let first = LockedFolder::make(dir.path()).unwrap();
        let error = LockedFolder::make(dir.path()).unwrap_err();
        assert!(matches!(error, PrepareError::InUse { pid: Some(_), .. }), "{error}");
        drop(first);
        LockedFolder::make(dir.path()).unwrap();
    }

    #[test]
    fn files_of_a_killed_process_are_removed_by_the_next() {
        let dir = tempfile::tempdir().unwrap();
        let orphan = dir.path().join(".preparing-0123456789abcdef");
        fs::create_dir(&orphan).unwrap();
        fs::write(orphan.join("train.bin"), "half").unwrap();
        // They are kept until the next one knows its key.
        drop(LockedFolder::make(dir.path()).unwrap());
        assert!(orphan.exists());
        assert!(
            LockedFolder::make(dir.path())
                .unwrap()
                .resume(|bytes| Some(bytes.len()))
                .unwrap()
                .is_none()
        );
        assert_eq!(names(dir.path()), [".lock"]);
    }
}
