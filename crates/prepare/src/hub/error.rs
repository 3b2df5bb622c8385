//! Errors of downloads.

use std::{io, path::PathBuf};

use fitgpt_files::attempt::Attempt;

/// Why a file was not downloaded.
#[derive(Debug, thiserror::Error)]
pub enum HubError {
    /// The program was built without feature `hub`.
    NotBuilt,
    /// Offline, and not in the cache.
    NotInCache {
        /// The repository.
        repo: String,
        /// The file, if the cache has others of the repository.
        path: Option<String>,
    },
    /// There was no response.
    Unreachable {
        /// The requested address, without its query.
        url: String,
        /// The network's reason.
        reason: String,
    },
    /// 401: the hub does not reveal whether a repository is private or missing.
    Unauthorized {
        /// The repository.
        repo: String,
        /// Whether a token was sent.
        has_token: bool,
    },
    /// 403: for example, the terms were not accepted.
    Forbidden {
        /// The repository.
        repo: String,
        /// From the hub.
        reason: String,
    },
    /// 404.
    NotFound {
        /// The repository.
        repo: String,
        /// A revision or a file.
        what: String,
    },
    /// 429 for every attempt.
    TooManyRequests {
        /// The number of attempts.
        attempts: u32,
    },
    /// 5xx for every attempt, or another unexpected status.
    Status {
        /// What was asked for.
        url: String,
        /// The status.
        status: u16,
    },
    /// An invalid response.
    BadResponse {
        /// What was asked for.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A transfer that was interrupted at every attempt.
    BrokenOff {
        /// The file.
        path: String,
        /// How much of it was downloaded and is kept.
        bytes: u64,
        /// Its length.
        total_bytes: u64,
        /// The number of attempts.
        attempts: u32,
    },
    /// The content does not match its hash.
    WrongHash {
        /// The file.
        path: String,
        /// The computed hash.
        found: String,
        /// From the hub.
        expected: String,
    },
    /// No file of the repository matches.
    NoFiles {
        /// The repository.
        repo: String,
        /// The pattern of the files.
        pattern: String,
        /// Where.
        revision: String,
    },
    /// A sample that the dataset does not have.
    NoSample {
        /// The dataset.
        dataset: &'static str,
        /// What was asked for.
        sample: String,
        /// What there is.
        samples: Vec<&'static str>,
    },
    /// The disk is too small.
    TooLittleDisk {
        /// What is needed.
        need_bytes: u64,
        /// What there is.
        free_bytes: u64,
        /// Where.
        folder: PathBuf,
    },
    /// The operating system refused.
    Io {
        /// What was tried.
        action: Attempt,
        /// On which file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The user asked to stop. The downloaded part is kept.
    Stopped,
}

impl HubError {
    /// Makes an error from what the operating system reported.
    pub(super) fn io(action: Attempt, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { action, path, source }
    }
}
