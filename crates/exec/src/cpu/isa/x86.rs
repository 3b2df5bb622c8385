//! x86-64: 512-bit and 256-bit vectors.

use std::arch::x86_64 as arch;

use half::f16;

use super::{
    Kernel, PairTile, Simd, Strided, SumStart, TransposeSize, one_instruction_each, pairs,
};

/// Proof of AVX-512 (F, BW, DQ, VL) and of AVX2, FMA and F16C.
#[derive(Clone, Copy, Debug)]
pub struct Avx512 {
    avx2: Avx2,
    /// Products of bfloat16 pairs: from Zen 4, Cooper Lake and Sapphire Rapids on.
    bf16: Option<Avx512Bf16>,
}

impl Avx512 {
    /// The token, if this machine has the instructions.
    pub fn detect() -> Option<Self> {
        let has = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl");
        let avx2 = Avx2::detect().filter(|_| has)?;
        Some(Self { avx2, bf16: Avx512Bf16::detect() })
    }

    /// The same instructions without those for bfloat16.
    pub(super) fn without_bf16(self) -> Self {
        Self { bf16: None, ..self }
    }
}

/// Proof of AVX-512's BF16 next to the rest of [`Avx512`].
#[derive(Clone, Copy, Debug)]
struct Avx512Bf16(());

impl Avx512Bf16 {
    fn detect() -> Option<Self> {
        is_x86_feature_detected!("avx512bf16").then_some(Self(()))
    }
}

/// Proof of AVX2, FMA and F16C.
#[derive(Clone, Copy, Debug)]
pub struct Avx2(());

impl Avx2 {
    /// The token, if this machine has the instructions.
    pub fn detect() -> Option<Self> {
        let has = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("f16c");
        has.then_some(Self(()))
    }
}

#[allow(unused_unsafe, reason = "a build for newer machines may enable the features everywhere")]
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
        self.avx2.widen_f16(from, to);
    }
    #[inline(always)]
    fn prefetch<T>(self, data: &[T], index: usize) {
        self.avx2.prefetch(data, index);
    }
    #[inline(always)]
    fn narrow_f16(self, from: &[f32], to: &mut [f16]) {
        self.avx2.narrow_f16(from, to);
    }
    #[inline(always)]
    fn transpose(self, block: TransposeSize, from: Strided<&[f32]>, to: Strided<&mut [f32]>) {
        self.avx2.transpose(block, from, to);
    }

    #[inline(always)]
    fn has_pairs(self) -> bool {
        self.bf16.is_some()
    }

    #[inline(always)]
    fn pair_tile<const ROWS: usize, const VECTORS: usize, const A_ROW: usize>(
        self,
        tile: PairTile<'_>,
    ) {
        if self.bf16.is_none() {
            return tile.emulate::<Self, ROWS, VECTORS, A_ROW>(self);
        }
        tile.check(ROWS, VECTORS * Self::LANES, A_ROW);
        // SAFETY: the token inside `bf16` proves the features; the check above states what is read
        // and written.
        unsafe { pair_tile::<ROWS, VECTORS, A_ROW>(tile) };
    }

    #[inline(always)]
    fn pair_factors(self, low: &[f32], high: &[f32], to: &mut [f32]) {
        if self.bf16.is_none() {
            return pairs::round_each(low, high, to);
        }
        assert!(low.len() == to.len() && high.len() == to.len());
        // SAFETY: the token inside `bf16` proves the features; the lengths are equal.
        unsafe { pair_factors(low, high, to) };
    }

    #[inline(always)]
    fn neighbour_factors(self, from: &[f32], to: &mut [f32]) {
        if self.bf16.is_none() {
            return pairs::round_neighbours(from, to);
        }
        assert_eq!(from.len(), 2 * to.len());
        // SAFETY: the token inside `bf16` proves the features; `from` has two numbers for each pair.
        unsafe { neighbour_factors(from, to) };
    }
}

/// [`PairTile`] with the instruction for it. One function for each size, because callers are not
/// compiled for the instruction; it costs them a call.
///
/// # Safety
/// [`PairTile::check`] passed with these sizes.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
#[inline(never)]
unsafe fn pair_tile<const ROWS: usize, const VECTORS: usize, const A_ROW: usize>(
    tile: PairTile<'_>,
) {
    use arch::{
        __m512bh, _mm512_add_ps, _mm512_castps_si512, _mm512_dpbf16_ps, _mm512_loadu_ps,
        _mm512_set1_ps, _mm512_setzero_ps, _mm512_storeu_ps,
    };
    // SAFETY: both are 64 bytes in which any bits are valid.
    let pairs = |x| unsafe { std::mem::transmute::<_, __m512bh>(_mm512_castps_si512(x)) };
    let PairTile { a, a_depth, b, b_stride, c, c_stride, depth, sum } = tile;
    let (mut a, mut b) = (a.as_ptr(), b.as_ptr());
    let mut sums = [[_mm512_setzero_ps(); VECTORS]; ROWS];
    for _ in 0..depth {
        // SAFETY: the caller's promise, for each step of depth. The pointers move past the end only
        // after the last step.
        let b_row: [__m512bh; VECTORS] =
            std::array::from_fn(|v| pairs(unsafe { _mm512_loadu_ps(b.add(v * 16)) }));
        for (row, sums) in sums.iter_mut().enumerate() {
            // SAFETY: as above.
            let factor = pairs(_mm512_set1_ps(unsafe { *a.add(row * A_ROW) }));
            for (sum, b) in sums.iter_mut().zip(b_row) {
                *sum = _mm512_dpbf16_ps(*sum, factor, b);
            }
        }
        (a, b) = (a.wrapping_add(a_depth), b.wrapping_add(b_stride));
    }
    for (row, sums) in sums.into_iter().enumerate() {
        for (v, new) in sums.into_iter().enumerate() {
            // SAFETY: the caller's promise, for each row.
            unsafe {
                let c = c.as_mut_ptr().add(row * c_stride + v * 16);
                let all = match sum {
                    SumStart::New => new,
                    SumStart::Continued => _mm512_add_ps(_mm512_loadu_ps(c), new),
                };
                _mm512_storeu_ps(c, all);
            }
        }
    }
}

/// [`Simd::pair_factors`] with the instruction that rounds.
///
/// # Safety
/// The lengths are equal.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
#[inline(never)]
unsafe fn pair_factors(low: &[f32], high: &[f32], to: &mut [f32]) {
    for start in (0..to.len()).step_by(16) {
        let mask = first_lanes(to.len() - start);
        // SAFETY: the mask covers the numbers that are left.
        unsafe {
            let low = rounded(arch::_mm512_maskz_loadu_ps(mask, low.as_ptr().add(start)));
            let high = rounded(arch::_mm512_maskz_loadu_ps(mask, high.as_ptr().add(start)));
            let both = arch::_mm512_or_si512(low, arch::_mm512_slli_epi32::<16>(high));
            arch::_mm512_mask_storeu_epi32(to.as_mut_ptr().add(start).cast(), mask, both);
        }
    }
}

/// [`Simd::neighbour_factors`] with the instruction that rounds.
///
/// # Safety
/// `from` has two numbers for each of `to`.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
#[inline(never)]
unsafe fn neighbour_factors(from: &[f32], to: &mut [f32]) {
    for start in (0..to.len()).step_by(16) {
        let left = to.len() - start;
        let (first, second) = (first_lanes(2 * left), first_lanes((2 * left).saturating_sub(16)));
        // SAFETY: the masks cover the numbers that are left; a pair is 32 bits; both types are 64
        // bytes in which any bits are valid.
        unsafe {
            let from = from.as_ptr().add(2 * start);
            let first = arch::_mm512_maskz_loadu_ps(first, from);
            let second = arch::_mm512_maskz_loadu_ps(second, from.wrapping_add(16));
            let both = arch::_mm512_cvtne2ps_pbh(second, first);
            let both = std::mem::transmute::<arch::__m512bh, arch::__m512i>(both);
            let mask = first_lanes(left);
            arch::_mm512_mask_storeu_epi32(to.as_mut_ptr().add(start).cast(), mask, both);
        }
    }
}

/// Sixteen factors, each in the lower half of its lane.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
#[inline]
fn rounded(x: arch::__m512) -> arch::__m512i {
    let halves = arch::_mm512_cvtneps_pbh(x);
    // SAFETY: both are 32 bytes in which any bits are valid.
    let halves = unsafe { std::mem::transmute::<arch::__m256bh, arch::__m256i>(halves) };
    arch::_mm512_cvtepu16_epi32(halves)
}

/// A mask of the first `count` lanes, at most all sixteen.
#[target_feature(enable = "avx512f")]
#[inline]
fn first_lanes(count: usize) -> arch::__mmask16 {
    if count >= 16 { !0 } else { (1 << count) - 1 }
}

#[allow(unused_unsafe, reason = "a build for newer machines may enable the features everywhere")]
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
    fn transpose(self, block: TransposeSize, from: Strided<&[f32]>, to: Strided<&mut [f32]>) {
        let TransposeSize { vectors, depth } = block;
        if depth == 0 {
            return;
        }
        assert!((1..=8).contains(&vectors));
        // Saturating, because a sum that wraps would pass the check.
        assert!(from.data.len() >= (vectors - 1).saturating_mul(from.stride).saturating_add(depth));
        assert!(to.data.len() >= (depth - 1).saturating_mul(to.stride).saturating_add(vectors));
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
/// A register holds four numbers of row `v` and four of row `v + 4`, so transposing four by four in
/// each half transposes eight by four. Not inlined, because it needs all registers.
///
/// # Safety
/// `depth` numbers can be read at each row of `from`, `N` written at each of `to`.
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
            // Prefetch a line of each of the next rows: there are more streams than the hardware
            // tracks.
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
