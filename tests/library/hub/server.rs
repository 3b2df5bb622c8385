//! A server on the loopback that implements the hub's file interface for a folder:
//! `datasets/OWNER/NAME/PATH` and `models/OWNER/NAME/PATH`.
//!
//! Files of more than 1,000 bytes are in large-file storage, as on the hub: an address of the hub
//! redirects to a store at another host name, which supports ranges and must not get the token.
//! Tests can inject faults: interrupted, corrupted or refused responses, wrong lengths, and a busy
//! server.

use std::{
    collections::VecDeque,
    fmt::Write as _,
    fs,
    io::{self, BufRead as _, BufReader, Read as _, Seek as _, Write as _},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

/// The commit of every branch.
pub(crate) const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// Files per page of a listing.
const PAGE: usize = 2;

/// The faults to inject.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    /// The number of bytes after which a response with content ends, one entry per response.
    pub(crate) break_off: VecDeque<u64>,
    /// The number of responses with content that have a wrong byte.
    pub(crate) corrupt: u32,
    /// The status and headers with which requests are refused, one entry per request.
    pub(crate) refuse: VecDeque<(u16, &'static str)>,
    /// Ranges are ignored.
    pub(crate) without_ranges: bool,
    /// By how many bytes the stated length is too large.
    pub(crate) lie_by: i64,
    /// By how many bytes the start of a range is after the requested one.
    pub(crate) shift_by: u64,
    /// The token that is required, if any.
    pub(crate) token: Option<&'static str>,
    /// The redirect is relative, and to the hub itself.
    pub(crate) one_host: bool,
    /// Wait after each 64 KiB of content.
    pub(crate) pause: Duration,
}

/// A received request.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) target: String,
    pub(crate) host: String,
    pub(crate) range: Option<String>,
    pub(crate) authorization: Option<String>,
}

/// A running server. It ends with the process.
#[derive(Clone)]
pub(crate) struct Server {
    root: PathBuf,
    port: u16,
    faults: Arc<Mutex<Faults>>,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    /// Serves `root`, at `port` or any that is free.
    pub(crate) fn start(root: &Path, port: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
        let server = Self {
            root: root.to_owned(),
            port: listener.local_addr().unwrap().port(),
            faults: Arc::default(),
            requests: Arc::default(),
        };
        let this = server.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let this = this.clone();
                // A client that disconnects is not an error of the server.
                thread::spawn(move || drop(this.answer(&stream)));
            }
        });
        server
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub(crate) fn set(&self, faults: Faults) {
        *self.faults.lock().unwrap() = faults;
    }

    /// The requests since the last call.
    pub(crate) fn take_requests(&self) -> Vec<Request> {
        std::mem::take(&mut self.requests.lock().unwrap())
    }

    fn answer(&self, stream: &TcpStream) -> io::Result<()> {
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let target = line.split(' ').nth(1).unwrap_or("/").to_owned();
        let mut request = Request { target, host: String::new(), range: None, authorization: None };
        loop {
            let mut header = String::new();
            reader.read_line(&mut header)?;
            let Some((name, value)) = header.trim_end().split_once(':') else { break };
            let value = value.trim().to_owned();
            match name.to_ascii_lowercase().as_str() {
                "host" => request.host = value,
                "range" => request.range = Some(value),
                "authorization" => request.authorization = Some(value),
                _ => {}
            }
        }
        self.requests.lock().unwrap().push(request.clone());
        let refused = self.faults.lock().unwrap().refuse.pop_front();
        if let Some((status, headers)) = refused {
            return plain(stream, status, headers, b"");
        }
        let (path, query) = request.target.split_once('?').unwrap_or((&request.target, ""));
        let path = unquoted(path);
        if let Some(stored) = path.strip_prefix("/store/") {
            return self.content(stream, &self.root.join(stored), &request);
        }
        let token = self.faults.lock().unwrap().token;
        let expected = token.map(|token| format!("Bearer {token}"));
        if expected.is_some() && expected != request.authorization {
            return plain(stream, 401, "x-error-code: RepoNotFound\r\n", b"");
        }
        if let Some(api) = path.strip_prefix("/api/") {
            return self.api(stream, api, query);
        }
        self.resolve(stream, path.trim_start_matches('/'), &request)
    }

    /// `datasets/o/n/revision/R`, `datasets/o/n/tree/R/folder`.
    fn api(&self, stream: &TcpStream, path: &str, query: &str) -> io::Result<()> {
        let mut parts = path.splitn(5, '/');
        let [kind, owner, name, what] = [0; 4].map(|_| parts.next().unwrap_or_default());
        let rest = parts.next().unwrap_or_default();
        let repo = self.root.join(kind).join(owner).join(name);
        if !repo.is_dir() {
            return plain(stream, 401, "x-error-code: RepoNotFound\r\n", b"");
        }
        if what == "revision" {
            return plain(stream, 200, "", format!("{{\"sha\": \"{COMMIT}\"}}").as_bytes());
        }
        let folder = rest.split_once('/').map_or("", |(_, folder)| folder);
        let mut files = Vec::new();
        list(&repo, &repo.join(folder), &mut files);
        files.sort();
        if files.is_empty() {
            return plain(stream, 404, "x-error-code: EntryNotFound\r\n", b"");
        }
        let cursor = query.split('&').find_map(|pair| pair.strip_prefix("cursor="));
        let start: usize = cursor.and_then(|cursor| cursor.parse().ok()).unwrap_or(0);
        let page = &files[start.min(files.len())..files.len().min(start + PAGE)];
        let mut json = String::from("[{\"type\": \"directory\", \"oid\": \"x\", \"path\": \"d\"}");
        for path in page {
            let bytes = fs::metadata(repo.join(path))?.len();
            let (sha256, git) = hashes(&repo.join(path));
            let _ = write!(json, ", {{\"type\": \"file\", \"path\": \"{path}\", \"size\": {bytes}");
            if bytes > 1000 {
                let _ = write!(json, ", \"oid\": \"{}\"", "0".repeat(40));
                let _ = write!(json, ", \"lfs\": {{\"oid\": \"{sha256}\", \"size\": {bytes}}}}}");
            } else {
                let _ = write!(json, ", \"oid\": \"{git}\"}}");
            }
        }
        json.push(']');
        let mut headers = String::new();
        if start + PAGE < files.len() {
            let next = start + PAGE;
            let at = self.endpoint();
            headers =
                format!("link: <{at}/api/{path}?recursive=true&cursor={next}>; rel=\"next\"\r\n");
        }
        plain(stream, 200, &headers, json.as_bytes())
    }

    /// `datasets/o/n/resolve/R/path`, `o/n/resolve/R/path`.
    fn resolve(&self, stream: &TcpStream, path: &str, request: &Request) -> io::Result<()> {
        let path = match path.strip_prefix("datasets/") {
            Some(rest) => format!("datasets/{rest}"),
            None => format!("models/{path}"),
        };
        let mut parts = path.splitn(6, '/');
        let [kind, owner, name, _, _] = [0; 5].map(|_| parts.next().unwrap_or_default());
        let stored = format!("{kind}/{owner}/{name}/{}", parts.next().unwrap_or_default());
        let file = self.root.join(&stored);
        let Ok(facts) = fs::metadata(&file) else {
            return plain(stream, 404, "x-error-code: EntryNotFound\r\n", b"");
        };
        if facts.len() <= 1000 {
            return self.content(stream, &file, request);
        }
        let (sha256, _) = hashes(&file);
        let stored = stored.replace(' ', "%20");
        let location = if self.faults.lock().unwrap().one_host {
            format!("/store/{stored}")
        } else {
            format!("http://localhost:{}/store/{stored}?signature=secret", self.port)
        };
        let headers = format!(
            "location: {location}\r\nx-linked-etag: \"{sha256}\"\r\nx-linked-size: {}\r\n\
             x-repo-commit: {COMMIT}\r\n",
            facts.len()
        );
        plain(stream, 302, &headers, b"")
    }

    fn content(&self, stream: &TcpStream, file: &Path, request: &Request) -> io::Result<()> {
        let total = fs::metadata(file)?.len();
        let (limit, is_corrupt, lie_by, shift_by, pause, takes_ranges) = {
            let mut faults = self.faults.lock().unwrap();
            let is_corrupt = faults.corrupt > 0;
            faults.corrupt = faults.corrupt.saturating_sub(1);
            let limit = faults.break_off.pop_front();
            let (lie_by, shift_by) = (faults.lie_by, faults.shift_by);
            (limit, is_corrupt, lie_by, shift_by, faults.pause, !faults.without_ranges)
        };
        let start = request.range.as_ref().filter(|_| takes_ranges).and_then(|range| {
            range.strip_prefix("bytes=")?.trim_end_matches('-').parse::<u64>().ok()
        });
        if start.is_some_and(|start| start >= total) {
            return plain(stream, 416, "", b"");
        }
        let first = start.unwrap_or(0);
        let stated = (total - first).saturating_add_signed(lie_by);
        let mut head = match start {
            Some(start) => format!(
                "HTTP/1.1 206 Partial Content\r\ncontent-range: bytes {}-{}/{total}\r\n",
                start + shift_by,
                total - 1
            ),
            None => "HTTP/1.1 200 OK\r\n".to_owned(),
        };
        let _ = write!(head, "content-length: {stated}\r\nconnection: close\r\n\r\n");
        let mut stream = stream;
        stream.write_all(head.as_bytes())?;
        let mut source = fs::File::open(file)?;
        source.seek(io::SeekFrom::Start(first))?;
        let mut left = limit.unwrap_or(u64::MAX).min(total - first);
        let mut is_corrupt = is_corrupt;
        let mut chunk = vec![0; 64 << 10];
        while left > 0 {
            let n = chunk.len().min(left as usize);
            source.read_exact(&mut chunk[..n])?;
            if std::mem::take(&mut is_corrupt) {
                chunk[n / 2] ^= 1;
            }
            stream.write_all(&chunk[..n])?;
            left -= n as u64;
            if !pause.is_zero() {
                thread::sleep(pause);
            }
        }
        stream.flush()
    }
}

fn plain(mut stream: &TcpStream, status: u16, headers: &str, body: &[u8]) -> io::Result<()> {
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {status} Status\r\n{headers}content-length: {length}\r\nconnection: close\r\n\r\n"
    )?;
    stream.write_all(body)?;
    stream.flush()
}

fn unquoted(path: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = path.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let hex = (first == b'%').then(|| after.get(..2)).flatten();
        let byte = hex.and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        bytes.push(byte.unwrap_or(first));
        rest = if byte.is_some() { &after[2..] } else { after };
    }
    String::from_utf8(bytes).unwrap_or_default()
}

fn list(repo: &Path, folder: &Path, files: &mut Vec<String>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            list(repo, &path, files);
        } else if path.extension().is_none_or(|extension| extension != "sha") {
            files.push(path.strip_prefix(repo).unwrap().to_str().unwrap().to_owned());
        }
    }
}

/// SHA-256 of a file, and git's hash of it; kept next to it in a `.sha` file.
pub(crate) fn hashes(path: &Path) -> (String, String) {
    let kept = path.with_added_extension("sha");
    let bytes = fs::metadata(path).unwrap().len();
    if let Ok(text) = fs::read_to_string(&kept)
        && let [length, sha256, git] = *text.split(' ').collect::<Vec<_>>()
        && length == bytes.to_string()
    {
        return (sha256.to_owned(), git.to_owned());
    }
    let mut sha256 = ring::digest::Context::new(&ring::digest::SHA256);
    let mut git = ring::digest::Context::new(&ring::digest::SHA1_FOR_LEGACY_USE_ONLY);
    git.update(format!("blob {bytes}\0").as_bytes());
    let mut file = fs::File::open(path).unwrap();
    let mut chunk = vec![0; 1 << 20];
    loop {
        let n = file.read(&mut chunk).unwrap();
        if n == 0 {
            break;
        }
        sha256.update(&chunk[..n]);
        git.update(&chunk[..n]);
    }
    let hex = |context: ring::digest::Context| {
        let digest = context.finish();
        digest.as_ref().iter().fold(String::new(), |mut hex, byte| {
            let _ = write!(hex, "{byte:02x}");
            hex
        })
    };
    let (sha256, git) = (hex(sha256), hex(git));
    fs::write(kept, format!("{bytes} {sha256} {git}")).unwrap();
    (sha256, git)
}
