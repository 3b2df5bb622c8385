//! Follows a log while it grows.

use std::{
    fs::{File, OpenOptions},
    io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use fitgpt_files::os::{self, FileIdentity};

use super::history::RunHistory;

/// A longer line is not an event: even a plan has only a few kilobytes.
const MAX_LINE_BYTES: usize = 1 << 20;
const CHUNK_BYTES: usize = 256 << 10;
/// How much is read of the beginning of a log, which has its plan, and of its end, which has its
/// last steps.
const GLANCE_BYTES: u64 = 512 << 10;

/// A log and the position up to which it has been read.
#[derive(Debug)]
pub(super) struct Follower {
    path: PathBuf,
    identity: Option<FileIdentity>,
    position: u64,
    lines: LogLineSplitter,
    pub(super) history: RunHistory,
}

impl Follower {
    pub(super) fn new(path: PathBuf) -> Self {
        let (lines, history) = (LogLineSplitter::default(), RunHistory::default());
        Self { path, identity: None, position: 0, lines, history }
    }

    /// Reads what is new, for at most `time`. Returns whether everything was read.
    pub(super) fn advance(&mut self, time: Duration) -> io::Result<bool> {
        let until = Instant::now() + time;
        let file = open(&self.path)?;
        let facts = file.metadata()?;
        let identity = os::file_identity(&facts);
        // A resumed run truncates the log: it is a new file with the same name, or a shorter one.
        if self.identity != Some(identity) || facts.len() < self.position {
            *self = Self::new(std::mem::take(&mut self.path));
            self.identity = Some(identity);
        }
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            let count = os::read_at(&file, &mut chunk, self.position)?;
            if count == 0 {
                return Ok(true);
            }
            self.position += count as u64;
            let history = &mut self.history;
            self.lines.push(&chunk[..count], |line| history.add(line));
            if Instant::now() > until {
                return Ok(false);
            }
        }
    }

    /// The fraction of the log that was read.
    pub(super) fn share(&self) -> f64 {
        let bytes = std::fs::symlink_metadata(&self.path).map_or(0, |facts| facts.len());
        self.position as f64 / bytes.max(1) as f64
    }
}

/// The beginning and the end of the log at `path`: enough for a list of runs.
pub(super) fn glance(path: &Path) -> io::Result<RunHistory> {
    let file = open(path)?;
    let bytes = file.metadata()?.len();
    let mut history = RunHistory::default();
    let mut read = |from: u64, to: u64| -> io::Result<()> {
        let mut lines = LogLineSplitter { is_too_long: from > 0, ..LogLineSplitter::default() }; // starts within a line
        let mut chunk = vec![0; CHUNK_BYTES];
        let mut position = from;
        while position < to {
            let most = usize::try_from(to - position).map_or(CHUNK_BYTES, |it| it.min(CHUNK_BYTES));
            let count = os::read_at(&file, &mut chunk[..most], position)?;
            if count == 0 {
                break;
            }
            position += count as u64;
            lines.push(&chunk[..count], |line| history.add(line));
        }
        Ok(())
    };
    let head = GLANCE_BYTES.min(bytes);
    read(0, head)?;
    let tail = bytes.saturating_sub(GLANCE_BYTES).max(head);
    if tail < bytes {
        read(tail, bytes)?;
    }
    Ok(history.without_curves())
}

/// Opens a regular file. Links are refused, because they may lead out of the folder.
fn open(path: &Path) -> io::Result<File> {
    let file = os::open_unfollowed(OpenOptions::new().read(true), path)?;
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"))
}

/// Splits bytes into lines. Lines longer than [`MAX_LINE_BYTES`] are not kept.
#[derive(Debug, Default)]
struct LogLineSplitter {
    line: Vec<u8>,
    is_too_long: bool,
}

impl LogLineSplitter {
    fn push(&mut self, bytes: &[u8], mut visit: impl FnMut(&[u8])) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (text, is_ended) = match part.split_last() {
                Some((b'\n', text)) => (text, true),
                _ => (part, false),
            };
            self.is_too_long |= self.line.len() + text.len() > MAX_LINE_BYTES;
            if self.is_too_long {
                self.line = Vec::new();
            } else if is_ended && self.line.is_empty() {
                visit(text);
            } else {
                self.line.extend_from_slice(text);
                if is_ended {
                    visit(&self.line);
                }
            }
            if is_ended {
                self.line.clear();
                self.is_too_long = false;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, io::Write as _};

    use super::*;

    fn step(step: u64) -> String {
        format!("{{\"event\":\"step\",\"step\":{step},\"loss\":2.0}}\n")
    }

    #[test]
    fn a_log_is_followed_across_partial_lines_and_truncation() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        let mut file = File::create(&path).unwrap();
        let mut follower = Follower::new(path.clone());
        let all = Duration::from_mins(1);

        write!(file, "{}{}", step(0), &step(1)[..10]).unwrap();
        assert!(follower.advance(all).unwrap());
        assert_eq!(follower.history.last_step, Some(0));
        write!(file, "{}", &step(1)[10..]).unwrap();
        follower.advance(all).unwrap();
        assert_eq!(follower.history.last_step, Some(1));

        fs::remove_file(&path).unwrap();
        fs::write(&path, step(0)).unwrap();
        follower.advance(all).unwrap();
        assert_eq!(follower.history.last_step, Some(0));
    }

    #[test]
    fn a_line_without_end_is_not_kept() {
        let mut lines = LogLineSplitter::default();
        let mut seen = Vec::new();
        for _ in 0..64 {
            lines.push(&vec![b'x'; 1 << 16], |line| seen.push(line.len()));
        }
        assert!(lines.line.capacity() <= 2 * MAX_LINE_BYTES);
        lines.push(b"\nok\n", |line| seen.push(line.len()));
        assert_eq!(seen, [2]);
    }

    #[test]
    fn a_glance_reads_the_plan_and_the_last_step() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        let plan = "{\"event\":\"plan\",\"step\":0,\"plan\":{\"arena_bytes\":7}}\n";
        let steps: String = (0..100_000).map(step).collect();
        fs::write(&path, format!("{plan}{steps}")).unwrap();
        let history = glance(&path).unwrap();
        assert_eq!(history.plan["arena_bytes"], 7);
        assert_eq!(history.last_step, Some(99_999));
    }

    #[cfg(unix)]
    #[test]
    fn a_link_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (secret, link) = (folder.path().join("secret"), folder.path().join("events.jsonl"));
        fs::write(&secret, step(0)).unwrap();
        std::os::unix::fs::symlink(&secret, &link).unwrap();
        assert!(glance(&link).is_err());
        assert!(Follower::new(link).advance(Duration::from_secs(1)).is_err());
    }
}
