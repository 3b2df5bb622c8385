//! Which head a task works on, and the rectangles of memory that are its own.

use std::ops::Range;

use crate::cpu::{
    attention::Shape,
    parts::{Grid, Outputs, Parts, Tile},
    pool::Task,
};

/// How tasks are counted: blocks of rows of every head of every sequence.
#[derive(Clone, Copy, Debug)]
pub(super) struct Split {
    pub(super) shape: Shape,
    /// Rows of a block.
    pub(super) block: usize,
}

/// Where a task works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) sequence: usize,
    pub(super) head: usize,
    /// Rows inside the sequence.
    pub(super) rows: Range<usize>,
}

impl Split {
    pub(super) fn count(&self) -> usize {
        self.blocks() * self.shape.batch * self.shape.heads
    }

    fn blocks(&self) -> usize {
        self.shape.used.div_ceil(self.block)
    }

    /// The last rows come first: they see most keys, and the longest tasks should not be left
    /// to the end.
    pub(super) fn place(&self, index: usize) -> Place {
        let Shape { batch, heads, used, .. } = self.shape;
        let block = self.blocks() - 1 - index / (batch * heads);
        let start = block * self.block;
        Place {
            sequence: index / heads % batch,
            head: index % heads,
            rows: start..used.min(start + self.block),
        }
    }
}

/// (B, T, N · C) in rectangles: for each task its rows of its head's columns, `N` times.
pub(super) struct Columns<'a, T, const N: usize> {
    grid: Grid<'a, T>,
    split: Split,
}

impl<'a, T: Send + 'static, const N: usize> Columns<'a, T, N> {
    pub(super) fn new(data: &'a mut [T], split: Split) -> Self {
        let Shape { batch, seq, used, .. } = split.shape;
        let width = N * split.shape.channels();
        assert_eq!(data.len(), batch * seq * width);
        assert!(used <= seq, "{used} rows of a sequence of {seq}");
        Self { grid: Grid::new(data, width), split }
    }
}

// SAFETY: two tasks differ in sequence, head or block of rows: their rectangles differ in rows
// or in columns. The `N` rectangles of one task lie a whole width of channels apart.
unsafe impl<T: Send + 'static, const N: usize> Parts for Columns<'_, T, N> {
    type Part<'p> = [HeadRows<'p, T>; N];
    fn count(&self) -> Option<usize> {
        Some(self.split.count())
    }
    fn workers(&self) -> Option<usize> {
        None
    }
    #[inline]
    unsafe fn part<'p>(&self, task: Task) -> Self::Part<'p> {
        let shape = self.split.shape;
        let place = self.split.place(task.index);
        let first = place.sequence * shape.seq;
        let rows = first + place.rows.start..first + place.rows.end;
        std::array::from_fn(|n| {
            let column = n * shape.channels() + place.head * shape.size;
            let columns = column..column + shape.size;
            // SAFETY: `new` checked that the grid holds the shape, inside which the place lies;
            // the caller's promise keeps other tasks from this index.
            let tile = unsafe { self.grid.tile(rows.clone(), columns.clone()) };
            HeadRows { tile, first, columns }
        })
    }
}

/// The rows of one task, in the columns of its head.
pub(super) struct HeadRows<'p, T> {
    tile: Tile<'p, T>,
    first: usize,
    columns: Range<usize>,
}

impl<T> HeadRows<'_, T> {
    /// Row `row` of the sequence.
    #[inline(always)]
    pub(super) fn row(&mut self, row: usize) -> &mut [T] {
        self.tile.row(self.first + row, self.columns.clone())
    }
}

/// (B, H, T) in pieces: for each task its rows of its head.
pub(super) struct PerRow<'a> {
    grid: Grid<'a, f32>,
    split: Split,
}

impl<'a> PerRow<'a> {
    pub(super) fn new(data: &'a mut [f32], split: Split) -> Self {
        let Shape { batch, heads, seq, used, .. } = split.shape;
        assert_eq!(data.len(), batch * heads * seq);
        assert!(used <= seq, "{used} rows of a sequence of {seq}");
        Self { grid: Grid::new(data, seq), split }
    }
}

// SAFETY: two tasks differ in sequence, head or block of rows.
unsafe impl Parts for PerRow<'_> {
    type Part<'p> = RowNumbers<'p>;
    fn count(&self) -> Option<usize> {
        Some(self.split.count())
    }
    fn workers(&self) -> Option<usize> {
        None
    }
    #[inline]
    unsafe fn part<'p>(&self, task: Task) -> Self::Part<'p> {
        let place = self.split.place(task.index);
        let head = place.sequence * self.split.shape.heads + place.head;
        // SAFETY: as for `Columns`.
        let tile = unsafe { self.grid.tile(head..head + 1, place.rows.clone()) };
        RowNumbers { tile, head, rows: place.rows }
    }
}

/// One number for each row of one task.
pub(super) struct RowNumbers<'p> {
    tile: Tile<'p, f32>,
    head: usize,
    rows: Range<usize>,
}

impl RowNumbers<'_> {
    #[inline(always)]
    pub(super) fn get(&mut self) -> &mut [f32] {
        self.tile.row(self.head, self.rows.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::pool::Pool;

    /// The rows past the first sequence are the second one's, and another task's.
    #[test]
    #[should_panic(expected = "5 rows of a sequence of 4")]
    fn no_task_gets_rows_past_its_sequence() {
        let shape = Shape { batch: 2, seq: 4, used: 5, heads: 1, size: 1 };
        Columns::<_, 1>::new(&mut [0; 8], Split { shape, block: 5 });
    }

    #[test]
    fn tasks_cover_every_used_row_of_every_head_once() {
        let shape = Shape { batch: 2, seq: 11, used: 9, heads: 3, size: 2 };
        let split = Split { shape, block: 4 };
        assert_eq!(split.count(), 18);
        let mut columns = vec![0; 2 * 11 * 3 * 3 * 2];
        let mut numbers = vec![0.0; 2 * 3 * 11];
        let parts = (Columns::<_, 3>::new(&mut columns, split), PerRow::new(&mut numbers, split));
        Pool::new(3).unwrap().for_each(parts, |task, (mut columns, mut numbers)| {
            let place = split.place(task.index);
            for row in place.rows.clone() {
                for columns in &mut columns {
                    columns.row(row).iter_mut().for_each(|x| *x += 1 + place.head);
                }
            }
            numbers.get().iter_mut().for_each(|x| *x += 1.0);
        });
        for (i, &x) in columns.iter().enumerate() {
            let (row, head) = (i / 18 % 11, i % 6 / 2);
            assert_eq!(x, if row < 9 { 1 + head } else { 0 });
        }
        let times = |i: usize| if i % 11 < 9 { 1.0_f32 } else { 0.0 };
        assert!(numbers.iter().enumerate().all(|(i, x)| x.to_bits() == times(i).to_bits()));
    }
}
