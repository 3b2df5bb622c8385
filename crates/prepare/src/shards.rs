//! The tokens of a split: one file, or llm.c's shards.
//!
//! A shard is a header and a fixed number of tokens; documents are cut at its end, as llm.c does.
//! So the number of tokens alone determines the next shard.

use fitgpt_data::{
    Split,
    publish::shard_name,
    tokens::{HEADER_BYTES, shard_header},
};

use super::{
    PrepareError,
    draft::{Draft, DraftFolder},
    error::{file_name, wide_file_name},
};

/// How many bits a token has in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenWidth {
    Bits16,
    Bits32,
}

impl TokenWidth {
    /// The width that a vocabulary needs.
    pub(super) fn of(vocab_size: u32) -> Self {
        if vocab_size <= 1 << 16 { Self::Bits16 } else { Self::Bits32 }
    }

    pub(super) fn bytes(self) -> u64 {
        match self {
            Self::Bits16 => 2,
            Self::Bits32 => 4,
        }
    }

    /// The name of a split's file.
    pub(super) fn file_name(self, split: Split) -> &'static str {
        match self {
            Self::Bits16 => file_name(split),
            Self::Bits32 => wide_file_name(split),
        }
    }

    /// Appends a token. It fits: the width is that of the whole vocabulary.
    pub(super) fn push(self, id: u32, bytes: &mut Vec<u8>) {
        match self {
            Self::Bits16 => bytes.extend_from_slice(&(id as u16).to_le_bytes()),
            Self::Bits32 => bytes.extend_from_slice(&id.to_le_bytes()),
        }
    }
}

/// Tokens of a split that are being written.
#[derive(Debug)]
pub(super) enum TokenDraft {
    /// nanoGPT's file.
    Plain(Draft),
    /// llm.c's files.
    Shards(Shards),
}

impl TokenDraft {
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), PrepareError> {
        match self {
            Self::Plain(draft) => draft.write(bytes),
            Self::Shards(shards) => shards.write(bytes),
        }
    }

    /// Bytes of tokens, without headers.
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Self::Plain(draft) => draft.bytes(),
            Self::Shards(shards) => shards.bytes,
        }
    }

    /// Syncs everything that was written to the disk.
    pub(super) fn sync(&mut self) -> Result<(), PrepareError> {
        match self {
            Self::Plain(draft) | Self::Shards(Shards { draft: Some(draft), .. }) => draft.sync(),
            Self::Shards(_) => Ok(()),
        }
    }

    /// Completes the last file.
    pub(super) fn finish(self) -> Result<(), PrepareError> {
        match self {
            Self::Plain(draft) => draft.finish(),
            Self::Shards(mut shards) => shards.finish_one(),
        }
    }
}

/// Shards of a split.
#[derive(Debug)]
pub(super) struct Shards {
    folder: DraftFolder,
    split: Split,
    width: TokenWidth,
    shard_bytes: u64,
    bytes: u64,
    draft: Option<Draft>, // `None` between two shards
}

impl Shards {
    /// Shards of `shard_tokens` tokens, with `bytes` already written.
    pub(super) fn new(
        folder: DraftFolder,
        split: Split,
        width: TokenWidth,
        shard_tokens: u64,
        bytes: u64,
    ) -> Result<Self, PrepareError> {
        let shard_bytes = shard_tokens * width.bytes();
        let mut shards = Self { folder, split, width, shard_bytes, bytes, draft: None };
        let in_shard = bytes % shard_bytes;
        if in_shard > 0 {
            let name = name_of(split, bytes / shard_bytes);
            shards.draft = Some(shards.folder.draft(&name, HEADER_BYTES + in_shard)?);
        }
        Ok(shards)
    }

    /// The names of all shards of `bytes` bytes of tokens.
    pub(super) fn names(split: Split, bytes: u64, shard_bytes: u64) -> Vec<String> {
        (0..bytes.div_ceil(shard_bytes)).map(|index| name_of(split, index)).collect()
    }

    fn write(&mut self, mut bytes: &[u8]) -> Result<(), PrepareError> {
        while !bytes.is_empty() {
            let free = (self.shard_bytes - self.bytes % self.shard_bytes) as usize;
            let (now, later) = bytes.split_at(bytes.len().min(free));
            let draft = if let Some(draft) = &mut self.draft {
                draft
            } else {
                let name = name_of(self.split, self.bytes / self.shard_bytes);
                let mut draft = self.folder.draft(&name, 0)?;
                draft.write(&[0; HEADER_BYTES as usize])?; // the number of tokens is not known yet
                self.draft.insert(draft)
            };
            draft.write(now)?;
            self.bytes += now.len() as u64;
            if now.len() == free {
                self.finish_one()?;
            }
            bytes = later;
        }
        Ok(())
    }

    fn finish_one(&mut self) -> Result<(), PrepareError> {
        let Some(mut draft) = self.draft.take() else { return Ok(()) };
        let width = self.width.bytes();
        let tokens = (draft.bytes() - HEADER_BYTES) / width;
        draft.write_first(&shard_header(tokens, width))?;
        draft.finish()
    }
}

/// As in llm.c, shard 0 is for validation, and training shards start at 1.
fn name_of(split: Split, index: u64) -> String {
    match split {
        Split::Train => shard_name("train", index + 1),
        Split::Val => shard_name("val", index),
    }
}
