//! Splits mutable memory into disjoint parts for the tasks of a pool.
//!
//! What a task may write depends on its index ([`Blocks`], [`Tiles`]) or on its worker
//! ([`PerWorker`], for scratch only: its contents are undefined when a task starts). The length of
//! a block depends on shapes, never on the number of threads. The size of tiles may depend on it,
//! because no sum is split across tiles.

use std::{marker::PhantomData, ops::Range, slice};

/// The index of a task and the worker that runs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// In `0..n`; each is handed out once.
    pub index: usize,
    /// In `0..threads`; tasks that run at the same time have different workers.
    pub worker: usize,
}

/// Memory that splits into one part for each task.
///
/// # Safety
/// Parts for two tasks must not overlap if both their indices and their workers differ.
pub unsafe trait Parts: Sync {
    /// What one task gets.
    type Part<'p>;
    /// The number of tasks; `None` if any number works.
    fn count(&self) -> Option<usize>;
    /// The number of workers; `None` if any number works.
    fn workers(&self) -> Option<usize>;
    /// The part of `task`.
    ///
    /// # Safety
    /// `'p` lies within the borrow that `self` was made from, and while it lasts no other part
    /// is requested with the same index or the same worker. The index is below `count`, the
    /// worker below `workers`.
    unsafe fn part<'p>(&self, task: Task) -> Self::Part<'p>;
}

/// A slice in blocks of equal length, of which the last may be shorter: block `i` is for task `i`.
#[derive(Debug)]
pub struct Blocks<'a, T> {
    data: SlicePieces<'a, T>,
    count: usize,
}

impl<'a, T> Blocks<'a, T> {
    /// Splits `data` into blocks; none if it is empty.
    pub fn new(data: &'a mut [T], block_len: usize) -> Self {
        assert!(block_len > 0, "a block has at least one element");
        Self { count: data.len().div_ceil(block_len), data: SlicePieces::new(data, block_len) }
    }
}

// SAFETY: pieces with different numbers do not overlap, and the number is the index.
unsafe impl<T: Send + 'static> Parts for Blocks<'_, T> {
    type Part<'p> = &'p mut [T];
    fn count(&self) -> Option<usize> {
        Some(self.count)
    }
    fn workers(&self) -> Option<usize> {
        None
    }
    #[inline]
    unsafe fn part<'p>(&self, task: Task) -> &'p mut [T] {
        // SAFETY: the caller's promise for this index.
        unsafe { self.data.piece(task.index) }
    }
}

/// Scratch: one piece for each worker, all of equal length.
#[derive(Debug)]
pub struct PerWorker<'a, T> {
    data: SlicePieces<'a, T>,
    workers: usize,
}

impl<'a, T> PerWorker<'a, T> {
    /// As many pieces of `len` as fit into `data`.
    pub fn new(data: &'a mut [T], len: usize) -> Self {
        let workers = data.len().checked_div(len).unwrap_or(usize::MAX);
        Self { data: SlicePieces::new(data, len), workers }
    }
}

// SAFETY: pieces with different numbers do not overlap, and the number is the worker.
unsafe impl<T: Send + 'static> Parts for PerWorker<'_, T> {
    type Part<'p> = &'p mut [T];
    fn count(&self) -> Option<usize> {
        None
    }
    fn workers(&self) -> Option<usize> {
        Some(self.workers)
    }
    #[inline]
    unsafe fn part<'p>(&self, task: Task) -> &'p mut [T] {
        // SAFETY: the caller's promise for this worker.
        unsafe { self.data.piece(task.worker) }
    }
}

/// A mutably borrowed slice that is handed out in pieces.
#[derive(Debug)]
struct SlicePieces<'a, T> {
    start: *mut T,
    len: usize,
    piece_len: usize,
    borrow: PhantomData<&'a mut [T]>,
}

// SAFETY: sharing `SlicePieces` between threads lets each take its own `&mut` pieces, which is
// sending them: `T: Send` suffices.
unsafe impl<T: Send> Sync for SlicePieces<'_, T> {}

impl<'a, T> SlicePieces<'a, T> {
    fn new(data: &'a mut [T], piece_len: usize) -> Self {
        Self { start: data.as_mut_ptr(), len: data.len(), piece_len, borrow: PhantomData }
    }

    /// # Safety
    /// `'p` lies within `'a`, and no other piece with this number is alive at the same time.
    unsafe fn piece<'p>(&self, number: usize) -> &'p mut [T] {
        let start = number.saturating_mul(self.piece_len).min(self.len);
        let len = self.piece_len.min(self.len - start);
        // SAFETY: `start..start + len` lies inside the borrowed slice, and pieces with other
        // numbers start at least `piece_len` away.
        unsafe { slice::from_raw_parts_mut(self.start.add(start), len) }
    }
}

// SAFETY: parts of one task come from different borrows; each member keeps its own promise.
unsafe impl<P: Parts> Parts for Option<P> {
    type Part<'p> = Option<P::Part<'p>>;
    fn count(&self) -> Option<usize> {
        self.as_ref().and_then(P::count)
    }
    fn workers(&self) -> Option<usize> {
        self.as_ref().and_then(P::workers)
    }
    #[inline]
    unsafe fn part<'p>(&self, task: Task) -> Self::Part<'p> {
        // SAFETY: the caller's promise, passed on.
        self.as_ref().map(|parts| unsafe { parts.part(task) })
    }
}

/// The count that all members agree on.
fn agreed(counts: &[Option<usize>]) -> Option<usize> {
    let mut known = counts.iter().flatten();
    let first = known.next().copied();
    assert!(
        known.all(|&count| Some(count) == first),
        "the parts have different numbers of tasks: {counts:?}"
    );
    first
}

macro_rules! parts_of_tuples {
    ($($member:ident $i:tt),+) => {
        // SAFETY: members come from different borrows; each keeps its own promise.
        unsafe impl<$($member: Parts),+> Parts for ($($member,)+) {
            type Part<'p> = ($($member::Part<'p>,)+);
            fn count(&self) -> Option<usize> {
                agreed(&[$(self.$i.count()),+])
            }
            fn workers(&self) -> Option<usize> {
                [$(self.$i.workers()),+].into_iter().flatten().min()
            }
            #[inline]
            unsafe fn part<'p>(&self, task: Task) -> Self::Part<'p> {
                // SAFETY: the caller's promise, passed on to each member.
                unsafe { ($(self.$i.part(task),)+) }
            }
        }

        // SAFETY: members come from different borrows; each keeps its own promise.
        unsafe impl<$($member: OutputMatrices),+> OutputMatrices for ($($member,)+) {
            type Tile<'p> = ($($member::Tile<'p>,)+);
            fn holds(&self, rows: usize, columns: usize) -> bool {
                $(self.$i.holds(rows, columns))&&+
            }
            #[inline]
            unsafe fn tile<'p>(&self, rows: Range<usize>, columns: Range<usize>) -> Self::Tile<'p> {
                // SAFETY: the caller's promise, passed on to each member.
                unsafe { ($(self.$i.tile(rows.clone(), columns.clone()),)+) }
            }
        }
    };
}

parts_of_tuples!(A 0, B 1);
parts_of_tuples!(A 0, B 1, C 2);
parts_of_tuples!(A 0, B 1, C 2, D 3);
parts_of_tuples!(A 0, B 1, C 2, D 3, E 4);

/// A row-major matrix of `columns` columns, written in rectangles.
#[derive(Debug)]
pub struct Grid<'a, T> {
    start: *mut T,
    rows: usize,
    columns: usize,
    borrow: PhantomData<&'a mut [T]>,
}

// SAFETY: as for `SlicePieces`: threads that share it take their own `&mut` rectangles.
unsafe impl<T: Send> Sync for Grid<'_, T> {}
// SAFETY: a grid is a mutable borrow of its elements.
unsafe impl<T: Send> Send for Grid<'_, T> {}

impl<'a, T> Grid<'a, T> {
    /// All of `data` in rows of `columns`.
    pub fn new(data: &'a mut [T], columns: usize) -> Self {
        let rows = data.len().checked_div(columns).unwrap_or(0);
        assert_eq!(rows * columns, data.len(), "not whole rows of {columns}");
        Self { start: data.as_mut_ptr(), rows, columns, borrow: PhantomData }
    }
}

/// One rectangle of a [`Grid`]. Rows and columns are numbered as in the grid.
#[derive(Debug)]
pub struct Tile<'p, T> {
    start: *mut T,
    stride: usize,
    rows: Range<usize>,
    columns: Range<usize>,
    borrow: PhantomData<&'p mut [T]>,
}

impl<T> Tile<'_, T> {
    /// Columns `columns` of row `row`; panics if they are outside this tile.
    #[inline]
    pub fn row(&mut self, row: usize, columns: Range<usize>) -> &mut [T] {
        assert!(self.rows.contains(&row), "row {row} of {:?}", self.rows);
        assert!(self.columns.start <= columns.start && columns.start <= columns.end);
        assert!(columns.end <= self.columns.end, "{columns:?} of {:?}", self.columns);
        // SAFETY: the range lies inside this tile, which lies inside the grid and is not borrowed
        // elsewhere; `&mut self` prevents other borrows of this tile.
        unsafe {
            let first = self.start.add(row * self.stride + columns.start);
            slice::from_raw_parts_mut(first, columns.len())
        }
    }
}

/// Any number of matrices of one shape that a product writes to, tile by tile.
///
/// # Safety
/// Tiles of rectangles that do not overlap must not overlap.
pub unsafe trait OutputMatrices: Sync {
    /// One rectangle of each matrix.
    type Tile<'p>;
    /// Whether each matrix has this shape.
    fn holds(&self, rows: usize, columns: usize) -> bool;
    /// The rectangle `rows` by `columns`.
    ///
    /// # Safety
    /// The rectangle lies inside the shape that `self` holds; `'p` lies within the borrow that
    /// `self` was made from; no other tile that is alive at the same time overlaps it.
    unsafe fn tile<'p>(&self, rows: Range<usize>, columns: Range<usize>) -> Self::Tile<'p>;
}

// SAFETY: a tile reaches only the elements of its rectangle (`Tile::row` checks).
unsafe impl<T: Send + 'static> OutputMatrices for Grid<'_, T> {
    type Tile<'p> = Tile<'p, T>;
    fn holds(&self, rows: usize, columns: usize) -> bool {
        let is_empty = rows == 0 || columns == 0;
        (self.rows, self.columns) == (rows, columns) || (is_empty && self.rows == 0)
    }
    #[inline]
    unsafe fn tile<'p>(&self, rows: Range<usize>, columns: Range<usize>) -> Tile<'p, T> {
        let is_inside = rows.end <= self.rows && columns.end <= self.columns;
        assert!(is_inside, "{rows:?} by {columns:?} of {} by {}", self.rows, self.columns);
        Tile { start: self.start, stride: self.columns, rows, columns, borrow: PhantomData }
    }
}

// SAFETY: no tile, or one that keeps its own promise.
unsafe impl<O: OutputMatrices> OutputMatrices for Option<O> {
    type Tile<'p> = Option<O::Tile<'p>>;
    fn holds(&self, rows: usize, columns: usize) -> bool {
        self.as_ref().is_none_or(|out| out.holds(rows, columns))
    }
    #[inline]
    unsafe fn tile<'p>(&self, rows: Range<usize>, columns: Range<usize>) -> Self::Tile<'p> {
        // SAFETY: the caller's promise, passed on.
        self.as_ref().map(|out| unsafe { out.tile(rows, columns) })
    }
}

/// How a range of rows and columns is split into tiles.
#[derive(Clone, Debug)]
pub struct Tiling {
    /// Rows to cover.
    pub rows: Range<usize>,
    /// Columns to cover.
    pub columns: Range<usize>,
    /// Rows of one tile; the last may have fewer.
    pub tile_rows: usize,
    /// Columns of one tile; the last may have fewer.
    pub tile_columns: usize,
}

impl Tiling {
    /// How many tiles cover the range.
    pub fn count(&self) -> usize {
        self.rows.len().div_ceil(self.tile_rows) * self.columns_of_tiles()
    }

    fn columns_of_tiles(&self) -> usize {
        self.columns.len().div_ceil(self.tile_columns)
    }

    /// Rows and columns of tile `index`, numbered row by row.
    pub fn tile(&self, index: usize) -> (Range<usize>, Range<usize>) {
        let across = self.columns_of_tiles();
        let row = self.rows.start + index / across * self.tile_rows;
        let column = self.columns.start + index % across * self.tile_columns;
        let row_end = self.rows.end.min(row + self.tile_rows);
        (row..row_end, column..self.columns.end.min(column + self.tile_columns))
    }
}

/// Outputs in rectangles: tile `i` for task `i`.
#[derive(Debug)]
pub struct Tiles<'a, O> {
    out: &'a O,
    tiling: Tiling,
    borrow: PhantomData<&'a mut O>,
}

impl<'a, O: OutputMatrices> Tiles<'a, O> {
    /// The tiles of `out`, whose matrices are `rows` by `columns`.
    pub fn new(out: &'a mut O, (rows, columns): (usize, usize), tiling: Tiling) -> Self {
        assert!(out.holds(rows, columns), "the outputs are not {rows} by {columns}");
        assert!(tiling.rows.end <= rows && tiling.columns.end <= columns);
        assert!(tiling.tile_rows > 0 && tiling.tile_columns > 0);
        Self { out, tiling, borrow: PhantomData }
    }
}

// SAFETY: rectangles of different indices do not overlap, so their tiles do not.
unsafe impl<O: OutputMatrices> Parts for Tiles<'_, O> {
    type Part<'p> = O::Tile<'p>;
    fn count(&self) -> Option<usize> {
        Some(self.tiling.count())
    }
    fn workers(&self) -> Option<usize> {
        None
    }
    #[inline]
    unsafe fn part<'p>(&self, task: Task) -> Self::Part<'p> {
        let (rows, columns) = self.tiling.tile(task.index);
        // SAFETY: `new` checked that the tiling lies inside; the caller's promise keeps other
        // tasks away from this index, and `out` is borrowed mutably for as long as `self`.
        unsafe { self.out.tile(rows, columns) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::pool::Pool;

    #[test]
    fn tiles_cover_a_grid_once() {
        let mut pool = Pool::new(2).unwrap();
        let (mut counts, mut other) = (vec![0; 7 * 11], vec![0; 7 * 11]);
        let mut out = (Grid::new(&mut counts, 11), Some(Grid::new(&mut other, 11)));
        let tiling = Tiling { rows: 1..7, columns: 2..11, tile_rows: 4, tile_columns: 5 };
        pool.for_each(Tiles::new(&mut out, (7, 11), tiling.clone()), |task, (mut a, b)| {
            let (rows, columns) = tiling.tile(task.index);
            let mut b = b.unwrap();
            for row in rows {
                a.row(row, columns.clone()).iter_mut().for_each(|x| *x += 1);
                b.row(row, columns.clone()).iter_mut().for_each(|x| *x += task.index + 1);
            }
        });
        for (i, &count) in counts.iter().enumerate() {
            let (row, column) = (i / 11, i % 11);
            assert_eq!(count, usize::from(row >= 1 && column >= 2), "{row}, {column}");
        }
        assert_eq!((other[11 + 2], other[6 * 11 + 10]), (1, 4));
    }

    #[test]
    #[should_panic(expected = "row 3 of 0..3")]
    fn a_tile_refuses_rows_outside_of_it() {
        let mut data = vec![0; 16];
        let mut grid = Grid::new(&mut data, 4);
        let tiling = Tiling { rows: 0..4, columns: 0..4, tile_rows: 3, tile_columns: 4 };
        let tiles = Tiles::new(&mut grid, (4, 4), tiling);
        Pool::new(1).unwrap().for_each(tiles, |_, mut tile| tile.row(3, 0..1).fill(1));
    }

    #[test]
    #[should_panic(expected = "the outputs are not")]
    fn a_shape_whose_product_wraps_to_zero_does_not_count_as_empty() {
        let half = 1 << (usize::BITS / 2);
        let tiling = Tiling { rows: 0..1, columns: 0..1, tile_rows: 1, tile_columns: 1 };
        let mut empty: Grid<'_, u8> = Grid::new(&mut [], 1);
        Tiles::new(&mut empty, (half, half), tiling);
    }

    #[test]
    #[should_panic(expected = "different numbers of tasks")]
    fn parts_that_disagree_about_the_tasks_are_refused() {
        let (mut x, mut y) = (vec![0; 4], vec![0; 4]);
        let parts = (Blocks::new(&mut x, 1), Blocks::new(&mut y, 2));
        Pool::new(1).unwrap().for_each(parts, |_, _| ());
    }
}
