//! Small products of matrices that are in cache: `c (+)= a · b` in registers, with lanes along the
//! columns of `b`.
//!
//! `a` is read one number at a time with any two strides, so it never has to be transposed. Used
//! for the tiles of attention, and for a matmul so small that packing `a` would cost too much.

use std::slice;

pub(super) use crate::cpu::isa::SumStart;
use crate::cpu::isa::{Kernel, PairTile, Simd};

/// `c[m][n] (+)= Σ a[m][k] b[k][n]`
pub(super) struct TileProduct<'a> {
    pub(super) a: LeftFactor<'a>,
    /// Row `k` starts at `k * b_stride`.
    pub(super) b: &'a [f32],
    pub(super) b_stride: usize,
    /// Row `m` starts at `m * c_stride`.
    pub(super) c: &'a mut [f32],
    pub(super) c_stride: usize,
    pub(super) rows: usize,
    /// A multiple of the lanes.
    pub(super) columns: usize,
    pub(super) depth: usize,
    pub(super) sum: SumStart,
}

/// The left factor: number (m, k) is at `m * row + k * depth`.
#[derive(Clone, Copy)]
pub(super) struct LeftFactor<'a> {
    pub(super) data: &'a [f32],
    pub(super) row: usize,
    pub(super) depth: usize,
}

impl Kernel for TileProduct<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        let Self { rows, columns, depth, .. } = self;
        if rows == 0 || columns == 0 {
            return;
        }
        // `tile` relies on these. Saturating, because a sum that wraps would pass.
        assert!(columns.is_multiple_of(S::LANES));
        let last = |count: usize, stride: usize| (count - 1).saturating_mul(stride);
        assert!(last(rows, self.c_stride).saturating_add(columns) <= self.c.len());
        if depth > 0 {
            assert!(last(depth, self.b_stride).saturating_add(columns) <= self.b.len());
            let corner = last(rows, self.a.row).saturating_add(last(depth, self.a.depth));
            assert!(corner < self.a.data.len());
        }
        let mut column = 0;
        while S::TILE_VECTORS >= 2 && column + 2 * S::LANES <= columns {
            // SAFETY: asserted above, for all rows and columns.
            unsafe { self.panel::<S, 2>(simd, column) };
            column += 2 * S::LANES;
        }
        while column < columns {
            // SAFETY: as above; `columns` is a multiple of the lanes.
            unsafe { self.panel::<S, 1>(simd, column) };
            column += S::LANES;
        }
    }
}

impl TileProduct<'_> {
    /// All rows, in tiles of as many rows as registers hold or a few less: a tile of one or two
    /// rows would be slowed by the latency of its sums.
    ///
    /// # Safety
    /// As for [`tile`](Self::tile), for all rows.
    #[inline(always)]
    unsafe fn panel<S: Simd, const V: usize>(&mut self, simd: S, column: usize) {
        // Array lengths cannot be associated constants; only one arm is compiled.
        // SAFETY: each call takes whole tiles of the rows that are left.
        unsafe {
            let done = match S::TILE_ROWS {
                12 => {
                    let whole = whole_tiles(self.rows, 12, 8);
                    let row = self.tiles::<S, 12, V>(simd, 0, column, whole);
                    self.tiles::<S, 8, V>(simd, row, column, (self.rows - row) / 8)
                }
                6 => {
                    let whole = whole_tiles(self.rows, 6, 5);
                    let row = self.tiles::<S, 6, V>(simd, 0, column, whole);
                    self.tiles::<S, 5, V>(simd, row, column, (self.rows - row) / 5)
                }
                _ => 0,
            };
            let row = self.tiles::<S, 4, V>(simd, done, column, (self.rows - done) / 4);
            self.tiles::<S, 1, V>(simd, row, column, self.rows - row);
        }
    }

    /// Computes `count` tiles from row `row` on and returns the row after them.
    ///
    /// # Safety
    /// As for [`tile`](Self::tile), for all of these rows.
    #[inline(always)]
    unsafe fn tiles<S: Simd, const R: usize, const V: usize>(
        &mut self,
        simd: S,
        row: usize,
        column: usize,
        count: usize,
    ) -> usize {
        for tile in 0..count {
            // SAFETY: the caller's promise.
            unsafe { self.tile::<S, R, V>(simd, row + tile * R, column) };
        }
        row + count * R
    }

    /// Rows `row..row + R` by columns `column..column + V * LANES`.
    ///
    /// # Safety
    /// They lie inside `rows` by `columns`, for which both factors are long enough.
    #[inline(always)]
    unsafe fn tile<S: Simd, const R: usize, const V: usize>(
        &mut self,
        simd: S,
        row: usize,
        column: usize,
    ) {
        let mut sums = [[simd.splat(0.0); V]; R];
        for k in 0..self.depth {
            // SAFETY: `k < depth`, and the caller's promise.
            let (b, a) = unsafe {
                let b = self.b.as_ptr().add(k * self.b_stride + column);
                let b = slice::from_raw_parts(b, V * S::LANES);
                (b, self.a.data.as_ptr().add(row * self.a.row + k * self.a.depth))
            };
            let b: [S::Lanes; V] = std::array::from_fn(|v| simd.load(&b[v * S::LANES..]));
            for (r, sums) in sums.iter_mut().enumerate() {
                // SAFETY: as above; `row + r` is below `rows`.
                let a = simd.splat(unsafe { *a.add(r * self.a.row) });
                for (sum, b) in sums.iter_mut().zip(b) {
                    *sum = simd.fma(a, b, *sum);
                }
            }
        }
        for (r, sums) in sums.into_iter().enumerate() {
            let c = &mut self.c[(row + r) * self.c_stride + column..][..V * S::LANES];
            for (c, sum) in c.chunks_exact_mut(S::LANES).zip(sums) {
                let sum = match self.sum {
                    SumStart::New => sum,
                    SumStart::Continued => simd.add(simd.load(c), sum),
                };
                simd.store(sum, c);
            }
        }
    }
}

/// [`TileProduct`] of bfloat16 pairs: a step of depth is a pair.
pub(super) struct PairProduct<'a> {
    /// Pair (m, k) is at `m * A_ROW + k * a_depth`; `A_ROW` is a parameter of [`run`](Self::run).
    pub(super) a: &'a [f32],
    pub(super) a_depth: usize,
    /// Row `k` starts at `k * b_stride`.
    pub(super) b: &'a [f32],
    pub(super) b_stride: usize,
    /// Row `m` starts at `m * c_stride`.
    pub(super) c: &'a mut [f32],
    pub(super) c_stride: usize,
    pub(super) rows: usize,
    /// A multiple of the lanes.
    pub(super) columns: usize,
    /// Pairs of each sum, at least one.
    pub(super) depth: usize,
    pub(super) sum: SumStart,
}

impl PairProduct<'_> {
    /// Computes the product.
    #[inline(always)]
    pub(super) fn run<S: Simd, const A_ROW: usize>(mut self, simd: S) {
        assert!(self.columns.is_multiple_of(S::LANES));
        let mut column = 0;
        while S::TILE_VECTORS >= 2 && column + 2 * S::LANES <= self.columns {
            self.panel::<S, 2, A_ROW>(simd, column);
            column += 2 * S::LANES;
        }
        while column < self.columns {
            self.panel::<S, 1, A_ROW>(simd, column);
            column += S::LANES;
        }
    }

    #[inline(always)]
    fn panel<S: Simd, const V: usize, const A_ROW: usize>(&mut self, simd: S, column: usize) {
        // Array lengths cannot be associated constants; only one arm is compiled.
        let done = match S::TILE_ROWS {
            12 => {
                let whole = whole_tiles(self.rows, 12, 8);
                let row = self.tiles::<S, 12, V, A_ROW>(simd, 0, column, whole);
                self.tiles::<S, 8, V, A_ROW>(simd, row, column, (self.rows - row) / 8)
            }
            6 => {
                let whole = whole_tiles(self.rows, 6, 5);
                let row = self.tiles::<S, 6, V, A_ROW>(simd, 0, column, whole);
                self.tiles::<S, 5, V, A_ROW>(simd, row, column, (self.rows - row) / 5)
            }
            _ => 0,
        };
        let row = self.tiles::<S, 4, V, A_ROW>(simd, done, column, (self.rows - done) / 4);
        self.tiles::<S, 1, V, A_ROW>(simd, row, column, self.rows - row);
    }

    /// Computes `count` tiles from row `row` on and returns the row after them.
    #[inline(always)]
    fn tiles<S: Simd, const R: usize, const V: usize, const A_ROW: usize>(
        &mut self,
        simd: S,
        row: usize,
        column: usize,
        count: usize,
    ) -> usize {
        for row in (row..).step_by(R).take(count) {
            simd.pair_tile::<R, V, A_ROW>(PairTile {
                a: &self.a[row * A_ROW..],
                a_depth: self.a_depth,
                b: &self.b[column..],
                b_stride: self.b_stride,
                c: &mut self.c[row * self.c_stride + column..],
                c_stride: self.c_stride,
                depth: self.depth,
                sum: self.sum,
            });
        }
        row + count * R
    }
}

/// How many tiles of `most` rows to use, so that tiles of `fewer` rows cover the remaining rows or
/// leave as few as possible.
fn whole_tiles(rows: usize, most: usize, fewer: usize) -> usize {
    let exact = (0..=rows / most).rev().find(|whole| (rows - whole * most).is_multiple_of(fewer));
    exact.unwrap_or(rows / most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::isa::{Isa, Portable};

    struct EveryShape;

    impl Kernel for EveryShape {
        type Output = ();
        #[inline(always)]
        #[expect(clippy::float_cmp, reason = "sums of small integers are exact")]
        fn run<S: Simd>(self, simd: S) {
            let data: Vec<f32> = (0..4000).map(|i| (i * 7 % 13) as f32 - 6.0).collect();
            for rows in (0..20).chain([30]) {
                for (columns, depth) in [(1, 3), (2, 0), (3, 1), (5, 9)] {
                    let columns = columns * S::LANES;
                    for (row, deep) in [(depth + 2, 1), (1, rows + 3)] {
                        for sum in [SumStart::New, SumStart::Continued] {
                            let mut c = vec![5.0; rows * (columns + 1)];
                            simd.run(TileProduct {
                                a: LeftFactor { data: &data, row, depth: deep },
                                b: &data[17..],
                                b_stride: columns + 3,
                                c: &mut c,
                                c_stride: columns + 1,
                                rows,
                                columns,
                                depth,
                                sum,
                            });
                            for (i, c) in c.iter().enumerate() {
                                let (m, n) = (i / (columns + 1), i % (columns + 1));
                                let products = (0..depth).map(|k| {
                                    data[m * row + k * deep] * data[17 + k * (columns + 3) + n]
                                });
                                let new = products.sum::<f32>();
                                let expected = match sum {
                                    _ if n == columns => 5.0, // between the rows
                                    SumStart::New => new,
                                    SumStart::Continued => 5.0 + new,
                                };
                                assert_eq!(*c, expected, "({m}, {n}) of {rows} by {columns}");
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn multiples_of_sixteen_rows_need_no_tiles_of_one_row() {
        for rows in (32..200).step_by(16) {
            for (most, fewer) in [(12, 8), (6, 5)] {
                let rest = rows - whole_tiles(rows, most, fewer) * most;
                assert_eq!(rest % fewer, 0, "{rest} of {rows} are left to tiles of {fewer}");
            }
        }
        assert_eq!([64, 16, 48, 3].map(|rows| whole_tiles(rows, 6, 5)), [9, 1, 8, 0]);
        assert_eq!([64, 16, 48, 3].map(|rows| whole_tiles(rows, 12, 8)), [4, 0, 4, 0]);
    }

    struct FarApart(fn(&mut TileProduct<'_>));

    impl Kernel for FarApart {
        type Output = bool;
        #[inline(always)]
        fn run<S: Simd>(self, simd: S) -> bool {
            let (data, mut c) = ([0.0; 64], [0.0; 64]);
            let mut product = TileProduct {
                a: LeftFactor { data: &data, row: 2, depth: 1 },
                b: &data,
                b_stride: 16,
                c: &mut c,
                c_stride: 16,
                rows: 2,
                columns: 16,
                depth: 2,
                sum: SumStart::New,
            };
            (self.0)(&mut product);
            let run = std::panic::AssertUnwindSafe(|| simd.run(product));
            std::panic::catch_unwind(run).is_err()
        }
    }

    #[test]
    fn factors_whose_end_wraps_are_refused() {
        for isa in Isa::all() {
            assert!(!isa.run(FarApart(|_| ())), "the product itself is right");
            assert!(isa.run(FarApart(|product| product.b_stride = usize::MAX - 15)));
            assert!(isa.run(FarApart(|product| product.c_stride = usize::MAX - 15)));
            assert!(isa.run(FarApart(|product| product.a.row = usize::MAX)));
            assert!(isa.run(FarApart(|product| product.a.depth = usize::MAX)));
        }
    }

    #[test]
    fn a_product_of_any_shape_is_the_sum_of_products() {
        Isa::all().for_each(|isa| isa.run(EveryShape));
        Portable::<16>.run(EveryShape);
    }
}
