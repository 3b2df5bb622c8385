//! Sizes as messages print them: a number, a unit, and the range that rounds to it.

/// A size read from text. `6.14 GiB` is any number of bytes that rounds to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrintedSize {
    /// The printed value.
    pub bytes: u64,
    /// The smallest size that prints the same.
    pub low: u64,
    /// The largest size that prints the same.
    pub high: u64,
}

/// Units in lower case. PyTorch on Apple prints MB and means MiB. Longer names come before their
/// prefixes.
const UNITS: [(&str, u64); 10] = [
    ("bytes", 1),
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("tib", 1 << 40),
    ("kb", 1 << 10),
    ("mb", 1 << 20),
    ("gb", 1 << 30),
    ("tb", 1 << 40),
    ("b", 1),
];

impl PrintedSize {
    /// An exact number of bytes.
    pub const fn exact(bytes: u64) -> Self {
        Self { bytes, low: bytes, high: bytes }
    }

    /// Whether the size is known exactly.
    pub const fn is_exact(self) -> bool {
        self.low == self.high
    }

    /// Whether `bytes` would print the same.
    pub const fn admits(self, bytes: u64) -> bool {
        self.low <= bytes && bytes <= self.high
    }

    /// The sum, with the uncertainty of both.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_add(other.bytes),
            low: self.low.saturating_add(other.low),
            high: self.high.saturating_add(other.high),
        }
    }

    /// The difference, with the uncertainty of both; at least 0.
    #[must_use]
    pub const fn minus(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_sub(other.bytes),
            low: self.low.saturating_sub(other.high),
            high: self.high.saturating_sub(other.low),
        }
    }

    /// The size at the start of a text without white space, and the rest.
    pub(super) fn at_start(text: &str) -> Option<(Self, &str)> {
        let digits = text.bytes().take_while(|c| c.is_ascii_digit() || *c == b'.').count();
        let (number, rest) = text.split_at(digits);
        let (unit, factor) = UNITS.iter().find(|(unit, _)| rest.starts_with(unit))?;
        Some((Self::of(number, *factor)?, &rest[unit.len()..]))
    }

    /// The size at the end of a text without white space.
    pub(super) fn at_end(text: &str) -> Option<Self> {
        let (unit, factor) = UNITS.iter().find(|(unit, _)| {
            let before = text.strip_suffix(unit);
            before.is_some_and(|b| b.ends_with(|c: char| c.is_ascii_digit()))
        })?;
        let before = &text[..text.len() - unit.len()];
        let digits = before.bytes().rev().take_while(|c| c.is_ascii_digit() || *c == b'.').count();
        // The full stop of the previous sentence may precede it directly.
        Self::of(before[before.len() - digits..].trim_start_matches('.'), *factor)
    }

    /// `number` times `factor` bytes; `None` if no memory is that large.
    fn of(number: &str, factor: u64) -> Option<Self> {
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let mut value = u128::from(whole.parse::<u64>().ok()?);
        let mut scale = 1_u128;
        for digit in fraction.bytes().take(9) {
            if !digit.is_ascii_digit() {
                return None;
            }
            value = value * 10 + u128::from(digit - b'0');
            scale *= 10;
        }
        let factor = u128::from(factor);
        let bytes = value * factor / scale;
        // Half a unit of the last digit; a number of bytes is exact.
        let slack = if factor == 1 { 0 } else { factor / (2 * scale) };
        let low = bytes.saturating_sub(slack);
        let high = bytes + slack + u128::from(factor > 1 && slack > 0);
        // 17179869184.00 GiB is 2^64: some drivers report it for an unknown size.
        if high > u128::from(u64::MAX >> 4) {
            return None;
        }
        Some(Self { bytes: bytes as u64, low: low as u64, high: high as u64 })
    }
}

/// What PyTorch's allocator requests from the driver for a tensor of `bytes`, and prints in its
/// messages: 2 MiB for tensors up to 1 MiB, 20 MiB for tensors below 10 MiB, otherwise the next
/// multiple of 2 MiB.
pub(crate) fn allocator_request(bytes: u64) -> u64 {
    const MIB: u64 = 1 << 20;
    match bytes.div_ceil(512).saturating_mul(512) {
        0..=MIB => 2 * MIB,
        rounded if rounded < 10 * MIB => 20 * MIB,
        rounded => rounded.div_ceil(2 * MIB).saturating_mul(2 * MIB),
    }
}

/// The size right after the first `words`.
pub(super) fn size_after(text: &str, words: &str) -> Option<PrintedSize> {
    let (_, rest) = text.split_once(words)?;
    PrintedSize::at_start(rest).map(|(size, _)| size)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<PrintedSize> {
        PrintedSize::at_start(text).map(|(size, _)| size)
    }

    #[test]
    fn two_decimals_hide_half_a_hundredth() {
        let size = read("6.14gib").unwrap();
        assert!(size.admits(6_593_445_888)); // 6.140625 GiB
        assert!(!size.admits(6_603_000_000)); // 6.1495
        assert_eq!(read("20.00mib").unwrap().bytes, 20 << 20);
        assert_eq!(read("512bytes"), Some(PrintedSize::exact(512)));
        assert_eq!(read("0bytes"), Some(PrintedSize::exact(0)));
    }

    #[test]
    fn impossible_sizes_are_none() {
        for text in ["17179869184.00gib", "99999999999999999999gib", "gib", ".gib", "1.2.3gib"] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn a_size_is_read_backwards_from_its_unit() {
        assert_eq!(PrintedSize::at_end("capacity;512.00kib").unwrap().bytes, 512 << 10);
        assert_eq!(PrintedSize::at_end("capacity;512bytes").unwrap().bytes, 512);
        assert_eq!(PrintedSize::at_end("capacity"), None);
        assert_eq!(PrintedSize::at_end("gib"), None);
    }

    #[test]
    fn requests_are_rounded_as_messages_show_them() {
        const MIB: u64 = 1 << 20;
        let table = [
            (1, 2 * MIB),
            (MIB, 2 * MIB),
            (MIB + 1, 20 * MIB),
            (10 * MIB - 512, 20 * MIB),
            (10 * MIB, 10 * MIB),
            (393 * MIB, 394 * MIB),
            (4 * 1024 * 50257 * 4, 786 * MIB), // 785.27
        ];
        for (bytes, request) in table {
            assert_eq!(allocator_request(bytes), request, "{bytes}");
        }
    }
}
