//! Records the progress of a preparation, so that the next one can continue after a kill.
//!
//! The first entry is made after a tenth of a second; then the interval doubles, up to a few
//! seconds. For an entry the drafts are synced to the disk, then the journal, which states their
//! lengths and the next part of the input. Bytes written after the entry are written again,
//! unchanged. A journal is used only by a preparation that would write the same dataset: same
//! options, same files with the same lengths and times.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use fitgpt_data::publish::JOURNAL;
use fitgpt_files::disk::{Disk, DiskError};
use serde::{Deserialize, Serialize};

use super::{
    PrepareError,
    split::DocumentCount,
    walk::{InputPosition, Tally},
};

/// More than any journal: a text has at most 65,536 different characters.
const JOURNAL_BYTES_LIMIT: u64 = 16 << 20;

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
    /// The journal in `folder`, if there is one that can be read.
    pub(super) fn read(disk: &Disk, folder: &Path) -> Option<Self> {
        let bytes = disk.read(&folder.join(JOURNAL), JOURNAL_BYTES_LIMIT).ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    /// Replaces the journal in `folder`.
    pub(super) fn write(&self, disk: &Disk, folder: &Path) -> Result<(), PrepareError> {
        let json = serde_json::to_vec(self).expect("texts and numbers are JSON");
        let (new, path) = (folder.join(format!("{JOURNAL}.new")), folder.join(JOURNAL));
        let replace = || -> Result<(), DiskError> {
            disk.remove_file(&new)?;
            let mut file = disk.create(&new)?;
            file.write_all_at(&json, 0)?;
            file.sync()?;
            disk.rename(&new, &path)?;
            disk.sync_dir(folder)
        };
        replace().map_err(|error| PrepareError::writing(&path, 0, error.source))
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
