//! The Hugging Face hub: files of datasets and models, fetched into the cache of Hugging Face's
//! own tools.
//!
//! The hash of a file is known before the download: an interrupted download is resumed, checked
//! when it is complete, and only then linked under its name. What is in the cache is never
//! requested again, so a repository at a pinned commit needs no network the second time.
//!
//! Only [`http`] uses the network, and only with feature `hub`.
//!
//! The client is our own code over `ureq`, blocking, with rustls and ring: 20 crates. `hf-hub` 1.0
//! pulls in more than 300, tokio, reqwest and `aws-lc-sys` among them, which needs `CMake` on some
//! systems. ring compiles C with the compiler that Rust links with, and nothing else; without the
//! feature names are refused. Commits are pinned in one table, and the listing of a commit is kept.
//!
//! Promise: a file from the hub appears only when complete and with the right hash, also after
//! kills, interrupted, wrong or damaged responses; the token is sent to the hub alone. Test:
//! `tests/library/hub`, with a server that injects all of these.

mod error;
mod words;
mod cache;
mod datasets;
mod models;
mod settings;
// The only use of the feature.
#[cfg(feature = "hub")]
mod http;
#[cfg(not(feature = "hub"))]
#[path = "no_http.rs"]
mod http;
mod client;
mod download;

use std::path::PathBuf;

use self::{cache::RepoCache, client::Client};
pub use self::{
    datasets::{DATASETS, DatasetContent, NamedDataset, Selection, Sizes, named},
    error::HubError,
    models::{ModelPart, download_model},
    settings::{Settings, hub_cache},
};

/// A kind of repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RepoKind {
    /// A model.
    Model,
    /// A dataset.
    Dataset,
}

impl RepoKind {
    /// Its name in addresses of the API and names of cache folders.
    fn plural(self) -> &'static str {
        match self {
            Self::Model => "models",
            Self::Dataset => "datasets",
        }
    }
}

/// A repository at a revision: a commit, a branch, or a ref such as `refs/convert/parquet`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repo {
    /// Model or dataset.
    pub kind: RepoKind,
    /// `owner/name`, or just a name.
    pub id: String,
    /// A commit, a branch or a ref.
    pub revision: String,
}

/// The expected hash of a file, which is also the name of its blob in the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileHash {
    /// For a file in large-file storage.
    Sha256(String),
    /// For a file in git: SHA-1 of a header and the content.
    GitBlob(String),
}

impl FileHash {
    /// In hexadecimal.
    pub fn hex(&self) -> &str {
        match self {
            Self::Sha256(hex) | Self::GitBlob(hex) => hex,
        }
    }
}

/// A file of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteFile {
    /// Its path in the repository.
    pub path: String,
    /// Its length.
    pub bytes: u64,
    /// Its expected hash.
    pub hash: FileHash,
}

/// The files of a repository at one commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepoSnapshot {
    /// Model or dataset, its name, and the commit as its revision.
    pub repo: Repo,
    /// In the order of their paths.
    pub files: Vec<RemoteFile>,
}

/// The progress of a download.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DownloadProgress<'a> {
    /// The file's path in the repository.
    pub path: &'a str,
    /// How much of it was downloaded.
    pub bytes: u64,
    /// Its length.
    pub total_bytes: u64,
}

/// A hub and a cache.
#[derive(Debug)]
pub struct Hub {
    client: Client,
    settings: Settings,
}

impl Hub {
    /// The hub of `settings`.
    pub fn new(settings: Settings) -> Result<Self, HubError> {
        Ok(Self { client: Client::new(&settings)?, settings })
    }

    /// The folder of the cache.
    pub fn cache(&self) -> &std::path::Path {
        &self.settings.cache
    }

    /// The files below `folder` ("" for all) of a repository. The listing of a commit is kept next
    /// to its files; offline and without such a listing, the files in the cache are listed.
    pub fn list(
        &self,
        repo: &Repo,
        folder: &str,
        stop: &dyn Fn() -> bool,
    ) -> Result<RepoSnapshot, HubError> {
        let mut cache = RepoCache::of(&self.settings.cache, repo);
        let is_commit = is_commit(&repo.revision);
        let known = if is_commit || self.settings.is_offline { cache.commit()? } else { None };
        if let Some(commit) = &known {
            let repo = Repo { revision: commit.clone(), ..repo.clone() };
            if let Some(files) = cache.listing(commit, folder)? {
                return Ok(RepoSnapshot { repo, files });
            }
            if self.settings.is_offline {
                let files = cache.files_at(commit, folder)?;
                if !files.is_empty() {
                    return Ok(RepoSnapshot { repo, files });
                }
            }
        }
        if self.settings.is_offline {
            return Err(HubError::NotInCache { repo: repo.id.clone(), path: None });
        }
        let commit =
            if is_commit { repo.revision.clone() } else { self.client.commit(repo, stop)? };
        let repo = Repo { revision: commit.clone(), ..repo.clone() };
        let files = self.client.tree(&repo, folder, stop)?;
        cache.keep_listing(&commit, folder, &files)?;
        Ok(RepoSnapshot { repo, files })
    }

    /// How much of `file` is still to be downloaded.
    pub fn missing_bytes(&self, snapshot: &RepoSnapshot, file: &RemoteFile) -> u64 {
        RepoCache::of(&self.settings.cache, &snapshot.repo).missing_bytes(file)
    }

    /// The file's path in the cache, after downloading what is missing of it.
    pub fn fetch(
        &self,
        snapshot: &RepoSnapshot,
        file: &RemoteFile,
        progress: &mut dyn FnMut(DownloadProgress<'_>),
        stop: &dyn Fn() -> bool,
    ) -> Result<PathBuf, HubError> {
        let cache = RepoCache::of(&self.settings.cache, &snapshot.repo);
        if let Some(path) = cache.find(file) {
            return Ok(path);
        }
        if cache.missing_bytes(file) > 0 && self.settings.is_offline {
            let (repo, path) = (snapshot.repo.id.clone(), Some(file.path.clone()));
            return Err(HubError::NotInCache { repo, path });
        }
        download::into_cache(&self.client, &cache, &snapshot.repo, file, progress, stop)
    }
}

/// Whether a revision is a commit, which never changes.
fn is_commit(revision: &str) -> bool {
    revision.len() == 40 && revision.bytes().all(|byte| byte.is_ascii_hexdigit())
}
