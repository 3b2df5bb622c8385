//! Streams tensors from a file.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use fitgpt_files::{
    disk::{Disk, DiskFile},
    pytorch::{SavedFile, SavedTensor},
};
use half::{bf16, f16};
use safetensors::tensor::{Dtype, TensorInfo};

use super::{
    CheckpointError, Result,
    header::{Checksum, Header, stored_dtype},
    layout::{FileTensor, PositionRows, Values},
    store::{TensorEntry, TensorPiece, TensorSink},
    write::{MAX_BYTES, MatrixWindow, band_and_group, little_endian},
};

/// A file of tensors whose header has been read and checked.
#[derive(Debug)]
pub(super) struct TensorFile {
    pub(super) path: PathBuf,
    pub(super) header: Header,
    file: DiskFile,
}

/// A tensor of a file that matches what the model expects.
pub(super) struct MatchedTensor<'a, 'b> {
    part: &'b FileTensor<'a>,
    name: String,
    /// Offset in bytes from the first value of the file.
    start: u64,
    /// More than the part has if positions are cropped.
    count: usize,
    dtype: Dtype,
}

impl<'a, 'b> MatchedTensor<'a, 'b> {
    /// The file's tensor `info` as `part`; an error if its shape or type differs.
    pub(super) fn new(
        part: &'b FileTensor<'a>,
        name: &str,
        info: &TensorInfo,
        positions: PositionRows,
        path: &Path,
    ) -> Result<Self> {
        let tensor = name.to_owned();
        if !shape_fits(info, part, positions) {
            let (path, expected, found) = (path.into(), part.shape.clone(), info.shape.clone());
            return Err(CheckpointError::Shape { path, tensor, expected, found });
        }
        let (path, found) = (path.to_owned(), info.dtype.to_string());
        if !part.is_state() {
            if !matches!(info.dtype, Dtype::F32 | Dtype::F16 | Dtype::BF16 | Dtype::F64) {
                return Err(CheckpointError::DType { path, tensor, found });
            }
        } else if info.dtype != stored_dtype(part.dtype()) {
            let expected = stored_dtype(part.dtype()).to_string();
            return Err(CheckpointError::StateDType { path, tensor, expected, found });
        }
        let count = info.shape.iter().product();
        let start = info.data_offsets.0 as u64;
        Ok(Self { part, name: tensor, start, count, dtype: info.dtype })
    }
}

impl TensorFile {
    /// Reads the header of the file at `path`.
    pub(super) fn open(disk: &Disk, path: PathBuf) -> Result<Self> {
        let file = open(disk, &path)?;
        let header = Header::read(&file)?;
        if header.text("save_id").is_some() && header.sum.is_none() {
            return Err(CheckpointError::NoChecksum { path });
        }
        Ok(Self { path, header, file })
    }

    /// Reads the pickle of a state dict that PyTorch saved at `path`.
    pub(super) fn open_saved(disk: &Disk, path: PathBuf) -> Result<Self> {
        let of_path = |source| CheckpointError::Saved { path: path.clone(), source };
        let read = |saved: &SavedFile| saved.tensors(saved.root()?);
        let saved = SavedFile::read(open(disk, &path)?).map_err(of_path)?;
        let tensors = read(&saved).map_err(of_path)?;
        Ok(Self::of_saved(path, saved.into_file(), tensors))
    }

    /// A file saved by PyTorch with these tensors. If a name occurs twice, the last one counts.
    pub(super) fn of_saved(
        path: PathBuf,
        file: DiskFile,
        tensors: impl IntoIterator<Item = (String, SavedTensor)>,
    ) -> Self {
        let info = |tensor: SavedTensor| TensorInfo {
            dtype: tensor.dtype,
            shape: tensor.shape,
            data_offsets: (tensor.start as usize, (tensor.start + tensor.bytes) as usize),
        };
        let tensors: BTreeMap<_, _> = tensors.into_iter().map(|(n, t)| (n, info(t))).collect();
        Self { path, header: Header::of_tensors(tensors), file }
    }

    /// Passes the values of `found`, which are tensors of this file, to `sink`.
    pub(super) fn read(
        &mut self,
        mut found: Vec<MatchedTensor<'_, '_>>,
        sink: &mut dyn TensorSink,
    ) -> Result<()> {
        found.sort_by_key(|tensor| tensor.start);
        let sum = self.header.sum.clone();
        let mut reader = TensorReader {
            file: &self.file,
            path: &self.path,
            data_start: self.header.data_start,
            sum: sum.as_ref().map(|(sum, _)| sum.clone()),
            values: Vec::new(),
            bytes: Vec::new(),
        };
        for tensor in &found {
            match tensor.part.values {
                Values::Zero => reader.zero(tensor)?,
                Values::Plain(entry) if tensor.part.is_state() => {
                    reader.state(tensor, entry, sink)?;
                }
                Values::Plain(entry) => reader.plain(tensor, entry, sink)?,
                Values::Transposed(entry) => reader.transposed(tensor, entry, sink)?,
            }
        }
        if let (Some((_, expected)), Some(Checksum(found))) = (sum, reader.sum)
            && expected != found
        {
            return Err(CheckpointError::Damaged { path: self.path.clone(), expected, found });
        }
        Ok(())
    }
}

/// Opens a file of a checkpoint.
pub(super) fn open(disk: &Disk, path: &Path) -> Result<DiskFile> {
    disk.open(path).map_err(|error| {
        if error.is_not_found() {
            CheckpointError::Missing { path: path.to_owned() }
        } else {
            error.into()
        }
    })
}

/// Whether the file's tensor has the part's shape, or more rows if cropping is allowed.
fn shape_fits(info: &TensorInfo, part: &FileTensor<'_>, positions: PositionRows) -> bool {
    let is_longer = || match (&info.shape[..], &part.shape[..]) {
        ([found_rows, found_columns], [rows, columns]) => {
            found_rows >= rows && found_columns == columns
        }
        _ => false,
    };
    let may_crop = part.can_be_cropped && positions == PositionRows::Crop;
    info.shape == part.shape || (may_crop && is_longer())
}

/// A file that is being read.
struct TensorReader<'a> {
    file: &'a DiskFile,
    path: &'a Path,
    data_start: u64,
    /// `None` in files without a checksum.
    sum: Option<Checksum>,
    values: Vec<f32>,
    bytes: Vec<u8>,
}

impl TensorReader<'_> {
    fn zero(&mut self, tensor: &MatchedTensor<'_, '_>) -> Result<()> {
        self.chunks(tensor, 0, tensor.count, |reader, _| {
            match reader.values.iter().find(|&&value| value != 0.0) {
                None => Ok(()),
                Some(&found) => Err(CheckpointError::BiasNotZero {
                    path: reader.path.to_owned(),
                    tensor: tensor.name.clone(),
                    found,
                }),
            }
        })
    }

    /// Reads an optimizer state, which has the same type in memory.
    fn state(
        &mut self,
        tensor: &MatchedTensor<'_, '_>,
        entry: &TensorEntry,
        sink: &mut dyn TensorSink,
    ) -> Result<()> {
        let bytes = entry.count() * entry.width();
        for start in (0..bytes).step_by(MAX_BYTES) {
            self.fetch(tensor, start, (bytes - start).min(MAX_BYTES))?;
            little_endian(&mut self.bytes, entry.width());
            give(TensorPiece { entry, start }, &self.bytes, sink)?;
        }
        Ok(())
    }

    fn plain(
        &mut self,
        tensor: &MatchedTensor<'_, '_>,
        entry: &TensorEntry,
        sink: &mut dyn TensorSink,
    ) -> Result<()> {
        let count = entry.count();
        self.chunks(tensor, 0, count, |reader, start| {
            give(
                TensorPiece { entry, start: 4 * start },
                bytemuck::cast_slice(&reader.values),
                sink,
            )
        })?;
        if self.sum.is_some() {
            self.chunks(tensor, count, tensor.count, |_, _| Ok(()))?; // rows that were cropped
        }
        Ok(())
    }

    /// Reads the tensor's values `from..to` in chunks into `self.values`, and calls `each` with the
    /// index of the first value of each chunk.
    fn chunks(
        &mut self,
        tensor: &MatchedTensor<'_, '_>,
        from: usize,
        to: usize,
        mut each: impl FnMut(&mut Self, usize) -> Result<()>,
    ) -> Result<()> {
        for first in (from..to).step_by(MAX_BYTES / 4) {
            let count = (to - first).min(MAX_BYTES / 4);
            self.values.resize(count, 0.0);
            self.get(tensor, first, MatrixWindow::plain(count))?;
            each(self, first)?;
        }
        Ok(())
    }

    /// Reads `(columns, rows)` as `(rows, columns)`, a band of rows at a time, so that every byte
    /// of the file is read once.
    fn transposed(
        &mut self,
        tensor: &MatchedTensor<'_, '_>,
        entry: &TensorEntry,
        sink: &mut dyn TensorSink,
    ) -> Result<()> {
        let (rows, columns) = (entry.shape[0], entry.shape[1]);
        let (band, group) = band_and_group(rows, columns);
        for row in (0..rows).step_by(band) {
            let band = band.min(rows - row);
            self.values.resize(band * columns, 0.0);
            for column in (0..columns).step_by(group) {
                let group = group.min(columns - column);
                let window = MatrixWindow {
                    rows: band,
                    pitch: columns,
                    first_column: column,
                    columns: group,
                };
                self.get(tensor, column * rows + row, window)?;
            }
            let piece = TensorPiece { entry, start: 4 * row * columns };
            give(piece, bytemuck::cast_slice(&self.values), sink)?;
        }
        Ok(())
    }

    /// Fills `window` of `self.values` column by column with the tensor's values from `start`.
    fn get(
        &mut self,
        tensor: &MatchedTensor<'_, '_>,
        start: usize,
        window: MatrixWindow,
    ) -> Result<()> {
        let width = tensor.dtype.bitsize() / 8;
        self.fetch(tensor, start * width, window.rows * window.columns * width)?;
        match tensor.dtype {
            Dtype::F16 => self.decode(window, |b| f16::from_le_bytes(b).to_f32()),
            Dtype::BF16 => self.decode(window, |b| bf16::from_le_bytes(b).to_f32()),
            Dtype::F64 => self.decode(window, |b| f64::from_le_bytes(b) as f32),
            _ => self.decode(window, f32::from_le_bytes),
        }
        Ok(())
    }

    /// Reads `count` bytes of the tensor from byte `start` into `self.bytes`.
    fn fetch(&mut self, tensor: &MatchedTensor<'_, '_>, start: usize, count: usize) -> Result<()> {
        self.bytes.resize(count, 0);
        let start = tensor.start + start as u64;
        self.file.read_exact_at(&mut self.bytes, self.data_start + start)?;
        if let Some(sum) = &mut self.sum {
            sum.add_bytes(tensor.dtype, start, &self.bytes);
        }
        Ok(())
    }

    /// Decodes `self.bytes` into `window` of `self.values`.
    fn decode<const WIDTH: usize>(
        &mut self,
        window: MatrixWindow,
        value: impl Fn([u8; WIDTH]) -> f32,
    ) {
        let MatrixWindow { rows, pitch, first_column, .. } = window;
        for (column, chunk) in self.bytes.chunks_exact(WIDTH * rows).enumerate() {
            let column = self.values[first_column + column..].iter_mut().step_by(pitch);
            for (bytes, out) in chunk.chunks_exact(WIDTH).zip(column) {
                *out = value(bytes.try_into().expect("as many bytes as a value has"));
            }
        }
    }
}

/// Passes bytes to the backend.
fn give(piece: TensorPiece<'_>, bytes: &[u8], sink: &mut dyn TensorSink) -> Result<()> {
    sink.write(piece, bytes)
        .map_err(|why| CheckpointError::Store { tensor: piece.entry.name(), why })
}
