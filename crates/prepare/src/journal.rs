//! Records the progress of a preparation, so that the next one can continue after a kill.
//!
//! The first entry is made after a tenth of a second; then the interval doubles, up to a few
//! seconds. For an entry the drafts are synced to the disk, then the journal, which states their
//! lengths and the next part of the input. Bytes written after the entry are written again,
//! unchanged. A journal is used only by a preparation that would write the same dataset: same
//! options, same files with the same lengths and times.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::{
    PrepareError,
    draft::LockedFolder,
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
