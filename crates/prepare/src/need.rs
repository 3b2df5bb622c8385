//! The disk space that a dataset takes.

/// What a dataset takes on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskNeed {
    /// What such text usually takes; this much must be free.
    pub usual_bytes: u64,
    /// What it can take at most.
    pub most_bytes: u64,
}

impl DiskNeed {
    /// One token per character: exact, not an estimate.
    pub(super) fn of_characters(characters: u64, meta_bytes: u64) -> Self {
        let bytes = characters.saturating_mul(2).saturating_add(meta_bytes);
        Self { usual_bytes: bytes, most_bytes: bytes }
    }

    /// Each token of `token_bytes` is at least one byte of text, usually about four.
    pub(super) fn of_tokens(input_bytes: u64, token_bytes: u64) -> Self {
        Self {
            usual_bytes: (input_bytes / 4).saturating_mul(token_bytes),
            most_bytes: input_bytes.saturating_mul(token_bytes),
        }
    }
}
