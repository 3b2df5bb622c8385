//! One run a folder.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Read, Seek, Write},
    path::Path,
    process,
};

use super::{CheckpointError, Result, disk::failed};
use crate::attempt::Attempt;

/// Two runs in one `out_dir` would save over each other. Held for a run's life; the operating
/// system lets go of it however the run ends. The file stays: removing it would let a third run
/// lock another file of the same name.
#[derive(Debug)]
pub struct Lock {
    file: File,
    is_exclusive: bool,
}

impl Lock {
    /// Locks `out_dir`, making it where it is not there.
    pub fn take(out_dir: &Path) -> Result<Self> {
        fs::create_dir_all(out_dir).map_err(failed(Attempt::Create, out_dir))?;
        let path = out_dir.join(".lock");
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false) // it may hold the other run's process
            .open(&path)
            .map_err(failed(Attempt::Open, &path))?;
        let is_exclusive = match file.try_lock() {
            Ok(()) => true,
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                // Where it cannot be read the folder is in use all the same.
                let _ = file.read_to_string(&mut text);
                let pid = text.trim().parse().ok();
                return Err(CheckpointError::InUse { dir: out_dir.to_owned(), pid });
            }
            // Some network file systems have no locks. A cluster without them should train too.
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => false,
            Err(TryLockError::Error(error)) => return Err(failed(Attempt::Lock, &path)(error)),
        };
        let note = |file: &mut File| {
            file.set_len(0)?;
            file.rewind()?;
            file.write_all(format!("{}\n", process::id()).as_bytes())
        };
        note(&mut file).map_err(failed(Attempt::Write, &path))?;
        Ok(Self { file, is_exclusive })
    }

    /// Whether the file system keeps other runs out; some cannot.
    pub fn is_exclusive(&self) -> bool {
        self.is_exclusive
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing would do; but a child process may have inherited the handle.
        let _ = self.file.unlock();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_run_is_told_who_uses_the_folder() {
        let dir = tempfile::tempdir().unwrap();
        let out_dir = dir.path().join("out");
        let first = Lock::take(&out_dir).unwrap();
        assert!(first.is_exclusive());
        let error = Lock::take(&out_dir).unwrap_err();
        match &error {
            CheckpointError::InUse { pid, .. } => assert_eq!(*pid, Some(process::id())),
            other => panic!("{other:?}"),
        }
        let text = error.to_string();
        assert!(text.contains("out") && text.contains(&process::id().to_string()), "{text}");
        drop(first);
        Lock::take(&out_dir).unwrap();
    }
}
