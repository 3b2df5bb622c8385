//! How fast a card can be: the bounds that no kernel passes.
//!
//! Float32 is two operations a clock for each core, at the boost clock; cores and clocks are
//! from NVIDIA's own tables of `GeForce` cards. Half types on tensor cores with sums in float32
//! have twice that rate on `GeForce` 30, 40 and 50, without sparsity: the architectures' white
//! papers list 35.6 and 71 TFLOP/s for the RTX 3090, 82.6 and 165.2 for the RTX 4090, 104.8 and
//! 209.5 for the RTX 5090. (The rates that are printed in larger type are for sums in float16,
//! for 8-bit types or with sparsity.)

use serde::Serialize;

use super::{DeviceError, GPUS, Gpu};

/// Bounds of a card.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Rates {
    /// Between its memory and the chip.
    pub bytes_per_s: f64,
    /// Fused multiply-adds in float32, each counted as two.
    pub float32_flops_per_s: f64,
    /// Products of half types with sums in float32, in units of their own.
    pub half_flops_per_s: f64,
}

/// Name, cores, boost clock in MHz.
const CORES: &[(&str, u32, u32)] = &[
    ("GeForce RTX 3060", 3584, 1777),
    ("GeForce RTX 3070", 5888, 1725),
    ("GeForce RTX 3070 Ti", 6144, 1770),
    ("GeForce RTX 3080", 8704, 1710),
    ("GeForce RTX 3080 12 GB", 8960, 1710),
    ("GeForce RTX 3080 Ti", 10240, 1665),
    ("GeForce RTX 3090", 10496, 1695),
    ("GeForce RTX 3090 Ti", 10752, 1860),
    ("GeForce RTX 4060", 3072, 2460),
    ("GeForce RTX 4060 Ti 8 GB", 4352, 2535),
    ("GeForce RTX 4060 Ti 16 GB", 4352, 2535),
    ("GeForce RTX 4070", 5888, 2475),
    ("GeForce RTX 4070 Super", 7168, 2475),
    ("GeForce RTX 4070 Ti", 7680, 2610),
    ("GeForce RTX 4070 Ti Super", 8448, 2610),
    ("GeForce RTX 4080", 9728, 2505),
    ("GeForce RTX 4080 Super", 10240, 2550),
    ("GeForce RTX 4090", 16384, 2520),
    ("GeForce RTX 5060", 3840, 2497),
    ("GeForce RTX 5060 Ti 8 GB", 4608, 2572),
    ("GeForce RTX 5060 Ti 16 GB", 4608, 2572),
    ("GeForce RTX 5070", 6144, 2512),
    ("GeForce RTX 5070 Ti", 8960, 2452),
    ("GeForce RTX 5080", 10752, 2617),
    ("GeForce RTX 5090", 21760, 2407),
];

impl Gpu {
    /// Its bounds, where the maker's figures are in the table.
    pub fn rates(&self) -> Result<Rates, DeviceError> {
        let unknown = || DeviceError::NoRates {
            name: self.name,
            known: GPUS.iter().filter(|gpu| gpu.known_rates().is_some()).map(|g| g.name).collect(),
        };
        self.known_rates().ok_or_else(unknown)
    }

    fn known_rates(&self) -> Option<Rates> {
        let (_, cores, mhz) = CORES.iter().find(|(name, ..)| *name == self.name)?;
        let float32_flops_per_s = 2.0 * f64::from(*cores) * f64::from(*mhz) * 1e6;
        Some(Rates {
            bytes_per_s: f64::from(self.bandwidth_gb_per_s?) * 1e9,
            float32_flops_per_s,
            half_flops_per_s: 2.0 * float32_flops_per_s,
        })
    }
}
