//! The device catalogue: common graphics cards and the memory that a process can use on them.
//!
//! A card's nominal memory is not what a program can have: the driver keeps a part. The table
//! has the "total capacity of X GiB" of PyTorch's public out-of-memory messages; for cards without
//! one it is estimated by a stated rule. A card in this machine is queried, not looked up.

mod catalogue;
mod context;
mod find;
mod rates;
#[cfg(test)]
mod tests;

pub use self::{
    catalogue::GPUS,
    context::{
        COMPILE_BYTES, CUDA_CONTEXT_BYTES, CUDA_CONTEXT_MOST_BYTES, GRAPHICS_CONTEXT_BYTES,
        WORKSPACE_BYTES,
    },
    find::{DeviceError, find},
    rates::Rates,
};
use crate::units::Bytes;

/// A family of chips; it determines which types a card supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the makers' own names")]
pub enum Generation {
    Pascal,
    Volta,
    Turing,
    /// The GTX 16 series: Turing without tensor cores.
    TuringGtx,
    Ampere,
    Ada,
    Hopper,
    Blackwell,
    Rdna2,
    Rdna3,
    Rdna4,
    Cdna2,
    Cdna3,
    AppleM1,
    AppleM2,
    AppleM3,
    AppleM4,
}

impl Generation {
    /// Whether it supports bfloat16 in hardware. PyTorch emulates it on older cards, slowly.
    pub const fn has_bf16(self) -> bool {
        !matches!(
            self,
            Self::Pascal
                | Self::Volta
                | Self::Turing
                | Self::TuringGtx
                | Self::Rdna2
                | Self::AppleM1
        )
    }

    /// Whether it has matrix units for half types.
    pub const fn has_tensor_cores(self) -> bool {
        !matches!(
            self,
            Self::Pascal
                | Self::TuringGtx
                | Self::Rdna2
                | Self::AppleM1
                | Self::AppleM2
                | Self::AppleM3
                | Self::AppleM4
        )
    }

    /// Whether it shares the host's memory.
    pub const fn is_unified(self) -> bool {
        matches!(self, Self::AppleM1 | Self::AppleM2 | Self::AppleM3 | Self::AppleM4)
    }
}

/// How much of the nominal memory a process can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Visible {
    /// Hundredths of a GiB, as public messages print them.
    Seen(u64),
    /// No message known: nominal less 4 %. Cards lose 2 % (Ampere) to 6 %
    /// (Blackwell of 8 GB).
    Unseen,
    /// No message known, with error correction in GDDR memory: nominal less an eleventh, as on a T4.
    Corrected,
    /// Metal's recommended working set: two thirds below 36 GiB, three quarters from there on.
    WorkingSet,
}

/// One card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gpu {
    /// Includes the size if cards of one name have several.
    pub name: &'static str,
    /// Its family.
    pub generation: Generation,
    /// Memory as sold, in GiB.
    pub nominal_gib: u64,
    /// Bandwidth of its memory, if all cards of this name have the same.
    pub bandwidth_gb_per_s: Option<u32>,
    visible: Visible,
}

impl Gpu {
    /// The memory that a process can use on an idle card.
    pub fn total_bytes(&self) -> Bytes {
        const GIB: u64 = 1 << 30;
        let nominal = self.nominal_gib * GIB;
        Bytes::new(match self.visible {
            Visible::Seen(hundredths) => hundredths * GIB / 100,
            Visible::Unseen => nominal - nominal / 25,
            Visible::Corrected => nominal - nominal / 11,
            Visible::WorkingSet if self.nominal_gib < 36 => nominal / 3 * 2,
            Visible::WorkingSet => nominal / 4 * 3,
        })
    }

    /// Whether it supports bfloat16 in hardware.
    pub const fn has_bf16(&self) -> bool {
        self.generation.has_bf16()
    }

    /// Whether it has matrix units for half types.
    pub const fn has_tensor_cores(&self) -> bool {
        self.generation.has_tensor_cores()
    }

    /// Whether it shares the host's memory.
    pub const fn is_unified(&self) -> bool {
        self.generation.is_unified()
    }
}
