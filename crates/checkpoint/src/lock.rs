//! The lock that allows one run at a time in a folder.

use std::path::Path;

use fitgpt_files::disk::{self, Disk, LockError};

use super::{CheckpointError, Result};

/// Held for the duration of a run: two runs in one `out_dir` would overwrite each other's saves.
#[derive(Debug)]
pub struct Lock(disk::FolderLock);

impl Lock {
    /// Locks `out_dir`, creating it if it is missing.
    pub fn take(out_dir: &Path) -> Result<Self> {
        Disk::real().create_dirs(out_dir)?;
        match disk::FolderLock::take(out_dir) {
            Ok(lock) => Ok(Self(lock)),
            Err(LockError::InUse { pid }) => {
                Err(CheckpointError::InUse { dir: out_dir.to_owned(), pid })
            }
            Err(LockError::Disk(error)) => Err(error.into()),
        }
    }

    /// Whether the lock excludes other runs; some file systems cannot.
    pub fn is_exclusive(&self) -> bool {
        self.0.is_exclusive()
    }
}

#[cfg(test)]
mod tests {
    use std::process;

    use super::*;

    #[test]
    fn a_second_run_is_refused_with_the_process_that_holds_the_lock() {
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

    #[cfg(unix)]
    #[test]
    fn a_lock_that_is_a_link_is_refused_and_its_target_is_untouched() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("target");
        std::fs::write(&target, "precious").unwrap();
        std::os::unix::fs::symlink(&target, dir.path().join(".lock")).unwrap();
        assert!(Lock::take(dir.path()).is_err());
        assert_eq!(std::fs::read(&target).unwrap(), b"precious");
    }
}
