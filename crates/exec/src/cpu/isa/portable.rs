//! Plain arithmetic that runs everywhere.

use super::{Kernel, Simd};

/// `N` lanes of plain arithmetic, for targets without a supported instruction set and for tests.
#[derive(Clone, Copy, Debug)]
pub struct Portable<const N: usize>;

impl<const N: usize> Simd for Portable<N> {
    type Lanes = [f32; N];
    const LANES: usize = N;
    // With sixteen lanes, use the tile of AVX-512.
    const TILE_ROWS: usize = if N == 16 { 12 } else { 4 };
    const TILE_VECTORS: usize = if N == 16 { 2 } else { 1 };

    #[inline(never)]
    fn run<K: Kernel>(self, kernel: K) -> K::Output {
        kernel.run(self)
    }
    #[inline(always)]
    fn splat(self, x: f32) -> [f32; N] {
        [x; N]
    }
    #[inline(always)]
    fn load(self, from: &[f32]) -> [f32; N] {
        std::array::from_fn(|lane| from[..N][lane])
    }
    #[inline(always)]
    fn store(self, x: [f32; N], to: &mut [f32]) {
        to[..N].copy_from_slice(&x);
    }
    #[inline(always)]
    fn add(self, x: [f32; N], y: [f32; N]) -> [f32; N] {
        std::array::from_fn(|lane| x[lane] + y[lane])
    }
    #[inline(always)]
    fn sub(self, x: [f32; N], y: [f32; N]) -> [f32; N] {
        std::array::from_fn(|lane| x[lane] - y[lane])
    }
    #[inline(always)]
    fn mul(self, x: [f32; N], y: [f32; N]) -> [f32; N] {
        std::array::from_fn(|lane| x[lane] * y[lane])
    }
    #[inline(always)]
    fn max(self, x: [f32; N], y: [f32; N]) -> [f32; N] {
        std::array::from_fn(|lane| if x[lane] > y[lane] { x[lane] } else { y[lane] })
    }
    #[inline(always)]
    fn fma(self, x: [f32; N], y: [f32; N], z: [f32; N]) -> [f32; N] {
        std::array::from_fn(|lane| self.fma1(x[lane], y[lane], z[lane]))
    }
    // Not fused: without the instruction, `mul_add` is a call of about a hundred cycles.
    #[inline(always)]
    fn fma1(self, x: f32, y: f32, z: f32) -> f32 {
        x * y + z
    }
}
