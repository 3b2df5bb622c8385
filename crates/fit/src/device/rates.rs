//! Peak rates of cards, as published by their maker: upper bounds of any kernel's speed.
//!
//! Rates of half types are for tensor cores that accumulate in float32, without sparsity. Data sheets
//! also print twice that for sparsity and, for `GeForce` cards, for accumulation in float16.
//!
//! `GeForce` cards: float32 is two operations per core and clock, at the boost clock; cores and
//! clocks are from NVIDIA's tables. Half types have twice that rate on `GeForce` 30, 40 and 50: the
//! architectures' white papers list 35.6 and 71 TFLOP/s for the RTX 3090, 82.6 and 165.2 for the
//! RTX 4090, 104.8 and 209.5 for the RTX 5090.
//!
//! Cards for data centers and workstations: NVIDIA's data sheets. A test computes the same figures
//! from cores, clocks and the operations of a tensor core, which the architecture determines.
//!
//! On 2026-11-17 both tables, and the sizes and bandwidths of the catalogue, were compared with
//! `TechPowerUp`'s database of cards; AMD's MI300X and MI325X with public copies of AMD's figures. Cores,
//! boost clocks and float32 rates are equal. Where its bandwidths differ, ours are the maker's: 224 GB/s
//! for the RTX 2000 Ada (256 there), 4,800 for the H200 (4,890), 320 and 640 for the RX 9060 XT and the
//! RX 9070 (322 and 645). Rates of tensor cores are not in that database: they are NVIDIA's, or follow
//! from the ratios above.

use serde::Serialize;

use super::{CardSpec, DeviceError, GPUS};

/// Peak rates of a card.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Rates {
    /// Bandwidth of its memory.
    pub bytes_per_s: f64,
    /// Fused multiply-adds in float32, each counted as two.
    pub float32_flops_per_s: f64,
    /// Products of half types on tensor cores, with sums in float32.
    pub half_flops_per_s: f64,
}

/// Name, cores, boost clock in MHz.
const CORES: &[(&str, u32, u32)] = &[
    ("GeForce RTX 3050", 2560, 1777),
    ("GeForce RTX 3050 6 GB", 2304, 1470),
    ("GeForce RTX 3060", 3584, 1777),
    ("GeForce RTX 3060 8 GB", 3584, 1777),
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
    ("GeForce RTX 4090 D", 14592, 2520),
    ("GeForce RTX 5050", 2560, 2572),
    ("GeForce RTX 5060", 3840, 2497),
    ("GeForce RTX 5060 Ti 8 GB", 4608, 2572),
    ("GeForce RTX 5060 Ti 16 GB", 4608, 2572),
    ("GeForce RTX 5070", 6144, 2512),
    ("GeForce RTX 5070 Ti", 8960, 2452),
    ("GeForce RTX 5080", 10752, 2617),
    ("GeForce RTX 5090", 21760, 2407),
];

/// Name, GB/s, TFLOP/s in float32, TFLOP/s of half types, from data sheets. If cards with the same
/// name differ, the fastest one's figures.
const PUBLISHED: &[(&str, f64, f64, f64)] = &[
    ("Tesla V100 16 GB", 900.0, 15.7, 125.0), // SXM2; PCIe: 14 and 112
    ("Tesla V100 32 GB", 900.0, 15.7, 125.0),
    ("Tesla T4", 320.0, 8.1, 65.0),
    ("RTX A4000", 448.0, 19.2, 76.7),
    ("RTX A5000", 768.0, 27.8, 111.1),
    ("RTX A6000", 768.0, 38.7, 154.8),
    ("A10", 600.0, 31.2, 125.0),
    ("A30", 933.0, 10.3, 165.0),
    ("A40", 696.0, 37.4, 149.7),
    ("A100 40 GB", 1555.0, 19.5, 312.0),
    ("A100 80 GB", 2039.0, 19.5, 312.0), // SXM; PCIe: 1935 GB/s
    ("L4", 300.0, 30.3, 121.0),
    ("L40S", 864.0, 91.6, 362.0),
    ("H100 80 GB", 3350.0, 67.0, 989.0), // SXM; PCIe: 2000 GB/s, 51 and 756
    ("H100 NVL 94 GB", 3900.0, 60.0, 835.0),
    ("H200", 4800.0, 67.0, 989.0),
];

impl CardSpec {
    /// Its peak rates, if they are in the tables.
    pub fn rates(&self) -> Result<Rates, DeviceError> {
        let unknown = || DeviceError::NoRates {
            name: self.name,
            known: GPUS.iter().filter(|gpu| gpu.known_rates().is_some()).map(|g| g.name).collect(),
        };
        self.known_rates().ok_or_else(unknown)
    }

    fn known_rates(&self) -> Option<Rates> {
        if let Some((_, gb, float32, half)) = PUBLISHED.iter().find(|row| row.0 == self.name) {
            return Some(Rates {
                bytes_per_s: gb * 1e9,
                float32_flops_per_s: float32 * 1e12,
                half_flops_per_s: half * 1e12,
            });
        }
        let (_, cores, mhz) = CORES.iter().find(|(name, ..)| *name == self.name)?;
        let float32_flops_per_s = 2.0 * f64::from(*cores) * f64::from(*mhz) * 1e6;
        Some(Rates {
            bytes_per_s: f64::from(self.bandwidth_gb_per_s?) * 1e9,
            float32_flops_per_s,
            half_flops_per_s: 2.0 * float32_flops_per_s,
        })
    }
}
