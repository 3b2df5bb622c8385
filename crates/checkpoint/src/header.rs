//! The header of a safetensors file, and our checksum over the whole file.
//!
//! ```text
//! 8 bytes: length of the header · header: JSON, padded with spaces · values
//! ```
//!
//! The format has no checksum. Ours is text of a fixed length in the header's `__metadata__`, so
//! that it can be filled in after the values were streamed. It covers the header, with sixteen
//! zeros in place of the checksum itself, and every value with its position. It is a sum, and
//! therefore independent of the order in which a transposed tensor is written and read.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    path::Path,
};

use fitgpt_files::disk::DiskFile;
use fitgpt_program::{
    hash::{FNV_1A_START, fnv_1a},
    units::DType,
};
use safetensors::tensor::{Dtype, Metadata, TensorInfo};
use serde_json::{Map, Value, json};

use super::{CheckpointError, Result, layout::FileTensor};

/// The limit of the format and of the `safetensors` crate.
const MAX_BYTES: u64 = 100_000_000;
/// The length in front of the header.
const LENGTH_BYTES: u64 = 8;
/// The key of our checksum in the JSON text. Inside a value its quotes would be escaped.
const CHECKSUM_KEY: &str = "\"sum\":\"";
/// The checksum before it is known.
const NO_CHECKSUM: &str = "0000000000000000";

/// The format's name for a type.
pub(super) const fn stored_dtype(dtype: DType) -> Dtype {
    match dtype {
        DType::F32 => Dtype::F32,
        DType::Bf16 => Dtype::BF16,
        DType::F16 => Dtype::F16,
        DType::U32 => Dtype::U32,
        DType::I64 => Dtype::I64,
        DType::U8 => Dtype::U8,
    }
}

/// The header of a file that is being written.
pub(super) struct HeaderDraft {
    /// Length and JSON, with [`NO_CHECKSUM`].
    bytes: Vec<u8>,
}

impl HeaderDraft {
    /// A header for `parts`, one after the other. Metadata must not have a key `sum`.
    pub(super) fn new(parts: &[FileTensor<'_>], mut metadata: BTreeMap<&str, String>) -> Self {
        let taken = metadata.insert("sum", NO_CHECKSUM.to_owned());
        assert!(taken.is_none(), "the metadata leaves `sum` to the header");
        let mut document = Map::new();
        document.insert("__metadata__".to_owned(), json!(metadata));
        let mut start = 0;
        for part in parts {
            let end = start + part.bytes();
            let dtype = stored_dtype(part.dtype());
            let info = json!({ "dtype": dtype, "shape": part.shape, "data_offsets": [start, end] });
            document.insert(part.name.clone(), info);
            start = end;
        }
        let mut text = Value::Object(document).to_string();
        let padded = text.len().next_multiple_of(LENGTH_BYTES as usize);
        text.extend(std::iter::repeat_n(' ', padded - text.len()));

        let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
        bytes.extend(text.into_bytes());
        Self { bytes }
    }

    /// Where the values begin.
    pub(super) fn data_start(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// The checksum before any value.
    pub(super) fn sum(&self) -> Checksum {
        Checksum::of_bytes(&self.bytes)
    }

    /// The header, with its checksum.
    pub(super) fn finish(mut self, sum: &Checksum) -> Vec<u8> {
        let place = checksum_place(&self.bytes).expect("a draft has a place for its checksum");
        self.bytes[place].copy_from_slice(sum.to_string().as_bytes());
        self.bytes
    }
}

/// The header of a file that was opened.
#[derive(Debug, Default)]
pub(super) struct Header {
    /// All tensors by name, with their positions relative to `data_start`.
    pub(super) tensors: BTreeMap<String, TensorInfo>,
    /// The texts of `__metadata__`.
    texts: HashMap<String, String>,
    /// Where the values begin.
    pub(super) data_start: u64,
    /// The number of bytes of values.
    pub(super) data_bytes: u64,
    /// The checksum before any value, and what it should be after all of them.
    pub(super) sum: Option<(Checksum, u64)>,
}

impl Header {
    /// Reads the header of `file` and checks that its tensors fill the file.
    pub(super) fn read(file: &DiskFile) -> Result<Self> {
        let path_buf = || Path::to_owned(file.path());
        let found_bytes = file.bytes()?;
        if found_bytes < LENGTH_BYTES {
            return Err(CheckpointError::Length {
                path: path_buf(),
                expected_bytes: LENGTH_BYTES,
                found_bytes,
            });
        }
        let mut bytes = vec![0; LENGTH_BYTES as usize];
        file.read_exact_at(&mut bytes, 0)?;
        let length = bytes.iter().rev().fold(0, |sum, &byte| sum << 8 | u64::from(byte));
        let most_bytes = MAX_BYTES.min(found_bytes - LENGTH_BYTES);
        if length > most_bytes {
            let found_bytes = length;
            return Err(CheckpointError::HeaderLength {
                path: path_buf(),
                found_bytes,
                most_bytes,
            });
        }
        bytes.resize((LENGTH_BYTES + length) as usize, 0);
        file.read_exact_at(&mut bytes[LENGTH_BYTES as usize..], LENGTH_BYTES)?;
        let metadata: Metadata = serde_json::from_slice(&bytes[LENGTH_BYTES as usize..])
            .map_err(|source| CheckpointError::Header { path: path_buf(), source })?;

        let data_start = LENGTH_BYTES + length;
        // The crate has checked that the tensors' ranges are contiguous.
        let expected_bytes = data_start.saturating_add(metadata.data_len() as u64);
        if expected_bytes != found_bytes {
            let path = path_buf();
            return Err(CheckpointError::Length { path, expected_bytes, found_bytes });
        }
        let mut header = Self {
            tensors: metadata.tensors().into_iter().map(|(n, info)| (n, info.clone())).collect(),
            texts: metadata.metadata().clone().unwrap_or_default(),
            data_start,
            data_bytes: metadata.data_len() as u64,
            sum: None,
        };
        if let Some(text) = header.text("sum") {
            // Accept only the form that we write: a flipped bit must not give another form of the
            // same number.
            let stated = u64::from_str_radix(text, 16).ok();
            let stated = stated.filter(|stated| format!("{stated:016x}") == text);
            let (Some(stated), Some(place)) = (stated, checksum_place(&bytes)) else {
                return Err(CheckpointError::NoChecksum { path: path_buf() });
            };
            bytes[place].copy_from_slice(NO_CHECKSUM.as_bytes());
            header.sum = Some((Checksum::of_bytes(&bytes), stated));
        }
        Ok(header)
    }

    /// A text of `__metadata__`.
    pub(super) fn text(&self, key: &str) -> Option<&str> {
        self.texts.get(key).map(String::as_str)
    }

    /// The header of a file whose tensors are at arbitrary positions.
    pub(super) fn of_tensors(tensors: BTreeMap<String, TensorInfo>) -> Self {
        Self { tensors, ..Self::default() }
    }
}

/// The bytes of a header that hold its checksum.
fn checksum_place(bytes: &[u8]) -> Option<std::ops::Range<usize>> {
    let key = CHECKSUM_KEY.as_bytes();
    let start = bytes.windows(key.len()).position(|window| window == key)? + key.len();
    let place = start..start + NO_CHECKSUM.len();
    (bytes.get(place.end) == Some(&b'"')).then_some(place)
}

/// A checksum over a file: a change of any one value changes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Checksum(pub(super) u64);

impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl Checksum {
    /// FNV-1a.
    pub(super) fn of_bytes(bytes: &[u8]) -> Self {
        Self(fnv_1a(FNV_1A_START, bytes))
    }

    /// Adds bytes of a tensor of `dtype` that begin at byte `start` of the file's values. `start`
    /// is a whole number of words into the tensor.
    pub(super) fn add_bytes(&mut self, dtype: Dtype, start: u64, bytes: &[u8]) {
        // Float32 values are numbered by their index, as before files had other types. Words of
        // other types are numbered by their first byte.
        let (first, step) = match dtype {
            Dtype::F32 => (start / 4, 1),
            _ => (start | 1 << 63, 4),
        };
        let mut index = first;
        for word in bytes.chunks(4) {
            let mut whole = [0; 4];
            whole[..word.len()].copy_from_slice(word);
            self.add(index, u32::from_le_bytes(whole));
            index += step;
        }
    }

    /// For a fixed index the mix is a bijection of `word`, so a changed value always changes the
    /// sum.
    #[inline]
    fn add(&mut self, index: u64, word: u32) {
        let mut x = index.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ u64::from(word);
        x = (x ^ x >> 32).wrapping_mul(0xD6E8_FEB8_6659_FD93);
        x = (x ^ x >> 32).wrapping_mul(0xD6E8_FEB8_6659_FD93);
        self.0 = self.0.wrapping_add(x ^ x >> 32);
    }
}
