//! Instruction sets: kernels are generic over [`Simd`] and run at the machine's vector width.
//!
//! A token such as [`Avx2`] can only be made if its instructions were detected, so holding one
//! proves that they may be used. A kernel is compiled for an instruction set by running inside
//! [`Simd::run`]; everything it calls must be `#[inline(always)]`, or it is compiled for the
//! target's baseline. A pool calls its tasks through a pointer, so each task enters `run` itself.
//!
//! [`Portable<16>`] tests the tile logic of sixteen lanes on any machine.

mod pairs;
#[cfg(target_arch = "aarch64")]
mod neon;
mod portable;
#[cfg(target_arch = "x86_64")]
mod x86;

#[cfg(target_arch = "aarch64")]
pub use self::neon::Neon;
pub(super) use self::pairs::slot;
pub use self::pairs::{PairTile, SumStart};
pub use self::portable::Portable;
#[cfg(target_arch = "x86_64")]
pub use self::x86::{Avx2, Avx512};

use half::f16;

/// Work that is compiled once for each instruction set.
pub trait Kernel {
    /// The result.
    type Output;
    /// Does the work. Mark implementations `#[inline(always)]`.
    fn run<S: Simd>(self, simd: S) -> Self::Output;
}

/// Vectors of f32 and their operations.
///
/// `fma` is fused (one rounding) on every instruction set except [`Portable`], so results may
/// differ between instruction sets, but never within one.
pub trait Simd: Copy + Send + Sync + 'static {
    /// A vector of [`LANES`](Self::LANES) numbers.
    type Lanes: Copy;
    /// Numbers in one vector; at most [`LANES_MAX`].
    const LANES: usize;
    /// Rows of a matmul's register tile: as many as fit into the registers.
    const TILE_ROWS: usize;
    /// Vectors in a row of a matmul's register tile.
    const TILE_VECTORS: usize;

    /// Runs `kernel` with these instructions enabled.
    fn run<K: Kernel>(self, kernel: K) -> K::Output;
    /// A vector with `x` in every lane.
    fn splat(self, x: f32) -> Self::Lanes;
    /// Loads the first numbers of `from`, which has at least a whole vector.
    fn load(self, from: &[f32]) -> Self::Lanes;
    /// Stores the lanes at the start of `to`, which has at least a whole vector.
    fn store(self, x: Self::Lanes, to: &mut [f32]);
    /// `x + y`
    fn add(self, x: Self::Lanes, y: Self::Lanes) -> Self::Lanes;
    /// `x - y`
    fn sub(self, x: Self::Lanes, y: Self::Lanes) -> Self::Lanes;
    /// `x * y`
    fn mul(self, x: Self::Lanes, y: Self::Lanes) -> Self::Lanes;
    /// The larger of `x` and `y`; unspecified if either is NaN.
    fn max(self, x: Self::Lanes, y: Self::Lanes) -> Self::Lanes;
    /// `x * y + z`
    fn fma(self, x: Self::Lanes, y: Self::Lanes, z: Self::Lanes) -> Self::Lanes;
    /// `x * y + z` of single numbers, fused exactly if [`fma`](Self::fma) is.
    fn fma1(self, x: f32, y: f32, z: f32) -> f32;

    /// Prefetches `data[index]`; the index may be out of bounds.
    #[inline(always)]
    fn prefetch<T>(self, data: &[T], index: usize) {
        let _ = (data, index);
    }

    /// Widens halves; the slices have equal lengths.
    #[inline(always)]
    fn widen_f16(self, from: &[f16], to: &mut [f32]) {
        for (to, from) in to.iter_mut().zip(from) {
            *to = from.to_f32();
        }
    }

    /// Rounds to halves, ties to even; the slices have equal lengths.
    #[inline(always)]
    fn narrow_f16(self, from: &[f32], to: &mut [f16]) {
        for (to, from) in to.iter_mut().zip(from) {
            *to = f16::from_f32(*from);
        }
    }

    /// `to[k, v] = from[v, k]` for `k < depth` and `v < vectors`, at most eight.
    #[inline(always)]
    fn transpose(self, block: TransposeSize, from: Strided<&[f32]>, to: Strided<&mut [f32]>) {
        for v in 0..block.vectors {
            let from = &from.data[v * from.stride..][..block.depth];
            for (k, x) in from.iter().enumerate() {
                to.data[k * to.stride + v] = *x;
            }
        }
    }

    /// Whether the machine itself multiplies pairs of bfloat16 factors; otherwise they are emulated.
    #[inline(always)]
    fn has_pairs(self) -> bool {
        false
    }

    /// Adds the products of a tile of bfloat16 pairs, with the arithmetic of
    /// [`reference::bfloat16`](crate::reference::bfloat16). `ROWS` by `VECTORS` sums; the rows of
    /// `a` are `A_ROW` apart.
    #[inline(always)]
    fn pair_tile<const ROWS: usize, const VECTORS: usize, const A_ROW: usize>(
        self,
        tile: PairTile<'_>,
    ) {
        tile.emulate::<Self, ROWS, VECTORS, A_ROW>(self);
    }

    /// Rounds to bfloat16 factors: `low[i]` and `high[i]` become the pair `to[i]`.
    #[inline(always)]
    fn pair_factors(self, low: &[f32], high: &[f32], to: &mut [f32]) {
        pairs::round_each(low, high, to);
    }

    /// Rounds to bfloat16 factors: `from[2 i]` and `from[2 i + 1]` become the pair `to[i]`.
    #[inline(always)]
    fn neighbour_factors(self, from: &[f32], to: &mut [f32]) {
        pairs::round_neighbours(from, to);
    }

    /// The sum of the lanes, in the fixed order of [`fold`](Self::fold).
    #[inline(always)]
    fn sum(self, x: Self::Lanes) -> f32 {
        self.fold(x, |x, y| x + y)
    }

    /// The largest lane.
    #[inline(always)]
    fn largest(self, x: Self::Lanes) -> f32 {
        self.fold(x, |x, y| if x > y { x } else { y })
    }

    /// Folds the upper half of the lanes onto the lower until one is left.
    #[inline(always)]
    fn fold(self, x: Self::Lanes, with: impl Fn(f32, f32) -> f32) -> f32 {
        let mut lanes = [0.0; LANES_MAX];
        self.store(x, &mut lanes);
        let mut width = Self::LANES;
        while width > 1 {
            width /= 2;
            for lane in 0..width {
                lanes[lane] = with(lanes[lane], lanes[lane + width]);
            }
        }
        lanes[0]
    }
}

/// The widest vector of any instruction set here.
pub const LANES_MAX: usize = 16;

/// The sizes of [`Simd::transpose`].
#[derive(Clone, Copy, Debug)]
pub struct TransposeSize {
    /// Rows that become columns, 1 to 8.
    pub vectors: usize,
    /// Numbers in each of them.
    pub depth: usize,
}

/// Rows of numbers, `stride` elements apart.
#[derive(Clone, Copy, Debug)]
pub struct Strided<T> {
    /// The numbers, starting with the first row.
    pub data: T,
    /// Distance between the starts of rows.
    pub stride: usize,
}

/// An instruction set to run kernels with.
#[derive(Clone, Copy, Debug)]
pub enum Isa {
    /// x86-64 with 512-bit vectors.
    #[cfg(target_arch = "x86_64")]
    Avx512(Avx512),
    /// x86-64 with 256-bit vectors.
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
    /// 64-bit Arm.
    #[cfg(target_arch = "aarch64")]
    Neon(Neon),
    /// The target's baseline.
    Portable(Portable<8>),
}

impl Isa {
    /// The widest instruction set of this machine.
    pub fn best() -> Self {
        let [best, ..] = Self::available();
        best.unwrap_or(Self::Portable(Portable))
    }

    /// Every instruction set that this machine has, widest first.
    pub fn all() -> impl Iterator<Item = Self> {
        Self::available().into_iter().flatten()
    }

    /// The instruction set with this [`name`](Self::name); `None` if the machine lacks it.
    pub fn named(name: &str) -> Option<Self> {
        Self::all().find(|isa| isa.name() == name)
    }

    /// Whether this machine multiplies pairs of bfloat16 factors with one instruction.
    pub fn has_pairs(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(simd) => simd.has_pairs(),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(simd) => simd.has_pairs(),
            #[cfg(target_arch = "aarch64")]
            Self::Neon(simd) => simd.has_pairs(),
            Self::Portable(simd) => simd.has_pairs(),
        }
    }

    /// The same instruction set without instructions for bfloat16 pairs, which are emulated.
    #[must_use]
    pub fn without_pairs(self) -> Self {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(simd) => Self::Avx512(simd.without_bf16()),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(_) => self,
            #[cfg(target_arch = "aarch64")]
            Self::Neon(_) => self,
            Self::Portable(_) => self,
        }
    }

    /// The name in lower case.
    pub fn name(self) -> &'static str {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(_) => "avx512",
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(_) => "avx2",
            #[cfg(target_arch = "aarch64")]
            Self::Neon(_) => "neon",
            Self::Portable(_) => "portable",
        }
    }

    /// Runs `kernel` with this instruction set.
    #[inline]
    pub fn run<K: Kernel>(self, kernel: K) -> K::Output {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(simd) => simd.run(kernel),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(simd) => simd.run(kernel),
            #[cfg(target_arch = "aarch64")]
            Self::Neon(simd) => simd.run(kernel),
            Self::Portable(simd) => simd.run(kernel),
        }
    }

    #[cfg(target_arch = "x86_64")]
    fn available() -> [Option<Self>; 3] {
        let portable = Some(Self::Portable(Portable));
        match (Avx512::detect().map(Self::Avx512), Avx2::detect().map(Self::Avx2)) {
            (None, None) => [portable, None, None],
            (None, avx2) => [avx2, portable, None],
            (avx512, avx2) => [avx512, avx2, portable],
        }
    }

    #[cfg(target_arch = "aarch64")]
    fn available() -> [Option<Self>; 2] {
        // Every 64-bit Arm has it.
        [Some(Self::Neon(Neon(()))), Some(Self::Portable(Portable))]
    }

    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    fn available() -> [Option<Self>; 1] {
        [Some(Self::Portable(Portable))]
    }
}

/// The methods that are one intrinsic each.
macro_rules! one_instruction_each {
    (
        enable $features:literal,
        lanes $lanes:literal of $vector:ty,
        tile $rows:literal by $vectors:literal,
        $splat:ident $load:ident $store:ident $add:ident $sub:ident $mul:ident $max:ident,
        fma($x:ident, $y:ident, $z:ident) = $fma:expr
    ) => {
        type Lanes = $vector;
        const LANES: usize = $lanes;
        const TILE_ROWS: usize = $rows;
        const TILE_VECTORS: usize = $vectors;

        #[inline(always)]
        fn run<K: Kernel>(self, kernel: K) -> K::Output {
            // Never inlined, so that there is one copy of each kernel.
            #[target_feature(enable = $features)]
            #[inline(never)]
            fn enabled<S: Simd, K: Kernel>(simd: S, kernel: K) -> K::Output {
                kernel.run(simd)
            }
            // SAFETY: a token is only made if these features were detected.
            unsafe { enabled(self, kernel) }
        }
        #[inline(always)]
        fn splat(self, x: f32) -> $vector {
            // SAFETY: the token proves the feature.
            unsafe { arch::$splat(x) }
        }
        #[inline(always)]
        fn load(self, from: &[f32]) -> $vector {
            let from = &from[..$lanes];
            // SAFETY: the token proves the feature; `from` holds all lanes, at any alignment.
            unsafe { arch::$load(from.as_ptr()) }
        }
        #[inline(always)]
        fn store(self, x: $vector, to: &mut [f32]) {
            let to = &mut to[..$lanes];
            // SAFETY: the token proves the feature; `to` holds all lanes, at any alignment.
            unsafe { arch::$store(to.as_mut_ptr(), x) }
        }
        #[inline(always)]
        fn add(self, x: $vector, y: $vector) -> $vector {
            // SAFETY: the token proves the feature.
            unsafe { arch::$add(x, y) }
        }
        #[inline(always)]
        fn sub(self, x: $vector, y: $vector) -> $vector {
            // SAFETY: the token proves the feature.
            unsafe { arch::$sub(x, y) }
        }
        #[inline(always)]
        fn mul(self, x: $vector, y: $vector) -> $vector {
            // SAFETY: the token proves the feature.
            unsafe { arch::$mul(x, y) }
        }
        #[inline(always)]
        fn max(self, x: $vector, y: $vector) -> $vector {
            // SAFETY: the token proves the feature.
            unsafe { arch::$max(x, y) }
        }
        #[inline(always)]
        fn fma(self, $x: $vector, $y: $vector, $z: $vector) -> $vector {
            // SAFETY: the token proves the feature.
            unsafe { $fma }
        }
        #[inline(always)]
        fn fma1(self, x: f32, y: f32, z: f32) -> f32 {
            x.mul_add(y, z)
        }
    };
}
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use one_instruction_each;

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "integers are exact in every order")]
mod tests {
    use super::*;

    /// Small integers: every operation on them is exact, fused or not.
    struct Arithmetic;

    impl Kernel for Arithmetic {
        type Output = ();
        #[inline(always)]
        fn run<S: Simd>(self, simd: S) {
            let x: Vec<f32> = (0..20).map(|i| i as f32 - 5.0).collect();
            let y: Vec<f32> = (0..20).map(|i| (i * 7 % 11) as f32).collect();
            let (a, b, c) = (simd.load(&x), simd.load(&y), simd.splat(3.0));
            let check = |lanes: S::Lanes, f: &dyn Fn(f32, f32) -> f32| {
                let mut got = [-1.0; LANES_MAX + 1];
                simd.store(lanes, &mut got);
                for lane in 0..S::LANES {
                    assert_eq!(got[lane], f(x[lane], y[lane]));
                }
                assert!(got[S::LANES..].iter().all(|&rest| rest == -1.0));
            };
            check(simd.add(a, b), &|x, y| x + y);
            check(simd.sub(a, b), &|x, y| x - y);
            check(simd.mul(a, b), &|x, y| x * y);
            check(simd.max(a, b), &|x, y| x.max(y));
            check(simd.fma(a, b, c), &|x, y| x * y + 3.0);
            check(simd.fma(c, b, a), &|x, y| 3.0 * y + x);
            assert_eq!(simd.fma1(2.0, 3.0, 4.0), 10.0);
            assert_eq!(simd.sum(a), x[..S::LANES].iter().sum::<f32>());
            assert_eq!(simd.largest(b), y[..S::LANES].iter().copied().fold(0.0, f32::max));
        }
    }

    struct Transpose;

    impl Kernel for Transpose {
        type Output = ();
        #[inline(always)]
        fn run<S: Simd>(self, simd: S) {
            for (vectors, depth) in (1..=8).flat_map(|v| (0..=11).map(move |k| (v, k))) {
                let from: Vec<f32> = (0..8 * 11).map(|i| i as f32).collect();
                let mut to = vec![-1.0; 11 * 9];
                simd.transpose(
                    TransposeSize { vectors, depth },
                    Strided { data: &from, stride: 11 },
                    Strided { data: &mut to, stride: 9 },
                );
                for (i, &x) in to.iter().enumerate() {
                    let (k, v) = (i / 9, i % 9);
                    let is_inside = v < vectors && k < depth;
                    let expected = if is_inside { from[v * 11 + k] } else { -1.0 };
                    assert_eq!(x, expected, "k {k}, v {v} of {depth}, {vectors}");
                }
            }
        }
    }

    #[test]
    fn every_instruction_set_computes_the_same_exact_sums() {
        Isa::all().for_each(|isa| isa.run(Arithmetic));
        Portable::<16>.run(Arithmetic);
    }

    #[test]
    fn every_instruction_set_transposes_the_same_way() {
        Isa::all().for_each(|isa| isa.run(Transpose));
    }

    struct TransposeFarApart;

    impl Kernel for TransposeFarApart {
        type Output = bool;
        #[inline(always)]
        fn run<S: Simd>(self, simd: S) -> bool {
            let (from, mut to) = ([0.0; 8], [0.0; 8]);
            let transpose = || {
                simd.transpose(
                    TransposeSize { vectors: 2, depth: 4 },
                    Strided { data: &from, stride: usize::MAX - 3 },
                    Strided { data: &mut to, stride: 2 },
                );
            };
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(transpose)).is_err()
        }
    }

    #[test]
    fn rows_so_far_apart_that_their_end_wraps_are_refused() {
        Isa::all().for_each(|isa| assert!(isa.run(TransposeFarApart), "{}", isa.name()));
    }

    #[test]
    fn an_instruction_set_is_found_by_its_name() {
        for isa in Isa::all() {
            assert_eq!(Isa::named(isa.name()).map(Isa::name), Some(isa.name()));
        }
        assert!(Isa::named("mmx").is_none());
    }
}
