//! The operating system's files.

use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};

use super::{FileKind, FileSystem, HeldPath, OpenMode, RawFile, not_a_file};
use crate::os::{self, FileIdentity};

/// The operating system's files.
#[derive(Debug)]
pub(super) struct RealFiles;

impl FileSystem for RealFiles {
    fn kind(&self, path: &Path) -> io::Result<FileKind> {
        let facts = fs::symlink_metadata(path)?;
        Ok(if facts.is_file() {
            FileKind::File { bytes: facts.len() }
        } else if facts.is_dir() {
            FileKind::Folder
        } else {
            FileKind::Other
        })
    }

    fn identity(&self, path: &Path) -> io::Result<FileIdentity> {
        Ok(os::file_identity(&fs::metadata(path)?))
    }

    /// On Linux an open folder has a path of its own.
    fn hold(&self, path: &Path) -> io::Result<HeldPath> {
        let Ok(open) = File::open(path) else {
            return Ok(HeldPath { path: path.to_owned(), _open: None }); // Windows opens no folders
        };
        #[cfg(target_os = "linux")]
        {
            use std::os::fd::AsRawFd as _;
            // With the dot it is the folder and not a link to it.
            let held = PathBuf::from(format!("/proc/self/fd/{}/.", open.as_raw_fd()));
            if self.identity(&held).ok() == Some(self.identity(path)?) {
                return Ok(HeldPath { path: held, _open: Some(open) });
            }
        }
        Ok(HeldPath { path: path.to_owned(), _open: Some(open) })
    }

    fn list(&self, path: &Path) -> io::Result<Vec<OsString>> {
        fs::read_dir(path)?.map(|entry| Ok(entry?.file_name())).collect()
    }

    fn create_dirs(&self, path: &Path) -> io::Result<()> {
        fs::create_dir_all(path)
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        fs::create_dir(path)
    }

    fn open(&self, path: &Path, access: OpenMode) -> io::Result<Box<dyn RawFile>> {
        let file = match access {
            OpenMode::Read => return Ok(Box::new(RealFile(os::open_regular(path)?))),
            // Fails on a link, even on one whose target is missing.
            OpenMode::New => {
                OpenOptions::new().read(true).write(true).create_new(true).open(path)?
            }
            OpenMode::Append => {
                let mut options = OpenOptions::new();
                os::open_unfollowed(options.read(true).append(true).create(true), path)?
            }
            OpenMode::Change => {
                let mut options = OpenOptions::new();
                os::open_unfollowed(options.read(true).write(true), path)?
            }
        };
        if !file.metadata()?.is_file() {
            return Err(not_a_file());
        }
        Ok(Box::new(RealFile(file)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::hard_link(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        os::sync_names(path)
    }
}

#[derive(Debug)]
struct RealFile(File);

impl RawFile for RealFile {
    fn read_at(&self, bytes: &mut [u8], position: u64) -> io::Result<usize> {
        os::read_at(&self.0, bytes, position)
    }

    fn write_at(&mut self, bytes: &[u8], position: u64) -> io::Result<usize> {
        os::write_at(&self.0, bytes, position)
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_all()
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::symlink;

    use super::super::Disk;

    #[test]
    fn nothing_is_written_through_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let (target, link) = (dir.path().join("target"), dir.path().join("link"));
        std::fs::write(&target, "precious").unwrap();
        symlink(&target, &link).unwrap();
        let disk = Disk::real();
        assert!(disk.append(&link).is_err());
        assert!(disk.create(&link).is_err());
        assert_eq!(std::fs::read(&target).unwrap(), b"precious");
        // Reading through one is fine.
        assert_eq!(disk.read(&link, 100).unwrap(), b"precious");
        assert!(disk.read(&link, 7).is_err());
    }

    #[test]
    fn other_files_and_the_targets_of_links_are_not_removed() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, link) = (dir.path().join("folder"), dir.path().join("link"));
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("theirs"), "").unwrap();
        std::fs::write(folder.join("ours"), "").unwrap();
        symlink(&folder, &link).unwrap();
        let disk = Disk::real();
        disk.remove_files_in(&link, &["ours"]).unwrap();
        assert!(folder.join("ours").exists() && link.exists());
        disk.remove_files_in(&folder, &["ours"]).unwrap();
        assert!(!folder.join("ours").exists() && folder.join("theirs").exists());
        assert!(disk.ensure_dir(&link).is_err());
    }

    #[test]
    fn pipes_and_devices_are_refused_without_waiting() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        let disk = Disk::real();
        for path in [pipe.as_path(), std::path::Path::new("/dev/zero")] {
            assert!(disk.open(path).is_err(), "{}", path.display());
        }
        assert!(disk.append(&pipe).is_err());
    }
}
