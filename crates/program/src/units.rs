//! Types for sizes, dtypes and positions.

use std::{fmt, iter::Sum, ops::Add};

use serde::Serialize;

/// A size or an offset in device memory. Never a count of elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Bytes(u64);

impl Bytes {
    /// No bytes.
    pub const ZERO: Self = Self(0);

    /// `count` bytes.
    pub const fn new(count: u64) -> Self {
        Self(count)
    }

    /// `count` elements of `dtype`; `None` if the size overflows 64 bits.
    pub fn of(count: u64, dtype: DType) -> Option<Self> {
        count.checked_mul(dtype.size()).map(Self)
    }

    /// The number itself.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The number itself, for indexing host memory.
    pub fn index(self) -> usize {
        usize::try_from(self.0).expect("a host address fits `usize`")
    }

    /// The first multiple of `align` at or after `self`.
    ///
    /// Sizes are checked when tensors are created, so an overflow here is a bug: it panics rather
    /// than wraps.
    #[must_use]
    pub const fn align_up(self, align: u64) -> Self {
        Self(self.0.next_multiple_of(align))
    }

    /// `self - other`, or zero if `other` is larger.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Add for Bytes {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.checked_add(other.0).expect("sums of checked sizes fit 64 bits"))
    }
}

impl Sum for Bytes {
    fn sum<I: Iterator<Item = Self>>(sizes: I) -> Self {
        sizes.fold(Self::ZERO, Add::add)
    }
}

impl fmt::Display for Bytes {
    /// Always MiB, so that the figures of a report are easy to compare; at least three digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = self.0 as f64 / f64::from(1 << 20);
        f.pad(&if mib < 99.95 { format!("{mib:.1} MiB") } else { format!("{mib:.0} MiB") })
    }
}

/// How one element is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DType {
    /// IEEE single precision.
    F32,
    /// `bfloat16`: the upper half of a float32.
    Bf16,
    /// IEEE half precision.
    F16,
    /// Token ids in FitGPT.
    U32,
    /// Token ids in PyTorch.
    I64,
    /// One byte: 8-bit optimizer states, and masks in PyTorch.
    U8,
}

impl DType {
    /// Bytes of one element.
    pub const fn size(self) -> u64 {
        match self {
            Self::F32 | Self::U32 => 4,
            Self::Bf16 | Self::F16 => 2,
            Self::I64 => 8,
            Self::U8 => 1,
        }
    }

    /// The name that PyTorch and configs use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "float32",
            Self::Bf16 => "bfloat16",
            Self::F16 => "float16",
            Self::U32 => "uint32",
            Self::I64 => "int64",
            Self::U8 => "uint8",
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A finite number that can be a key of a map: equal if its bits are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Real(u64);

impl Real {
    /// `value` as it is.
    pub const fn new(value: f64) -> Self {
        Self(value.to_bits())
    }

    /// The number.
    pub const fn get(self) -> f64 {
        f64::from_bits(self.0)
    }
}

/// Which op, counted from the start of its program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpIndex(pub u32);

/// Which program, counted in its plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProgramId(pub u32);

/// Which tensor, counted in its program's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TensorId(pub u32);

impl OpIndex {
    /// For indexing the program's list.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl ProgramId {
    /// A plan's first program. All programs share the state, so this one serves to read and write it.
    pub const FIRST: Self = Self(0);

    /// For indexing the plan's list.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl TensorId {
    /// For indexing the program's table.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_that_overflow_are_refused() {
        assert_eq!(Bytes::of(1 << 62, DType::F32), None);
        assert_eq!(Bytes::of(3, DType::Bf16), Some(Bytes::new(6)));
    }

    #[test]
    fn alignment_keeps_multiples_and_raises_the_rest() {
        assert_eq!(Bytes::new(512).align_up(256), Bytes::new(512));
        assert_eq!(Bytes::new(513).align_up(256), Bytes::new(768));
    }

    #[test]
    fn bytes_print_in_mebibytes() {
        assert_eq!(Bytes::new(3 << 19).to_string(), "1.5 MiB");
        assert_eq!(Bytes::new(100 << 20).to_string(), "100 MiB");
        assert_eq!(Bytes::new(11_970 * 1024 * 1024 + 629_146).to_string(), "11971 MiB");
    }
}
