//! Instruction sets: kernels are written once over [`Simd`] and run at the width of the machine.
//!
//! A token such as [`Avx2`] exists only where its instructions were detected, so holding one is
//! the proof that they may be used. A kernel becomes code for an instruction set by running
//! inside [`Simd::run`]; everything it calls must be `#[inline(always)]`, or it is compiled for
//! the oldest machine of the target. A task of a pool is called through a pointer, so it enters
//! `run` itself.
//!
//! The wrappers are one line each. Tile logic of sixteen lanes is tested on any machine with
//! [`Portable<16>`], which computes the same sums without the instructions.

#[cfg(target_arch = "aarch64")]
use std::arch::aarch64 as arch;
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64 as arch;

use half::f16;

/// A piece of work that is compiled once for each instruction set.
pub trait Kernel {
    /// What the work returns.
    type Output;
    /// Does the work. Mark implementations `#[inline(always)]`.
    fn run<S: Simd>(self, simd: S) -> Self::Output;
}

/// Vectors of f32 and what one can do with them.
///
/// Multiplication with addition is fused (one rounding) on every instruction set but
/// [`Portable`], so results may differ between instruction sets, never within one.
pub trait Simd: Copy + Send + Sync + 'static {
    /// A vector of [`LANES`](Self::LANES) numbers.
    type Lanes: Copy;
    /// Numbers in one vector; at most [`LANES_MAX`].
    const LANES: usize;
    /// Rows of a matmul's register tile, as many as the registers hold.
    const TILE_ROWS: usize;
    /// Vectors in a row of a matmul's register tile.
    const TILE_VECTORS: usize;

    /// Runs `kernel` with these instructions enabled.
    fn run<K: Kernel>(self, kernel: K) -> K::Output;
    /// Every lane `x`.
    fn splat(self, x: f32) -> Self::Lanes;
    /// The first lanes of `from`, which holds at least that many.
    fn load(self, from: &[f32]) -> Self::Lanes;
    /// Writes the lanes to the start of `to`, which holds at least that many.
    fn store(self, x: Self::Lanes, to: &mut [f32]);
    /// `x + y`
    fn add(self, x: Self::Lanes, y: Self::Lanes) -> Self::Lanes;
    /// `x - y`
    fn sub(self, x: Self::Lanes, y: Self::Lanes) -> Self::Lanes;
    /// `x * y`
    fn mul(self, x: Self::Lanes, y: Self::Lanes) -> Self::Lanes;
    /// The larger of `x` and `y`; unspecified which one where either is NaN.
    fn max(self, x: Self::Lanes, y: Self::Lanes) -> Self::Lanes;
    /// `x * y + z`
    fn fma(self, x: Self::Lanes, y: Self::Lanes, z: Self::Lanes) -> Self::Lanes;
    /// `x * y + z` of single numbers: fused exactly where [`fma`](Self::fma) is.
    fn fma1(self, x: f32, y: f32, z: f32) -> f32;

    /// Asks for `data[index]`, which will be read soon; there need not be such an element.
    #[inline(always)]
    fn prefetch<T>(self, data: &[T], index: usize) {
        let _ = (data, index);
    }

    /// Widens halves; the slices have one length.
    #[inline(always)]
    fn widen_f16(self, from: &[f16], to: &mut [f32]) {
        for (to, from) in to.iter_mut().zip(from) {
            *to = from.to_f32();
        }
    }

    /// Rounds to halves, ties to even; the slices have one length.
    #[inline(always)]
    fn narrow_f16(self, from: &[f32], to: &mut [f16]) {
        for (to, from) in to.iter_mut().zip(from) {
            *to = f16::from_f32(*from);
        }
    }

    /// `to[k, v] = from[v, k]` for `k < depth` and `v < vectors`, at most eight.
    #[inline(always)]
    fn transpose(self, block: Block, from: Strided<&[f32]>, to: Strided<&mut [f32]>) {
        for v in 0..block.vectors {
            let from = &from.data[v * from.stride..][..block.depth];
            for (k, x) in from.iter().enumerate() {
                to.data[k * to.stride + v] = *x;
            }
        }
    }

    /// The sum of the lanes, halves first: one fixed order.
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

/// What [`Simd::transpose`] transposes.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    /// Rows that become columns, 1 to 8.
    pub vectors: usize,
    /// Numbers in each of them.
    pub depth: usize,
}

/// Rows of numbers, `stride` apart.
#[derive(Clone, Copy, Debug)]
pub struct Strided<T> {
    /// The numbers, from the first of the first row.
    pub data: T,
    /// From one row to the next.
    pub stride: usize,
}

/// The instruction set a kernel runs with.
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
    /// What the compiler assumes of every machine of the target.
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

    /// The instruction set of this [`name`](Self::name); `None` where the machine lacks it.
    pub fn named(name: &str) -> Option<Self> {
        Self::all().find(|isa| isa.name() == name)
    }

    /// Lower case, as people write it.
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

/// Proof of AVX-512 (F, BW, DQ, VL) and of what every such machine has below it.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug)]
pub struct Avx512(Avx2);

#[cfg(target_arch = "x86_64")]
impl Avx512 {
    /// The token, where this machine has the instructions.
    pub fn detect() -> Option<Self> {
        let has = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl");
        Avx2::detect().filter(|_| has).map(Self)
    }
}

/// Proof of AVX2, FMA and F16C.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug)]
pub struct Avx2(());

#[cfg(target_arch = "x86_64")]
impl Avx2 {
    /// The token, where this machine has the instructions.
    pub fn detect() -> Option<Self> {
        let has = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("f16c");
        has.then_some(Self(()))
    }
}

/// Proof of NEON.
#[cfg(target_arch = "aarch64")]
#[derive(Clone, Copy, Debug)]
pub struct Neon(());

/// `N` lanes of plain arithmetic, for machines without a set of their own and for tests.
#[derive(Clone, Copy, Debug)]
pub struct Portable<const N: usize>;

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
            // Never inlined: one copy of a kernel, however many call it.
            #[target_feature(enable = $features)]
            #[inline(never)]
            fn enabled<S: Simd, K: Kernel>(simd: S, kernel: K) -> K::Output {
                kernel.run(simd)
            }
            // SAFETY: a token is made only where these features were detected.
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

#[cfg(target_arch = "x86_64")]
impl Simd for Avx512 {
    one_instruction_each! {
        enable "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c",
        lanes 16 of arch::__m512,
        tile 12 by 2, // 24 sums, 2 of b; 32 registers
        _mm512_set1_ps _mm512_loadu_ps _mm512_storeu_ps
        _mm512_add_ps _mm512_sub_ps _mm512_mul_ps _mm512_max_ps,
        fma(x, y, z) = arch::_mm512_fmadd_ps(x, y, z)
    }

    #[inline(always)]
    fn widen_f16(self, from: &[f16], to: &mut [f32]) {
        self.0.widen_f16(from, to);
    }
    #[inline(always)]
    fn prefetch<T>(self, data: &[T], index: usize) {
        self.0.prefetch(data, index);
    }
    #[inline(always)]
    fn narrow_f16(self, from: &[f32], to: &mut [f16]) {
        self.0.narrow_f16(from, to);
    }
    #[inline(always)]
    fn transpose(self, block: Block, from: Strided<&[f32]>, to: Strided<&mut [f32]>) {
        self.0.transpose(block, from, to);
    }
}

#[cfg(target_arch = "x86_64")]
impl Simd for Avx2 {
    one_instruction_each! {
        enable "avx2,fma,f16c",
        lanes 8 of arch::__m256,
        tile 6 by 2, // 12 sums, 2 of b, 1 of a; 16 registers
        _mm256_set1_ps _mm256_loadu_ps _mm256_storeu_ps
        _mm256_add_ps _mm256_sub_ps _mm256_mul_ps _mm256_max_ps,
        fma(x, y, z) = arch::_mm256_fmadd_ps(x, y, z)
    }

    #[inline(always)]
    fn prefetch<T>(self, data: &[T], index: usize) {
        let soon = data.as_ptr().wrapping_add(index);
        // SAFETY: every x86-64 has the instruction; it reads nothing and cannot fault.
        unsafe { arch::_mm_prefetch::<{ arch::_MM_HINT_T1 }>(soon.cast()) };
    }

    #[inline(always)]
    fn widen_f16(self, from: &[f16], to: &mut [f32]) {
        let (from, from_rest) = from.as_chunks::<8>();
        let (to, to_rest) = to.as_chunks_mut::<8>();
        for (to, from) in to.iter_mut().zip(from) {
            // SAFETY: the token proves F16C; eight halves are 16 bytes, read at any alignment.
            let wide =
                unsafe { arch::_mm256_cvtph_ps(arch::_mm_loadu_si128(from.as_ptr().cast())) };
            self.store(wide, to);
        }
        for (to, from) in to_rest.iter_mut().zip(from_rest) {
            *to = from.to_f32();
        }
    }

    #[inline(always)]
    fn narrow_f16(self, from: &[f32], to: &mut [f16]) {
        const TO_NEAREST: i32 = arch::_MM_FROUND_TO_NEAREST_INT;
        let (from, from_rest) = from.as_chunks::<8>();
        let (to, to_rest) = to.as_chunks_mut::<8>();
        for (to, from) in to.iter_mut().zip(from) {
            let wide = self.load(from);
            // SAFETY: the token proves F16C; eight halves are 16 bytes, written at any alignment.
            unsafe {
                let halves = arch::_mm256_cvtps_ph::<TO_NEAREST>(wide);
                arch::_mm_storeu_si128(to.as_mut_ptr().cast(), halves);
            }
        }
        for (to, from) in to_rest.iter_mut().zip(from_rest) {
            *to = f16::from_f32(*from);
        }
    }

    #[inline(always)]
    fn transpose(self, block: Block, from: Strided<&[f32]>, to: Strided<&mut [f32]>) {
        let Block { vectors, depth } = block;
        if depth == 0 {
            return;
        }
        assert!((1..=8).contains(&vectors));
        assert!(from.data.len() >= (vectors - 1) * from.stride + depth);
        assert!(to.data.len() >= (depth - 1) * to.stride + vectors);
        let from = Strided { data: from.data.as_ptr(), stride: from.stride };
        let to = Strided { data: to.data.as_mut_ptr(), stride: to.stride };
        // SAFETY: the token proves AVX; reads are of `depth` numbers at each of `vectors` rows,
        // writes of `vectors` numbers at each of `depth` rows, and the slices hold those.
        unsafe {
            match vectors {
                8 => transpose_avx::<8>(depth, from, to),
                6 => transpose_avx::<6>(depth, from, to),
                4 => transpose_avx::<4>(depth, from, to),
                3 => transpose_avx::<3>(depth, from, to),
                2 => transpose_avx::<2>(depth, from, to),
                1 => transpose_avx::<1>(depth, from, to),
                5 => transpose_avx::<5>(depth, from, to),
                _ => transpose_avx::<7>(depth, from, to),
            }
        }
    }
}

/// `to[k, v] = from[v, k]` for `k < depth`, `v < N`.
///
/// Four numbers of row `v` and four of row `v + 4` make one register, so that transposing four
/// by four in each half transposes eight by four. Not inlined: it needs all registers for its
/// rows.
///
/// # Safety
/// `depth` numbers can be read at each row of `from`, `N` written at each of `to`.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx")]
#[inline(never)]
unsafe fn transpose_avx<const N: usize>(
    depth: usize,
    from: Strided<*const f32>,
    to: Strided<*mut f32>,
) {
    use arch::{
        _mm_loadu_ps, _mm_prefetch, _mm_setzero_ps, _mm256_set_m128, _mm256_shuffle_ps,
        _mm256_unpackhi_ps, _mm256_unpacklo_ps,
    };
    let rows: [*const f32; N] = std::array::from_fn(|v| from.data.wrapping_add(v * from.stride));
    let whole = depth / 4 * 4;
    for k in (0..whole).step_by(4) {
        if k % 16 == 0 {
            // A cache line of each of the next rows: more streams than hardware follows.
            for row in rows {
                let next = row.wrapping_add(N * from.stride + k);
                _mm_prefetch::<{ arch::_MM_HINT_T1 }>(next.cast());
            }
        }
        let four = |v: usize| match rows.get(v) {
            // SAFETY: `k + 4 <= depth`, and the caller promises that many of this row.
            Some(row) => unsafe { _mm_loadu_ps(row.add(k)) },
            None => _mm_setzero_ps(),
        };
        let [a, b, c, d] = [0, 1, 2, 3].map(|v| _mm256_set_m128(four(v + 4), four(v)));
        let (ab, cd) = (_mm256_unpacklo_ps(a, b), _mm256_unpacklo_ps(c, d));
        let (ab_upper, cd_upper) = (_mm256_unpackhi_ps(a, b), _mm256_unpackhi_ps(c, d));
        let columns = [
            _mm256_shuffle_ps::<0b01_00_01_00>(ab, cd),
            _mm256_shuffle_ps::<0b11_10_11_10>(ab, cd),
            _mm256_shuffle_ps::<0b01_00_01_00>(ab_upper, cd_upper),
            _mm256_shuffle_ps::<0b11_10_11_10>(ab_upper, cd_upper),
        ];
        for (i, column) in columns.into_iter().enumerate() {
            // SAFETY: `k + i < depth`, and the caller promises `N` numbers at this row.
            unsafe { store_first::<N>(column, to.data.add((k + i) * to.stride)) };
        }
    }
    for k in whole..depth {
        for (v, row) in rows.iter().enumerate() {
            // SAFETY: `k < depth` and `v < N`, as the caller promises for both sides.
            unsafe { *to.data.add(k * to.stride + v) = *row.add(k) };
        }
    }
}

/// Writes the first `N` lanes, 1 to 8.
///
/// # Safety
/// `N` numbers can be written at `to`.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx")]
#[inline]
unsafe fn store_first<const N: usize>(x: arch::__m256, to: *mut f32) {
    // SAFETY: each arm writes `N` numbers.
    unsafe {
        match N {
            8 => arch::_mm256_storeu_ps(to, x),
            4 => arch::_mm_storeu_ps(to, arch::_mm256_castps256_ps128(x)),
            6 => {
                arch::_mm_storeu_ps(to, arch::_mm256_castps256_ps128(x));
                let upper = arch::_mm256_extractf128_ps::<1>(x);
                arch::_mm_storel_pd(to.add(4).cast(), arch::_mm_castps_pd(upper));
            }
            _ => {
                let mut lanes = [0.0; 8];
                arch::_mm256_storeu_ps(lanes.as_mut_ptr(), x);
                to.copy_from_nonoverlapping(lanes.as_ptr(), N);
            }
        }
    }
}

#[cfg(target_arch = "aarch64")]
impl Simd for Neon {
    one_instruction_each! {
        enable "neon",
        lanes 4 of arch::float32x4_t,
        tile 12 by 2, // 24 sums, 2 of b, 3 of a; 32 registers
        vdupq_n_f32 vld1q_f32 vst1q_f32 vaddq_f32 vsubq_f32 vmulq_f32 vmaxq_f32,
        fma(x, y, z) = arch::vfmaq_f32(z, x, y)
    }
}

impl<const N: usize> Simd for Portable<N> {
    type Lanes = [f32; N];
    const LANES: usize = N;
    // Sixteen lanes take the tile of the machines that have sixteen.
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
    // Not fused: without the instruction, a fused one is a call of some hundred cycles.
    #[inline(always)]
    fn fma1(self, x: f32, y: f32, z: f32) -> f32 {
        x * y + z
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "whole numbers, exact in every order")]
mod tests {
    use super::*;

    /// Small whole numbers: every operation on them is exact, fused or not.
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
                    Block { vectors, depth },
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

    #[test]
    fn an_instruction_set_is_found_by_its_name() {
        for isa in Isa::all() {
            assert_eq!(Isa::named(isa.name()).map(Isa::name), Some(isa.name()));
        }
        assert!(Isa::named("mmx").is_none());
    }
}
