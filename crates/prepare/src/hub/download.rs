//! Downloads a file from the hub to the cache: resumes, checks, then links it.

use std::{
    fs::{self, File},
    io::{self, Read, Write as _},
    path::{Path, PathBuf},
};

use fitgpt_files::attempt::Attempt;

use super::{
    DownloadProgress, FileHash, HubError, RemoteFile, Repo,
    cache::RepoCache,
    client::{Client, FilePart},
    http::Hasher,
};

const CHUNK_BYTES: usize = 256 << 10;

/// Downloads the missing part of `file`. Bytes from an earlier attempt are read again for the hash;
/// a damaged file is downloaded again once.
pub(super) fn into_cache(
    client: &Client,
    cache: &RepoCache,
    repo: &Repo,
    file: &RemoteFile,
    progress: &mut dyn FnMut(DownloadProgress<'_>),
    stop: &dyn Fn() -> bool,
) -> Result<PathBuf, HubError> {
    cache.make_blobs()?;
    let _lock = cache.lock(file)?;
    // Another process may have completed it while this one waited for the lock.
    if let Some(path) = cache.find(file) {
        return Ok(path);
    }
    let blob = cache.blob_path(file);
    if fs::metadata(&blob).is_ok_and(|facts| facts.len() == file.bytes) {
        return cache.name_blob(file);
    }
    let incomplete = cache.incomplete_path(file);
    let mut found = None;
    for _ in 0..2 {
        let mut arriving = PartialFile::open(&incomplete, file)?;
        arriving.complete(client, repo, progress, stop)?;
        let (hash, opened) = arriving.finish();
        if hash == file.hash.hex() {
            opened.sync_all().map_err(HubError::io(Attempt::Sync, &*incomplete))?;
            fs::rename(&incomplete, &blob).map_err(HubError::io(Attempt::Rename, &*incomplete))?;
            return cache.name_blob(file);
        }
        fs::remove_file(&incomplete).map_err(HubError::io(Attempt::Remove, &*incomplete))?;
        found = Some(hash);
    }
    Err(HubError::WrongHash {
        path: file.path.clone(),
        found: found.unwrap_or_default(),
        expected: file.hash.hex().to_owned(),
    })
}

/// A partly downloaded file.
struct PartialFile<'a> {
    remote: &'a RemoteFile,
    path: &'a Path,
    file: File,
    bytes: u64,
    hasher: Hasher,
}

impl<'a> PartialFile<'a> {
    /// Opens the existing part and hashes it.
    fn open(path: &'a Path, remote: &'a RemoteFile) -> Result<Self, HubError> {
        let options =
            File::options().read(true).append(true).create(true).truncate(false).open(path);
        let mut file = options.map_err(HubError::io(Attempt::Open, path))?;
        let mut hasher = empty_hash(remote);
        let mut bytes = 0;
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            let read = file.read(&mut chunk).map_err(HubError::io(Attempt::Read, path))?;
            if read == 0 {
                break;
            }
            hasher.update(&chunk[..read]);
            bytes += read as u64;
        }
        let mut arriving = Self { remote, path, file, bytes, hasher };
        if bytes > remote.bytes {
            arriving.restart()?;
        }
        Ok(arriving)
    }

    fn restart(&mut self) -> Result<(), HubError> {
        self.file.set_len(0).map_err(HubError::io(Attempt::Truncate, self.path))?;
        self.bytes = 0;
        self.hasher = empty_hash(self.remote);
        Ok(())
    }

    /// Downloads the rest, and retries as long as there is progress.
    fn complete(
        &mut self,
        client: &Client,
        repo: &Repo,
        progress: &mut dyn FnMut(DownloadProgress<'_>),
        stop: &dyn Fn() -> bool,
    ) -> Result<(), HubError> {
        let mut fruitless = 0;
        let mut furthest = self.bytes;
        while self.bytes < self.remote.bytes {
            client.wait(fruitless + 1, stop)?;
            let part = client.open(repo, self.remote, self.bytes, stop)?;
            if part.start < self.bytes {
                self.restart()?;
            }
            self.read(part, progress, stop)?;
            if self.bytes > furthest {
                (fruitless, furthest) = (0, self.bytes);
                continue;
            }
            fruitless += 1;
            if fruitless >= client.attempts() {
                return Err(HubError::BrokenOff {
                    path: self.remote.path.clone(),
                    bytes: self.bytes,
                    total_bytes: self.remote.bytes,
                    attempts: fruitless,
                });
            }
        }
        Ok(())
    }

    /// Writes what arrives, to the end of the file or of the transfer. An interrupted transfer is
    /// not an error here.
    fn read(
        &mut self,
        mut part: FilePart,
        progress: &mut dyn FnMut(DownloadProgress<'_>),
        stop: &dyn Fn() -> bool,
    ) -> Result<(), HubError> {
        let mut chunk = vec![0; CHUNK_BYTES];
        while self.bytes < self.remote.bytes {
            if stop() {
                return Err(HubError::Stopped);
            }
            let wanted = chunk.len().min((self.remote.bytes - self.bytes) as usize);
            let read = match part.body.read(&mut chunk[..wanted]) {
                Ok(0) => return Ok(()),
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return Ok(()),
            };
            let written = self.file.write_all(&chunk[..read]);
            written.map_err(HubError::io(Attempt::Write, self.path))?;
            self.hasher.update(&chunk[..read]);
            self.bytes += read as u64;
            let (path, bytes, total_bytes) = (&*self.remote.path, self.bytes, self.remote.bytes);
            progress(DownloadProgress { path, bytes, total_bytes });
        }
        Ok(())
    }

    fn finish(self) -> (String, File) {
        (self.hasher.finish(), self.file)
    }
}

fn empty_hash(file: &RemoteFile) -> Hasher {
    match &file.hash {
        FileHash::Sha256(_) => Hasher::sha256(),
        FileHash::GitBlob(_) => {
            let mut hasher = Hasher::sha1();
            hasher.update(format!("blob {}\0", file.bytes).as_bytes());
            hasher
        }
    }
}
