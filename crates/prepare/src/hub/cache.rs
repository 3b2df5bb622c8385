//! The cache of Hugging Face's tools, in their layout:
//!
//! ```text
//! datasets--owner--name/
//!   blobs/<hash>                    content; `<hash>.incomplete` during the download
//!   refs/<revision>                 the commit of a branch
//!   snapshots/<commit>/<path>       a link to the blob
//! .locks/datasets--owner--name/<hash>.lock
//! ```
//!
//! One file is ours: `.fitgpt-<commit>.json` lists the repository's files, so that a complete copy
//! can be recognised offline. Hugging Face's tools ignore it.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use fitgpt_files::{
    attempt::Attempt,
    disk::{Disk, DiskError},
    os,
};
use serde::{Deserialize, Serialize};

use super::{FileHash, HubError, RemoteFile, Repo, is_commit};

/// More than any listing: that of the largest dataset, a hundred thousand files, has about ten
/// megabytes.
const LISTING_BYTES_LIMIT: u64 = 256 << 20;

/// A repository in the cache.
#[derive(Clone, Debug)]
pub(super) struct RepoCache {
    folder: PathBuf,
    locks: PathBuf,
    revision: String,
}

/// A file in a listing.
#[derive(Debug, Serialize, Deserialize)]
struct ListedFile {
    bytes: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sha256: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    git: Option<String>,
}

/// Files by path, for each folder that was listed.
type Listing = BTreeMap<String, BTreeMap<String, ListedFile>>;

impl RepoCache {
    pub(super) fn of(cache: &Path, repo: &Repo) -> Self {
        let name = format!("{}--{}", repo.kind.plural(), repo.id.replace('/', "--"));
        Self {
            folder: cache.join(&name),
            locks: cache.join(".locks").join(name),
            revision: repo.revision.clone(),
        }
    }

    /// The commit of the revision, if the cache has it.
    pub(super) fn commit(&self) -> Result<Option<String>, HubError> {
        if is_commit(&self.revision) {
            return Ok(Some(self.revision.clone()));
        }
        let path = self.ref_path();
        match os::read_text(&path, 4096) {
            Ok(text) => Ok(Some(text.trim().to_owned()).filter(|commit| is_commit(commit))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(HubError::io(Attempt::Read, path)(error)),
        }
    }

    fn ref_path(&self) -> PathBuf {
        self.folder.join("refs").join(&self.revision)
    }

    /// The files below `folder` at `commit`, if they were listed before.
    pub(super) fn listing(
        &self,
        commit: &str,
        folder: &str,
    ) -> Result<Option<Vec<RemoteFile>>, HubError> {
        let Some(mut listing) = self.read_listing(commit)? else { return Ok(None) };
        let Some(files) = listing.remove(folder) else { return Ok(None) };
        let file = |(path, listed): (String, ListedFile)| {
            let hash = match (listed.sha256, listed.git) {
                (Some(sha256), _) => FileHash::Sha256(sha256),
                (None, Some(git)) => FileHash::GitBlob(git),
                (None, None) => return None,
            };
            (is_safe(&path) && is_hash(hash.hex())).then_some(())?;
            Some(RemoteFile { path, bytes: listed.bytes, hash })
        };
        Ok(files.into_iter().map(file).collect())
    }

    /// Returns `None` for a listing that cannot be parsed.
    fn read_listing(&self, commit: &str) -> Result<Option<Listing>, HubError> {
        let path = self.listing_path(commit);
        match os::read_text(&path, LISTING_BYTES_LIMIT) {
            Ok(text) => Ok(serde_json::from_str(&text).ok()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(HubError::io(Attempt::Read, path)(error)),
        }
    }

    fn listing_path(&self, commit: &str) -> PathBuf {
        self.folder.join(format!(".fitgpt-{commit}.json"))
    }

    /// Stores the listing of `folder` at `commit`, and the commit of the revision.
    pub(super) fn keep_listing(
        &mut self,
        commit: &str,
        folder: &str,
        files: &[RemoteFile],
    ) -> Result<(), HubError> {
        let mut listing = self.read_listing(commit)?.unwrap_or_default();
        let listed = files.iter().map(|file| {
            let (sha256, git) = match &file.hash {
                FileHash::Sha256(hex) => (Some(hex.clone()), None),
                FileHash::GitBlob(hex) => (None, Some(hex.clone())),
            };
            (file.path.clone(), ListedFile { bytes: file.bytes, sha256, git })
        });
        listing.insert(folder.to_owned(), listed.collect());
        let text = serde_json::to_string(&listing).expect("texts and numbers are JSON");
        replace(&self.listing_path(commit), text.as_bytes())?;
        if !is_commit(&self.revision) && is_safe(&self.revision) {
            replace(&self.ref_path(), commit.as_bytes())?;
        }
        Ok(())
    }

    /// The files below `folder` that the cache has at `commit`.
    pub(super) fn files_at(&self, commit: &str, folder: &str) -> Result<Vec<RemoteFile>, HubError> {
        let root = self.folder.join("snapshots").join(commit);
        let mut files = Vec::new();
        let mut folders = vec![root.join(folder)];
        while let Some(folder) = folders.pop() {
            let entries = match fs::read_dir(&folder) {
                Ok(entries) => entries,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(HubError::io(Attempt::List, folder)(error)),
            };
            for entry in entries {
                let path = entry.map_err(HubError::io(Attempt::List, &*folder))?.path();
                let Ok(facts) = fs::metadata(&path) else { continue }; // a broken link
                if facts.is_dir() {
                    folders.push(path);
                } else if let Some(name) = path.strip_prefix(&root).ok().and_then(Path::to_str) {
                    // The blob's name is the hash.
                    let blob = fs::canonicalize(&path).ok();
                    let hash = blob.as_deref().and_then(Path::file_name).and_then(|n| n.to_str());
                    let hash = hash.filter(|hash| is_hash(hash)).unwrap_or_default().to_owned();
                    let hash = match hash.len() {
                        40 => FileHash::GitBlob(hash),
                        _ => FileHash::Sha256(hash),
                    };
                    let path = name.replace(std::path::MAIN_SEPARATOR, "/");
                    files.push(RemoteFile { path, bytes: facts.len(), hash });
                }
            }
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(files)
    }

    /// The path of a file in the snapshot of this revision, which is a commit.
    pub(super) fn snapshot_path(&self, file: &RemoteFile) -> PathBuf {
        self.folder.join("snapshots").join(&self.revision).join(&file.path)
    }

    pub(super) fn blob_path(&self, file: &RemoteFile) -> PathBuf {
        self.folder.join("blobs").join(file.hash.hex())
    }

    pub(super) fn incomplete_path(&self, file: &RemoteFile) -> PathBuf {
        self.folder.join("blobs").join(format!("{}.incomplete", file.hash.hex()))
    }

    /// The file's path, if it is in the cache with its full length.
    pub(super) fn find(&self, file: &RemoteFile) -> Option<PathBuf> {
        let path = self.snapshot_path(file);
        has_length(&path, file.bytes).then_some(path)
    }

    /// How much of the file is not in the cache.
    pub(super) fn missing_bytes(&self, file: &RemoteFile) -> u64 {
        if self.find(file).is_some() || has_length(&self.blob_path(file), file.bytes) {
            return 0;
        }
        let here = fs::metadata(self.incomplete_path(file)).map_or(0, |facts| facts.len());
        file.bytes.saturating_sub(here)
    }

    /// Waits until no other process downloads the file. The lock is released when the result is
    /// dropped.
    pub(super) fn lock(&self, file: &RemoteFile) -> Result<File, HubError> {
        let path = self.locks.join(format!("{}.lock", file.hash.hex()));
        make_folder(&self.locks)?;
        let options = File::options().create(true).truncate(false).write(true).open(&path);
        let opened = options.map_err(HubError::io(Attempt::Open, &*path))?;
        opened.lock().map_err(HubError::io(Attempt::Lock, &*path))?;
        Ok(opened)
    }

    /// Creates the folder of blobs.
    pub(super) fn make_blobs(&self) -> Result<(), HubError> {
        make_folder(&self.folder.join("blobs"))
    }

    /// Links a complete blob into the snapshot.
    pub(super) fn name_blob(&self, file: &RemoteFile) -> Result<PathBuf, HubError> {
        let path = self.snapshot_path(file);
        let folder = path.parent().expect("it is below the cache");
        make_folder(folder)?;
        if fs::symlink_metadata(&path).is_ok() {
            // A broken link, or a file of another length.
            fs::remove_file(&path).map_err(HubError::io(Attempt::Remove, &*path))?;
        }
        let blob = self.blob_path(file);
        let up = "../".repeat(2 + file.path.matches('/').count());
        let target = PathBuf::from(format!("{up}blobs/{}", file.hash.hex()));
        // Without symbolic links, use a hard link or the file itself, as Hugging Face's tools do.
        os::link_to(&target, &path)
            .or_else(|_| fs::hard_link(&blob, &path))
            .or_else(|_| fs::rename(&blob, &path))
            .map_err(HubError::io(Attempt::Create, &*path))?;
        Ok(path)
    }
}

fn has_length(path: &Path, bytes: u64) -> bool {
    fs::metadata(path).is_ok_and(|facts| facts.is_file() && facts.len() == bytes)
}

fn make_folder(path: &Path) -> Result<(), HubError> {
    fs::create_dir_all(path).map_err(HubError::io(Attempt::Create, path))
}

/// Writes a small file atomically.
fn replace(path: &Path, content: &[u8]) -> Result<(), HubError> {
    if let Some(folder) = path.parent() {
        make_folder(folder)?;
    }
    let replaced = Disk::real().replace(path, content);
    replaced.map_err(|DiskError { action, path, source }| HubError::io(action, path)(source))
}

/// Whether a path of a repository stays inside a folder that it is joined to.
pub(super) fn is_safe(path: &str) -> bool {
    let is_plain = |part: &str| !matches!(part, "" | "." | "..");
    !path.contains(['\\', ':', '\0']) && path.split('/').all(is_plain)
}

/// Whether a text is a SHA-1 or SHA-256 in hexadecimal, and therefore safe as a file name.
pub(super) fn is_hash(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}
