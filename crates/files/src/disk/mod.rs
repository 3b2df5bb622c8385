//! The only interface to the files of runs and datasets.
//!
//! Checkpoints, the event log and `prepare` create, write, sync, rename and remove files only
//! through a [`Disk`]. It uses a [`FileSystem`]: the operating system's, or in tests a simulated
//! one that fails any call, loses unsynced data, and crashes at any point.
//!
//! A [`Disk`] retries interrupted calls and completes short reads and writes. It never writes
//! through a link, and it removes only what it is asked to remove by name.

mod lock;
mod real;
mod replace;
#[cfg(any(test, feature = "simulated"))]
pub mod simulated;

use std::{
    ffi::OsString,
    fmt,
    fs::File,
    io::{self, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

pub use self::{
    lock::{FolderLock, LockError},
    replace::DraftName,
};
use fitgpt_say::{Lang, Say};

use crate::{attempt::Attempt, os::FileIdentity};

/// What a name in a folder refers to. Links are not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file and its length.
    File {
        /// How long it is.
        bytes: u64,
    },
    /// A folder.
    Folder,
    /// A symbolic link, a pipe, a socket or a device.
    Other,
}

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpenMode {
    /// For reading. Links are followed: Hugging Face's cache is made of them.
    Read,
    /// A new file for writing; the name must be free.
    New,
    /// For reading, and for writing at the end; created if it is missing. Links are not followed.
    Append,
    /// For writing anywhere; it must exist. Links are not followed.
    Change,
}

/// A path that stays valid while the folder is open.
#[derive(Debug)]
pub struct HeldPath {
    /// Through the open folder.
    pub path: PathBuf,
    /// While a folder is open, no other one can get its inode number.
    pub(crate) _open: Option<File>,
}

/// File operations as an operating system offers them: a call may be interrupted, fail, or move
/// fewer bytes than asked for.
pub(crate) trait FileSystem: fmt::Debug + Send + Sync {
    /// What `path` refers to.
    fn kind(&self, path: &Path) -> io::Result<FileKind>;
    /// Identifies what `path` refers to, independently of its name. Links are followed.
    fn identity(&self, path: &Path) -> io::Result<FileIdentity>;
    /// A path that refers to the folder at `path` even after it was moved, for as long as the
    /// result is kept; `path` itself if the system has none.
    fn hold(&self, path: &Path) -> io::Result<HeldPath>;
    /// The names in a folder.
    fn list(&self, path: &Path) -> io::Result<Vec<OsString>>;
    /// Creates a folder and the missing ones above it.
    fn create_dirs(&self, path: &Path) -> io::Result<()>;
    /// Creates a new folder.
    fn create_dir(&self, path: &Path) -> io::Result<()>;
    /// Opens a regular file; anything else is an error.
    fn open(&self, path: &Path, access: OpenMode) -> io::Result<Box<dyn RawFile>>;
    /// Renames, replacing a file with the new name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Creates a hard link.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file, or a link itself.
    fn remove_file(&self, path: &Path) -> io::Result<()>;
    /// Removes an empty folder.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;
    /// Waits until the names in a folder are on the disk.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
}

/// An open file of a [`FileSystem`].
pub(crate) trait RawFile: fmt::Debug + Send + Sync {
    /// Reads some bytes at `position`; returns 0 at the end.
    fn read_at(&self, bytes: &mut [u8], position: u64) -> io::Result<usize>;
    /// Writes at `position`.
    fn write_at(&mut self, bytes: &[u8], position: u64) -> io::Result<usize>;
    /// Writes at the end of a file that was opened with [`OpenMode::Append`].
    fn append(&mut self, bytes: &[u8]) -> io::Result<usize>;
    /// Its length now.
    fn len(&self) -> io::Result<u64>;
    /// Waits until the content is on the disk.
    fn sync(&self) -> io::Result<()>;
}

/// The operation that failed, its path, and the reason.
#[derive(Debug, thiserror::Error)]
pub struct DiskError {
    /// What was tried.
    pub action: Attempt,
    /// On which file or folder.
    pub path: PathBuf,
    /// What the operating system said.
    pub source: io::Error,
}

impl Say for DiskError {
    fn say(&self, lang: Lang) -> String {
        self.action.failed(lang, &self.path, &self.source)
    }
}

fitgpt_say::displays_english!(DiskError);

impl DiskError {
    /// Adds the operation and the path to an error of the operating system.
    pub fn of(action: Attempt, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self { action, path: path.to_owned(), source }
    }

    /// Whether the path does not exist.
    pub fn is_not_found(&self) -> bool {
        self.source.kind() == io::ErrorKind::NotFound
    }
}

type Result<T> = std::result::Result<T, DiskError>;

/// A file system, with interrupted calls retried and errors that name the path.
#[derive(Clone, Debug)]
pub struct Disk(Arc<dyn FileSystem>);

impl Disk {
    /// The operating system's files.
    pub fn real() -> Self {
        Self(Arc::new(real::RealFiles))
    }

    /// Files of `system`.
    #[cfg(any(test, feature = "simulated"))]
    pub(crate) fn on(system: Arc<dyn FileSystem>) -> Self {
        Self(system)
    }

    /// What `path` refers to; `None` if it does not exist.
    pub fn kind(&self, path: &Path) -> Result<Option<FileKind>> {
        let absent = [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory];
        match attempt(Attempt::Read, path, || self.0.kind(path)) {
            Ok(kind) => Ok(Some(kind)),
            Err(error) if absent.contains(&error.source.kind()) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Identifies what `path` refers to; `None` if it does not exist. Links are followed.
    pub fn identity(&self, path: &Path) -> Result<Option<FileIdentity>> {
        let absent = [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory];
        match attempt(Attempt::Read, path, || self.0.identity(path)) {
            Ok(identity) => Ok(Some(identity)),
            Err(error) if absent.contains(&error.source.kind()) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// A path that refers to the folder at `path` even after it was moved, if the system has one.
    pub fn hold(&self, path: &Path) -> Result<HeldPath> {
        attempt(Attempt::Open, path, || self.0.hold(path))
    }

    /// Whether `path` is a regular file, and not a link to one.
    pub fn is_file(&self, path: &Path) -> Result<bool> {
        Ok(matches!(self.kind(path)?, Some(FileKind::File { .. })))
    }

    /// Whether `path` is a folder, and not a link to one.
    pub fn is_folder(&self, path: &Path) -> Result<bool> {
        Ok(self.kind(path)? == Some(FileKind::Folder))
    }

    /// The names in a folder, sorted; none if it does not exist.
    pub fn list(&self, path: &Path) -> Result<Vec<OsString>> {
        match attempt(Attempt::List, path, || self.0.list(path)) {
            Ok(mut names) => {
                names.sort();
                Ok(names)
            }
            Err(error) if error.is_not_found() => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// Creates `path` and missing parents, and syncs their names. Also syncs the name of an
    /// existing folder, because an earlier attempt may have failed before it did.
    pub fn create_dirs(&self, path: &Path) -> Result<()> {
        let mut unsynced = vec![path];
        for folder in path.ancestors().filter(|folder| folder.file_name().is_some()) {
            if self.kind(folder)?.is_some() {
                break;
            }
            unsynced.push(folder);
        }
        attempt(Attempt::Create, path, || self.0.create_dirs(path))?;
        for folder in unsynced.into_iter().filter(|folder| folder.file_name().is_some()) {
            match self.sync_dir(parent_of(folder)) {
                // A folder without read permission cannot be synced.
                Err(error) if error.source.kind() == io::ErrorKind::PermissionDenied => {}
                other => other?,
            }
        }
        Ok(())
    }

    /// Creates a new folder.
    pub fn create_dir(&self, path: &Path) -> Result<()> {
        attempt(Attempt::Create, path, || self.0.create_dir(path))
    }

    /// Creates a folder unless it exists. A link in its place is an error.
    pub fn ensure_dir(&self, path: &Path) -> Result<()> {
        match self.kind(path)? {
            Some(FileKind::Folder) => Ok(()),
            Some(_) => Err(DiskError::of(Attempt::Create, path)(not_a_folder())),
            None => self.create_dir(path),
        }
    }

    /// Opens a file for reading.
    pub fn open(&self, path: &Path) -> Result<DiskFile> {
        self.opened(Attempt::Open, path, OpenMode::Read)
    }

    /// Creates a new file.
    pub fn create(&self, path: &Path) -> Result<DiskFile> {
        self.opened(Attempt::Create, path, OpenMode::New)
    }

    /// Opens a file for writing at its end, creating it if it is missing.
    pub fn append(&self, path: &Path) -> Result<DiskFile> {
        self.opened(Attempt::Open, path, OpenMode::Append)
    }

    /// Opens a file that exists for writing anywhere.
    pub fn change(&self, path: &Path) -> Result<DiskFile> {
        self.opened(Attempt::Open, path, OpenMode::Change)
    }

    /// The content of a file of at most `limit_bytes`.
    pub fn read(&self, path: &Path, limit_bytes: u64) -> Result<Vec<u8>> {
        let file = self.open(path)?;
        let bytes = file.bytes()?;
        if bytes > limit_bytes {
            return Err(DiskError::of(Attempt::Read, path)(too_large(bytes, limit_bytes)));
        }
        let mut content = vec![0; bytes as usize];
        file.read_exact_at(&mut content, 0)?;
        Ok(content)
    }

    /// Renames, replacing a file with the new name.
    pub fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        attempt(Attempt::Rename, from, || self.0.rename(from, to))
    }

    /// Creates a hard link; `false` if the file system has none.
    pub fn link(&self, from: &Path, to: &Path) -> Result<bool> {
        match attempt(Attempt::Create, to, || self.0.link(from, to)) {
            Ok(()) => Ok(true),
            // Systems report this differently: EPERM, ENOTSUP, EMLINK, ENOSYS.
            Err(error)
                if matches!(
                    error.source.kind(),
                    io::ErrorKind::Unsupported
                        | io::ErrorKind::PermissionDenied
                        | io::ErrorKind::TooManyLinks
                ) =>
            {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Removes a file, or a link itself, if it exists.
    pub fn remove_file(&self, path: &Path) -> Result<()> {
        match attempt(Attempt::Remove, path, || self.0.remove_file(path)) {
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(()),
        }
    }

    /// Removes the files called `names` in the folder `path`, and then the folder if it is empty.
    /// Other files stay, and so does their folder.
    pub fn remove_files_in(&self, path: &Path, names: &[&str]) -> Result<()> {
        if !self.is_folder(path)? {
            return Ok(());
        }
        for name in names {
            self.remove_file(&path.join(name))?;
        }
        self.remove_empty_dir(path)
    }

    /// Removes a folder if it is empty.
    pub fn remove_empty_dir(&self, path: &Path) -> Result<()> {
        let fine = [io::ErrorKind::NotFound, io::ErrorKind::DirectoryNotEmpty];
        match attempt(Attempt::Remove, path, || self.0.remove_dir(path)) {
            Err(error) if !fine.contains(&error.source.kind()) => Err(error),
            _ => Ok(()),
        }
    }

    /// Waits until the names in the folder `path` are on the disk.
    pub fn sync_dir(&self, path: &Path) -> Result<()> {
        attempt(Attempt::Sync, path, || self.0.sync_dir(path))
    }

    fn opened(&self, action: Attempt, path: &Path, access: OpenMode) -> Result<DiskFile> {
        let raw = attempt(action, path, || self.0.open(path, access))?;
        Ok(DiskFile { raw, path: path.to_owned() })
    }
}

/// An open file and its path.
#[derive(Debug)]
pub struct DiskFile {
    raw: Box<dyn RawFile>,
    path: PathBuf,
}

impl DiskFile {
    /// The path with which it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its length now.
    pub fn bytes(&self) -> Result<u64> {
        uninterrupted(|| self.raw.len()).map_err(DiskError::of(Attempt::Read, &self.path))
    }

    /// Reads some bytes at `position`; returns 0 at the end.
    pub fn read_at(&self, bytes: &mut [u8], position: u64) -> Result<usize> {
        uninterrupted(|| self.raw.read_at(bytes, position))
            .map_err(DiskError::of(Attempt::Read, &self.path))
    }

    /// Fills `bytes` with the content at `position`.
    pub fn read_exact_at(&self, mut bytes: &mut [u8], mut position: u64) -> Result<()> {
        while !bytes.is_empty() {
            match self.read_at(bytes, position)? {
                0 => {
                    let end = io::ErrorKind::UnexpectedEof.into();
                    return Err(DiskError::of(Attempt::Read, &self.path)(end));
                }
                n => {
                    bytes = &mut bytes[n..];
                    position += n as u64;
                }
            }
        }
        Ok(())
    }

    /// Writes all of `bytes` at `position`.
    pub fn write_all_at(&mut self, mut bytes: &[u8], mut position: u64) -> Result<()> {
        while !bytes.is_empty() {
            let written = uninterrupted(|| self.raw.write_at(bytes, position)).and_then(nonzero);
            let written = written.map_err(DiskError::of(Attempt::Write, &self.path))?;
            bytes = &bytes[written..];
            position += written as u64;
        }
        Ok(())
    }

    /// Writes all of `bytes` at the end.
    pub fn append_all(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let written = uninterrupted(|| self.raw.append(bytes)).and_then(nonzero);
            let written = written.map_err(DiskError::of(Attempt::Write, &self.path))?;
            bytes = &bytes[written..];
        }
        Ok(())
    }

    /// Waits until the content is on the disk.
    pub fn sync(&self) -> Result<()> {
        uninterrupted(|| self.raw.sync()).map_err(DiskError::of(Attempt::Sync, &self.path))
    }

    /// A writer that starts at `position`.
    pub fn into_writer_at(self, position: u64) -> DiskWriter {
        DiskWriter { file: self, position }
    }

    /// A writer that starts at the beginning.
    pub fn into_writer(self) -> DiskWriter {
        self.into_writer_at(0)
    }
}

/// Writes a file sequentially.
#[derive(Debug)]
pub struct DiskWriter {
    file: DiskFile,
    position: u64,
}

impl DiskWriter {
    /// The file itself.
    pub fn file(&self) -> &DiskFile {
        &self.file
    }

    /// The file itself, to write elsewhere in it.
    pub fn file_mut(&mut self) -> &mut DiskFile {
        &mut self.file
    }
}

impl Write for DiskWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.raw.write_at(bytes, self.position)?;
        self.position += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The folder that holds `path`.
pub fn parent_of(path: &Path) -> &Path {
    path.parent().filter(|folder| *folder != "").unwrap_or(Path::new("."))
}

/// Repeats an interrupted call, and adds the operation and the path to an error.
fn attempt<T>(action: Attempt, path: &Path, call: impl FnMut() -> io::Result<T>) -> Result<T> {
    uninterrupted(call).map_err(DiskError::of(action, path))
}

/// Repeats a call that a signal interrupted before it did anything.
fn uninterrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

fn nonzero(written: usize) -> io::Result<usize> {
    if written == 0 { Err(io::ErrorKind::WriteZero.into()) } else { Ok(written) }
}

/// A link, a pipe or a device where a file was expected.
pub fn not_a_file() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")
}

fn not_a_folder() -> io::Error {
    io::Error::new(io::ErrorKind::NotADirectory, "it is a file or a link, not a folder")
}

fn too_large(bytes: u64, limit_bytes: u64) -> io::Error {
    let message = format!("it has {bytes} bytes, more than the limit of {limit_bytes}");
    io::Error::new(io::ErrorKind::FileTooLarge, message)
}
