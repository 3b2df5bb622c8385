//! How `fitgpt train` finds the page: a server leaves a note in the user's own folder. `train`
//! asks the server itself before it believes the note.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Deserialize, Serialize};

use super::runs::id_of;
use crate::os;

const MAX_NOTE_BYTES: u64 = 64 << 10;
const MAX_NOTES: usize = 32;
/// A server on this machine answers within a few milliseconds.
const PATIENCE: Duration = Duration::from_millis(300);

/// The note of a running server. It is removed when the server ends; one that is left over names a
/// process that does not answer.
#[derive(Debug)]
pub(crate) struct Beacon {
    path: PathBuf,
}

#[derive(Debug, Serialize, Deserialize)]
struct Note {
    port: u16,
    pid: u32,
    roots: Vec<PathBuf>,
    token: Option<String>,
}

impl Beacon {
    /// Leaves a note, if there is a folder for it. A page that `train` does not mention is a page
    /// all the same, so nothing that goes wrong here is an error.
    pub(crate) fn light(port: u16, roots: &[PathBuf], token: Option<&str>) -> Option<Self> {
        let folder = os::private_folder()?;
        let path = folder.join(format!("serve-{port}.json"));
        let (roots, token) = (roots.to_vec(), token.map(str::to_owned));
        let note = Note { port, pid: std::process::id(), roots, token };
        let text = serde_json::to_string(&note).ok()?;
        os::write_private(&path, text.as_bytes()).ok()?;
        Some(Self { path })
    }
}

impl Drop for Beacon {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// The address at which a server shows the run in `folder`.
pub(crate) fn page_of(folder: &Path) -> Option<String> {
    let folder = fs::canonicalize(folder).ok()?;
    let notes = fs::read_dir(os::private_folder()?).ok()?.flatten().take(MAX_NOTES);
    let notes = notes.filter(|entry| entry.file_name().to_string_lossy().starts_with("serve-"));
    let mut notes = notes.filter_map(|entry| {
        let text = os::read_text(&entry.path(), MAX_NOTE_BYTES).ok()?;
        serde_json::from_str::<Note>(&text).ok()
    });
    let note = notes.find(|note| {
        note.roots.iter().any(|root| folder.starts_with(root)) && answers(note).is_some()
    })?;
    Some(format!("http://127.0.0.1:{}/#/runs?run={}", note.port, id_of(&folder)))
}

/// Asks the server of a note whether it is the one that left it.
fn answers(note: &Note) -> Option<()> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, note.port));
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream.set_write_timeout(Some(PATIENCE)).ok()?;
    let token = note
        .token
        .as_deref()
        .map_or(String::new(), |token| format!("Authorization: Bearer {token}\r\n"));
    let host = format!("127.0.0.1:{}", note.port);
    write!(stream, "GET /api/hello HTTP/1.1\r\nHost: {host}\r\n{token}\r\n").ok()?;
    let mut text = String::new();
    stream.take(MAX_NOTE_BYTES).read_to_string(&mut text).ok()?;
    let (_, body) = text.split_once("\r\n\r\n")?;
    let hello: serde_json::Value = serde_json::from_str(body).ok()?;
    (hello["program"] == "fitgpt" && hello["pid"] == note.pid).then_some(())
}
