//! Records the progress of a preparation, so that the next one can continue after a kill.
//!
//! The first entry is made after a tenth of a second; then the interval doubles, up to a few
//! seconds. For an entry the drafts are synced to the disk, then the journal, which states their
//! lengths and the next part of the input. Bytes written after the entry are written again,
//! unchanged. A journal is used only by a preparation that would write the same dataset: same
//! options, same files with the same lengths and times.
//!
//! Finished files are skipped; the current one is read up to the noted part without encoding it.
//! Standard input is not continued: it may be different.
//!
//! Promise: a `prepare` that stops anywhere is continued to the same bytes. Test:
//! `crates/prepare/src/tests/runs.rs`; real kills in `tests/runs/prepare.rs` and
//! `scripts/prepare-kills`.

use std::{
    fmt::Write as _,
    fs,
    path::PathBuf,
    time::{Duration, Instant, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize};

use super::{
    Options, PrepareError,
    draft::LockedFolder,
    source::TextSource,
    split::DocumentCount,
    walk::{InputPosition, Tally},
};

/// The progress so far.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Journal {
    /// Everything that determines the bytes of the dataset.
    pub(super) key: String,
    /// The result of the first pass, if there was one.
    pub(super) scan: Option<ScanEntry>,
    /// The progress of the encoding.
    pub(super) encoded: Option<EncodingEntry>,
}

/// The result of the first pass.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ScanEntry {
    pub(super) symbols: String,
    pub(super) characters: u64,
}

/// The progress of the encoding.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct EncodingEntry {
    /// The next part of the input.
    pub(super) position: InputPosition,
    pub(super) written: EncodedTotals,
    pub(super) count: DocumentCount,
    pub(super) is_val: bool,
    pub(super) is_undecided: bool,
    /// Bytes of tokens in both splits.
    pub(super) train_bytes: u64,
    pub(super) val_bytes: u64,
}

/// Totals of what was encoded.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct EncodedTotals {
    pub(super) tally: Tally,
    pub(super) text_bytes: u64,
    pub(super) train_characters: u64,
    pub(super) val_characters: u64,
    pub(super) val_documents: u64,
    /// Tokens of shards, in both splits.
    pub(super) ids: [u64; 2],
}

impl Journal {
    /// Continues the drafts that a killed `prepare` with the same key left, or begins a journal;
    /// `None` without a key. All other drafts are removed.
    pub(super) fn resume(
        folder: &mut LockedFolder,
        key: Option<String>,
    ) -> Result<Option<Self>, PrepareError> {
        let found = folder.resume(|bytes| {
            let journal: Self = serde_json::from_slice(bytes).ok()?;
            (key.as_ref() == Some(&journal.key)).then_some(journal)
        })?;
        Ok(found.or_else(|| Some(Self { key: key?, scan: None, encoded: None })))
    }

    /// Records the state of the drafts.
    pub(super) fn write(&self, folder: &mut LockedFolder) -> Result<(), PrepareError> {
        folder.write_journal(&serde_json::to_vec(self).expect("texts and numbers are JSON"))
    }
}

/// The time until the first entry. Later ones are further apart, because each waits for the disk.
const FIRST: Duration = Duration::from_millis(100);

/// When the next entry is due.
#[derive(Debug)]
pub(super) struct Clock {
    interval: Duration,
    longest: Duration,
    last: Instant,
}

impl Clock {
    /// Intervals that double up to `longest`.
    pub(super) fn new(longest: Duration) -> Self {
        Self { interval: FIRST.min(longest), longest, last: Instant::now() }
    }

    /// Whether an entry is due; if so, the next interval starts now.
    pub(super) fn is_due(&mut self) -> bool {
        let is_due = self.last.elapsed() >= self.interval;
        if is_due {
            self.last = Instant::now();
            self.interval = (2 * self.interval).min(self.longest);
        }
        is_due
    }
}

/// Records the progress of a preparation, if it can be continued.
pub(super) struct ProgressRecorder<'a> {
    pub(super) folder: &'a mut LockedFolder,
    journal: Option<Journal>,
    clock: Clock,
}

impl<'a> ProgressRecorder<'a> {
    /// Continues what a killed `prepare` with the same key recorded; without a key, records nothing.
    pub(super) fn resume(
        folder: &'a mut LockedFolder,
        key: Option<String>,
        longest: Duration,
    ) -> Result<Self, PrepareError> {
        let journal = Journal::resume(folder, key)?;
        Ok(Self { folder, journal, clock: Clock::new(longest) })
    }

    /// Whether an entry is due.
    pub(super) fn is_due(&mut self) -> bool {
        self.journal.is_some() && self.clock.is_due()
    }

    /// The result of the first pass, if it is recorded.
    pub(super) fn scan(&self) -> Option<&ScanEntry> {
        self.journal.as_ref()?.scan.as_ref()
    }

    /// Where the encoding stopped, if that is recorded.
    pub(super) fn encoding(&self) -> Option<&EncodingEntry> {
        self.journal.as_ref()?.encoded.as_ref()
    }

    /// Records the result of the first pass.
    pub(super) fn scanned(&mut self, entry: ScanEntry) -> Result<(), PrepareError> {
        let Some(journal) = &mut self.journal else { return Ok(()) };
        journal.scan = Some(entry);
        journal.write(self.folder)
    }

    /// Records the progress of the encoding.
    pub(super) fn encoded(&mut self, entry: EncodingEntry) -> Result<(), PrepareError> {
        let Some(journal) = &mut self.journal else { return Ok(()) };
        journal.encoded = Some(entry);
        journal.write(self.folder)
    }

    /// After a request to stop or a full disk, keeps everything up to the last entry.
    pub(super) fn ended_by(&mut self, error: PrepareError) -> PrepareError {
        let is_noted = self.encoding().is_some();
        match error {
            PrepareError::Stopped if is_noted => {
                self.folder.keep_drafts();
                PrepareError::Paused
            }
            PrepareError::DiskFull { .. } if is_noted => {
                self.folder.keep_drafts();
                error
            }
            error => error,
        }
    }
}

/// Everything that determines the bytes of a dataset, as text; `None` if some input can be read
/// only once.
pub(super) fn journal_key(
    options: &Options,
    sources: &[TextSource],
    val_fraction: f64,
) -> Result<Option<String>, PrepareError> {
    let mut key = format!(
        "2 {} {:?} {:?} {:?} {:?} {val_fraction} {} {:?} {:?} {:?} {:?}",
        env!("CARGO_PKG_VERSION"),
        options.vocabulary,
        options.end_of_text,
        options.end_of_text_token,
        options.field,
        options.seed,
        options.invalid,
        options.output,
        options.format,
        options.tokenizer,
    );
    let tokenizer = options.tokenizer.iter().map(PathBuf::as_path);
    for path in tokenizer.chain(sources.iter().flat_map(TextSource::paths)) {
        let facts = fs::metadata(path).map_err(|source| PrepareError::reading(path, source))?;
        let modified = facts.modified().ok();
        let since = modified.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let _ = write!(key, "\n{} {} {since:?}", path.display(), facts.len());
    }
    for source in sources {
        let _ = write!(key, "\n{:?} {:?}", source.format, source.split);
    }
    Ok(sources.iter().all(|source| source.bytes.is_some()).then_some(key))
}
