//! Files that appear whole or not at all, and the room they need.

use std::{
    fmt,
    fs::{self, File},
    io::{BufWriter, Write},
    path::{Path, PathBuf},
};

use super::PrepareError;
use crate::attempt::Attempt;

/// What a dataset takes on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskNeed {
    /// What such text usually takes. More than this must be free.
    pub usual_bytes: u64,
    /// What it can take at most.
    pub most_bytes: u64,
}

impl DiskNeed {
    /// One token a character: a count, not an estimate.
    pub(super) fn of_characters(characters: u64, meta_bytes: u64) -> Self {
        let bytes = characters.saturating_mul(2).saturating_add(meta_bytes);
        Self { usual_bytes: bytes, most_bytes: bytes }
    }

    /// GPT-2's tokens have at least one byte of text and usually about four.
    pub(super) fn of_gpt2(input_bytes: u64) -> Self {
        Self { usual_bytes: input_bytes / 2, most_bytes: input_bytes.saturating_mul(2) }
    }

    /// Refuses a disk that has less than what is usual.
    pub(super) fn check(self, free_bytes: Option<u64>) -> Result<(), PrepareError> {
        match free_bytes {
            Some(free_bytes) if free_bytes < self.usual_bytes => {
                Err(PrepareError::TooLittleDisk { need: self, free_bytes })
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Display for DiskNeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self { usual_bytes, most_bytes } if usual_bytes == most_bytes => {
                write!(f, "{usual_bytes} bytes")
            }
            Self { usual_bytes, most_bytes } => {
                write!(f, "about {usual_bytes} and at most {most_bytes} bytes")
            }
        }
    }
}

/// The folder of a dataset, removed again where it was made for nothing.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    is_new: bool,
}

impl Folder {
    /// The folder, made where it is not there.
    pub(super) fn make(path: &Path) -> Result<Self, PrepareError> {
        let is_new = !path.exists();
        match fs::create_dir_all(path) {
            Ok(()) => Ok(Self { path: path.to_owned(), is_new }),
            Err(source) => {
                Err(PrepareError::Io { action: Attempt::Create, path: path.to_owned(), source })
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if self.is_new {
            let _ = fs::remove_dir(&self.path); // only an empty folder goes
        }
    }
}

/// A file that is being written under a name of its own. Dropping it removes it.
#[derive(Debug)]
pub(super) struct Draft {
    file: BufWriter<File>, // closed before the removal: fields drop in this order
    place: Temporary,
    target: PathBuf,
    bytes: u64,
}

impl Draft {
    /// An empty draft of `folder/name`. The name is this process's own.
    pub(super) fn create(folder: &Path, name: &str) -> Result<Self, PrepareError> {
        let target = folder.join(name);
        let path = folder.join(format!(".{name}.{}", std::process::id()));
        match File::create(&path) {
            Ok(file) => Ok(Self {
                file: BufWriter::with_capacity(64 << 10, file),
                place: Temporary(path),
                target,
                bytes: 0,
            }),
            Err(source) => Err(PrepareError::writing(&target, 0, source)),
        }
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), PrepareError> {
        let written = self.file.write_all(bytes);
        written.map_err(|source| PrepareError::writing(&self.target, self.bytes, source))?;
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    /// Hands everything to the operating system, so that others can read it.
    pub(super) fn flush(&mut self) -> Result<(), PrepareError> {
        let flushed = self.file.flush();
        flushed.map_err(|source| PrepareError::writing(&self.target, self.bytes, source))
    }

    /// How much was written.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Where it lies for now.
    pub(super) fn path(&self) -> &Path {
        &self.place.0
    }

    /// Everything is written: brings it to the disk.
    pub(super) fn finish(mut self) -> Result<Finished, PrepareError> {
        self.flush()?;
        let synced = self.file.get_ref().sync_all();
        synced.map_err(|source| PrepareError::writing(&self.target, self.bytes, source))?;
        Ok(Finished { place: self.place, target: self.target })
    }
}

/// A whole file that still has its own name.
#[derive(Debug)]
pub(super) struct Finished {
    place: Temporary,
    target: PathBuf,
}

impl Finished {
    /// Gives it its name.
    pub(super) fn publish(self) -> Result<(), PrepareError> {
        let renamed = fs::rename(&self.place.0, &self.target);
        renamed.map_err(|source| PrepareError::writing(&self.target, 0, source))
    }
}

/// A name under which nothing is left. After a rename there is nothing to remove.
#[derive(Debug)]
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0); // the error before is the one to tell
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draft_appears_when_it_is_published_and_not_before() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("train.bin");
        let mut draft = Draft::create(folder.path(), "train.bin").unwrap();
        draft.write(b"tokens").unwrap();
        let finished = draft.finish().unwrap();
        assert!(!target.exists());
        finished.publish().unwrap();
        assert_eq!(fs::read(target).unwrap(), b"tokens");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_is_dropped_leaves_nothing_behind() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("data");
        let folder = Folder::make(&path).unwrap();
        drop(Draft::create(folder.path(), "train.bin").unwrap());
        drop(Draft::create(folder.path(), "val.bin").unwrap().finish().unwrap());
        drop(folder);
        assert!(!path.exists());
        // A folder that was there stays.
        drop(Folder::make(parent.path()).unwrap());
        assert!(parent.path().exists());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_told_with_what_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let own_name = folder.path().join(format!(".train.bin.{}", std::process::id()));
        std::os::unix::fs::symlink("/dev/full", own_name).unwrap();
        let mut draft = Draft::create(folder.path(), "train.bin").unwrap();
        draft.write(&[0; 1000]).unwrap();
        let error = draft.write(&vec![0; 1 << 20]).unwrap_err().to_string();
        assert!(error.starts_with("the disk is full: 1000 bytes of `"), "{error}");
        drop(draft);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_disk_with_less_than_the_usual_need_is_refused() {
        let exact = DiskNeed::of_characters(100, 50);
        assert_eq!((exact.usual_bytes, exact.most_bytes), (250, 250));
        assert!(exact.check(Some(250)).is_ok() && exact.check(None).is_ok());
        let error = exact.check(Some(249)).unwrap_err().to_string();
        assert_eq!(error, "the dataset needs 250 bytes, the disk has 249 bytes free");
        let error = DiskNeed::of_gpt2(1000).check(Some(499)).unwrap_err().to_string();
        assert_eq!(
            error,
            "the dataset needs about 500 and at most 2000 bytes, the disk has 499 bytes free"
        );
    }
}
