//! Streams tensors into a file.

use std::{collections::BTreeMap, fs::File, path::Path};

use super::{
    CheckpointError, Result,
    disk::Disk,
    header::{Draft, Sum},
    layout::{Part, Values},
    store::{Entry, Kind, Piece, Source},
};

/// Values that are on their way, at most: 12 MiB, all of GPT-2's largest matrix that has to be
/// turned. A row may be longer, but no model has one.
pub(super) const MAX_VALUES: usize = 3 << 20;
/// Bytes of one read or write, at most: 4 MiB.
pub(super) const MAX_BYTES: usize = 4 << 20;

/// The bytes that `parts` need as a file, with metadata of this many bytes.
pub(super) fn file_bytes(parts: &[Part<'_>], metadata_bytes: u64) -> u64 {
    let values: u64 = parts.iter().map(|part| 4 * part.count() as u64).sum();
    Draft::new(parts, BTreeMap::new()).data_start() + metadata_bytes + values
}

/// Writes `parts` into a new file at `path`, values from `source`, and syncs it.
pub(super) fn write(
    disk: &Disk,
    path: &Path,
    parts: &[Part<'_>],
    metadata: BTreeMap<&str, String>,
    source: &mut dyn Source,
) -> Result<()> {
    let draft = Draft::new(parts, metadata);
    let mut writer = Writer {
        disk,
        file: disk.create(path)?,
        path,
        data_start: draft.data_start(),
        sum: draft.sum(),
        values: Vec::new(),
        bytes: Vec::new(),
    };
    let mut start = 0; // of the part, in values from the first of the file
    for part in parts {
        match part.values {
            Values::Zero => writer.zero(start, part.count())?,
            Values::Plain(kind, entry) => writer.plain(start, kind, entry, source)?,
            Values::Transposed(kind, entry) => writer.transposed(start, kind, entry, source)?,
        }
        start += part.count();
    }
    let header = draft.finish(&writer.sum);
    disk.write(&mut writer.file, path, 0, &header)?;
    disk.sync(&writer.file, path)
}

/// A file under way.
struct Writer<'a> {
    disk: &'a Disk,
    file: File,
    path: &'a Path,
    data_start: u64,
    sum: Sum,
    values: Vec<f32>,
    bytes: Vec<u8>,
}

impl Writer<'_> {
    fn zero(&mut self, start: usize, count: usize) -> Result<()> {
        for first in (0..count).step_by(MAX_BYTES / 4) {
            let count = (count - first).min(MAX_BYTES / 4);
            self.values.clear();
            self.values.resize(count, 0.0);
            self.put(start + first, Window::plain(count))?;
        }
        Ok(())
    }

    fn plain(
        &mut self,
        start: usize,
        kind: Kind,
        entry: &Entry,
        source: &mut dyn Source,
    ) -> Result<()> {
        let count = entry.count();
        for first in (0..count).step_by(MAX_BYTES / 4) {
            let count = (count - first).min(MAX_BYTES / 4);
            self.take(Piece { kind, entry, start: first }, count, source)?;
            self.put(start + first, Window::plain(count))?;
        }
        Ok(())
    }

    /// Writes `(rows, columns)` as `(columns, rows)`.
    ///
    /// Takes a band of rows at a time, so that every value leaves the backend once. A band's
    /// columns are stretches of the file's rows; only a band of all rows makes them touch, and
    /// then many are written at once.
    fn transposed(
        &mut self,
        start: usize,
        kind: Kind,
        entry: &Entry,
        source: &mut dyn Source,
    ) -> Result<()> {
        let (rows, columns) = (entry.shape[0], entry.shape[1]);
        let (band, group) = band_and_group(rows, columns);
        for row in (0..rows).step_by(band) {
            let band = band.min(rows - row);
            self.take(Piece { kind, entry, start: row * columns }, band * columns, source)?;
            for column in (0..columns).step_by(group) {
                let group = group.min(columns - column);
                let window =
                    Window { rows: band, pitch: columns, first_column: column, columns: group };
                self.put(start + column * rows + row, window)?;
            }
        }
        Ok(())
    }

    /// Gets `count` values into `self.values`.
    fn take(&mut self, piece: Piece<'_>, count: usize, source: &mut dyn Source) -> Result<()> {
        self.values.resize(count, 0.0);
        source
            .read(piece, &mut self.values)
            .map_err(|source| CheckpointError::Store { tensor: piece.entry.name.clone(), source })
    }

    /// Writes `window` of `self.values` from the file's value `start` on, column after column.
    fn put(&mut self, start: usize, window: Window) -> Result<()> {
        let Window { rows, pitch, first_column, columns } = window;
        self.bytes.resize(4 * rows * columns, 0);
        let mut index = start as u64;
        for (column, stretch) in self.bytes.chunks_exact_mut(4 * rows).enumerate() {
            let column = self.values[first_column + column..].iter().step_by(pitch);
            for (bytes, &value) in stretch.chunks_exact_mut(4).zip(column) {
                bytes.copy_from_slice(&value.to_le_bytes());
                self.sum.add(index, value);
                index += 1;
            }
        }
        let position = self.data_start + 4 * start as u64;
        self.disk.write(&mut self.file, self.path, position, &self.bytes)
    }
}

/// Some columns of a matrix in memory, of which a file holds one after the other.
#[derive(Clone, Copy)]
pub(super) struct Window {
    /// Values of a column.
    pub(super) rows: usize,
    /// From one row to the next, in memory.
    pub(super) pitch: usize,
    /// The first column.
    pub(super) first_column: usize,
    /// How many columns.
    pub(super) columns: usize,
}

impl Window {
    /// `count` values as they lie: one column.
    pub(super) fn plain(count: usize) -> Self {
        Self { rows: count, pitch: 1, first_column: 0, columns: 1 }
    }
}

/// How many rows of `(rows, columns)` are turned at a time, and how many of the resulting
/// stretches lie together in the file.
pub(super) fn band_and_group(rows: usize, columns: usize) -> (usize, usize) {
    let band = (MAX_VALUES / columns.max(1)).clamp(1, rows.max(1));
    let group = if band == rows { (MAX_BYTES / 4 / rows).max(1) } else { 1 };
    (band, group)
}
