//! 64-bit Arm: 128-bit vectors.

use std::arch::aarch64 as arch;

use super::{Kernel, Simd, one_instruction_each};

/// Proof of NEON, which every 64-bit Arm has.
#[derive(Clone, Copy, Debug)]
pub struct Neon(pub(super) ());

#[allow(unused_unsafe, reason = "a build for newer machines may enable the features everywhere")]
impl Simd for Neon {
    one_instruction_each! {
        enable "neon",
        lanes 4 of arch::float32x4_t,
        tile 12 by 2, // 24 sums, 2 of b, 3 of a; 32 registers
        vdupq_n_f32 vld1q_f32 vst1q_f32 vaddq_f32 vsubq_f32 vmulq_f32 vmaxq_f32,
        fma(x, y, z) = arch::vfmaq_f32(z, x, y)
    }
}
