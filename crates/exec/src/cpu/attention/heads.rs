//! Which head and rows a task works on, and the memory that it may write.

use std::ops::Range;

use crate::cpu::{
    attention::{AttentionShape, QkvMut},
    parts::{Grid, OutputMatrices, Parts, Task, Tile},
};

/// How work is split into tasks: blocks of rows of every head of every sequence.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeadSplit {
    pub(super) shape: AttentionShape,
    /// Rows of a block.
    pub(super) block: usize,
}

/// The sequence, head and rows of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TaskRows {
    pub(super) sequence: usize,
    pub(super) head: usize,
    /// Rows inside the sequence.
    pub(super) rows: Range<usize>,
}

impl HeadSplit {
    pub(super) fn count(&self) -> usize {
        self.blocks() * self.shape.batch * self.shape.heads
    }

    fn blocks(&self) -> usize {
        self.shape.used.div_ceil(self.block)
    }

    /// The last rows come first: they attend to the most keys, and the longest tasks should start
    /// first.
    pub(super) fn task_rows(&self, index: usize) -> TaskRows {
        let AttentionShape { batch, heads, used, .. } = self.shape;
        let block = self.blocks() - 1 - index / (batch * heads);
        let start = block * self.block;
        TaskRows {
            sequence: index / heads % batch,
            head: index % heads,
            rows: start..used.min(start + self.block),
        }
    }
}

/// The columns of each head in a row.
#[derive(Clone, Copy, Debug)]
struct ColumnSpan {
    /// The first head's first column.
    first: usize,
    /// Columns of each head.
    width: usize,
}

/// One matrix for all `N` parts, or one for each.
enum Grids<'a, T, const N: usize> {
    One(Grid<'a, T>),
    Each([Grid<'a, T>; N]),
}

/// Splits `N` matrices, or `N` ranges of columns of one, by rows and heads for the tasks.
pub(super) struct Columns<'a, T, const N: usize> {
    grids: Grids<'a, T, N>,
    spans: [ColumnSpan; N],
    split: HeadSplit,
}

impl<'a, T: Send + 'static> Columns<'a, T, 1> {
    /// (B, T, H·D): a task gets the columns of its head.
    pub(super) fn of_heads(data: &'a mut [T], split: HeadSplit) -> Self {
        let AttentionShape { batch, seq, used, size, .. } = split.shape;
        assert!(used <= seq, "{used} rows of a sequence of {seq}");
        let width = split.shape.channels();
        assert_eq!(data.len(), batch * seq * width);
        let spans = [ColumnSpan { first: 0, width: size }];
        Self { grids: Grids::One(Grid::new(data, width)), spans, split }
    }
}

impl<'a, T: Send + 'static> Columns<'a, T, 3> {
    /// Gradients of queries, keys and values of `shape`: a task of `split` is a key/value head
    /// and gets its columns and those of all its query heads.
    pub(super) fn of_groups(data: QkvMut<'a, T>, shape: AttentionShape, split: HeadSplit) -> Self {
        assert_eq!(split.shape, AttentionShape { heads: shape.kv_heads, ..shape });
        assert!(shape.used <= shape.seq, "{} rows of a sequence of {}", shape.used, shape.seq);
        let rows = shape.batch * shape.seq;
        let (queries, keys) = (shape.channels(), shape.kv_channels());
        let widths = [shape.group() * shape.size, shape.size, shape.size];
        let (grids, firsts) = match data {
            QkvMut::Joined(data) => {
                let width = queries + 2 * keys;
                assert_eq!(data.len(), rows * width);
                (Grids::One(Grid::new(data, width)), [0, queries, queries + keys])
            }
            QkvMut::Split(parts) => {
                let lengths = parts.each_ref().map(|part| part.len());
                assert_eq!(lengths, [rows * queries, rows * keys, rows * keys]);
                let [q, k, v] = parts;
                let grids = [Grid::new(q, queries), Grid::new(k, keys), Grid::new(v, keys)];
                (Grids::Each(grids), [0; 3])
            }
        };
        let spans = std::array::from_fn(|n| ColumnSpan { first: firsts[n], width: widths[n] });
        Self { grids, spans, split }
    }
}

// SAFETY: two tasks differ in sequence, head or block of rows, so their rectangles differ in rows
// or in columns. The `N` rectangles of one task are in different matrices, or in one matrix at
// columns that are at least all heads' columns apart; the constructors check the widths.
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
        let task_rows = self.split.task_rows(task.index);
        let first = task_rows.sequence * shape.seq;
        let rows = first + task_rows.rows.start..first + task_rows.rows.end;
        std::array::from_fn(|n| {
            let ColumnSpan { first: column, width } = self.spans[n];
            let column = column + task_rows.head * width;
            let columns = column..column + width;
            let grid = match &self.grids {
                Grids::One(grid) => grid,
                Grids::Each(grids) => &grids[n],
            };
            // SAFETY: the constructor checked that the grid holds the shape, which contains these
            // rows; the caller's promise keeps other tasks from this index.
            let tile = unsafe { grid.tile(rows.clone(), columns.clone()) };
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

    /// The columns of head `head` of a group, in row `row` of the sequence.
    #[inline(always)]
    pub(super) fn row_of(&mut self, row: usize, head: usize, size: usize) -> &mut [T] {
        let first = self.columns.start + head * size;
        self.tile.row(self.first + row, first..first + size)
    }
}

/// (B, H, T), split by rows and heads for the tasks.
pub(super) struct PerRow<'a> {
    grid: Grid<'a, f32>,
    split: HeadSplit,
}

impl<'a> PerRow<'a> {
    pub(super) fn new(data: &'a mut [f32], split: HeadSplit) -> Self {
        let AttentionShape { batch, heads, seq, used, .. } = split.shape;
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
        let task_rows = self.split.task_rows(task.index);
        let head = task_rows.sequence * self.split.shape.heads + task_rows.head;
        // SAFETY: as for `Columns`.
        let tile = unsafe { self.grid.tile(head..head + 1, task_rows.rows.clone()) };
        RowNumbers { tile, head, rows: task_rows.rows }
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

    /// Rows past the first sequence belong to the second one, and so to another task.
    #[test]
    #[should_panic(expected = "5 rows of a sequence of 4")]
    fn no_task_gets_rows_past_its_sequence() {
        let shape = AttentionShape { batch: 2, seq: 4, used: 5, heads: 1, kv_heads: 1, size: 1 };
        Columns::of_heads(&mut [0; 8], HeadSplit { shape, block: 5 });
    }

    #[test]
    fn tasks_cover_every_used_row_of_every_head_once() {
        let shape = AttentionShape { batch: 2, seq: 11, used: 9, heads: 3, kv_heads: 3, size: 2 };
        let split = HeadSplit { shape, block: 4 };
        assert_eq!(split.count(), 18);
        let mut columns = vec![0; 2 * 11 * 3 * 2];
        let mut numbers = vec![0.0; 2 * 3 * 11];
        let parts = (Columns::of_heads(&mut columns, split), PerRow::new(&mut numbers, split));
        Pool::new(3).unwrap().for_each(parts, |task, ([mut columns], mut numbers)| {
            let task_rows = split.task_rows(task.index);
            for row in task_rows.rows.clone() {
                columns.row(row).iter_mut().for_each(|x| *x += 1 + task_rows.head);
            }
            numbers.get().iter_mut().for_each(|x| *x += 1.0);
        });
        for (i, &x) in columns.iter().enumerate() {
            let (row, head) = (i / 6 % 11, i % 6 / 2);
            assert_eq!(x, if row < 9 { 1 + head } else { 0 });
        }
        let times = |i: usize| if i % 11 < 9 { 1.0_f32 } else { 0.0 };
        assert!(numbers.iter().enumerate().all(|(i, x)| x.to_bits() == times(i).to_bits()));
    }

    #[test]
    fn groups_cover_every_column_of_queries_keys_and_values_once() {
        let shape = AttentionShape { batch: 2, seq: 3, used: 3, heads: 6, kv_heads: 2, size: 2 };
        let split = HeadSplit { shape: AttentionShape { heads: 2, ..shape }, block: 3 };
        let width = 2 * (6 + 2 + 2);
        let mut joined = vec![0; 2 * 3 * width];
        let mut parts = [vec![0; 2 * 3 * 12], vec![0; 2 * 3 * 4], vec![0; 2 * 3 * 4]];
        let targets = [
            QkvMut::Joined(&mut joined[..]),
            QkvMut::Split(parts.each_mut().map(|part| &mut part[..])),
        ];
        for target in targets {
            let parts = Columns::of_groups(target, shape, split);
            Pool::new(2).unwrap().for_each(parts, |task, mut parts| {
                let task_rows = split.task_rows(task.index);
                for row in task_rows.rows.clone() {
                    for (n, part) in parts.iter_mut().enumerate() {
                        part.row(row).iter_mut().for_each(|x| *x += 1 + 10 * n + task_rows.head);
                    }
                    parts[0].row_of(row, 2, 2).iter_mut().for_each(|x| *x += 100);
                }
            });
        }
        let expected: Vec<_> =
            [1, 1, 1, 1, 101, 101, 2, 2, 2, 2, 102, 102, 11, 11, 12, 12, 21, 21, 22, 22].into();
        assert!(joined.chunks(width).all(|row| row == expected));
        assert!(parts[0].chunks(12).all(|row| *row == expected[..12]));
        assert!(parts[2].chunks(4).all(|row| *row == expected[16..]));
    }
}
