//! Every change that a save makes on a disk, one step a method.
//!
//! All of them pass through here so that a test can stop the world before any one of them.

use std::{
    fs::{self, File},
    io::{self, Seek, SeekFrom, Write},
    path::Path,
};

use super::{CheckpointError, Result};
use crate::{attempt::Attempt, os::sync_names};

/// The file system, as a save changes it.
#[derive(Debug, Default)]
pub(super) struct Disk {
    /// Where a test ends the world.
    #[cfg(test)]
    pub(super) crash: Option<std::cell::RefCell<super::tests::Crash>>,
}

impl Disk {
    /// Makes `path` and what is above it; fine where it is there.
    pub(super) fn create_dirs(&self, path: &Path) -> Result<()> {
        self.step(Attempt::Create, path, |path| fs::create_dir_all(path))
    }

    /// Makes a new folder.
    pub(super) fn create_dir(&self, path: &Path) -> Result<()> {
        self.step(Attempt::Create, path, |path| fs::create_dir(path))
    }

    /// Makes a new file.
    pub(super) fn create(&self, path: &Path) -> Result<File> {
        self.step(Attempt::Create, path, |path| File::create_new(path))
    }

    /// Writes `bytes` at `position` of `file`, which is `path`.
    pub(super) fn write(
        &self,
        file: &mut File,
        path: &Path,
        position: u64,
        bytes: &[u8],
    ) -> Result<()> {
        #[cfg(test)]
        self.tear(file, path, position, bytes);
        self.step(Attempt::Write, path, |_| {
            file.seek(SeekFrom::Start(position))?;
            file.write_all(bytes)
        })
    }

    /// Waits until the disk has the content of `file`, which is `path`.
    pub(super) fn sync(&self, file: &File, path: &Path) -> Result<()> {
        self.step(Attempt::Sync, path, |_| file.sync_all())
    }

    /// Waits until the disk has the names in the folder `path`.
    pub(super) fn sync_dir(&self, path: &Path) -> Result<()> {
        self.step(Attempt::Sync, path, sync_names)
    }

    /// Renames, over what is there.
    pub(super) fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.step(Attempt::Rename, from, |from| fs::rename(from, to))?;
        #[cfg(test)]
        self.renamed(from, to);
        Ok(())
    }

    /// Removes a folder and the files in it, one after the other.
    pub(super) fn remove_dir(&self, path: &Path) -> Result<()> {
        for entry in fs::read_dir(path).map_err(failed(Attempt::List, path))? {
            let file = entry.map_err(failed(Attempt::List, path))?.path();
            self.step(Attempt::Remove, &file, |file| fs::remove_file(file))?;
        }
        self.step(Attempt::Remove, path, |path| fs::remove_dir(path))
    }

    /// One change of the disk. A test may say that it never came to it.
    #[cfg_attr(not(test), expect(clippy::unused_self, reason = "only tests end the world"))]
    fn step<T>(
        &self,
        action: Attempt,
        path: &Path,
        change: impl FnOnce(&Path) -> io::Result<T>,
    ) -> Result<T> {
        #[cfg(test)]
        if let Some(crash) = &self.crash {
            crash.borrow_mut().before(action, path).map_err(failed(action, path))?;
        }
        change(path).map_err(failed(action, path))
    }
}

#[cfg(test)]
impl Disk {
    /// Where the next step is the one that never came, half of the bytes may have got there.
    fn tear(&self, file: &mut File, path: &Path, position: u64, bytes: &[u8]) {
        if let Some(crash) = &self.crash
            && crash.borrow_mut().is_next(path)
        {
            file.seek(SeekFrom::Start(position)).unwrap();
            file.write_all(&bytes[..bytes.len() / 2]).unwrap();
        }
    }

    /// Tells a test where files went.
    fn renamed(&self, from: &Path, to: &Path) {
        if let Some(crash) = &self.crash {
            crash.borrow_mut().renamed(from, to);
        }
    }
}

/// Says what could not be done, to what.
pub(super) fn failed(action: Attempt, path: &Path) -> impl FnOnce(io::Error) -> CheckpointError {
    move |source| CheckpointError::Io { action, path: path.to_owned(), source }
}
