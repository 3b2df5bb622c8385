//! What depends on the operating system, and nothing else.

use std::{fs::File, io, path::Path};

use fitgpt_plan::units::Bytes;

#[cfg(target_os = "linux")]
use crate::budget::meminfo;
use crate::budget::{HostMemory, cgroup_headroom};

/// Fills `bytes` from `offset` on, without touching the file's cursor.
///
/// Fails with [`io::ErrorKind::UnexpectedEof`] where the file ends first.
#[cfg(unix)]
pub(crate) fn read_exact_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, offset)
}

/// Fills `bytes` from `offset` on. Windows moves the cursor; nobody here reads by cursor.
///
/// Fails with [`io::ErrorKind::UnexpectedEof`] where the file ends first.
#[cfg(windows)]
pub(crate) fn read_exact_at(file: &File, mut bytes: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, bytes, offset) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => {
                bytes = &mut bytes[n..];
                offset += n as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Memory of this host, and every limit around this process.
pub(crate) fn host_memory() -> HostMemory {
    let (total, available) = memory();
    HostMemory {
        total,
        available,
        cgroup_headroom: cgroup_headroom(&|path| std::fs::read_to_string(path).ok()),
        address_space: address_space(),
    }
}

#[cfg(target_os = "linux")]
fn memory() -> (Bytes, Bytes) {
    // Where the system hides its figures nothing is known to be free, and a budget must be
    // written.
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let field = |name| meminfo(&text, name).unwrap_or(Bytes::ZERO);
    (field("MemTotal"), field("MemAvailable"))
}

#[cfg(not(target_os = "linux"))]
fn memory() -> (Bytes, Bytes) {
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

/// The most memory that this process has had resident, where the system says.
#[cfg(target_os = "linux")]
pub(crate) fn peak_resident() -> Option<Bytes> {
    meminfo(&std::fs::read_to_string("/proc/self/status").ok()?, "VmHWM")
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn peak_resident() -> Option<Bytes> {
    None
}

/// Bytes that a file in `folder`, or in the nearest folder above it that exists, could take.
#[cfg(unix)]
pub(crate) fn disk_free(folder: &Path) -> Option<Bytes> {
    let nearest = std::path::absolute(folder).ok()?;
    let stat = nearest.ancestors().find_map(|folder| rustix::fs::statvfs(folder).ok())?;
    stat.f_bavail.checked_mul(stat.f_frsize).map(Bytes::new)
}

#[cfg(not(unix))]
pub(crate) fn disk_free(_: &Path) -> Option<Bytes> {
    None
}

/// Some file systems keep no names that could be synced and say so; their renames are as safe as
/// they get.
#[cfg(unix)]
pub(crate) fn sync_names(dir: &Path) -> io::Result<()> {
    match File::open(dir)?.sync_all() {
        Err(error)
            if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) =>
        {
            Ok(())
        }
        other => other,
    }
}

/// Windows opens no folders; its file systems journal names by themselves.
#[cfg(not(unix))]
pub(crate) fn sync_names(_dir: &Path) -> io::Result<()> {
    Ok(())
}
