//! Streams tensors to a file.

use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
};

use fitgpt_files::disk::{Disk, DiskFile};
use fitgpt_program::units::DType;

use super::{
    CheckpointError, Result,
    header::{Checksum, HeaderDraft, stored_dtype},
    layout::{FileTensor, Values},
    manifest::ManifestFile,
    store::{StoreError, TensorEntry, TensorPiece, TensorSink, TensorSource},
};

/// The most values that are read but not yet written: 12 MiB, the whole of the largest GPT-2 matrix
/// that has to be transposed. A row may be longer, but no model has such a row.
pub(super) const MAX_VALUES: usize = 3 << 20;
/// The most bytes of one read or write: 4 MiB.
pub(super) const MAX_BYTES: usize = 4 << 20;

/// The bytes that `parts` need as a file, with metadata of this many bytes.
pub(super) fn file_bytes(parts: &[FileTensor<'_>], metadata_bytes: u64) -> u64 {
    let values: u64 = parts.iter().map(|part| part.bytes() as u64).sum();
    HeaderDraft::new(parts, BTreeMap::new()).data_start() + metadata_bytes + values
}

/// Writes `parts` to a new file at `path` with values from `source`, and syncs it. A value that is
/// not finite is an error.
pub(super) fn write(
    disk: &Disk,
    path: &Path,
    parts: &[FileTensor<'_>],
    metadata: BTreeMap<&str, String>,
    source: &mut dyn TensorSource,
) -> Result<ManifestFile> {
    let draft = HeaderDraft::new(parts, metadata);
    let mut writer = TensorWriter {
        file: disk.create(path)?,
        data_start: draft.data_start(),
        sum: draft.sum(),
        values: Vec::new(),
        bytes: Vec::new(),
    };
    let mut start = 0; // offset of the part in bytes from the first value of the file
    for part in parts {
        match part.values {
            Values::Zero => writer.zero(start, part.bytes())?,
            Values::Plain(entry) => writer.plain(start, entry, source)?,
            Values::Transposed(entry) => writer.transposed(start, entry, source)?,
        }
        start += part.bytes();
    }
    let header = draft.finish(&writer.sum);
    writer.file.write_all_at(&header, 0)?;
    writer.file.sync()?;
    let bytes = writer.data_start + start as u64;
    Ok(ManifestFile { bytes, checksum: writer.sum.to_string() })
}

/// A file whose tensors arrive one after the other, in any order. One of them is kept in memory.
pub(super) struct PushedFile<'a> {
    writer: TensorWriter,
    draft: HeaderDraft,
    /// Each tensor and its offset, by parameter.
    parts: HashMap<&'a str, (usize, Values<'a>)>,
    bytes: u64,
    held: HeldTensor,
    filled: usize,
}

/// All bytes of one tensor.
struct HeldTensor(Vec<u8>);

impl TensorSource for HeldTensor {
    fn read(
        &mut self,
        piece: TensorPiece<'_>,
        out: &mut [u8],
    ) -> std::result::Result<(), StoreError> {
        out.copy_from_slice(&self.0[piece.start..piece.start + out.len()]);
        Ok(())
    }
}

impl<'a> PushedFile<'a> {
    /// A new file at `path` for `parts`.
    pub(super) fn create(
        disk: &Disk,
        path: &Path,
        parts: &'a [FileTensor<'a>],
        metadata: BTreeMap<&str, String>,
    ) -> Result<Self> {
        let draft = HeaderDraft::new(parts, metadata);
        let mut writer = TensorWriter {
            file: disk.create(path)?,
            data_start: draft.data_start(),
            sum: draft.sum(),
            values: Vec::new(),
            bytes: Vec::new(),
        };
        let mut by_parameter = HashMap::new();
        let mut start = 0;
        for part in parts {
            match part.values {
                Values::Zero => writer.zero(start, part.bytes())?,
                Values::Plain(entry) | Values::Transposed(entry) => {
                    by_parameter.insert(entry.parameter.as_str(), (start, part.values));
                }
            }
            start += part.bytes();
        }
        let bytes = draft.data_start() + start as u64;
        let held = HeldTensor(Vec::new());
        Ok(Self { writer, draft, parts: by_parameter, bytes, held, filled: 0 })
    }

    /// Writes the header and syncs the file; returns its length.
    pub(super) fn finish(mut self) -> Result<u64> {
        let header = self.draft.finish(&self.writer.sum);
        self.writer.file.write_all_at(&header, 0)?;
        self.writer.file.sync()?;
        Ok(self.bytes)
    }
}

impl TensorSink for PushedFile<'_> {
    fn write(
        &mut self,
        piece: TensorPiece<'_>,
        bytes: &[u8],
    ) -> std::result::Result<(), StoreError> {
        if self.filled == 0 {
            self.held.0.clear();
            self.held.0.resize(piece.entry.count() * piece.entry.width(), 0);
        }
        self.held.0[piece.start..piece.start + bytes.len()].copy_from_slice(bytes);
        self.filled += bytes.len();
        if self.filled == self.held.0.len() {
            self.filled = 0;
            match self.parts[piece.entry.parameter.as_str()] {
                (start, Values::Transposed(entry)) => {
                    self.writer.transposed(start, entry, &mut self.held)?;
                }
                (start, Values::Plain(entry)) => self.writer.plain(start, entry, &mut self.held)?,
                (_, Values::Zero) => {}
            }
        }
        Ok(())
    }
}

/// A file that is being written.
struct TensorWriter {
    file: DiskFile,
    data_start: u64,
    sum: Checksum,
    /// Values of a matrix that is transposed.
    values: Vec<f32>,
    /// Bytes as they are in the file.
    bytes: Vec<u8>,
}

impl TensorWriter {
    fn zero(&mut self, start: usize, bytes: usize) -> Result<()> {
        for first in (0..bytes).step_by(MAX_BYTES) {
            self.bytes.clear();
            self.bytes.resize((bytes - first).min(MAX_BYTES), 0);
            self.put(DType::F32, start + first)?;
        }
        Ok(())
    }

    fn plain(
        &mut self,
        start: usize,
        entry: &TensorEntry,
        source: &mut dyn TensorSource,
    ) -> Result<()> {
        let bytes = entry.count() * entry.width();
        for first in (0..bytes).step_by(MAX_BYTES) {
            self.bytes.resize((bytes - first).min(MAX_BYTES), 0);
            take(TensorPiece { entry, start: first }, &mut self.bytes, source)?;
            check_finite(entry, &self.bytes)?;
            little_endian(&mut self.bytes, entry.width());
            self.put(entry.dtype, start + first)?;
        }
        Ok(())
    }

    /// Writes `(rows, columns)` as `(columns, rows)`.
    ///
    /// Reads a band of rows at a time, so that every value is read from the backend once. A band's
    /// columns are parts of the file's rows; they are contiguous only if the band has all rows, and
    /// then many are written at once.
    fn transposed(
        &mut self,
        start: usize,
        entry: &TensorEntry,
        source: &mut dyn TensorSource,
    ) -> Result<()> {
        assert_eq!(entry.dtype, DType::F32, "weights are float32");
        let (rows, columns) = (entry.shape[0], entry.shape[1]);
        let (band, group) = band_and_group(rows, columns);
        for row in (0..rows).step_by(band) {
            let band = band.min(rows - row);
            self.values.resize(band * columns, 0.0);
            let piece = TensorPiece { entry, start: 4 * row * columns };
            take(piece, bytemuck::cast_slice_mut(&mut self.values), source)?;
            check_finite(entry, bytemuck::cast_slice(&self.values))?;
            for column in (0..columns).step_by(group) {
                let group = group.min(columns - column);
                let window = MatrixWindow {
                    rows: band,
                    pitch: columns,
                    first_column: column,
                    columns: group,
                };
                self.transpose(window);
                self.put(DType::F32, start + 4 * (column * rows + row))?;
            }
        }
        Ok(())
    }

    /// Copies `window` of `self.values` to `self.bytes`, column by column.
    fn transpose(&mut self, window: MatrixWindow) {
        let MatrixWindow { rows, pitch, first_column, columns } = window;
        self.bytes.resize(4 * rows * columns, 0);
        for (column, chunk) in self.bytes.chunks_exact_mut(4 * rows).enumerate() {
            let column = self.values[first_column + column..].iter().step_by(pitch);
            for (bytes, &value) in chunk.chunks_exact_mut(4).zip(column) {
                bytes.copy_from_slice(&value.to_le_bytes());
            }
        }
    }

    /// Writes `self.bytes` at byte `start` of the file's values.
    fn put(&mut self, dtype: DType, start: usize) -> Result<()> {
        self.sum.add_bytes(stored_dtype(dtype), start as u64, &self.bytes);
        let position = self.data_start + start as u64;
        Ok(self.file.write_all_at(&self.bytes, position)?)
    }
}

/// Reads the bytes of a piece.
fn take(piece: TensorPiece<'_>, out: &mut [u8], source: &mut dyn TensorSource) -> Result<()> {
    source
        .read(piece, out)
        .map_err(|why| CheckpointError::Store { tensor: piece.entry.name(), why })
}

/// Refuses bytes of `entry`, as in memory, that contain an infinity or NaN.
fn check_finite(entry: &TensorEntry, bytes: &[u8]) -> Result<()> {
    // Such values have an exponent of all ones. Finds the largest exponent, because that loop is
    // vectorised.
    let wide = || {
        let words = bytes.chunks_exact(4);
        let exponents = words.map(|b| u32::from_ne_bytes([b[0], b[1], b[2], b[3]]) & 0x7F80_0000);
        exponents.fold(0, u32::max)
    };
    let narrow = |mask: u16| {
        let words = bytes.chunks_exact(2);
        words.map(|b| u16::from_ne_bytes([b[0], b[1]]) & mask).fold(0, u16::max)
    };
    let is_infinite = match entry.dtype {
        DType::F32 => wide() == 0x7F80_0000,
        DType::Bf16 => narrow(0x7F80) == 0x7F80,
        DType::F16 => narrow(0x7C00) == 0x7C00,
        DType::U32 | DType::I64 | DType::U8 => false,
    };
    if is_infinite { Err(CheckpointError::NotFinite { tensor: entry.name() }) } else { Ok(()) }
}

/// Converts elements between this machine's byte order and the file's.
pub(super) fn little_endian(bytes: &mut [u8], width: usize) {
    if cfg!(target_endian = "big") {
        bytes.chunks_exact_mut(width).for_each(<[u8]>::reverse);
    }
}

/// Some columns of a matrix in memory, which are one after the other in a file.
#[derive(Clone, Copy)]
pub(super) struct MatrixWindow {
    /// The number of values in a column.
    pub(super) rows: usize,
    /// The distance from one row to the next in memory.
    pub(super) pitch: usize,
    /// The first column.
    pub(super) first_column: usize,
    /// How many columns.
    pub(super) columns: usize,
}

impl MatrixWindow {
    /// `count` contiguous values: one column.
    pub(super) fn plain(count: usize) -> Self {
        Self { rows: count, pitch: 1, first_column: 0, columns: 1 }
    }
}

/// How many rows of `(rows, columns)` are transposed at a time, and how many of the resulting
/// chunks are contiguous in the file.
pub(super) fn band_and_group(rows: usize, columns: usize) -> (usize, usize) {
    let band = (MAX_VALUES / columns.max(1)).clamp(1, rows.max(1));
    let group = if band == rows { (MAX_BYTES / 4 / rows).max(1) } else { 1 };
    (band, group)
}
