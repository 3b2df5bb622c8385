//! Dropout masks from counters, bit for bit as `fitgpt_exec::random` defines them.
//!
//! The key of a sequence is mixed from 64-bit words. Not every device supports those, so a separate
//! kernel, with one unit for each sequence, does it with pairs of 32-bit words and writes the keys
//! to the op's scratch. The mask of an element is then two 32-bit hashes.

use cubecl::prelude::*;

/// The dropout of one op.
#[derive(CubeType, CubeLaunch)]
pub(crate) struct DropoutMask {
    /// Two words for each sequence.
    pub(crate) keys: Box<[u32]>,
    /// Elements whose hash is below this are dropped.
    pub(crate) threshold: u32,
    /// The factor of a kept element.
    pub(crate) scale: f32,
}

/// The factor of `element` of `sequence`.
#[cube]
pub(crate) fn factor(mask: &DropoutMask, sequence: usize, element: usize) -> f32 {
    let first = (element as u32) * 0x9e37_79b9u32 + mask.keys[2 * sequence];
    let hash = fmix32(fmix32(first) ^ mask.keys[2 * sequence + 1]);
    select(hash >= mask.threshold, mask.scale, 0.0)
}

/// Murmur3's finaliser.
#[cube]
fn fmix32(h: u32) -> u32 {
    let h = (h ^ (h >> 16u32)) * 0x85eb_ca6bu32;
    let h = (h ^ (h >> 13u32)) * 0xc2b2_ae35u32;
    h ^ (h >> 16u32)
}

/// A 64-bit word.
#[derive(CubeType, CubeLaunch)]
pub(crate) struct Wide {
    pub(crate) low: u32,
    pub(crate) high: u32,
}

#[cube]
fn wide(low: u32, high: u32) -> Wide {
    Wide { low, high }
}

#[cube]
fn exclusive_or(a: &Wide, b: &Wide) -> Wide {
    wide(a.low ^ b.low, a.high ^ b.high)
}

#[cube]
fn plus(a: &Wide, b: &Wide) -> Wide {
    let low = a.low + b.low;
    let carry = select(low < a.low, 1u32, 0u32);
    wide(low, a.high + b.high + carry)
}

#[cube]
fn shifted_right(a: &Wide, #[comptime] by: u32) -> Wide {
    let rest = comptime!(32 - by);
    wide((a.low >> by) | (a.high << rest), a.high >> by)
}

/// The lower 64 bits of the product, from products of 16-bit parts.
#[cube]
fn times(a: &Wide, b: &Wide) -> Wide {
    let mask = 0xffffu32;
    let (a0, a1) = (a.low & mask, a.low >> 16u32);
    let (b0, b1) = (b.low & mask, b.low >> 16u32);
    let (low, cross, other) = (a0 * b0, a1 * b0, a0 * b1);
    let middle = (low >> 16u32) + (cross & mask) + (other & mask);
    let carry = a1 * b1 + (cross >> 16u32) + (other >> 16u32) + (middle >> 16u32);
    wide((low & mask) | (middle << 16u32), carry + a.low * b.high + a.high * b.low)
}

/// One step of Steele, Lea and Flood's generator, used as a mixer.
#[cube]
fn splitmix64(x: &Wide) -> Wide {
    let z = plus(x, &wide(0x7f4a_7c15u32, 0x9e37_79b9u32));
    let z = exclusive_or(&z, &shifted_right(&z, 30u32));
    let z = times(&z, &wide(0x1ce4_e5b9u32, 0xbf58_476du32));
    let z = exclusive_or(&z, &shifted_right(&z, 27u32));
    let z = times(&z, &wide(0x1331_11ebu32, 0x94d0_49bbu32));
    exclusive_or(&z, &shifted_right(&z, 31u32))
}

/// The keys of `sequences` sequences from `first` on; `site` encodes layer and site.
#[cube(launch_unchecked, create_dummy_kernel)]
pub(crate) fn keys(
    keys: &mut [u32],
    seed: Wide,
    step: Wide,
    first: Wide,
    site: u32,
    sequences: usize,
) {
    let index = ABSOLUTE_POS;
    if index < sequences {
        let state = splitmix64(&exclusive_or(&seed, &step));
        let sequence = plus(&first, &wide(index as u32, 0u32));
        let state = splitmix64(&exclusive_or(&state, &sequence));
        let state = splitmix64(&exclusive_or(&state, &wide(site, 0u32)));
        keys[2 * index] = state.low;
        keys[2 * index + 1] = state.high;
    }
}
