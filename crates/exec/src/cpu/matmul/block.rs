//! How a product is split. Sums depend on the shape only; tasks also on the number of threads.
//!
//! ```text
//! band     rows whose sums fit into scratch; all rows if one slab holds all depth
//!   strip    columns whose packed b fits into scratch
//!     slab     depth whose packed b fits into scratch
//!       task     task_rows by task_columns, on one thread
//!         block    of depth: a panel of b in the L1 cache, a block of a in L2
//! ```
//!
//! Instruction sets differ in the tile but not in these sizes. Scratch is large enough for whole
//! tiles of any instruction set.

use std::ops::Range;

use fitgpt_program::Products;

/// M, N and K of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProductShape {
    /// Rows of `a` and of the result.
    pub rows: usize,
    /// Columns of `b` and of the result.
    pub columns: usize,
    /// Columns of `a`, rows of `b`; after [`in_slots`](Self::in_slots), how many slots hold them.
    pub depth: usize,
}

/// A multiple of every tile's rows.
const PANEL_ROWS: usize = 12;
/// Rows of a whole tile or of half a tile.
const TILE_ROWS: usize = 6;
/// A multiple of every tile's columns.
const PANEL: usize = 32;
/// A block of this many rows and one block of depth take a third of an L2 cache of 512 KiB.
const TASK_ROWS: usize = 96;
/// Packed a is reused for all columns of a task, so a task has many; their sums are streamed.
const TASK_COLUMNS: usize = 1024;
/// With this many columns, packing a is cheap compared with multiplying it.
const MANY_COLUMNS: usize = 256;
/// A multiple of every tile's rows. With so few rows, loading b costs as much as multiplying by it.
const LEAST_ROWS: usize = 24;
/// The overhead of a task, in rows.
const OVERHEAD_ROWS: usize = 2;

/// Up to this many rows, the scratch of a prompt of any length is computed exactly.
const EXACT_ROWS: usize = 1 << 16;

/// Limits on the sizes. Tests use small ones to reach every loop.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockLimits {
    /// Depth of one block.
    pub(super) depth_block: usize,
    pub(super) blocks_per_slab: usize,
    /// Floats of packed b.
    pub(super) b_floats: usize,
    /// Floats of sums that are kept for the next slab.
    pub(super) band_floats: usize,
    /// Up to this many rows, each task covers all of them.
    pub(super) narrow_rows: usize,
    /// With fewer tasks per thread than this, tasks are made smaller to balance the load.
    pub(super) tasks_per_thread: usize,
}

impl BlockLimits {
    pub(super) const USUAL: Self = Self {
        // A panel of sixteen columns takes three quarters of an L1 cache of 32 KiB.
        depth_block: 384,
        blocks_per_slab: 4,
        b_floats: 3 << 19, // 6 MiB: fits into L3 and leaves space
        band_floats: 9 << 17,
        // With a block of depth they take half of an L2 cache of 512 KiB.
        narrow_rows: 192,
        tasks_per_thread: 4,
    };
}

/// How one product is split.
#[derive(Clone, Copy, Debug)]
pub(super) struct Blocking {
    depth: usize,
    pub(super) depth_block: usize,
    pub(super) depth_blocks: usize,
    blocks_per_slab: usize,
    pub(super) slabs: usize,
    strip_columns: usize,
    band_rows: usize,
    pub(super) task_rows: usize,
    pub(super) task_columns: usize,
    /// Columns that one task packs of a strip.
    pub(super) pack_columns: usize,
    /// Packed b: of a strip and a slab, or of a panel and a block if tasks pack their own.
    pub(super) b_floats: usize,
    /// Whether one block of rows covers all rows.
    pub(super) is_narrow: bool,
}

impl ProductShape {
    /// The shape with its depth in slots of 32 bits, which is what splits and packs a product.
    #[must_use]
    pub fn in_slots(self, products: Products) -> Self {
        Self { depth: self.depth.div_ceil(products.factors_per_slot()), ..self }
    }

    /// Bytes that a [`Product`](super::Product) of this shape needs while it runs.
    pub fn scratch_bytes(self, threads: usize) -> u64 {
        self.scratch_floats(threads, BlockLimits::USUAL) * size_of::<f32>() as u64
    }

    pub(super) fn scratch_floats(self, threads: usize, limits: BlockLimits) -> u64 {
        if self.rows == 0 || self.columns == 0 {
            return 0;
        }
        let blocking = self.blocking(threads, limits);
        let threads = threads as u64;
        let (a, sums) = (blocking.a_floats() as u64, blocking.sums_floats() as u64);
        if blocking.is_narrow {
            let a = self.rows.next_multiple_of(PANEL_ROWS) as u64 * self.depth as u64;
            a + threads * (blocking.b_floats as u64 + sums)
        } else {
            let waiting = if blocking.slabs == 1 { threads } else { self.tasks_at_once(blocking) };
            blocking.b_floats as u64 + threads * a + waiting * sums
        }
    }

    /// Enough bytes for a product of this shape and for any with fewer rows: some of those need
    /// more. Above [`EXACT_ROWS`] it is a bound, because trying each number of rows would take
    /// minutes for contexts of millions.
    pub(crate) fn most_scratch_bytes(self, threads: usize) -> u64 {
        self.most_scratch_floats(threads, BlockLimits::USUAL, EXACT_ROWS) * size_of::<f32>() as u64
    }

    pub(super) fn most_scratch_floats(
        self,
        threads: usize,
        limits: BlockLimits,
        exact_rows: usize,
    ) -> u64 {
        let of = |rows| Self { rows, ..self }.scratch_floats(threads, limits);
        let exact = (1..=self.rows.min(exact_rows)).map(of).max().unwrap_or(0);
        if self.rows <= exact_rows { exact } else { exact.max(self.wide_bound(threads, limits)) }
    }

    /// At least the scratch of any product that is not narrow: the sum of each part's largest.
    fn wide_bound(self, threads: usize, limits: BlockLimits) -> u64 {
        let rows = self.rows.max(limits.narrow_rows + 1);
        let blocking = Self { rows, ..self }.blocking(threads, limits);
        let strip = blocking.strip_columns;
        let task_columns = strip.div_ceil(strip.div_ceil(TASK_COLUMNS)).next_multiple_of(PANEL);
        let most = (limits.band_floats / strip).max(1);
        let of_task_rows = |task_rows: usize| {
            let padded = task_rows.next_multiple_of(PANEL_ROWS) as u64;
            let even = if threads * task_rows <= most { threads * task_rows } else { task_rows };
            let tasks = most.next_multiple_of(even).div_ceil(task_rows) as u64;
            let sums = match blocking.slabs {
                1 => threads as u64 * padded * task_columns as u64,
                _ => tasks * padded * (strip + task_columns) as u64,
            };
            threads as u64 * padded * blocking.depth_block as u64 + sums
        };
        let sizes = (LEAST_ROWS..=TASK_ROWS).step_by(TILE_ROWS);
        blocking.b_floats as u64 + sizes.map(of_task_rows).max().unwrap_or(0)
    }

    /// The number of tasks in the largest band and strip.
    fn tasks_at_once(self, blocking: Blocking) -> u64 {
        let rows = self.rows.min(blocking.band_rows).div_ceil(blocking.task_rows);
        let columns = self.columns.min(blocking.strip_columns).div_ceil(blocking.task_columns);
        (rows * columns) as u64
    }

    /// Rows and columns of a task, chosen so that a strip has enough tasks, if possible, and the
    /// threads have about equal work.
    ///
    /// With fewer columns `a` is packed more often; with fewer rows a panel of `b` is loaded into
    /// L1 more often. The first costs less as long as there are many columns.
    fn task(self, strip_columns: usize, threads: usize, limits: BlockLimits) -> (usize, usize) {
        let tasks = threads * limits.tasks_per_thread;
        let least = strip_columns.div_ceil(TASK_COLUMNS);
        let columns = |across| strip_columns.div_ceil(across).next_multiple_of(PANEL);
        if self.rows <= limits.narrow_rows {
            return (self.rows, columns(tasks.max(least)));
        }
        let cheap = (strip_columns / MANY_COLUMNS).max(1);
        let fewest = self.rows.div_ceil(TASK_ROWS);
        let across = tasks.div_ceil(fewest).min(cheap).max(least);
        let longest = |rows: usize| {
            let tasks = self.rows.div_ceil(rows) * across;
            tasks.div_ceil(threads) * (rows + OVERHEAD_ROWS)
        };
        let fewest = fewest.max(tasks.div_ceil(across));
        let rows = self.task_rows(fewest).min_by_key(|&rows| longest(rows)).unwrap_or(TASK_ROWS);
        (rows, columns(across.max(tasks.div_ceil(self.rows.div_ceil(rows)))))
    }

    /// The different sizes of tasks if the rows are split into `fewest` to twice as many, largest
    /// first. There are few, however many rows there are: a billion of them are planned too.
    pub(super) fn task_rows(self, fewest: usize) -> impl Iterator<Item = usize> {
        let whole_tiles = |rows: usize| rows.next_multiple_of(TILE_ROWS).max(LEAST_ROWS);
        let sizes = std::iter::successors(Some(fewest), move |&tasks| {
            let rows = whole_tiles(self.rows.div_ceil(tasks));
            // The fewest tasks that have at least one tile less.
            (rows > LEAST_ROWS).then(|| self.rows.div_ceil(rows - TILE_ROWS))
        });
        let sizes = sizes.take_while(move |tasks| *tasks <= 2 * fewest);
        sizes.map(move |tasks| whole_tiles(self.rows.div_ceil(tasks)))
    }

    pub(super) fn blocking(self, threads: usize, limits: BlockLimits) -> Blocking {
        // Sums are grouped by depth only, as the module docs promise.
        let depth_blocks = self.depth.div_ceil(limits.depth_block);
        let depth_block = self.depth.div_ceil(depth_blocks.max(1)).next_multiple_of(8).max(8);
        let depth_blocks = self.depth.div_ceil(depth_block);
        let slabs = depth_blocks.div_ceil(limits.blocks_per_slab).max(1);
        let blocks_per_slab = depth_blocks.div_ceil(slabs).max(1);
        let slabs = depth_blocks.div_ceil(blocks_per_slab).max(1);

        let is_narrow = self.rows <= limits.narrow_rows;
        let columns = self.columns.next_multiple_of(PANEL);
        let slab_depth = (blocks_per_slab * depth_block).min(self.depth);
        let most = if is_narrow { columns } else { limits.b_floats / slab_depth.max(1) };
        let strips = columns.div_ceil(most.max(PANEL));
        let strip_columns = columns.div_ceil(strips).next_multiple_of(PANEL);
        let (task_rows, task_columns) = self.task(strip_columns, threads, limits);
        // The same number of tasks for each thread, unless there are so many threads that sums
        // would not fit.
        let most = (limits.band_floats / strip_columns).max(1);
        let even = if threads * task_rows <= most { threads * task_rows } else { task_rows };
        let band_rows = match slabs {
            1 => self.rows,
            _ => self.rows.div_ceil(self.rows.div_ceil(most)).next_multiple_of(even),
        };
        Blocking {
            depth: self.depth,
            depth_block,
            depth_blocks,
            blocks_per_slab,
            slabs,
            strip_columns,
            band_rows,
            task_rows,
            task_columns,
            pack_columns: 2 * PANEL,
            b_floats: if is_narrow { PANEL * depth_block } else { strip_columns * slab_depth },
            is_narrow,
        }
    }
}

impl Blocking {
    /// Floats of packed a of one task and block.
    pub(super) fn a_floats(&self) -> usize {
        self.rows_padded() * self.depth_block
    }

    /// Floats of the sums of one task.
    pub(super) fn sums_floats(&self) -> usize {
        self.rows_padded() * self.task_columns
    }

    fn rows_padded(&self) -> usize {
        self.task_rows.next_multiple_of(PANEL_ROWS)
    }

    pub(super) fn depth_block(&self, block: usize) -> Range<usize> {
        let start = block * self.depth_block;
        start..self.depth.min(start + self.depth_block)
    }

    pub(super) fn blocks_of(&self, slab: usize) -> Range<usize> {
        let start = slab * self.blocks_per_slab;
        start..self.depth_blocks.min(start + self.blocks_per_slab)
    }

    pub(super) fn slab(&self, slab: usize) -> Range<usize> {
        let start = slab * self.blocks_per_slab * self.depth_block;
        start..self.depth.min(start + self.blocks_per_slab * self.depth_block)
    }

    pub(super) fn bands(&self, rows: usize) -> impl Iterator<Item = Range<usize>> {
        let len = self.band_rows;
        (0..rows).step_by(len).map(move |start| start..rows.min(start + len))
    }

    pub(super) fn strips(&self, columns: usize) -> impl Iterator<Item = Range<usize>> {
        let len = self.strip_columns;
        (0..columns).step_by(len).map(move |start| start..columns.min(start + len))
    }
}
