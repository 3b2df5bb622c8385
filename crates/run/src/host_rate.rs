//! How fast this machine's CPU could multiply at best, measured in a moment.

use std::sync::OnceLock;

use fitgpt_exec::cpu::{
    isa::Isa,
    pool::Pool,
    rates::{peak_flops_per_s, peak_pair_flops_per_s},
};
use fitgpt_fit::device::Rates;

/// A usual rate of a machine's memory. Only the update of the weights depends on it, a small part of a
/// step, so it is not measured: that would take time and memory.
const BYTES_PER_S: f64 = 20e9;

/// The rates of `threads` threads, measured once in this process; `None` if threads cannot be started.
pub fn rates(threads: usize) -> Option<Rates> {
    static FLOPS_PER_S: OnceLock<Option<[f64; 2]>> = OnceLock::new();
    let measure = || {
        let (isa, mut pool) = (Isa::best(), Pool::new(threads).ok()?);
        let float32 = peak_flops_per_s(isa, &mut pool);
        Some([float32, peak_pair_flops_per_s(isa, &mut pool).unwrap_or(float32)])
    };
    let [float32_flops_per_s, half_flops_per_s] = (*FLOPS_PER_S.get_or_init(measure))?;
    Some(Rates { bytes_per_s: BYTES_PER_S, float32_flops_per_s, half_flops_per_s })
}
