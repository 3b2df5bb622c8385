//! Which save a file belongs to.

use std::{
    fmt,
    str::FromStr,
    time::{SystemTime, UNIX_EPOCH},
};

/// Which save a file belongs to. Later saves of a folder are greater.
///
/// A counter orders them, because clocks jump; the time tells saves apart that were counted
/// alike in different folders and then copied together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SaveId {
    counter: u64,
    unix_ms: u64,
}

impl SaveId {
    /// The id of the save that follows `previous`.
    pub(super) fn after(previous: Option<Self>) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            counter: previous.map_or(1, |id| id.counter.saturating_add(1)),
            unix_ms: now.as_millis() as u64,
        }
    }
}

impl fmt::Display for SaveId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08}-{:012x}", self.counter, self.unix_ms)
    }
}

/// Not a save id.
#[derive(Debug, PartialEq, Eq)]
pub struct NotASaveId;

impl FromStr for SaveId {
    type Err = NotASaveId;

    /// Only what [`fmt::Display`] writes: `+1-0` names no save.
    fn from_str(text: &str) -> Result<Self, NotASaveId> {
        let (counter, unix_ms) = text.split_once('-').ok_or(NotASaveId)?;
        let id = Self {
            counter: counter.parse().map_err(|_| NotASaveId)?,
            unix_ms: u64::from_str_radix(unix_ms, 16).map_err(|_| NotASaveId)?,
        };
        if id.to_string() == text { Ok(id) } else { Err(NotASaveId) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_save_id_reads_back_and_later_ones_are_greater() {
        let first = SaveId::after(None);
        let second = SaveId::after(Some(first));
        assert!(second > first);
        assert_eq!(second.to_string().parse(), Ok(second));
        for text in ["", "1", "00000001-", "00000001-0", "+0000001-00000000000a", "x-y"] {
            assert_eq!(text.parse::<SaveId>(), Err(NotASaveId), "{text}");
        }
    }
}
