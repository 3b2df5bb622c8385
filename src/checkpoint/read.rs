//! Streams tensors out of a file.

use std::{
    fs::File,
    io::{Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};

use half::{bf16, f16};
use safetensors::tensor::{Dtype, TensorInfo};

use super::{
    CheckpointError, Result,
    disk::failed,
    header::{Header, Sum},
    layout::{self, POSITIONS, PREFIX, Part, Values},
    load::Positions,
    store::{Entry, Kind, Piece, Sink},
    write::{MAX_BYTES, Window, band_and_group},
};
use crate::attempt::Attempt;

/// A safetensors file whose header has been read and checked.
#[derive(Debug)]
pub(super) struct TensorFile {
    pub(super) path: PathBuf,
    pub(super) header: Header,
    file: File,
}

/// One of the file's tensors, found to be what the model expects.
struct Found<'a, 'b> {
    part: &'b Part<'a>,
    name: String,
    /// In bytes from the first value of the file.
    start: u64,
    /// More than the part has, where positions are cropped.
    count: usize,
    dtype: Dtype,
}

impl TensorFile {
    /// Reads the header of the file at `path`.
    pub(super) fn open(path: PathBuf) -> Result<Self> {
        let mut file = open(&path)?;
        let header = Header::read(&mut file, &path)?;
        if header.text("save_id").is_some() && header.sum.is_none() {
            return Err(CheckpointError::NoSum { path });
        }
        Ok(Self { path, header, file })
    }

    /// Gives the values of `parts` to `sink`, once every name, shape and type has been checked.
    pub(super) fn read(
        &mut self,
        parts: &[Part<'_>],
        positions: Positions,
        sink: &mut dyn Sink,
    ) -> Result<()> {
        let found = self.find(parts, positions)?;
        let sum = self.header.sum.clone();
        let mut reader = Reader {
            file: &mut self.file,
            path: &self.path,
            data_start: self.header.data_start,
            sum: sum.as_ref().map(|(sum, _)| sum.clone()),
            values: Vec::new(),
            bytes: Vec::new(),
        };
        for tensor in &found {
            match tensor.part.values {
                Values::Zero => reader.zero(tensor)?,
                Values::Plain(kind, entry) => reader.plain(tensor, kind, entry, sink)?,
                Values::Transposed(kind, entry) => reader.transposed(tensor, kind, entry, sink)?,
            }
        }
        if let (Some((_, expected)), Some(Sum(found))) = (sum, reader.sum)
            && expected != found
        {
            return Err(CheckpointError::Damaged { path: self.path.clone(), expected, found });
        }
        Ok(())
    }

    /// Every part in the file, in the file's order; an error where one is missing or unlike, or
    /// where the file has tensors that the model lacks.
    fn find<'a, 'b>(
        &self,
        parts: &'b [Part<'a>],
        positions: Positions,
    ) -> Result<Vec<Found<'a, 'b>>> {
        let path = || self.path.clone();
        let mut unknown = self.header.metadata.tensors();
        let mut found = Vec::with_capacity(parts.len());
        for part in parts {
            let bare = part.name.strip_prefix(PREFIX).unwrap_or(&part.name);
            let names = [part.name.as_str(), bare];
            let hit = names.into_iter().find_map(|name| Some((name, unknown.remove(name)?)));
            let Some((name, info)) = hit else {
                if matches!(part.values, Values::Zero) {
                    continue;
                }
                let (tensor, expected) = (part.name.clone(), part.shape.clone());
                return Err(CheckpointError::MissingTensor { path: path(), tensor, expected });
            };
            let tensor = name.to_owned();
            if !shape_fits(info, part, bare, positions) {
                let (expected, found) = (part.shape.clone(), info.shape.clone());
                return Err(CheckpointError::Shape { path: path(), tensor, expected, found });
            }
            if !matches!(info.dtype, Dtype::F32 | Dtype::F16 | Dtype::BF16) {
                let found = info.dtype.to_string();
                return Err(CheckpointError::DType { path: path(), tensor, found });
            }
            let count = info.shape.iter().product();
            let start = info.data_offsets.0 as u64;
            found.push(Found { part, name: tensor, start, count, dtype: info.dtype });
        }
        // The least name, so that the error is the same every time.
        let first = unknown
            .into_iter()
            .filter(|(name, _)| !layout::is_spare(name))
            .min_by(|(a, _), (b, _)| a.cmp(b));
        if let Some((tensor, info)) = first {
            let found = info.shape.clone();
            return Err(CheckpointError::UnknownTensor { path: path(), tensor, found });
        }
        found.sort_by_key(|tensor| tensor.start);
        Ok(found)
    }
}

/// Opens a file of a checkpoint.
pub(super) fn open(path: &Path) -> Result<File> {
    File::open(path).map_err(|source| {
        if source.kind() == std::io::ErrorKind::NotFound {
            CheckpointError::Missing { path: path.to_owned() }
        } else {
            failed(Attempt::Open, path)(source)
        }
    })
}

/// Whether the file's tensor is the part's, or its first rows are where that was asked for.
fn shape_fits(info: &TensorInfo, part: &Part<'_>, bare: &str, positions: Positions) -> bool {
    let is_longer = || match (&info.shape[..], &part.shape[..]) {
        ([found_rows, found_columns], [rows, columns]) => {
            found_rows >= rows && found_columns == columns
        }
        _ => false,
    };
    info.shape == part.shape || (bare == POSITIONS && positions == Positions::Crop && is_longer())
}

/// A file under way.
struct Reader<'a> {
    file: &'a mut File,
    path: &'a Path,
    data_start: u64,
    /// `None` in files that state no sum.
    sum: Option<Sum>,
    values: Vec<f32>,
    bytes: Vec<u8>,
}

impl Reader<'_> {
    fn zero(&mut self, tensor: &Found<'_, '_>) -> Result<()> {
        self.stretches(tensor, 0, tensor.count, |reader, _| {
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

    fn plain(
        &mut self,
        tensor: &Found<'_, '_>,
        kind: Kind,
        entry: &Entry,
        sink: &mut dyn Sink,
    ) -> Result<()> {
        let count = entry.count();
        self.stretches(tensor, 0, count, |reader, start| {
            reader.give(Piece { kind, entry, start }, sink)
        })?;
        if self.sum.is_some() {
            self.stretches(tensor, count, tensor.count, |_, _| Ok(()))?; // rows that were cropped
        }
        Ok(())
    }

    /// Reads the tensor's values `from..to` a few at a time into `self.values`, and calls `each`
    /// with the index of the first.
    fn stretches(
        &mut self,
        tensor: &Found<'_, '_>,
        from: usize,
        to: usize,
        mut each: impl FnMut(&mut Self, usize) -> Result<()>,
    ) -> Result<()> {
        for first in (from..to).step_by(MAX_BYTES / 4) {
            let count = (to - first).min(MAX_BYTES / 4);
            self.values.resize(count, 0.0);
            self.get(tensor, first, Window::plain(count))?;
            each(self, first)?;
        }
        Ok(())
    }

    /// Reads `(columns, rows)` as `(rows, columns)`, a band of our rows at a time: every byte of
    /// the file is read once.
    fn transposed(
        &mut self,
        tensor: &Found<'_, '_>,
        kind: Kind,
        entry: &Entry,
        sink: &mut dyn Sink,
    ) -> Result<()> {
        let (rows, columns) = (entry.shape[0], entry.shape[1]);
        let (band, group) = band_and_group(rows, columns);
        for row in (0..rows).step_by(band) {
            let band = band.min(rows - row);
            self.values.resize(band * columns, 0.0);
            for column in (0..columns).step_by(group) {
                let group = group.min(columns - column);
                let window =
                    Window { rows: band, pitch: columns, first_column: column, columns: group };
                self.get(tensor, column * rows + row, window)?;
            }
            self.give(Piece { kind, entry, start: row * columns }, sink)?;
        }
        Ok(())
    }

    /// Hands `self.values` to the backend.
    fn give(&mut self, piece: Piece<'_>, sink: &mut dyn Sink) -> Result<()> {
        sink.write(piece, &self.values)
            .map_err(|source| CheckpointError::Store { tensor: piece.entry.name.clone(), source })
    }

    /// Reads `window` of `self.values`, column after column, from the tensor's value `start` on.
    fn get(&mut self, tensor: &Found<'_, '_>, start: usize, window: Window) -> Result<()> {
        let width = tensor.dtype.bitsize() / 8;
        self.bytes.resize(window.rows * window.columns * width, 0);
        let position = self.data_start + tensor.start + (start * width) as u64;
        self.file.seek(SeekFrom::Start(position)).map_err(failed(Attempt::Read, self.path))?;
        self.file.read_exact(&mut self.bytes).map_err(failed(Attempt::Read, self.path))?;
        match tensor.dtype {
            Dtype::F16 => self.decode(window, |b| f16::from_le_bytes(b).to_f32()),
            Dtype::BF16 => self.decode(window, |b| bf16::from_le_bytes(b).to_f32()),
            _ => self.decode(window, f32::from_le_bytes),
        }
        if let Some(sum) = &mut self.sum {
            // Only F32 files have a sum: nobody else writes one.
            let index = tensor.start / 4 + start as u64;
            for (bytes, index) in self.bytes.chunks_exact(4).zip(index..) {
                let value = f32::from_le_bytes(bytes.try_into().expect("four bytes"));
                sum.add(index, value);
            }
        }
        Ok(())
    }

    /// Puts the bytes' values into `window` of `self.values`.
    fn decode<const WIDTH: usize>(&mut self, window: Window, value: impl Fn([u8; WIDTH]) -> f32) {
        let Window { rows, pitch, first_column, .. } = window;
        for (column, stretch) in self.bytes.chunks_exact(WIDTH * rows).enumerate() {
            let column = self.values[first_column + column..].iter_mut().step_by(pitch);
            for (bytes, out) in stretch.chunks_exact(WIDTH).zip(column) {
                *out = value(bytes.try_into().expect("as many bytes as a value has"));
            }
        }
    }
}
