//! Writes files that `torch.load` reads.

use std::io::Write as _;

use flate2::Crc;

use super::zip::{CENTRAL, END, END_64, EXTRA_64, LOCAL, LOCAL_BYTES, LOCATOR_64};
use crate::disk::{DiskError, DiskFile};

/// `torch.load` can map values that begin at multiples of this.
const ALIGNMENT: u64 = 64;
/// The version of the archive's format, the content of its `version` entry.
const VERSION: &str = "3\n";
/// The folder of all entries.
const FOLDER: &str = "ckpt";
/// The tag of PyTorch's padding.
const PADDING: u16 = u16::from_le_bytes(*b"FB");
/// The mark for a number that is stored in the extra field.
const ELSEWHERE: u32 = u32::MAX;

/// An archive being written. All sizes are known from the start, so entries can be written in any
/// order, each sequentially.
#[derive(Debug)]
pub struct ArchiveWriter {
    file: DiskFile,
    entries: Vec<EntryDraft>,
    /// The offset of the central directory.
    directory_at: u64,
}

#[derive(Debug)]
struct EntryDraft {
    name: String,
    bytes: u64,
    header_at: u64,
    data_at: u64,
    crc: Crc,
    written: u64,
}

impl ArchiveWriter {
    /// An archive with this pickle, and storages "0", "1" and so on of these sizes.
    pub fn create(file: DiskFile, pickle: &[u8], storages: &[u64]) -> Result<Self, DiskError> {
        let mut writer = Self { file, entries: Vec::new(), directory_at: 0 };
        for (index, bytes) in storages.iter().enumerate() {
            writer.add(format!("{FOLDER}/data/{index}"), *bytes);
        }
        let texts: [(&str, &[u8]); 3] =
            [("data.pkl", pickle), ("byteorder", b"little"), ("version", VERSION.as_bytes())];
        for (name, text) in texts {
            let index = writer.entries.len();
            writer.add(format!("{FOLDER}/{name}"), text.len() as u64);
            writer.write(index, text)?;
        }
        Ok(writer)
    }

    fn add(&mut self, name: String, bytes: u64) {
        let header_at = self.directory_at;
        let mut entry =
            EntryDraft { name, bytes, header_at, data_at: 0, crc: Crc::new(), written: 0 };
        let header_end = header_at + entry.local_header().len() as u64;
        // The padding's tag and length need four bytes.
        entry.data_at = (header_end + 4).next_multiple_of(ALIGNMENT);
        self.directory_at = entry.data_at + bytes;
        self.entries.push(entry);
    }

    /// Writes the next bytes of the entry `index`; storages come first.
    pub fn write(&mut self, index: usize, bytes: &[u8]) -> Result<(), DiskError> {
        let entry = &mut self.entries[index];
        let start = entry.written;
        entry.written += bytes.len() as u64;
        assert!(entry.written <= entry.bytes, "`{}` is longer than planned", entry.name);
        entry.crc.update(bytes);
        self.file.write_all_at(bytes, entry.data_at + start)
    }

    /// How many bytes of the entry `index` were written.
    pub fn written(&self, index: usize) -> u64 {
        self.entries[index].written
    }

    /// Leaves the rest as a hole of zeros; checksums are then wrong.
    #[cfg(test)]
    pub(super) fn skip_to_end_for_tests(&mut self) {
        for entry in &mut self.entries {
            entry.written = entry.bytes;
        }
    }

    /// Writes the headers and the directory, and syncs the file; returns its length.
    pub fn finish(mut self) -> Result<u64, DiskError> {
        let mut directory = Vec::new();
        for entry in &self.entries {
            assert_eq!(entry.written, entry.bytes, "`{}` is shorter than planned", entry.name);
            self.file.write_all_at(&entry.local_header(), entry.header_at)?;
            directory.extend(entry.central_header());
        }
        let bytes = directory.len() as u64;
        directory.extend(end(self.entries.len() as u64, self.directory_at, bytes));
        self.file.write_all_at(&directory, self.directory_at)?;
        self.file.sync()?;
        Ok(self.directory_at + directory.len() as u64)
    }
}

/// Appends little-endian numbers.
fn put<const N: usize>(bytes: &mut Vec<u8>, numbers: [u16; N]) {
    bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
}

/// A number of four bytes, or the mark that it is in the extra field.
fn short(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(ELSEWHERE)
}

impl EntryDraft {
    /// Whether its size or position needs 64 bits.
    fn is_long(&self) -> bool {
        self.bytes.max(self.header_at) >= u64::from(ELSEWHERE)
    }

    /// Version, flags, method, time and date, checksum and sizes.
    fn facts(&self) -> Vec<u8> {
        let mut facts = Vec::new();
        // No compression; 1980-01-01, so that the same model gives the same file.
        put(&mut facts, [if self.is_long() { 45 } else { 20 }, 0, 0, 0, 0x21]);
        facts.extend(self.crc.sum().to_le_bytes());
        let size = if self.is_long() { ELSEWHERE } else { short(self.bytes) };
        facts.extend(size.to_le_bytes());
        facts.extend(size.to_le_bytes());
        facts
    }

    /// The record before its bytes; without padding as long as its position is not known.
    fn local_header(&self) -> Vec<u8> {
        let mut extra = Vec::new();
        if self.is_long() {
            put(&mut extra, [EXTRA_64, 16]);
            extra.extend(self.bytes.to_le_bytes());
            extra.extend(self.bytes.to_le_bytes());
        }
        let plain_end = self.header_at + (LOCAL_BYTES + self.name.len() + extra.len()) as u64;
        if self.data_at > 0 {
            let padding = (self.data_at - plain_end - 4) as u16; // below the alignment
            put(&mut extra, [PADDING, padding]);
            extra.resize(extra.len() + usize::from(padding), b'Z');
        }
        let mut header = LOCAL.to_le_bytes().to_vec();
        header.extend(self.facts());
        put(&mut header, [self.name.len() as u16, extra.len() as u16]);
        header.extend(self.name.as_bytes());
        header.extend(extra);
        header
    }

    /// The record in the directory.
    fn central_header(&self) -> Vec<u8> {
        let mut extra = Vec::new();
        if self.is_long() {
            put(&mut extra, [EXTRA_64, 24]);
            for number in [self.bytes, self.bytes, self.header_at] {
                extra.extend(number.to_le_bytes());
            }
        }
        let mut header = CENTRAL.to_le_bytes().to_vec();
        put(&mut header, [45]); // made by
        header.extend(self.facts());
        // No comment, the first disk, no attributes.
        put(&mut header, [self.name.len() as u16, extra.len() as u16, 0, 0, 0, 0, 0]);
        let at = if self.is_long() { ELSEWHERE } else { short(self.header_at) };
        header.extend(at.to_le_bytes());
        header.extend(self.name.as_bytes());
        header.extend(extra);
        header
    }
}

/// The records after the directory of `count` entries and `bytes` bytes at `start`.
fn end(count: u64, start: u64, bytes: u64) -> Vec<u8> {
    let mut end = Vec::new();
    let is_long = count >= 0xFFFF || start.max(bytes) >= u64::from(ELSEWHERE);
    if is_long {
        end.extend(END_64.to_le_bytes());
        end.extend(44_u64.to_le_bytes()); // the rest of this record
        put(&mut end, [45, 45, 0, 0, 0, 0]); // versions; the first disk
        for number in [count, count, bytes, start] {
            end.extend(number.to_le_bytes());
        }
        end.extend(LOCATOR_64.to_le_bytes());
        put(&mut end, [0, 0]);
        end.extend((start + bytes).to_le_bytes());
        put(&mut end, [1, 0]); // one disk
    }
    let count = u16::try_from(count).unwrap_or(u16::MAX);
    end.extend(END.to_le_bytes());
    put(&mut end, [0, 0, count, count]);
    end.extend(short(bytes).to_le_bytes());
    end.extend(short(start).to_le_bytes());
    put(&mut end, [0]); // no comment
    end
}

/// Writes a pickle of protocol 2.
#[derive(Debug)]
pub struct PickleWriter {
    bytes: Vec<u8>,
}

impl Default for PickleWriter {
    /// The start of a pickle.
    fn default() -> Self {
        Self { bytes: b"\x80\x02".to_vec() }
    }
}

impl PickleWriter {
    /// The whole pickle.
    pub fn finish(mut self) -> Vec<u8> {
        self.bytes.push(b'.');
        self.bytes
    }

    /// `None`.
    pub fn none(&mut self) {
        self.bytes.push(b'N');
    }

    /// `True` or `False`.
    pub fn bool(&mut self, value: bool) {
        self.bytes.push(if value { 0x88 } else { 0x89 });
    }

    /// A whole number.
    pub fn int(&mut self, value: i64) {
        if let Ok(short) = i32::try_from(value) {
            self.bytes.push(b'J');
            self.bytes.extend(short.to_le_bytes());
        } else {
            self.bytes.extend([0x8a, 8]);
            self.bytes.extend(value.to_le_bytes());
        }
    }

    /// A number.
    pub fn float(&mut self, value: f64) {
        self.bytes.push(b'G');
        self.bytes.extend(value.to_be_bytes());
    }

    /// A string.
    pub fn text(&mut self, text: &str) {
        self.bytes.push(b'X');
        self.bytes.extend((text.len() as u32).to_le_bytes());
        self.bytes.extend(text.as_bytes());
    }

    /// A dict: `entries` writes a key and a value in turn.
    pub fn dict(&mut self, entries: impl FnOnce(&mut Self)) {
        self.bytes.extend(b"}(");
        entries(self);
        self.bytes.push(b'u');
    }

    /// An `OrderedDict`, as in state dicts: `entries` writes a key and a value in turn.
    pub fn ordered_dict(&mut self, entries: impl FnOnce(&mut Self)) {
        self.global("collections", "OrderedDict");
        self.bytes.extend(b")R(");
        entries(self);
        self.bytes.push(b'u');
    }

    /// A list: `items` writes its elements.
    pub fn list(&mut self, items: impl FnOnce(&mut Self)) {
        self.bytes.extend(b"](");
        items(self);
        self.bytes.push(b'e');
    }

    /// A tuple: `items` writes its elements.
    pub fn tuple(&mut self, items: impl FnOnce(&mut Self)) {
        self.bytes.push(b'(');
        items(self);
        self.bytes.push(b't');
    }

    fn global(&mut self, module: &str, name: &str) {
        writeln!(self.bytes, "c{module}\n{name}").expect("a vector takes all bytes");
    }

    /// A contiguous float32 tensor that fills the storage `index`.
    pub fn tensor(&mut self, index: usize, shape: &[usize]) {
        self.global("torch._utils", "_rebuild_tensor_v2");
        self.tuple(|it| {
            it.tuple(|it| {
                it.text("storage");
                it.global("torch", "FloatStorage");
                it.text(&index.to_string());
                it.text("cpu");
                it.int(shape.iter().product::<usize>() as i64);
            });
            it.bytes.push(b'Q');
            it.int(0);
            it.tuple(|it| shape.iter().for_each(|size| it.int(*size as i64)));
            it.tuple(|it| {
                for axis in 0..shape.len() {
                    it.int(shape[axis + 1..].iter().product::<usize>() as i64);
                }
            });
            it.bool(false);
            it.ordered_dict(|_| {});
        });
        self.bytes.push(b'R');
    }
}
