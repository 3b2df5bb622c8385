//! The hub's API: the files of a repository, and their contents.
//!
//! A request that fails temporarily (429, 5xx, no connection) is repeated after the wait that the
//! hub asks for, or with exponential backoff. The token is sent to the endpoint only, never to a
//! redirect.

use std::{
    fmt::Write as _,
    io::{self, Read as _},
    thread,
    time::{Duration, Instant},
};

use serde::Deserialize;

use super::{
    FileHash, HubError, RemoteFile, Repo, RepoKind, Settings,
    cache::{is_hash, is_safe},
    http::{HttpError, HttpResponse, Network},
    is_commit,
};

/// The longest wait that is accepted.
const WAIT_LIMIT: Duration = Duration::from_mins(5);

/// More than any page of a listing, which has 1,000 files of about 300 bytes.
const PAGE_BYTES_LIMIT: u64 = 16 << 20;

/// More than any listing: the largest dataset has about 100,000 files.
const PAGES_LIMIT: usize = 1000;

const REDIRECTS_LIMIT: usize = 5;

/// A client of a hub.
#[derive(Debug)]
pub(super) struct Client {
    network: Network,
    endpoint: String,
    token: Option<String>,
    attempts: u32,
    first_wait: Duration,
}

/// A part of a file that is about to be read.
pub(super) struct FilePart {
    /// Its offset: the requested one, or 0 if the server sends only whole files.
    pub(super) start: u64,
    pub(super) body: Box<dyn io::Read>,
}

#[derive(Deserialize)]
struct Revision {
    sha: String,
}

#[derive(Deserialize)]
struct TreeEntry {
    r#type: String,
    path: String,
    #[serde(default)]
    size: u64,
    oid: String,
    lfs: Option<Lfs>,
}

#[derive(Deserialize)]
struct Lfs {
    oid: String,
    size: u64,
}

impl Client {
    pub(super) fn new(settings: &Settings) -> Result<Self, HubError> {
        let network = Network::new().map_err(|error| http_error("TLS", error))?;
        Ok(Self {
            network,
            endpoint: settings.endpoint.clone(),
            token: settings.token.clone(),
            attempts: settings.attempts.max(1),
            first_wait: settings.first_wait,
        })
    }

    /// How often a request is made before it fails.
    pub(super) fn attempts(&self) -> u32 {
        self.attempts
    }

    /// Waits before attempt `attempt`, counted from 1; not before the first.
    pub(super) fn wait(&self, attempt: u32, stop: &dyn Fn() -> bool) -> Result<(), HubError> {
        match attempt {
            0 | 1 => Ok(()),
            _ => sleep(self.first_wait * 2_u32.saturating_pow((attempt - 2).min(10)), stop),
        }
    }

    /// The commit of a branch.
    pub(super) fn commit(&self, repo: &Repo, stop: &dyn Fn() -> bool) -> Result<String, HubError> {
        let url = format!("{}/revision/{}", self.api(repo), quoted(&repo.revision, ""));
        let answer = self.ask(&url, &repo.id, &repo.revision, stop)?;
        let revision: Revision = read_json(&url, answer)?;
        if is_commit(&revision.sha) {
            return Ok(revision.sha);
        }
        Err(bad_response(&url, "`sha` is not a commit"))
    }

    /// The files below a folder, sorted by path. The repository's revision is a commit.
    pub(super) fn tree(
        &self,
        repo: &Repo,
        folder: &str,
        stop: &dyn Fn() -> bool,
    ) -> Result<Vec<RemoteFile>, HubError> {
        let below =
            if folder.is_empty() { String::new() } else { format!("/{}", quoted(folder, "/")) };
        let tree = format!("{}/tree/{}", self.api(repo), quoted(&repo.revision, ""));
        let mut next = Some(format!("{tree}{below}?recursive=true&expand=false"));
        let mut files = Vec::new();
        let what = if folder.is_empty() { &repo.revision } else { folder };
        for _ in 0..PAGES_LIMIT {
            let Some(url) = next.take() else { break };
            let answer = self.ask(&url, &repo.id, what, stop)?;
            next = answer.header("link").and_then(next_page).map(str::to_owned);
            if next.as_ref().is_some_and(|next| !self.is_endpoint(next)) {
                return Err(bad_response(&url, "the next page is at another host"));
            }
            let entries: Vec<TreeEntry> = read_json(&url, answer)?;
            for entry in entries.into_iter().filter(|entry| entry.r#type == "file") {
                files.push(remote_file(&url, entry)?);
            }
        }
        if next.is_some() {
            return Err(bad_response(&tree, "the listing does not end"));
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        files.dedup_by(|a, b| a.path == b.path);
        Ok(files)
    }

    /// The file from byte `start`. If the server sends the whole file instead, the part starts at
    /// 0.
    pub(super) fn open(
        &self,
        repo: &Repo,
        file: &RemoteFile,
        start: u64,
        stop: &dyn Fn() -> bool,
    ) -> Result<FilePart, HubError> {
        let kind = if repo.kind == RepoKind::Dataset { "datasets/" } else { "" };
        let (revision, path) = (quoted(&repo.revision, ""), quoted(&file.path, "/"));
        let mut url = format!("{}/{kind}{}/resolve/{revision}/{path}", self.endpoint, repo.id);
        let range = format!("bytes={start}-");
        for _ in 0..=REDIRECTS_LIMIT {
            let answer = self.with_retries(&url, &repo.id, &file.path, stop, |headers| {
                if start > 0 {
                    headers.push(("range".to_owned(), range.clone()));
                }
            })?;
            match answer.status {
                301 | 302 | 303 | 307 | 308 => {
                    let Some(location) = answer.header("location") else {
                        return Err(bad_response(&url, "a redirect without a location"));
                    };
                    url = joined(&url, location);
                }
                200 => {
                    check_length(&url, &answer, file.bytes)?;
                    return Ok(FilePart { start: 0, body: answer.body });
                }
                206 => {
                    check_range(&url, &answer, start, file.bytes)?;
                    return Ok(FilePart { start, body: answer.body });
                }
                // The part in the cache does not belong to the file.
                416 => return Ok(FilePart { start: 0, body: Box::new(io::empty()) }),
                status => return Err(HubError::Status { url: shown(&url), status }),
            }
        }
        Err(bad_response(&url, "too many redirects"))
    }

    fn api(&self, repo: &Repo) -> String {
        format!("{}/api/{}/{}", self.endpoint, repo.kind.plural(), repo.id)
    }

    fn is_endpoint(&self, url: &str) -> bool {
        url.strip_prefix(&self.endpoint).is_some_and(|rest| rest.starts_with('/'))
    }

    fn ask(
        &self,
        url: &str,
        repo: &str,
        what: &str,
        stop: &dyn Fn() -> bool,
    ) -> Result<HttpResponse, HubError> {
        let answer = self.with_retries(url, repo, what, stop, |_| ())?;
        match answer.status {
            200 => Ok(answer),
            status => Err(HubError::Status { url: shown(url), status }),
        }
    }

    /// Repeats a request until its response is final: a success, a redirect, or an error that
    /// repeating does not change.
    fn with_retries(
        &self,
        url: &str,
        repo: &str,
        what: &str,
        stop: &dyn Fn() -> bool,
        add: impl Fn(&mut Vec<(String, String)>),
    ) -> Result<HttpResponse, HubError> {
        let mut headers = Vec::new();
        if let Some(token) = self.token.as_ref().filter(|_| self.is_endpoint(url)) {
            headers.push(("authorization".to_owned(), format!("Bearer {token}")));
        }
        add(&mut headers);
        let headers: Vec<_> = headers.iter().map(|(name, value)| (&**name, &**value)).collect();
        let mut attempt = 1;
        loop {
            if stop() {
                return Err(HubError::Stopped);
            }
            let (wait, error) = match self.network.get(url, &headers) {
                Err(error @ HttpError::NotBuilt) => return Err(http_error(url, error)),
                Err(error) => (None, http_error(url, error)),
                Ok(answer) => match answer.status {
                    401 if self.is_endpoint(url) => {
                        let has_token = self.token.is_some();
                        return Err(HubError::Unauthorized { repo: repo.to_owned(), has_token });
                    }
                    403 if self.is_endpoint(url) => {
                        let message = answer.header("x-error-message").unwrap_or("no reason given");
                        let reason = message.chars().take(300).collect();
                        return Err(HubError::Forbidden { repo: repo.to_owned(), reason });
                    }
                    404 => {
                        let (repo, what) = (repo.to_owned(), what.to_owned());
                        return Err(HubError::NotFound { repo, what });
                    }
                    429 => {
                        let error = HubError::TooManyRequests { attempts: attempt };
                        (asked_wait(&answer), error)
                    }
                    // 401 and 403 from a storage server: the signed address has expired, and the
                    // hub gives a new one.
                    status @ (401 | 403 | 408 | 500..=599) => {
                        (asked_wait(&answer), HubError::Status { url: shown(url), status })
                    }
                    _ => return Ok(answer),
                },
            };
            if attempt >= self.attempts {
                return Err(error);
            }
            attempt += 1;
            match wait {
                Some(wait) if wait > WAIT_LIMIT => return Err(error),
                Some(wait) => sleep(wait, stop)?,
                None => self.wait(attempt, stop)?,
            }
        }
    }
}

/// The target of a redirect, which may be relative.
fn joined(url: &str, location: &str) -> String {
    if location.contains("://") {
        return location.to_owned();
    }
    let host_end = url.find("://").map_or(0, |at| at + 3);
    let host_end = url[host_end..].find('/').map_or(url.len(), |at| host_end + at);
    if location.starts_with('/') {
        return format!("{}{location}", &url[..host_end]);
    }
    let folder_end = url.rfind('/').map_or(url.len(), |at| at.max(host_end));
    format!("{}/{location}", &url[..folder_end])
}

/// Waits, unless the user asks to stop.
fn sleep(wait: Duration, stop: &dyn Fn() -> bool) -> Result<(), HubError> {
    let end = Instant::now() + wait;
    loop {
        if stop() {
            return Err(HubError::Stopped);
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        thread::sleep(left.min(Duration::from_millis(100)));
    }
}

/// The wait that a busy server asks for: `Retry-After` in seconds, or the time to the end of the
/// window in the hub's `RateLimit`.
fn asked_wait(answer: &HttpResponse) -> Option<Duration> {
    let after = answer.header("retry-after").and_then(|value| value.trim().parse().ok());
    let window = || {
        let limit = answer.header("ratelimit")?;
        limit.split(';').find_map(|field| field.trim().strip_prefix("t=")?.parse().ok())
    };
    after.or_else(window).map(Duration::from_secs)
}

/// The address with `rel="next"` in a `Link` header.
fn next_page(link: &str) -> Option<&str> {
    link.split(',').find_map(|part| {
        let (address, rest) = part.trim().strip_prefix('<')?.split_once('>')?;
        rest.contains("rel=\"next\"").then_some(address)
    })
}

fn remote_file(url: &str, entry: TreeEntry) -> Result<RemoteFile, HubError> {
    let (bytes, hash) = match entry.lfs {
        Some(lfs) => (lfs.size, FileHash::Sha256(lfs.oid)),
        None => (entry.size, FileHash::GitBlob(entry.oid)),
    };
    let is_right = match &hash {
        FileHash::Sha256(hex) => hex.len() == 64 && is_hash(hex),
        FileHash::GitBlob(hex) => hex.len() == 40 && is_hash(hex),
    };
    if !is_right {
        return Err(bad_response(url, "a file without a hash"));
    }
    if !is_safe(&entry.path) {
        return Err(bad_response(url, "a path that leaves its folder"));
    }
    Ok(RemoteFile { path: entry.path, bytes, hash })
}

fn read_json<T: for<'a> Deserialize<'a>>(url: &str, answer: HttpResponse) -> Result<T, HubError> {
    let mut text = Vec::new();
    let read = answer.body.take(PAGE_BYTES_LIMIT + 1).read_to_end(&mut text);
    read.map_err(|error| HubError::Unreachable { url: shown(url), reason: error.to_string() })?;
    if text.len() as u64 > PAGE_BYTES_LIMIT {
        return Err(bad_response(url, "it is too long"));
    }
    serde_json::from_slice(&text).map_err(|error| bad_response(url, &error.to_string()))
}

/// Checks that a whole file has the listed length.
fn check_length(url: &str, answer: &HttpResponse, bytes: u64) -> Result<(), HubError> {
    let stated = answer.header("content-length").and_then(|length| length.parse::<u64>().ok());
    match stated {
        Some(stated) if stated != bytes => {
            let reason = format!("its length is {stated}, expected {bytes}");
            Err(bad_response(url, &reason))
        }
        _ => Ok(()),
    }
}

/// Checks that a part is the requested one of a file with the listed length.
fn check_range(url: &str, answer: &HttpResponse, start: u64, bytes: u64) -> Result<(), HubError> {
    let stated = answer.header("content-range").unwrap_or_default();
    let parsed = stated.strip_prefix("bytes ").and_then(|range| {
        let (range, total) = range.split_once('/')?;
        let (from, _) = range.split_once('-')?;
        Some((from.parse::<u64>().ok()?, total.parse::<u64>().ok()?))
    });
    if parsed == Some((start, bytes)) {
        return Ok(());
    }
    Err(bad_response(url, &format!("it has `{stated}` instead of byte {start} of {bytes}")))
}

/// Percent-encodes a text for an address, except plain characters and `kept`.
fn quoted(text: &str, kept: &str) -> String {
    let mut quoted = String::new();
    for byte in text.bytes() {
        let c = char::from(byte);
        if c.is_ascii_alphanumeric() || "-_.~".contains(c) || kept.contains(c) {
            quoted.push(c);
        } else {
            let _ = write!(quoted, "%{byte:02X}");
        }
    }
    quoted
}

/// An address without its query, which may contain a signature.
fn shown(url: &str) -> String {
    url.split('?').next().unwrap_or_default().to_owned()
}

fn bad_response(url: &str, reason: &str) -> HubError {
    HubError::BadResponse { url: shown(url), reason: reason.to_owned() }
}

fn http_error(url: &str, error: HttpError) -> HubError {
    match error {
        HttpError::NotBuilt => HubError::NotBuilt,
        HttpError::Failed(reason) => HubError::Unreachable { url: shown(url), reason },
    }
}
