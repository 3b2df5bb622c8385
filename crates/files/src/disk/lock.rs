//! A lock against two processes using one folder.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{self, Read, Seek, Write},
    path::Path,
    process,
};

use super::{Disk, DiskError, FileKind, not_a_file};
use crate::{attempt::Attempt, os};

/// The name of the lock file. It is never removed: otherwise a third process could create and lock
/// another file of the same name.
const FILE: &str = ".lock";

/// A lock, held until it is dropped; the operating system releases it when the process ends, even
/// by a crash.
#[derive(Debug)]
pub struct FolderLock {
    file: File,
    is_exclusive: bool,
}

/// Why a folder was not locked.
#[derive(Debug)]
pub enum LockError {
    /// Another process holds the lock; with its id, if it could be read.
    InUse {
        /// Of the other process.
        pid: Option<u32>,
    },
    /// The file could not be created, opened or locked.
    Disk(DiskError),
}

impl FolderLock {
    /// Locks `folder`, which exists.
    pub fn take(folder: &Path) -> Result<Self, LockError> {
        let path = folder.join(FILE);
        let failed = |action| DiskError::of(action, &path);
        match Disk::real().kind(&path).map_err(LockError::Disk)? {
            None | Some(FileKind::File { .. }) => {}
            Some(_) => return Err(LockError::Disk(failed(Attempt::Lock)(not_a_file()))),
        }
        let mut options = OpenOptions::new();
        // Not truncated: it may contain the id of the process that holds the lock.
        let options = options.read(true).write(true).create(true).truncate(false);
        let mut file = os::open_unfollowed(options, &path)
            .map_err(|error| LockError::Disk(failed(Attempt::Open)(error)))?;
        let is_exclusive = match file.try_lock() {
            Ok(()) => true,
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                // Even if the id cannot be read, the folder is in use.
                let _ = (&file).take(32).read_to_string(&mut text);
                return Err(LockError::InUse { pid: text.trim().parse().ok() });
            }
            // Some network file systems have no locks; training must work on those, too.
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => false,
            Err(TryLockError::Error(error)) => {
                return Err(LockError::Disk(failed(Attempt::Lock)(error)));
            }
        };
        let note = |file: &mut File| {
            file.set_len(0)?;
            file.rewind()?;
            file.write_all(format!("{}\n", process::id()).as_bytes())
        };
        note(&mut file).map_err(|error| LockError::Disk(failed(Attempt::Write)(error)))?;
        Ok(Self { file, is_exclusive })
    }

    /// Whether the file system keeps other processes out; some cannot.
    pub fn is_exclusive(&self) -> bool {
        self.is_exclusive
    }
}

impl Drop for FolderLock {
    fn drop(&mut self) {
        // Closing the file is not enough if a child process inherited the handle.
        let _ = self.file.unlock();
    }
}
