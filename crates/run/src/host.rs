//! The memory of this host, as the operating system reports it.

use fitgpt_files::os;
use fitgpt_program::units::Bytes;

use crate::budget::{HOST_OVERHEAD, HostMemory, cgroup_headroom};

/// Memory of this host, and every limit around this process.
pub fn memory() -> HostMemory {
    let (total, available) = total_and_available();
    HostMemory {
        total,
        available,
        cgroup_headroom: cgroup_headroom(own_overhead(), &|path| {
            std::fs::read_to_string(path).ok()
        }),
        address_space: address_space(),
        data_segment: data_segment(),
    }
}

#[cfg(target_os = "linux")]
fn total_and_available() -> (Bytes, Bytes) {
    // If the file cannot be read, zero is free, and the user must set a budget.
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let field = |name| os::meminfo(&text, name).unwrap_or(Bytes::ZERO);
    (field("MemTotal"), field("MemAvailable"))
}

#[cfg(not(target_os = "linux"))]
fn total_and_available() -> (Bytes, Bytes) {
    let mut system = sysinfo::System::new();
    system.refresh_memory();
    (Bytes::new(system.total_memory()), Bytes::new(system.available_memory()))
}

/// What `ulimit -v` leaves to this process.
#[cfg(target_os = "linux")]
fn address_space() -> Option<Bytes> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::As).current?;
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split_whitespace().next()?.parse().ok()?;
    let used = pages * rustix::param::page_size() as u64;
    Some(Bytes::new(limit.saturating_sub(used)))
}

#[cfg(not(target_os = "linux"))]
fn address_space() -> Option<Bytes> {
    None
}

/// What `ulimit -d` leaves to this process. Linux counts every private writable mapping.
#[cfg(target_os = "linux")]
fn data_segment() -> Option<Bytes> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Data).current?;
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let used = os::meminfo(&text, "VmData")?;
    Some(Bytes::new(limit).saturating_sub(used))
}

#[cfg(not(target_os = "linux"))]
fn data_segment() -> Option<Bytes> {
    None
}

/// The part of a plan's overhead that this process already holds: its resident memory and what the
/// kernel charges for it, but at most the low end of the overhead, so that its arena is not counted.
fn own_overhead() -> Bytes {
    let [least, _] = HOST_OVERHEAD.range();
    let held = |memory: os::ProcessMemory| memory.resident + kernel_charges();
    os::process_memory(std::process::id()).map_or(Bytes::ZERO, |memory| held(memory).min(least))
}

/// What a control group is charged for this process in addition to its resident memory: page tables,
/// and pages that are charged in advance. Linux charges 64 pages at a time on each core
/// (`MEMCG_CHARGE_BATCH`) and returns the unused ones before it kills a process.
#[cfg(target_os = "linux")]
fn kernel_charges() -> Bytes {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let page_tables = os::meminfo(&text, "VmPTE").unwrap_or(Bytes::ZERO);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    page_tables + Bytes::new((64 * rustix::param::page_size() * cores) as u64)
}

#[cfg(not(target_os = "linux"))]
fn kernel_charges() -> Bytes {
    Bytes::ZERO
}
