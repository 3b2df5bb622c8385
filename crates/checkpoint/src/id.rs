//! The ids of saves.
//!
//! They contain a counter and a hash of the last step's loss and norm instead of the time, so that
//! equal training writes equal files.

use std::{fmt, str::FromStr};

/// Identifies the save that a file belongs to. Later saves of a folder are greater.
///
/// A counter orders them, because clocks jump; the fingerprint of the training distinguishes saves
/// with the same count from different folders whose files were mixed. It contains nothing else, so
/// that equal training gives equal files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SaveId {
    counter: u64,
    fingerprint: u64, // 48 bits
}

impl SaveId {
    /// Before the first save.
    pub(super) const NONE: Self = Self { counter: 0, fingerprint: 0 };

    /// The id of the save that follows `previous`, of a training with this fingerprint.
    pub(super) fn after(previous: Option<Self>, fingerprint: u64) -> Self {
        Self {
            counter: previous.map_or(1, |id| id.counter.saturating_add(1)),
            fingerprint: fingerprint >> 16,
        }
    }
}

impl fmt::Display for SaveId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08}-{:012x}", self.counter, self.fingerprint)
    }
}

/// A text that is not a save id.
#[derive(Debug, PartialEq, Eq)]
pub struct NotASaveId;

impl FromStr for SaveId {
    type Err = NotASaveId;

    /// Accepts only what [`fmt::Display`] writes: `+1-0` is refused.
    fn from_str(text: &str) -> Result<Self, NotASaveId> {
        let (counter, fingerprint) = text.split_once('-').ok_or(NotASaveId)?;
        let id = Self {
            counter: counter.parse().map_err(|_| NotASaveId)?,
            fingerprint: u64::from_str_radix(fingerprint, 16).map_err(|_| NotASaveId)?,
        };
        if id.to_string() == text { Ok(id) } else { Err(NotASaveId) }
    }
}

/// Whether a text is the id of a run.
pub(super) fn is_run_id(text: &str) -> bool {
    text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_save_id_reads_back_and_later_ones_are_greater() {
        let first = SaveId::after(None, u64::MAX);
        let second = SaveId::after(Some(first), 1 << 20);
        assert!(second > first);
        assert_eq!(second.to_string().parse(), Ok(second));
        for text in ["", "1", "00000001-", "00000001-0", "+0000001-00000000000a", "x-y"] {
            assert_eq!(text.parse::<SaveId>(), Err(NotASaveId), "{text}");
        }
    }
}
