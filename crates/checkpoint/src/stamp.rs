//! Identifies nanoGPT's `ckpt.pt`, so that a run knows the file that it began from.
//!
//! A manifest records it. If the file next to a checkpoint of ours is another one later, nanoGPT has
//! trained on in the same folder, and nobody but the user knows which of the two should be continued.

use fitgpt_files::disk::DiskFile;
use fitgpt_program::hash::{FNV_1A_START, fnv_1a};
use serde::{Deserialize, Serialize};

use super::Result;

/// Blocks that are read, evenly spaced from the first to the last, and the bytes of each.
const N_BLOCKS: u64 = 64;
const BLOCK_BYTES: u64 = 16 << 10;
/// Read in addition: the zip's directory, which has a CRC of every record, is at the end.
const END_BYTES: u64 = 512 << 10;

/// What identifies a `ckpt.pt`. A hash of all of it would read gigabytes at every start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NanoGptStamp {
    /// Its length.
    bytes: u64,
    /// A hash of sampled blocks and of its end, in hexadecimal.
    blocks: String,
    /// Its `iter_num`: the step that comes next; `None` if it could not be read.
    iter_num: Option<u64>,
    /// The run of ours that it was exported from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    exported_from: Option<String>,
}

impl NanoGptStamp {
    /// Reads the blocks of `file`.
    pub(super) fn of(file: &DiskFile) -> Result<Self> {
        let bytes = file.bytes()?;
        let end = bytes.saturating_sub(END_BYTES);
        let last = bytes.saturating_sub(BLOCK_BYTES);
        let starts = (0..N_BLOCKS).map(|block| {
            let start = u128::from(last) * u128::from(block) / u128::from(N_BLOCKS - 1);
            (start as u64, BLOCK_BYTES)
        });
        let mut hash = FNV_1A_START;
        let mut block = Vec::new();
        for (start, length) in starts.chain([(end, END_BYTES)]) {
            block.resize(length.min(bytes - start) as usize, 0);
            file.read_exact_at(&mut block, start)?;
            hash = fnv_1a(hash, &block);
        }
        Ok(Self { bytes, blocks: format!("{hash:016x}"), iter_num: None, exported_from: None })
    }

    /// The same with the file's `iter_num`, and the run of ours that it names.
    #[must_use]
    pub(super) fn with(self, iter_num: u64, exported_from: Option<String>) -> Self {
        Self { iter_num: Some(iter_num), exported_from, ..self }
    }

    /// Whether it was exported from the run `run_id`, which then is not behind it.
    pub(super) fn is_exported_from(&self, run_id: &str) -> bool {
        self.exported_from.as_deref() == Some(run_id)
    }

    /// Its `iter_num`, if it could be read.
    pub(super) fn iter_num(&self) -> Option<u64> {
        self.iter_num
    }

    /// Whether both are of the same content.
    pub(super) fn is_same_file(&self, other: &Self) -> bool {
        (self.bytes, &self.blocks) == (other.bytes, &other.blocks)
    }
}
