//! How `fitgpt train` finds the page: a server writes a record to a private folder of the user, and
//! `train` checks that the server responds before it uses the record.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    path::{Path, PathBuf},
    time::Duration,
};

use fitgpt_files::os;
use serde::{Deserialize, Serialize};

use super::runs::id_of;

const MAX_RECORD_BYTES: u64 = 64 << 10;
const MAX_RECORDS: usize = 32;
/// A server on this machine responds within a few milliseconds.
const TIMEOUT: Duration = Duration::from_millis(300);

/// The record of a running server, removed when the server ends. A record that is left over names a
/// process that does not respond.
#[derive(Debug)]
pub struct RecordFile {
    path: PathBuf,
}

#[derive(Debug, Serialize, Deserialize)]
struct ServerRecord {
    port: u16,
    pid: u32,
    roots: Vec<PathBuf>,
    token: Option<String>,
}

impl RecordFile {
    /// Writes the record, if there is a folder for it. Failures are ignored: the page works without
    /// it.
    pub fn write(port: u16, roots: &[PathBuf], token: Option<&str>) -> Option<Self> {
        let folder = os::private_folder()?;
        let path = folder.join(format!("serve-{port}.json"));
        let (roots, token) = (roots.to_vec(), token.map(str::to_owned));
        let record = ServerRecord { port, pid: std::process::id(), roots, token };
        let text = serde_json::to_string(&record).ok()?;
        os::write_private(&path, text.as_bytes()).ok()?;
        Some(Self { path })
    }
}

impl Drop for RecordFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// The address at which a server shows the run in `folder`.
pub fn page_of(folder: &Path) -> Option<String> {
    let folder = fs::canonicalize(folder).ok()?;
    let records = fs::read_dir(os::private_folder()?).ok()?.flatten().take(MAX_RECORDS);
    let records = records.filter(|entry| entry.file_name().to_string_lossy().starts_with("serve-"));
    let mut records = records.filter_map(|entry| {
        let text = os::read_text(&entry.path(), MAX_RECORD_BYTES).ok()?;
        serde_json::from_str::<ServerRecord>(&text).ok()
    });
    let record = records.find(|record| {
        record.roots.iter().any(|root| folder.starts_with(root)) && answers(record).is_some()
    })?;
    Some(format!("http://127.0.0.1:{}/#/runs?run={}", record.port, id_of(&folder)))
}

/// Checks that the server of a record is the one that wrote it.
fn answers(record: &ServerRecord) -> Option<()> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, record.port));
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT).ok()?;
    stream.set_read_timeout(Some(TIMEOUT)).ok()?;
    stream.set_write_timeout(Some(TIMEOUT)).ok()?;
    let token = record
        .token
        .as_deref()
        .map_or(String::new(), |token| format!("Authorization: Bearer {token}\r\n"));
    let host = format!("127.0.0.1:{}", record.port);
    write!(stream, "GET /api/hello HTTP/1.1\r\nHost: {host}\r\n{token}\r\n").ok()?;
    let mut text = String::new();
    stream.take(MAX_RECORD_BYTES).read_to_string(&mut text).ok()?;
    let (_, body) = text.split_once("\r\n\r\n")?;
    let hello: serde_json::Value = serde_json::from_str(body).ok()?;
    (hello["program"] == "fitgpt" && hello["pid"] == record.pid).then_some(())
}
