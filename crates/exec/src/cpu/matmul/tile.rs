//! The register tile, the inner loop of a product.

use super::slots::{Pairs, Singles};
use crate::cpu::isa::{Kernel, PairTile, Simd, SumStart};

/// Numbers in a cache line.
const LINE: usize = 16;

/// `sums += a · b` for one panel of `b` and all panels of `a`; `=` if `is_first`.
///
/// Rows past `rows` are padding: their sums may be written but are never read.
pub(super) struct PanelProduct<'a, P> {
    /// What the panels hold.
    pub(super) slots: P,
    pub(super) rows: usize,
    pub(super) a: &'a [f32],
    pub(super) b: &'a [f32],
    /// The next panel, which is prefetched meanwhile.
    pub(super) next_b: &'a [f32],
    pub(super) sums: &'a mut [f32],
    /// Distance between rows of `sums`.
    pub(super) stride: usize,
    pub(super) is_first: bool,
}

/// How slots are multiplied.
pub(super) trait MultipliedSlots: Copy + Send + Sync + 'static {
    /// One register tile. Mark it `#[inline(always)]`.
    fn multiply<S: Simd, const ROWS: usize, const VECTORS: usize>(
        self,
        simd: S,
        tile: PanelProduct<'_, Self>,
    );
}

impl<P: MultipliedSlots> Kernel for PanelProduct<'_, P> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let depth = self.b.len() / (S::TILE_VECTORS * S::LANES);
        let panels = self.a.chunks_exact(S::TILE_ROWS * depth);
        let targets = self.sums.chunks_mut(S::TILE_ROWS * self.stride);
        let next_share = self.next_b.len().div_ceil(panels.len().max(1));
        for ((panel, a), sums) in panels.enumerate().zip(targets) {
            for line in (0..next_share).step_by(LINE) {
                simd.prefetch(self.next_b, panel * next_share + line);
            }
            let rows = self.rows - panel * S::TILE_ROWS;
            let tile = RegisterTile { rows, a, sums, ..self };
            // Array lengths cannot be associated constants; only one arm is compiled.
            match (S::TILE_ROWS, S::TILE_VECTORS) {
                (12, 2) => tile.by_rows::<S, 12, 6, 2>(simd),
                (6, 2) => tile.by_rows::<S, 6, 3, 2>(simd),
                (4, 1) => tile.by_rows::<S, 4, 2, 1>(simd),
                _ => unreachable!("no code for this tile"),
            }
        }
    }
}

/// The same for one panel of `a`.
type RegisterTile<'a, P> = PanelProduct<'a, P>;

impl<P: MultipliedSlots> RegisterTile<'_, P> {
    /// Uses a smaller tile for few rows, because padding rows cost as much as others.
    #[inline(always)]
    fn by_rows<S: Simd, const ROWS: usize, const HALF: usize, const VECTORS: usize>(self, simd: S) {
        match self.rows {
            1 => self.multiply::<S, 1, VECTORS>(simd),
            2 => self.multiply::<S, 2, VECTORS>(simd),
            rows if rows <= HALF => self.multiply::<S, HALF, VECTORS>(simd),
            _ => self.multiply::<S, ROWS, VECTORS>(simd),
        }
    }

    #[inline(always)]
    fn multiply<S: Simd, const ROWS: usize, const VECTORS: usize>(self, simd: S) {
        for row in 0..ROWS {
            for line in (0..VECTORS * S::LANES).step_by(LINE) {
                simd.prefetch(self.sums, row * self.stride + line);
            }
        }
        self.slots.multiply::<S, ROWS, VECTORS>(simd, self);
    }
}

impl MultipliedSlots for Singles {
    #[inline(always)]
    fn multiply<S: Simd, const ROWS: usize, const VECTORS: usize>(
        self,
        simd: S,
        of: RegisterTile<'_, Self>,
    ) {
        let mut tile = [[simd.splat(0.0); VECTORS]; ROWS];
        let steps = of.a.chunks_exact(S::TILE_ROWS).zip(of.b.chunks_exact(VECTORS * S::LANES));
        for (a, b) in steps {
            let b: [S::Lanes; VECTORS] = std::array::from_fn(|v| simd.load(&b[v * S::LANES..]));
            for (row, &a) in tile.iter_mut().zip(a) {
                let a = simd.splat(a);
                for (sum, b) in row.iter_mut().zip(b) {
                    *sum = simd.fma(a, b, *sum);
                }
            }
        }
        let width = VECTORS * S::LANES;
        // Indices rather than iterators, so that the tile stays in registers.
        for (row, tile) in tile.iter().enumerate() {
            let sums = &mut of.sums[row * of.stride..][..width];
            for (v, &sum) in tile.iter().enumerate() {
                let sums = &mut sums[v * S::LANES..];
                let sum = if of.is_first { sum } else { simd.add(simd.load(sums), sum) };
                simd.store(sum, sums);
            }
        }
    }
}

impl MultipliedSlots for Pairs {
    #[inline(always)]
    fn multiply<S: Simd, const ROWS: usize, const VECTORS: usize>(
        self,
        simd: S,
        of: RegisterTile<'_, Self>,
    ) {
        let b_stride = VECTORS * S::LANES;
        simd.pair_tile::<ROWS, VECTORS, 1>(PairTile {
            a: of.a,
            a_depth: S::TILE_ROWS,
            b: of.b,
            b_stride,
            c: of.sums,
            c_stride: of.stride,
            depth: of.b.len() / b_stride,
            sum: if of.is_first { SumStart::New } else { SumStart::Continued },
        });
    }
}
