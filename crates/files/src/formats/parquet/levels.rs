//! Numbers in Parquet's pages: runs and bit-packed groups, and deltas.

/// Runs of one number and groups of bit-packed ones, decoded one number at a time: a run of a
/// billion takes five bytes in a page and must not be expanded.
#[derive(Clone, Debug)]
pub(super) struct Hybrid {
    at: usize,
    width: u32,
    /// Numbers left in the run.
    left: u64,
    run: HybridRun,
}

#[derive(Clone, Copy, Debug)]
enum HybridRun {
    Repeated(u32),
    /// The bit at which the next number begins.
    Packed(usize),
}

impl Hybrid {
    /// Numbers of `width` bits, at most 32, starting at byte `at`.
    pub(super) fn new(at: usize, width: u32) -> Self {
        Self { at, width, left: 0, run: HybridRun::Repeated(0) }
    }

    /// The next number in `bytes`; `None` if they end.
    pub(super) fn next(&mut self, bytes: &[u8]) -> Option<u32> {
        if self.left == 0 {
            let header = varint(bytes, &mut self.at)?;
            if header & 1 == 0 {
                self.left = header >> 1;
                let len = self.width.div_ceil(8) as usize;
                let value = bits(bytes, self.at.checked_mul(8)?, self.width)?;
                self.run = HybridRun::Repeated(value);
                self.at += len;
            } else {
                let groups = header >> 1;
                self.left = groups.checked_mul(8)?;
                self.run = HybridRun::Packed(self.at.checked_mul(8)?);
                let len = usize::try_from(groups).ok()?.checked_mul(self.width as usize)?;
                self.at = self.at.checked_add(len)?;
            }
            if self.left == 0 {
                return None;
            }
        }
        self.left -= 1;
        match &mut self.run {
            HybridRun::Repeated(value) => Some(*value),
            HybridRun::Packed(at) => {
                let value = bits(bytes, *at, self.width)?;
                *at += self.width as usize;
                Some(value)
            }
        }
    }
}

/// `DELTA_BINARY_PACKED` numbers starting at `at`, which advances past them. `None` if the bytes
/// are invalid, or there are more than `limit` numbers.
pub(super) fn deltas(bytes: &[u8], at: &mut usize, limit: u64) -> Option<Vec<i64>> {
    let block = usize::try_from(varint(bytes, at)?).ok()?;
    let miniblocks = usize::try_from(varint(bytes, at)?).ok()?;
    let count = varint(bytes, at)?;
    let mut value = zigzag(varint(bytes, at)?);
    if count > limit || miniblocks == 0 || block == 0 || !block.is_multiple_of(miniblocks) {
        return None;
    }
    let in_miniblock = block / miniblocks;
    if !in_miniblock.is_multiple_of(8) || miniblocks > bytes.len() {
        return None;
    }
    let count = count as usize; // at most `limit`
    let mut values = Vec::new();
    if count > 0 {
        values.push(value);
    }
    while values.len() < count {
        let least = zigzag(varint(bytes, at)?);
        let widths = bytes.get(*at..at.checked_add(miniblocks)?)?;
        *at += miniblocks;
        for &width in widths {
            if values.len() == count {
                break;
            }
            if width > 64 {
                return None;
            }
            let width = u32::from(width);
            for i in 0..in_miniblock.min(count - values.len()) {
                let start = at.checked_mul(8)?.checked_add(i.checked_mul(width as usize)?)?;
                let low = bits(bytes, start, width.min(32))?;
                let high = bits(bytes, start + 32.min(width as usize), width.saturating_sub(32))?;
                let delta = u64::from(low) | u64::from(high) << 32;
                value = value.wrapping_add(least).wrapping_add(delta as i64);
                values.push(value);
            }
            *at = at.checked_add(in_miniblock.checked_mul(width as usize)? / 8)?;
        }
    }
    (*at <= bytes.len()).then_some(values)
}

/// `width` bits, at most 32, starting at bit `start`, lowest first.
fn bits(bytes: &[u8], start: usize, width: u32) -> Option<u32> {
    if width == 0 {
        return Some(0);
    }
    let end = start.checked_add(width as usize)?;
    let held = bytes.get(start / 8..end.div_ceil(8))?;
    let mut word = 0_u64;
    for (i, &byte) in held.iter().enumerate() {
        word |= u64::from(byte) << (8 * i);
    }
    Some((word >> (start % 8) & ((1 << width) - 1)) as u32)
}

fn varint(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let byte = *bytes.get(*at)?;
        *at += 1;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

fn zigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hybrid(bytes: &[u8], width: u32) -> Vec<u32> {
        let mut hybrid = Hybrid::new(0, width);
        std::iter::from_fn(|| hybrid.next(bytes)).collect()
    }

    #[test]
    fn runs_and_packed_groups_follow_each_other() {
        // Three times 4; then eight numbers of three bits, 0 to 7, as in Parquet's specification.
        let bytes = [6, 4, 3, 0b1000_1000, 0b1100_0110, 0b1111_1010];
        assert_eq!(hybrid(&bytes, 3), [4, 4, 4, 0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(hybrid(&[], 3), [0; 0]);
        assert_eq!(hybrid(&[0], 3), [0; 0], "an empty run ends");
        assert_eq!(hybrid(&[16], 0), [0; 8], "no bits are zeros");
    }

    #[test]
    fn a_huge_run_takes_no_memory() {
        let bytes = [0xfe, 0xff, 0xff, 0xff, 0x7f, 1];
        let mut hybrid = Hybrid::new(0, 1);
        assert!((0..1000).all(|_| hybrid.next(&bytes) == Some(1)));
    }

    #[test]
    fn deltas_match_the_specification() {
        // 7, 5, 3, 1, 2, 3, 4, 5: the second example of Parquet's specification.
        let bytes = [128, 1, 4, 8, 14, 3, 2, 0, 0, 0, 0b1100_0000, 0b0011_1111, 0, 0, 0, 0, 0, 0];
        let mut at = 0;
        assert_eq!(deltas(&bytes, &mut at, 100).unwrap(), [7, 5, 3, 1, 2, 3, 4, 5]);
        assert_eq!(deltas(&bytes, &mut 0, 7), None);
        for end in 0..10 {
            assert_eq!(deltas(&bytes[..end], &mut 0, 100), None, "cut at {end}");
        }
    }
}
