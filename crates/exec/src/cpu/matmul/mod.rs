//! Matrix products: f32 sums of operands in any storage type, with an epilogue for finished rows.
//!
//! ```text
//! forward       out (M,N)  = x (M,K) · weight (N,K)ᵀ         weights stored (out, in)
//! input grad    d_x (M,K)  = d_out (M,N) · weight (N,K)
//! weight grad   d_w (N,K) += d_out (M,N)ᵀ · x (M,K)
//! ```
//!
//! Each is a [`Product`] of two [`View`]s; an [`Epilogue`] processes the sums.
//!
//! Factors are float32, or pairs of bfloat16 with the arithmetic of
//! [`reference::bfloat16`](crate::reference::bfloat16): see [`slots`].
//!
//! Each sum runs over ascending `k` within a block of depth and then over the blocks, and blocks
//! depend on the depth only. So the bits of an element depend on its row of `a`, its column of `b`
//! and the instruction set, not on the number of threads, rows or columns. A token decoded alone
//! gives the same bits as in a batch.
//!
//! Nothing is allocated: panels and sums are in the caller's scratch, see
//! [`ProductShape::scratch_bytes`].

mod block;
mod column_sums;
mod epilogue;
mod slots;
mod pack;
mod tile;

#[cfg(test)]
mod tests;

use std::ops::Range;

use fitgpt_program::Products;

pub use self::{
    block::ProductShape,
    epilogue::{AddInto, Epilogue, RowSegment, Store},
    pack::View,
};
use self::{
    block::{BlockLimits, Blocking},
    pack::{PackedSlots, PanelPacking, Side},
    slots::{Pairs, Singles},
    tile::{MultipliedSlots, PanelProduct},
};
pub(crate) use self::{
    column_sums::ColumnSums,
    epilogue::{
        AddResidual, AddScaled, AddStored, ResultDropout, StoreGelu, StoreSwiGlu, TimesGeluSlope,
        TimesSwiGluSlopes,
    },
};
use crate::cpu::{
    element::Element,
    isa::{Isa, Kernel, Simd},
    parts::{Blocks, OutputMatrices, PerWorker, Task, Tiles, Tiling},
    pool::Pool,
    product::{SumStart, TileProduct},
};

/// `epilogue(a · b)`, written to `out`.
#[derive(Debug)]
pub struct Product<'a, A, B, O, E> {
    /// (M, K)
    pub a: View<'a, A>,
    /// (K, N)
    pub b: View<'a, B>,
    /// Where the epilogue writes: grids of (M, N).
    pub out: O,
    /// Processes the finished sums.
    pub epilogue: E,
    /// How factors are multiplied.
    pub products: Products,
    /// At least [`ProductShape::scratch_bytes`] of f32, with any contents.
    pub scratch: &'a mut [f32],
}

impl<A, B, O, E> Product<'_, A, B, O, E>
where
    A: Element,
    B: Element,
    O: OutputMatrices,
    E: for<'p> Epilogue<O::Tile<'p>>,
{
    /// Computes the product.
    // Inlined, so that a caller whose factors are never pairs has no code for them.
    #[inline(always)]
    pub fn run(self, isa: Isa, pool: &mut Pool) {
        match self.products {
            Products::Float32 => isa.run(RunProduct { slots: Singles, product: self, pool }),
            Products::Bfloat16 => isa.run(RunProduct { slots: Pairs, product: self, pool }),
        }
    }

    /// Its shape, whose depth counts slots.
    fn shape(&self) -> ProductShape {
        assert_eq!(self.a.columns(), self.b.rows(), "the operands differ in depth");
        let shape = ProductShape {
            rows: self.a.rows(),
            columns: self.b.columns(),
            depth: self.a.columns(),
        };
        shape.in_slots(self.products)
    }

    fn with<S: Simd, P: Slots>(self, simd: S, slots: P, pool: &mut Pool, limits: BlockLimits) {
        let shape = self.shape();
        assert!(
            self.out.holds(shape.rows, shape.columns),
            "the outputs do not have the shape {shape:?}"
        );
        let needed = shape.scratch_floats(pool.threads(), limits);
        assert!(self.scratch.len() as u64 >= needed, "{shape:?} needs scratch of {needed} floats");
        if shape.rows == 0 || shape.columns == 0 {
            return;
        }
        let blocking = shape.blocking(pool.threads(), limits);
        if blocking.is_narrow {
            self.narrow(simd, slots, pool, shape, blocking);
        } else {
            self.wide(simd, slots, pool, shape, blocking);
        }
    }

    /// For few rows: each panel of `b` is used by one task only, which packs it itself, small
    /// enough to stay in the L1 cache.
    fn narrow<S: Simd, P: Slots>(
        self,
        simd: S,
        slots: P,
        pool: &mut Pool,
        shape: ProductShape,
        blocking: Blocking,
    ) {
        let Self { a, b, mut out, epilogue, scratch, .. } = self;
        let panel = S::TILE_VECTORS * S::LANES;
        let depth_block = blocking.depth_block;
        let rows_padded = shape.rows.next_multiple_of(S::TILE_ROWS);
        let threads = pool.threads();
        let (a_packed, rest) = scratch.split_at_mut(rows_padded * shape.depth);
        let (b_packed, rest) = rest.split_at_mut(threads * blocking.b_floats);
        let sums = &mut rest[..threads * blocking.sums_floats()];

        if shape.depth > 0 {
            let blocks = Blocks::new(a_packed, rows_padded * depth_block);
            pool.for_each(blocks, |task, to| {
                let depth = blocking.depth_block(task.index);
                simd.run(PanelPacking {
                    slots,
                    from: a,
                    vectors: 0..shape.rows,
                    depth,
                    side: Side::A,
                    to,
                });
            });
        }
        let a_packed = &*a_packed;
        let tiling = Tiling {
            rows: 0..shape.rows,
            columns: 0..shape.columns,
            tile_rows: shape.rows,
            tile_columns: blocking.task_columns,
        };
        let parts = (
            Tiles::new(&mut out, (shape.rows, shape.columns), tiling.clone()),
            PerWorker::new(b_packed, blocking.b_floats),
            PerWorker::new(sums, blocking.sums_floats()),
        );
        pool.for_each(parts, |task, (mut out, b_packed, sums)| {
            let (rows, columns) = tiling.tile(task.index);
            simd.run(NarrowTask {
                slots,
                a_packed,
                b,
                b_packed,
                sums,
                out: &mut out,
                epilogue: &epilogue,
                blocking,
                rows,
                columns,
                panel,
            });
        });
    }

    /// For many rows: all threads pack `b` once, then each task packs a block of `a` or reads it
    /// in place.
    fn wide<S: Simd, P: Slots>(
        self,
        simd: S,
        slots: P,
        pool: &mut Pool,
        shape: ProductShape,
        blocking: Blocking,
    ) {
        let Self { a, b, mut out, epilogue, scratch, .. } = self;
        let threads = pool.threads();
        let panel = S::TILE_VECTORS * S::LANES;
        let (b_packed, rest) = scratch.split_at_mut(blocking.b_floats);
        let (a_packed, sums) = rest.split_at_mut(threads * blocking.a_floats());
        for rows in blocking.bands(shape.rows) {
            for columns in blocking.strips(shape.columns) {
                let tiling = Tiling {
                    rows: rows.clone(),
                    columns: columns.clone(),
                    tile_rows: blocking.task_rows,
                    tile_columns: blocking.task_columns,
                };
                for slab in 0..blocking.slabs {
                    let depth = blocking.slab(slab);
                    let group = blocking.pack_columns;
                    let used = columns.len().next_multiple_of(panel) * depth.len();
                    if used > 0 {
                        let blocks = Blocks::new(&mut b_packed[..used], group * depth.len());
                        pool.for_each(blocks, |task, to| {
                            let start = columns.start + task.index * group;
                            let vectors = start..columns.end.min(start + group);
                            let (from, depth) = (b.transposed(), depth.clone());
                            let side = Side::B;
                            simd.run(PanelPacking { slots, from, vectors, depth, side, to });
                        });
                    }
                    let b_packed = &b_packed[..used];
                    let body = |task: Task,
                                out: &mut O::Tile<'_>,
                                a_packed: &mut [f32],
                                sums: &mut [f32]| {
                        let (task_rows, task_columns) = tiling.tile(task.index);
                        simd.run(WideTask {
                            slots,
                            a,
                            a_packed,
                            b_packed,
                            first_column: columns.start,
                            sums,
                            out,
                            epilogue: &epilogue,
                            blocking,
                            slab,
                            rows: task_rows,
                            columns: task_columns,
                            panel,
                        });
                    };
                    let tiles = Tiles::new(&mut out, (shape.rows, shape.columns), tiling.clone());
                    let a_parts = PerWorker::new(a_packed, blocking.a_floats());
                    let len = blocking.sums_floats();
                    if blocking.slabs == 1 {
                        let sums = PerWorker::new(sums, len);
                        pool.for_each((tiles, a_parts, sums), |task, (mut out, a, sums)| {
                            body(task, &mut out, a, sums);
                        });
                    } else {
                        let sums = Blocks::new(&mut sums[..tiling.count() * len], len);
                        pool.for_each((tiles, a_parts, sums), |task, (mut out, a, sums)| {
                            body(task, &mut out, a, sums);
                        });
                    }
                }
            }
        }
    }
}

/// What panels hold.
trait Slots: PackedSlots + MultipliedSlots {}

impl<P: PackedSlots + MultipliedSlots> Slots for P {}

/// Runs a product through [`Isa::run`].
struct RunProduct<'a, 'p, A, B, O, E, P> {
    slots: P,
    product: Product<'a, A, B, O, E>,
    pool: &'p mut Pool,
}

impl<A, B, O, E, P> Kernel for RunProduct<'_, '_, A, B, O, E, P>
where
    A: Element,
    B: Element,
    O: OutputMatrices,
    E: for<'p> Epilogue<O::Tile<'p>>,
    P: Slots,
{
    type Output = ();
    fn run<S: Simd>(self, simd: S) {
        self.product.with(simd, self.slots, self.pool, BlockLimits::USUAL);
    }
}

/// With this few rows, their whole depth takes a small part of the L2 cache.
const FEW_ROWS: usize = 16;

/// One rectangle of a product with few rows, over all depth.
struct NarrowTask<'a, B, T, E, P> {
    slots: P,
    a_packed: &'a [f32],
    b: View<'a, B>,
    b_packed: &'a mut [f32],
    sums: &'a mut [f32],
    out: &'a mut T,
    epilogue: &'a E,
    blocking: Blocking,
    rows: Range<usize>,
    columns: Range<usize>,
    panel: usize,
}

impl<B: Element, T, E: Epilogue<T>, P: Slots> Kernel for NarrowTask<'_, B, T, E, P> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { slots, a_packed, b, b_packed, sums, out, epilogue, blocking, .. } = self;
        let Self { rows, columns, panel, .. } = self;
        let stride = blocking.task_columns;
        let rows_padded = rows.len().next_multiple_of(S::TILE_ROWS);
        if blocking.depth_blocks == 0 {
            sums.fill(0.0);
        }
        let (blocks, panels) = (blocking.depth_blocks, columns.len().div_ceil(panel));
        for step in 0..blocks * panels {
            // With few rows, all of `a` stays in cache and `b` is read once in order; with more, a
            // block of `a` is used for all panels before the next block.
            let (block, number) = if rows.len() <= FEW_ROWS {
                (step % blocks, step / blocks)
            } else {
                (step / panels, step % panels)
            };
            let depth = blocking.depth_block(block);
            let a_block = &a_packed[rows_padded * depth.start..][..rows_padded * depth.len()];
            let b_panel = &mut b_packed[..panel * depth.len()];
            let start = columns.start + number * panel;
            let (from, vectors) = (b.transposed(), start..columns.end.min(start + panel));
            simd.run(PanelPacking { slots, from, vectors, depth, side: Side::B, to: b_panel });
            let sums = &mut sums[number * panel..];
            let (rows, is_first) = (rows.len(), block == 0);
            let b = &*b_panel;
            let (a, next_b) = (a_block, &[]);
            simd.run(PanelProduct { slots, rows, a, b, next_b, sums, stride, is_first });
        }
        finish(simd, &rows, &columns, sums, stride, epilogue, out);
    }
}

/// With this few columns, packing `a` costs too much compared with multiplying it.
const FEW_COLUMNS: usize = 512;

/// One rectangle of a product, over the depth of one slab.
struct WideTask<'a, A, T, E, P> {
    slots: P,
    a: View<'a, A>,
    a_packed: &'a mut [f32],
    b_packed: &'a [f32],
    /// The first column of `b_packed`.
    first_column: usize,
    sums: &'a mut [f32],
    out: &'a mut T,
    epilogue: &'a E,
    blocking: Blocking,
    slab: usize,
    rows: Range<usize>,
    columns: Range<usize>,
    panel: usize,
}

impl<A: Element, T, E: Epilogue<T>, P: Slots> Kernel for WideTask<'_, A, T, E, P> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { slots, a, a_packed, b_packed, sums, out, epilogue, blocking, .. } = self;
        let Self { rows, columns, panel, .. } = self;
        let slab_depth = blocking.slab(self.slab);
        let stride = blocking.task_columns;
        let rows_padded = rows.len().next_multiple_of(S::TILE_ROWS);
        if blocking.depth_blocks == 0 {
            sums.fill(0.0);
        }
        for block in blocking.blocks_of(self.slab) {
            let depth = blocking.depth_block(block);
            let in_place = if P::IN_PLACE && columns.len() <= FEW_COLUMNS {
                a.in_place(rows.start, depth.start)
            } else {
                None
            };
            let a_block = &mut a_packed[..rows_padded * depth.len()];
            if in_place.is_none() {
                let (from, vectors) = (a, rows.clone());
                simd.run(PanelPacking {
                    slots,
                    from,
                    vectors,
                    depth: depth.clone(),
                    side: Side::A,
                    to: a_block,
                });
            }
            let within = depth.start - slab_depth.start;
            for (number, start) in columns.clone().step_by(panel).enumerate() {
                let panel_start = (start - self.first_column) * slab_depth.len() + within * panel;
                let b = &b_packed[panel_start..][..panel * depth.len()];
                let sums = &mut sums[number * panel..];
                let (rows, is_first) = (rows.len(), block == 0);
                if let Some(a) = in_place {
                    simd.run(TileProduct {
                        a,
                        b,
                        b_stride: panel,
                        c: sums,
                        c_stride: stride,
                        rows,
                        columns: panel,
                        depth: depth.len(),
                        sum: if is_first { SumStart::New } else { SumStart::Continued },
                    });
                    continue;
                }
                let next_start = panel_start + slab_depth.len() * panel;
                let next_b = b_packed.get(next_start..next_start + b.len()).unwrap_or_default();
                let a = &*a_block;
                simd.run(PanelProduct { slots, rows, a, b, next_b, sums, stride, is_first });
            }
        }
        if self.slab + 1 == blocking.slabs {
            finish(simd, &rows, &columns, sums, stride, epilogue, out);
        }
    }
}

/// Passes each finished row to the epilogue.
#[inline(always)]
fn finish<S: Simd, T, E: Epilogue<T>>(
    simd: S,
    rows: &Range<usize>,
    columns: &Range<usize>,
    sums: &mut [f32],
    stride: usize,
    epilogue: &E,
    out: &mut T,
) {
    for (row, sums) in rows.clone().zip(sums.chunks_exact_mut(stride)) {
        let segment = RowSegment { row, columns: columns.clone() };
        epilogue.finish(simd, segment, &mut sums[..columns.len()], out);
    }
}
