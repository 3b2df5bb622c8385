//! What can go wrong between the hub and the cache.

use std::{io, path::PathBuf};

use crate::attempt::Attempt;

/// Why there is no file.
#[derive(Debug, thiserror::Error)]
pub enum HubError {
    /// The program was built without the network.
    #[error("this build cannot download: it has no feature `hub`")]
    NotBuilt,
    /// Offline, and not here.
    #[error(
        "`{repo}`{} is not in the cache, and `HF_HUB_OFFLINE` is set",
        path.as_ref().map_or(String::new(), |path| format!(": `{path}`"))
    )]
    NotInCache {
        /// The repository.
        repo: String,
        /// The file, if others of the repository are here.
        path: Option<String>,
    },
    /// Nobody answered.
    #[error("cannot reach `{url}`: {reason}")]
    Unreachable {
        /// What was asked for, without its query.
        url: String,
        /// The network's reason.
        reason: String,
    },
    /// 401: the hub does not say whether a repository is private or missing.
    #[error(
        "the hub does not know `{repo}`, or it is private and {} (401)",
        if *has_token { "the token may not read it" } else { "there is no token" }
    )]
    Unauthorized {
        /// The repository.
        repo: String,
        /// Whether a token was sent.
        has_token: bool,
    },
    /// 403: its owner wants something first.
    #[error("`{repo}` may not be read (403): {reason}")]
    Forbidden {
        /// The repository.
        repo: String,
        /// What the hub says.
        reason: String,
    },
    /// 404.
    #[error("`{repo}` has no `{what}` (404)")]
    NotFound {
        /// The repository.
        repo: String,
        /// A revision or a file.
        what: String,
    },
    /// 429 until patience ended.
    #[error("the hub limits requests (429), also after {attempts} attempts")]
    TooManyRequests {
        /// How often it was asked.
        attempts: u32,
    },
    /// 5xx until patience ended, or anything else that is no answer.
    #[error("`{url}` answered with status {status}")]
    Status {
        /// What was asked for.
        url: String,
        /// The status.
        status: u16,
    },
    /// An answer that makes no sense.
    #[error("`{url}` gave an answer that cannot be used: {reason}")]
    BadAnswer {
        /// What was asked for.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A transfer that ended early again and again.
    #[error(
        "the download of `{path}` ended at byte {bytes} of {total_bytes}; {attempts} attempts brought no more"
    )]
    BrokenOff {
        /// The file.
        path: String,
        /// How much of it is here and stays for the next attempt.
        bytes: u64,
        /// Its length.
        total_bytes: u64,
        /// How often it was asked for.
        attempts: u32,
    },
    /// The content is not what its hash says.
    #[error("`{path}` arrived damaged twice: its hash is {found}, and should be {expected}")]
    WrongHash {
        /// The file.
        path: String,
        /// What was computed.
        found: String,
        /// What the hub says.
        expected: String,
    },
    /// A dataset without such files.
    #[error("`{repo}` has no files like `{pattern}` at `{revision}`")]
    NoFiles {
        /// The repository.
        repo: String,
        /// Which were wanted.
        pattern: String,
        /// Where.
        revision: String,
    },
    /// A sample that the dataset does not have.
    #[error("`{dataset}` has no sample `{sample}`; it has {}", samples.join(", "))]
    NoSample {
        /// The dataset.
        dataset: &'static str,
        /// What was asked for.
        sample: String,
        /// What there is.
        samples: Vec<&'static str>,
    },
    /// The disk is too small.
    #[error(
        "{need_bytes} bytes are needed on the disk of `{}`, {free_bytes} are free", folder.display()
    )]
    TooLittleDisk {
        /// What is needed.
        need_bytes: u64,
        /// What there is.
        free_bytes: u64,
        /// Where.
        folder: PathBuf,
    },
    /// The operating system refused.
    #[error("cannot {action} `{}`: {source}", path.display())]
    Io {
        /// What was tried.
        action: Attempt,
        /// On which file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// Somebody asked to stop. What arrived stays.
    #[error("stopped; the downloaded part is kept, and the same command continues")]
    Stopped,
}

impl HubError {
    /// Makes an error of what the operating system reported.
    pub(super) fn io(action: Attempt, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { action, path, source }
    }
}
