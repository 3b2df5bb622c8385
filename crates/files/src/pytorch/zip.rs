//! Reads uncompressed entries of zip archives of any size.
//!
//! ```text
//! (local header · name · extra · bytes)*  central directory  [zip64 end · its locator]  end
//! ```
//!
//! Sizes come from the central directory: `torch.save` writes them after the bytes. All numbers
//! are little-endian.

use std::collections::BTreeMap;

use super::{SavedError, ZipFault};
use crate::disk::DiskFile;

/// The signatures of records: `PK\3\4` and so on.
pub(super) const LOCAL: u32 = 0x0403_4b50;
pub(super) const CENTRAL: u32 = 0x0201_4b50;
pub(super) const END: u32 = 0x0605_4b50;
pub(super) const END_64: u32 = 0x0606_4b50;
pub(super) const LOCATOR_64: u32 = 0x0706_4b50;

pub(super) const LOCAL_BYTES: usize = 30;
const CENTRAL_BYTES: usize = 46;
pub(super) const END_BYTES: usize = 22;
const END_64_BYTES: usize = 56;
const LOCATOR_64_BYTES: usize = 20;
const MAX_COMMENT_BYTES: usize = 0xFFFF;
/// GPT-2 XL with its optimizer has 1742 entries of about 100 bytes.
const MAX_DIRECTORY_BYTES: u64 = 64 << 20;
/// The tag of an extra field with 64-bit sizes.
pub(super) const EXTRA_64: u16 = 1;

/// The position of an entry's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ZipEntry {
    /// From the start of the file.
    pub(super) start: u64,
    pub(super) bytes: u64,
}

/// The directory of an archive.
#[derive(Debug)]
pub(super) struct Zip {
    /// Position of the local header, and size, by name.
    entries: BTreeMap<String, (u64, u64)>,
    /// The offset of the central directory; all entries end before it.
    directory_start: u64,
}

fn fault<T>(fault: ZipFault, offset: u64) -> Result<T, SavedError> {
    Err(SavedError::Zip { fault, offset })
}

/// A number of two bytes.
fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

/// A number of four bytes.
fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// A number of eight bytes.
fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

impl Zip {
    /// Reads the directory of `file`.
    pub(super) fn read(file: &DiskFile) -> Result<Self, SavedError> {
        let (start, bytes) = directory(file)?;
        if bytes > MAX_DIRECTORY_BYTES {
            return fault(ZipFault::TooMany, start);
        }
        let mut directory = vec![0; bytes as usize];
        file.read_exact_at(&mut directory, start)?;
        let mut zip = Self { entries: BTreeMap::new(), directory_start: start };
        let mut at = 0;
        while at < directory.len() {
            at += zip.add(&directory[at..], start + at as u64)?;
        }
        Ok(zip)
    }

    /// Adds the entry at the start of `record`, which is at `offset` of the file, and returns the
    /// length of its record.
    fn add(&mut self, record: &[u8], offset: u64) -> Result<usize, SavedError> {
        if record.len() < CENTRAL_BYTES {
            return fault(ZipFault::Bounds, offset);
        }
        if u32_at(record, 0) != CENTRAL {
            return fault(ZipFault::Signature, offset);
        }
        let (flags, method) = (u16_at(record, 8), u16_at(record, 10));
        let (name_bytes, extra_bytes) = (u16_at(record, 28), u16_at(record, 30));
        let name_end = CENTRAL_BYTES + usize::from(name_bytes);
        let extra_end = name_end + usize::from(extra_bytes);
        let end = extra_end + usize::from(u16_at(record, 32));
        if end > record.len() {
            return fault(ZipFault::Bounds, offset);
        }
        let Ok(name) = str::from_utf8(&record[CENTRAL_BYTES..name_end]) else {
            return fault(ZipFault::Name, offset);
        };
        // In the order of the extra field, which has only the numbers that are all ones here.
        let mut numbers =
            [u32_at(record, 24), u32_at(record, 20), u32_at(record, 42)].map(u64::from);
        let mut extra = extra_of(&record[name_end..extra_end]);
        for number in numbers.iter_mut().filter(|number| **number == u64::from(u32::MAX)) {
            let Some((first, rest)) = extra.split_at_checked(8) else {
                return fault(ZipFault::Bounds, offset);
            };
            *number = u64_at(first, 0);
            extra = rest;
        }
        let [size, stored_size, local] = numbers;
        let is_encrypted = flags & 1 != 0;
        if method != 0 || is_encrypted || size != stored_size {
            return fault(ZipFault::Compressed, offset);
        }
        self.entries.insert(name.to_owned(), (local, size));
        Ok(end)
    }

    /// The names of all entries, sorted.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    /// The position of the entry `name`; `None` if there is none.
    pub(super) fn find(&self, file: &DiskFile, name: &str) -> Result<Option<ZipEntry>, SavedError> {
        let Some(&(local, bytes)) = self.entries.get(name) else { return Ok(None) };
        let header_end = local.checked_add(LOCAL_BYTES as u64);
        if header_end.is_none_or(|end| end > self.directory_start) {
            return fault(ZipFault::Bounds, local);
        }
        let mut header = [0; LOCAL_BYTES];
        file.read_exact_at(&mut header, local)?;
        if u32_at(&header, 0) != LOCAL {
            return fault(ZipFault::Signature, local);
        }
        let names = u64::from(u16_at(&header, 26)) + u64::from(u16_at(&header, 28));
        let start = local + LOCAL_BYTES as u64 + names;
        let end = start.checked_add(bytes);
        if end.is_none_or(|end| end > self.directory_start) {
            return fault(ZipFault::Bounds, local);
        }
        Ok(Some(ZipEntry { start, bytes }))
    }
}

/// The 64-bit numbers of an extra field.
fn extra_of(mut fields: &[u8]) -> &[u8] {
    while fields.len() >= 4 {
        let (tag, bytes) = (u16_at(fields, 0), usize::from(u16_at(fields, 2)));
        let Some((field, rest)) = fields[4..].split_at_checked(bytes) else { break };
        if tag == EXTRA_64 {
            return field;
        }
        fields = rest;
    }
    &[]
}

/// The offset and the length of the central directory.
fn directory(file: &DiskFile) -> Result<(u64, u64), SavedError> {
    let length = file.bytes()?;
    let tail_bytes = length.min((END_BYTES + MAX_COMMENT_BYTES) as u64);
    let tail_start = length - tail_bytes;
    let mut tail = vec![0; tail_bytes as usize];
    file.read_exact_at(&mut tail, tail_start)?;
    let is_end = |at: &usize| {
        u32_at(&tail, *at) == END
            && *at + END_BYTES + usize::from(u16_at(&tail, *at + 20)) == tail.len()
    };
    let last = tail.len().checked_sub(END_BYTES);
    let Some(at) = last.and_then(|last| (0..=last).rev().find(is_end)) else {
        return Err(SavedError::NotAnArchive);
    };
    let end = tail_start + at as u64;
    let (mut bytes, mut start) =
        (u64::from(u32_at(&tail, at + 12)), u64::from(u32_at(&tail, at + 16)));
    if let Some(locator_at) = end.checked_sub(LOCATOR_64_BYTES as u64) {
        let mut locator = [0; LOCATOR_64_BYTES];
        file.read_exact_at(&mut locator, locator_at)?;
        if u32_at(&locator, 0) == LOCATOR_64 {
            let end_64 = u64_at(&locator, 8);
            if end_64.checked_add(END_64_BYTES as u64).is_none_or(|end| end > locator_at) {
                return fault(ZipFault::Bounds, locator_at);
            }
            let mut record = [0; END_64_BYTES];
            file.read_exact_at(&mut record, end_64)?;
            if u32_at(&record, 0) != END_64 {
                return fault(ZipFault::Signature, end_64);
            }
            (bytes, start) = (u64_at(&record, 40), u64_at(&record, 48));
        }
    }
    if start.checked_add(bytes).is_none_or(|directory_end| directory_end > end) {
        return fault(ZipFault::Bounds, end);
    }
    Ok((start, bytes))
}
