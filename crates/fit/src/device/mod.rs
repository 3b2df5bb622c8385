//! The device catalogue: common graphics cards and the memory that a process can use on them.
//!
//! A program cannot use all of a card's nominal memory, because the driver keeps a part. The table
//! has the "total capacity of X GiB" of PyTorch's public out-of-memory messages. For cards without
//! one the memory is estimated by a stated rule. A card in this machine is queried, not looked up.
//!
//! Promise: published rates of cards follow from cores and clocks, and the table of real cards in
//! the documents is computed. Test: `crates/fit/src/device/tests.rs`,
//! `crates/fit/tests/real_cards.rs`.

mod catalogue;
mod context;
mod find;
mod words;
mod rates;
mod support;
#[cfg(test)]
mod tests;

use fitgpt_program::units::Bytes;

pub use self::{
    catalogue::GPUS,
    context::{
        COMPILE_BYTES, CUDA_CONTEXT_BYTES, CUDA_CONTEXT_MOST_BYTES, GRAPHICS_CONTEXT_BYTES,
        WORKSPACE_BYTES,
    },
    find::{DeviceError, find},
    rates::Rates,
    support::LegacyBuilds,
};

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
}

/// How much of the nominal memory a process can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VisibleMemory {
    /// As public messages print it, in hundredths of a GiB.
    Reported(u64),
    /// No message is known: nominal less 4 %. Known cards lose 2 % (Ampere) to 6 % (Blackwell with
    /// 8 GB).
    Estimated,
    /// No message is known, and GDDR memory with error correction: nominal less an eleventh, as on
    /// a T4.
    EstimatedEcc,
    /// Metal's recommended working set: two thirds below 36 GiB, three quarters from there on.
    WorkingSet,
}

/// One card of the catalogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CardSpec {
    /// Includes the memory size if cards with this name have several.
    pub name: &'static str,
    /// Its family.
    pub generation: Generation,
    /// Memory as sold, in GiB.
    pub nominal_gib: u64,
    /// Memory bandwidth, if all cards with this name have the same.
    pub bandwidth_gb_per_s: Option<u32>,
    visible: VisibleMemory,
}

impl CardSpec {
    /// The memory that a process can use on an idle card.
    pub fn total_bytes(&self) -> Bytes {
        const GIB: u64 = 1 << 30;
        let nominal = self.nominal_gib * GIB;
        Bytes::new(match self.visible {
            VisibleMemory::Reported(hundredths) => hundredths * GIB / 100,
            VisibleMemory::Estimated => nominal - nominal / 25,
            VisibleMemory::EstimatedEcc => nominal - nominal / 11,
            VisibleMemory::WorkingSet if self.nominal_gib < 36 => nominal / 3 * 2,
            VisibleMemory::WorkingSet => nominal / 4 * 3,
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
}
