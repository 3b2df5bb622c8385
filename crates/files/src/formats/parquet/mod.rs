//! The texts of one column of a Parquet file, a page at a time.
//!
//! Does not use the crate `parquet`, because its zstd is C, which the default build avoids, and
//! nanochat's and FineWeb's files have a few plain columns. Supports byte arrays that may be null
//! and may be in structures, but not in lists; the encodings PLAIN, dictionary and both deltas;
//! pages of version 1 and 2; no compression, Snappy, gzip, Brotli, Zstandard and LZ4. A page that
//! carries a checksum is compared with it.
//!
//! Files are not trusted. One page and one dictionary are in memory at a time; no length in a file
//! is allocated before that many bytes have been read.
//!
//! Promise: any bytes are Parquet or an error, and no stated length is allocated before its bytes
//! are there. Test: `crates/files/src/formats/parquet/tests.rs`, `scripts/fuzz`.

mod levels;
mod thrift;
mod description;
mod words;

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom},
};

use super::compression::ZstdFrames;

use self::{
    description::{ColumnChunk, PageHeader, description, page_header},
    levels::{Hybrid, deltas},
    thrift::{Compact, ThriftError},
};

/// The most bytes of a page, compressed or not. Writers make pages of a megabyte.
pub(crate) const PAGE_LIMIT: u64 = 256 << 20;

/// The most bytes of a file's description.
const FOOTER_LIMIT: u64 = 64 << 20;

/// The most values of a page whose lengths are stored as deltas, which are decoded all at once.
const DELTAS_LIMIT: u64 = 1 << 22;

/// The most bytes of a page's header, which may include statistics with long texts.
const HEADER_LIMIT: u64 = 16 << 20;

// Compressions, by their number in Parquet's description.
const UNCOMPRESSED: i64 = 0;
const SNAPPY: i64 = 1;
const GZIP: i64 = 2;
const BROTLI: i64 = 4;
const ZSTD: i64 = 6;
const LZ4: i64 = 7;

const MAGIC: [u8; 4] = *b"PAR1";
const ENCRYPTED_MAGIC: [u8; 4] = *b"PARE";

/// Why a column cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ParquetError {
    /// The system reported an error, or the file is truncated.
    Io {
        /// Where in the file.
        offset: u64,
        /// The reason.
        source: io::Error,
    },
    /// Another kind of file.
    NotParquet,
    /// The description is encrypted.
    Encrypted,
    /// Bytes that Parquet does not allow.
    Damaged {
        /// Where in the file.
        offset: u64,
    },
    /// No such column.
    NoColumn {
        /// What was asked for.
        column: String,
        /// What there is.
        columns: Vec<String>,
    },
    /// A column of numbers, or of lists.
    NotText {
        /// Which column.
        column: String,
    },
    /// Several columns have the name, so which one is meant is unknown.
    Ambiguous {
        /// The name.
        column: String,
    },
    /// An unsupported compression or encoding.
    NotSupported {
        /// Which column.
        column: String,
        /// `compression` or `encoding`.
        what: &'static str,
        /// Its number in Parquet's description.
        code: i64,
    },
    /// A page or metadata larger than any writer makes.
    TooLarge {
        /// Where in the file.
        offset: u64,
        /// Its size according to the file.
        bytes: u64,
        /// The largest size that is read.
        limit: u64,
    },
}

/// The texts of a column, in order.
#[derive(Debug)]
pub struct TextColumn {
    file: File,
    column: String,
    definition_limit: u32,
    chunks: std::vec::IntoIter<ColumnChunk>,
    chunk: ColumnChunk, // its unread part
    dictionary: Vec<u8>,
    dictionary_spans: Vec<(u32, u32)>,
    page: Vec<u8>,
    page_at: u64, // for errors
    values: PageValues,
    levels: Option<Hybrid>,
    left: u64, // values of the page, nulls too
    stored: Vec<u8>,
    read_bytes: u64,
}

#[derive(Debug)]
enum PageValues {
    Plain {
        at: usize,
    },
    Dictionary(Hybrid),
    DeltaLength {
        at: usize,
        lengths: std::vec::IntoIter<i64>,
    },
    DeltaStrings {
        at: usize,
        prefixes: std::vec::IntoIter<i64>,
        suffixes: std::vec::IntoIter<i64>,
        text: Vec<u8>,
    },
}

impl TextColumn {
    /// Reads the metadata of a file and finds a column by its name, with dots between levels.
    pub fn open(mut file: File, column: &str) -> Result<Self, ParquetError> {
        let io = |offset| move |source| ParquetError::Io { offset, source };
        let len = file.seek(SeekFrom::End(0)).map_err(io(0))?;
        if len < 12 {
            return Err(ParquetError::NotParquet);
        }
        let mut ends = [0; 12];
        file.seek(SeekFrom::Start(0)).map_err(io(0))?;
        file.read_exact(&mut ends[..4]).map_err(io(0))?;
        file.seek(SeekFrom::Start(len - 8)).map_err(io(len - 8))?;
        file.read_exact(&mut ends[4..]).map_err(io(len - 8))?;
        let [a, b, c, d] = [ends[4], ends[5], ends[6], ends[7]];
        match (&ends[..4], &ends[8..]) {
            (_, magic) if magic == ENCRYPTED_MAGIC => return Err(ParquetError::Encrypted),
            (first, last) if first == MAGIC && last == MAGIC => {}
            _ => return Err(ParquetError::NotParquet),
        }
        let bytes = u64::from(u32::from_le_bytes([a, b, c, d]));
        let Some(start) = (len - 8).checked_sub(bytes).filter(|&start| start >= 4) else {
            return Err(ParquetError::Damaged { offset: len - 8 });
        };
        if bytes > FOOTER_LIMIT {
            return Err(ParquetError::TooLarge { offset: start, bytes, limit: FOOTER_LIMIT });
        }
        let mut footer = Vec::new();
        file.seek(SeekFrom::Start(start)).map_err(io(start))?;
        (&mut file).take(bytes).read_to_end(&mut footer).map_err(io(start))?;
        let damaged = |ThriftError { at }| ParquetError::Damaged { offset: start + at as u64 };
        let (leaves, groups) = description(&footer, column).map_err(damaged)?;

        let Some(leaf) = leaves.iter().find(|leaf| leaf.path == column) else {
            let columns = leaves.into_iter().map(|leaf| leaf.path).collect();
            return Err(ParquetError::NoColumn { column: column.to_owned(), columns });
        };
        if !leaf.is_text || leaf.is_repeated {
            return Err(ParquetError::NotText { column: column.to_owned() });
        }
        if leaves.iter().filter(|leaf| leaf.path == column).count() > 1 {
            return Err(ParquetError::Ambiguous { column: column.to_owned() });
        }
        // A group without rows has no bytes, wherever it says that they are.
        let groups: Vec<_> = groups.into_iter().filter(|chunk| chunk.n_values > 0).collect();
        for chunk in &groups {
            let end = chunk.start.checked_add(chunk.len);
            if chunk.start < 4 || end.is_none_or(|end| end > start) {
                return Err(ParquetError::Damaged { offset: start });
            }
            if !matches!(chunk.codec, UNCOMPRESSED | SNAPPY | GZIP | BROTLI | ZSTD | LZ4) {
                let (what, code) = ("compression", chunk.codec);
                return Err(ParquetError::NotSupported { column: column.to_owned(), what, code });
            }
        }
        Ok(Self {
            file,
            column: column.to_owned(),
            definition_limit: leaf.definition_limit,
            chunks: groups.into_iter(),
            chunk: ColumnChunk { start: 0, len: 0, codec: 0, n_values: 0 },
            dictionary: Vec::new(),
            dictionary_spans: Vec::new(),
            page: Vec::new(),
            page_at: 0,
            values: PageValues::Plain { at: 0 },
            levels: None,
            left: 0,
            stored: Vec::new(),
            read_bytes: 0,
        })
    }

    /// How many bytes of pages were read.
    pub fn read_bytes(&self) -> u64 {
        self.read_bytes
    }

    /// The memory of the largest page so far: compressed, decompressed, and its dictionary.
    pub fn held_bytes(&self) -> u64 {
        let dictionary = self.dictionary.capacity() + 8 * self.dictionary_spans.capacity();
        (dictionary + self.page.capacity() + self.stored.capacity()) as u64
    }

    /// The bytes of the next text; `None` at the end. Nulls are skipped.
    pub fn next_text(&mut self) -> Result<Option<&[u8]>, ParquetError> {
        loop {
            while self.left == 0 {
                if !self.next_page()? {
                    return Ok(None);
                }
            }
            self.left -= 1;
            let damaged = ParquetError::Damaged { offset: self.page_at };
            if let Some(levels) = &mut self.levels {
                let Some(level) = levels.next(&self.page) else { return Err(damaged) };
                if level < self.definition_limit {
                    continue;
                }
            }
            let span = match &mut self.values {
                PageValues::Plain { at } => plain(&self.page, at),
                PageValues::Dictionary(indices) => {
                    let index = indices.next(&self.page).map(|index| index as usize);
                    let Some(&(start, end)) = index.and_then(|i| self.dictionary_spans.get(i))
                    else {
                        return Err(damaged);
                    };
                    return Ok(Some(&self.dictionary[start as usize..end as usize]));
                }
                PageValues::DeltaLength { at, lengths } => {
                    lengths.next().and_then(|len| take(&self.page, at, len))
                }
                PageValues::DeltaStrings { at, prefixes, suffixes, text } => {
                    let prefix = prefixes.next().and_then(|len| usize::try_from(len).ok());
                    let suffix = suffixes.next().and_then(|len| take(&self.page, at, len));
                    let (Some(prefix), Some((start, end))) = (prefix, suffix) else {
                        return Err(damaged);
                    };
                    // A text that repeats the previous one grows at most by its own bytes.
                    if prefix > text.len() || text.len() + (end - start) > PAGE_LIMIT as usize {
                        return Err(damaged);
                    }
                    text.truncate(prefix);
                    text.extend_from_slice(&self.page[start..end]);
                    return Ok(Some(text));
                }
            };
            return match span {
                Some((start, end)) => Ok(Some(&self.page[start..end])),
                None => Err(damaged),
            };
        }
    }

    /// Reads the next page with values; `false` at the end of the file's rows.
    fn next_page(&mut self) -> Result<bool, ParquetError> {
        loop {
            if self.chunk.len == 0 || self.chunk.n_values == 0 {
                let Some(chunk) = self.chunks.next() else { return Ok(false) };
                self.chunk = chunk;
                self.dictionary_spans.clear();
                continue;
            }
            let header = self.page_header()?;
            self.read_page(&header)?;
            let n_values = u64::try_from(header.n_values).unwrap_or(0);
            let is_done = match header.kind {
                0 => self.begin_page(&header, n_values, None)?,
                3 => self.begin_page(&header, n_values, header.levels_bytes)?,
                2 => {
                    self.dictionary_page(n_values)?;
                    false
                }
                _ => false, // an index
            };
            if is_done {
                self.chunk.n_values = self.chunk.n_values.saturating_sub(n_values);
                self.left = n_values;
                return Ok(true);
            }
        }
    }

    /// Reads a page's header and advances past it.
    fn page_header(&mut self) -> Result<PageHeader, ParquetError> {
        let mut wanted = 4096.min(self.chunk.len);
        loop {
            self.page_at = self.chunk.start;
            self.stored.clear();
            let io = |source| ParquetError::Io { offset: self.chunk.start, source };
            self.file.seek(SeekFrom::Start(self.chunk.start)).map_err(io)?;
            (&mut self.file).take(wanted).read_to_end(&mut self.stored).map_err(io)?;
            let mut compact = Compact::new(&self.stored);
            match page_header(&mut compact) {
                Ok(header) => {
                    self.advance(compact.at() as u64)?;
                    return Ok(header);
                }
                // The header may be longer than the bytes read so far: pyarrow writes texts of up
                // to 4 KiB into the statistics of a page.
                Err(_) if wanted < self.chunk.len && wanted < HEADER_LIMIT => {
                    wanted = (wanted * 8).min(self.chunk.len);
                }
                Err(ThriftError { at }) => {
                    return Err(ParquetError::Damaged { offset: self.chunk.start + at as u64 });
                }
            }
        }
    }

    /// Advances in the chunk.
    fn advance(&mut self, bytes: u64) -> Result<(), ParquetError> {
        let Some(left) = self.chunk.len.checked_sub(bytes) else {
            return Err(ParquetError::Damaged { offset: self.chunk.start });
        };
        self.chunk.start += bytes;
        self.chunk.len = left;
        self.read_bytes += bytes;
        Ok(())
    }

    /// Reads and decompresses a page's bytes.
    fn read_page(&mut self, header: &PageHeader) -> Result<(), ParquetError> {
        let offset = self.chunk.start;
        let damaged = || ParquetError::Damaged { offset };
        let stored_bytes = u64::try_from(header.stored_bytes).map_err(|_| damaged())?;
        let bytes = u64::try_from(header.bytes).map_err(|_| damaged())?;
        if bytes.max(stored_bytes) > PAGE_LIMIT {
            let bytes = bytes.max(stored_bytes);
            return Err(ParquetError::TooLarge { offset, bytes, limit: PAGE_LIMIT });
        }
        self.advance(stored_bytes)?;
        let io = |source| ParquetError::Io { offset, source };
        self.file.seek(SeekFrom::Start(offset)).map_err(io)?;
        self.stored.clear();
        (&mut self.file).take(stored_bytes).read_to_end(&mut self.stored).map_err(io)?;
        if self.stored.len() as u64 != stored_bytes {
            return Err(io(io::ErrorKind::UnexpectedEof.into()));
        }
        if let Some(stored) = header.checksum {
            let mut found = flate2::Crc::new();
            found.update(&self.stored);
            if found.sum() != stored {
                return Err(damaged());
            }
        }
        self.page.clear();
        // In version 2 the levels are never compressed.
        let levels = header.levels_bytes.map_or(Some(0), |[repetition, definition]| {
            usize::try_from(repetition.checked_add(definition)?).ok()
        });
        let Some((levels, data)) = levels.and_then(|levels| self.stored.split_at_checked(levels))
        else {
            return Err(damaged());
        };
        self.page.extend_from_slice(levels);
        let rest = bytes.checked_sub(levels.len() as u64).ok_or_else(damaged)?;
        let codec = if header.is_stored_plain { UNCOMPRESSED } else { self.chunk.codec };
        if decompress(codec, data, rest, &mut self.page) { Ok(()) } else { Err(damaged()) }
    }

    fn dictionary_page(&mut self, n_values: u64) -> Result<(), ParquetError> {
        std::mem::swap(&mut self.dictionary, &mut self.page);
        self.dictionary_spans.clear();
        let mut at = 0;
        for _ in 0..n_values {
            let Some((start, end)) = plain(&self.dictionary, &mut at) else {
                return Err(ParquetError::Damaged { offset: self.page_at });
            };
            self.dictionary_spans.push((start as u32, end as u32)); // a page has less than 2^32 bytes
        }
        Ok(())
    }

    /// Finds levels and values in the page that was read; `true` if it has values.
    fn begin_page(
        &mut self,
        header: &PageHeader,
        n_values: u64,
        levels_bytes: Option<[i64; 2]>,
    ) -> Result<bool, ParquetError> {
        let damaged = || ParquetError::Damaged { offset: self.page_at };
        let width = u32::BITS - self.definition_limit.leading_zeros();
        let (levels_at, mut at) = match levels_bytes {
            Some(lengths) => {
                let [repetition, definition] =
                    lengths.map(|len| usize::try_from(len).unwrap_or(usize::MAX));
                (repetition, repetition.checked_add(definition).ok_or_else(damaged)?)
            }
            None if width == 0 => (0, 0),
            None => {
                let len = self.page.first_chunk::<4>().map(|len| u32::from_le_bytes(*len));
                (4, (len.ok_or_else(damaged)? as usize).checked_add(4).ok_or_else(damaged)?)
            }
        };
        if at > self.page.len() {
            return Err(damaged());
        }
        self.levels = (width > 0).then(|| Hybrid::new(levels_at, width));
        let lengths =
            |at: &mut usize| deltas(&self.page, at, n_values.min(DELTAS_LIMIT)).map(Vec::into_iter);
        self.values = match header.encoding {
            0 => PageValues::Plain { at },
            2 | 8 => match self.page.get(at) {
                Some(&width) if width <= 32 => {
                    PageValues::Dictionary(Hybrid::new(at + 1, width.into()))
                }
                // A page of nulls only may end here.
                None => PageValues::Plain { at },
                Some(_) => return Err(damaged()),
            },
            6 => {
                let lengths = lengths(&mut at).ok_or_else(damaged)?;
                PageValues::DeltaLength { at, lengths }
            }
            7 => {
                let prefixes = lengths(&mut at).ok_or_else(damaged)?;
                let suffixes = lengths(&mut at).ok_or_else(damaged)?;
                PageValues::DeltaStrings { at, prefixes, suffixes, text: Vec::new() }
            }
            code => {
                let (column, what) = (self.column.clone(), "encoding");
                return Err(ParquetError::NotSupported { column, what, code });
            }
        };
        Ok(n_values > 0)
    }
}

/// Appends the decompressed `data`; returns whether it has exactly `bytes` bytes.
fn decompress(codec: i64, data: &[u8], bytes: u64, page: &mut Vec<u8>) -> bool {
    match codec {
        UNCOMPRESSED => {
            page.extend_from_slice(data);
            data.len() as u64 == bytes
        }
        // At its best, Snappy makes three bytes of 64, and LZ4 one of 255: no more is allocated.
        SNAPPY => into_space(bytes, data.len().saturating_mul(32), page, |space| {
            snap::raw::Decoder::new().decompress(data, space).ok()
        }),
        LZ4 => into_space(bytes, data.len().saturating_mul(255), page, |space| {
            lz4_flex::block::decompress_into(data, space).ok()
        }),
        GZIP => inflate(flate2::read::MultiGzDecoder::new(data), bytes, page),
        BROTLI => inflate(brotli_decompressor::Decompressor::new(data, 4096), bytes, page),
        _ if bytes == 0 => true, // Zstandard
        _ => inflate(ZstdFrames::new(data), bytes, page),
    }
}

/// Appends `bytes` bytes, at most `most`, which `fill` must fill completely.
fn into_space(
    bytes: u64,
    most: usize,
    page: &mut Vec<u8>,
    fill: impl FnOnce(&mut [u8]) -> Option<usize>,
) -> bool {
    let start = page.len();
    let Some(len) = usize::try_from(bytes).ok().filter(|&len| len <= most) else { return false };
    page.resize(start + len, 0);
    fill(&mut page[start..]) == Some(len)
}

/// Appends the content of `reader`; returns whether it has exactly `bytes` bytes.
fn inflate(reader: impl Read, bytes: u64, page: &mut Vec<u8>) -> bool {
    match reader.take(bytes + 1).read_to_end(page) {
        Ok(read) => read as u64 == bytes,
        Err(_) => false,
    }
}

/// The span of a byte array after its length.
fn plain(bytes: &[u8], at: &mut usize) -> Option<(usize, usize)> {
    let len = u32::from_le_bytes(*bytes.get(*at..)?.first_chunk::<4>()?);
    *at += 4;
    take(bytes, at, len.into())
}

/// The span of the next `len` bytes; `at` advances past them.
fn take(bytes: &[u8], at: &mut usize, len: i64) -> Option<(usize, usize)> {
    let start = *at;
    let end = start.checked_add(usize::try_from(len).ok()?).filter(|&end| end <= bytes.len())?;
    *at = end;
    Some((start, end))
}

#[cfg(test)]
mod tests;
