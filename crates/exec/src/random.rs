//! Counters instead of generators: whether a dropped element was dropped can be asked again.
//!
//! A mask is a pure function of a key and the element's number, so it is never stored, and
//! recomputing a block draws the same mask.

/// Whether dropout keeps `element` under `key`; `threshold` is the dropped share of 2^32.
#[inline(always)]
pub fn keeps(key: [u32; 2], element: u32, threshold: u32) -> bool {
    let h = fmix32(element.wrapping_mul(0x9E37_79B9).wrapping_add(key[0]));
    fmix32(h ^ key[1]) >= threshold
}

/// The finaliser of `MurmurHash3`: every bit of `h` reaches every bit of the result.
#[inline(always)]
fn fmix32(mut h: u32) -> u32 {
    h ^= h >> 16;
    h = h.wrapping_mul(0x85EB_CA6B);
    h ^= h >> 13;
    h = h.wrapping_mul(0xC2B2_AE35);
    h ^ (h >> 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_finaliser_is_murmurs() {
        // Reference values of the published C function.
        assert_eq!(fmix32(0), 0);
        assert_eq!(fmix32(1), 0x514E_28B7);
        assert_eq!(fmix32(0xFFFF_FFFF), 0x81F1_6F39);
    }

    #[test]
    fn a_threshold_of_zero_keeps_everything() {
        assert!((0..1000).all(|element| keeps([7, 9], element, 0)));
    }

    #[test]
    fn the_kept_share_is_the_one_asked_for() {
        let threshold = (0.1 * f64::from(u32::MAX)) as u32;
        let n = 100_000;
        let kept = (0..n).filter(|&element| keeps([3, 5], element, threshold)).count();
        // Five standard deviations of a fair coin with p = 0.9.
        let deviation = (f64::from(n) * 0.9 * 0.1).sqrt();
        assert!((kept as f64 - 0.9 * f64::from(n)).abs() < 5.0 * deviation, "{kept}");
    }
}
