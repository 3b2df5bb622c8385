//! Sizes in PyTorch's format.

/// A size in PyTorch's format.
pub fn size(bytes: u64) -> String {
    const GIB: f64 = (1_u64 << 30) as f64;
    const MIB: f64 = (1_u64 << 20) as f64;
    let value = bytes as f64;
    if value > GIB {
        format!("{:.2} GiB", value / GIB)
    } else if value >= MIB / 100.0 {
        format!("{:.2} MiB", value / MIB)
    } else {
        format!("{bytes} bytes")
    }
}
