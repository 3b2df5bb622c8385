//! Two published hash functions. Their results are in files and define random numbers, so they
//! never change.

/// The hash of no bytes by [`fnv_1a`].
pub const FNV_1A_START: u64 = 0xCBF2_9CE4_8422_2325;

/// FNV-1a with 64 bits: goes on from `hash` with more bytes.
pub fn fnv_1a(hash: u64, bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3))
}

/// What a generator `SplitMix64` adds to its state with each number.
pub const SPLITMIX_STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// The number that Steele, Lea and Flood's generator makes of the state `x`, with Stafford's
/// constants (variant 13). A bijection.
#[inline]
pub const fn splitmix64(x: u64) -> u64 {
    let z = x.wrapping_add(SPLITMIX_STEP);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_give_the_published_numbers() {
        // The sequence of seed 0 in the reference implementation by Sebastiano Vigna.
        assert_eq!(splitmix64(0), 0xE220_A839_7B1D_CDAF);
        assert_eq!(splitmix64(SPLITMIX_STEP), 0x6E78_9E6A_A1B9_65F4);
        // From the list of Fowler, Noll and Vo.
        assert_eq!(fnv_1a(FNV_1A_START, b"a"), 0xAF63_DC4C_8601_EC8C);
        assert_eq!(fnv_1a(fnv_1a(FNV_1A_START, b"foo"), b"bar"), 0x8594_4171_F739_67E8);
    }
}
