//! The budget: how much memory this run may use.
//!
//! On a host it is the lowest of: the memory that the system reports as available, the headroom of
//! every enclosing control group, and what the limits on address space and data segment leave. A
//! margin is subtracted for the rest of the system. In a control group, memory that this process
//! already holds counts as headroom, because a plan's overhead includes it.
//!
//! Promise: resident memory matches the plan, and a run that was planned is not killed for its
//! memory. Test: `tests/runs/memory.rs`; `scripts/memory-edge` in control groups of the planned
//! size: 50 random configs on 2026-11-17, none killed, none refused.

use std::path::{Path, PathBuf};

use fitgpt_model::report::{DeviceMemory, Overhead, TokenStaging};
use fitgpt_program::units::Bytes;

/// The limit that is the lowest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostLimit {
    /// The memory that the system reports as available.
    Available,
    /// A control group: a container's or a service's limit.
    ControlGroup,
    /// `ulimit -v`.
    AddressSpace,
    /// `ulimit -d`.
    DataSegment,
}

impl HostLimit {
    /// In words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Available => "available memory",
            Self::ControlGroup => "the limit of its control group",
            Self::AddressSpace => "the address-space limit",
            Self::DataSegment => "the limit of its data segment",
        }
    }
}

/// This host's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostMemory {
    /// All of it.
    pub total: Bytes,
    /// Available to a new process.
    pub available: Bytes,
    /// The lowest headroom of the control groups around this process.
    pub cgroup_headroom: Option<Bytes>,
    /// What the address-space limit leaves to this process.
    pub address_space: Option<Bytes>,
    /// What the limit of the data segment leaves to this process.
    pub data_segment: Option<Bytes>,
}

impl HostMemory {
    /// The lowest limit and its name.
    pub fn least(&self) -> (Bytes, HostLimit) {
        let mut least = (self.available, HostLimit::Available);
        for (bytes, limit) in [
            (self.cgroup_headroom, HostLimit::ControlGroup),
            (self.address_space, HostLimit::AddressSpace),
            (self.data_segment, HostLimit::DataSegment),
        ] {
            if let Some(bytes) = bytes.filter(|b| *b < least.0) {
                least = (bytes, limit);
            }
        }
        least
    }

    /// How much of an allocation can still be touched. Limits on address space apply when memory is
    /// reserved, not when it is touched.
    pub fn untouched(&self) -> Bytes {
        self.cgroup_headroom.map_or(self.available, |headroom| headroom.min(self.available))
    }

    /// What a run may use: the lowest limit, less a margin.
    pub fn usable(&self) -> Bytes {
        less_a_margin(self.least().0)
    }

    /// This host as a device, with the user's budget, or what is free without one.
    pub fn device(&self, budget: Option<Bytes>) -> DeviceMemory {
        let name = THIS_MACHINE.into();
        let usable_bytes = budget.unwrap_or_else(|| self.usable());
        DeviceMemory { name, total_bytes: self.total, usable_bytes }
    }
}

/// What a run may use of free memory, on a host or a device: all but 1/64.
pub fn less_a_margin(free: Bytes) -> Bytes {
    free.saturating_sub(Bytes::new(free.get() / 64))
}

/// The host's name in reports.
pub const THIS_MACHINE: &str = "this machine's memory";

/// The memory in which tokens are staged before they are copied to the arena of a plan for
/// `device`: the host's, which is the planned one if the device is the host.
pub fn staging(device: &DeviceMemory) -> TokenStaging {
    if device.name == THIS_MACHINE { TokenStaging::Planned } else { TokenStaging::Elsewhere }
}

/// The name of a card if only the budget is known.
pub const A_CARD: &str = "a card of this size";

/// In addition to the arena: the binary, the threads' stacks, tokenizers, and the scratch of reading
/// and writing checkpoints.
pub const HOST_OVERHEAD: Overhead = Overhead {
    context_bytes: [Bytes::new(24 << 20), Bytes::new(96 << 20)],
    workspace_bytes: [Bytes::ZERO; 2],
    compile_bytes: [Bytes::ZERO; 2],
};

/// The lowest headroom of all groups from the process's own up to the root, for both versions of
/// control groups. `own` is the part of a plan's overhead that this process already holds. `read`
/// returns a file's text; a missing file means no limit.
pub fn cgroup_headroom(own: Bytes, read: &dyn Fn(&Path) -> Option<String>) -> Option<Bytes> {
    let groups = read(Path::new("/proc/self/cgroup"))?;
    let mut least: Option<Bytes> = None;
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let (root, names) = match controllers {
            "" => ("/sys/fs/cgroup", ["memory.max", "memory.current", "inactive_file"]),
            c if c.split(',').any(|c| c == "memory") => (
                "/sys/fs/cgroup/memory",
                ["memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"],
            ),
            _ => continue,
        };
        // Inside a container the path may exist only on the host; the root still counts.
        let path = Path::new(path.trim_start_matches('/'));
        for ancestor in path.ancestors() {
            let headroom = group_headroom(&Path::new(root).join(ancestor), names, own, read);
            least = [least, headroom].into_iter().flatten().min();
        }
    }
    least
}

fn group_headroom(
    group: &Path,
    [limit, usage, cached]: [&str; 3],
    own: Bytes,
    read: &dyn Fn(&Path) -> Option<String>,
) -> Option<Bytes> {
    let file = |name: &str| read(&PathBuf::from(group).join(name));
    // `max` means no limit, and does not parse.
    let limit: u64 = file(limit)?.trim().parse().ok()?;
    let usage: u64 = file(usage)?.trim().parse().ok()?;
    // Inactive file pages are reclaimed before a process is killed.
    let reclaimable = file("memory.stat")
        .and_then(|text| {
            text.lines().find_map(|l| l.strip_prefix(cached)?.trim().parse::<u64>().ok())
        })
        .unwrap_or(0);
    // Version 1 reports "no limit" as a number near 2^63.
    let by_others = usage.saturating_sub(reclaimable).saturating_sub(own.get());
    (limit < 1 << 60).then(|| Bytes::new(limit.saturating_sub(by_others)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(list: &'static [(&str, &str)]) -> impl Fn(&Path) -> Option<String> {
        move |path| {
            let found = list.iter().find(|(name, _)| Path::new(name) == path);
            found.map(|(_, text)| (*text).to_owned())
        }
    }

    #[test]
    fn available_memory_is_read_in_kibibytes() {
        let text = "MemTotal:       24689816 kB\nMemAvailable:   23000000 kB\n";
        assert_eq!(
            fitgpt_files::os::meminfo(text, "MemAvailable"),
            Some(Bytes::new(23_000_000 * 1024))
        );
        assert_eq!(fitgpt_files::os::meminfo("garbage", "MemAvailable"), None);
    }

    #[test]
    fn an_enclosing_group_limits_its_children() {
        let read = files(&[
            ("/proc/self/cgroup", "0::/a/b\n"),
            ("/sys/fs/cgroup/a/b/memory.max", "max\n"),
            ("/sys/fs/cgroup/a/b/memory.current", "10\n"),
            ("/sys/fs/cgroup/a/memory.max", "1000\n"),
            ("/sys/fs/cgroup/a/memory.current", "300\n"),
            ("/sys/fs/cgroup/a/memory.stat", "anon 200\ninactive_file 100\n"),
        ]);
        assert_eq!(cgroup_headroom(Bytes::ZERO, &read), Some(Bytes::new(800)));
    }

    #[test]
    fn version_one_groups_count_and_their_no_limit_does_not() {
        let read = files(&[
            ("/proc/self/cgroup", "3:cpu:/\n2:memory:/x\n"),
            ("/sys/fs/cgroup/memory/x/memory.limit_in_bytes", "500"),
            ("/sys/fs/cgroup/memory/x/memory.usage_in_bytes", "100"),
            ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712"),
            ("/sys/fs/cgroup/memory/memory.usage_in_bytes", "100"),
        ]);
        assert_eq!(cgroup_headroom(Bytes::ZERO, &read), Some(Bytes::new(400)));
    }

    #[test]
    fn the_lowest_limit_is_the_budget() {
        let memory = HostMemory {
            total: Bytes::new(6400),
            available: Bytes::new(6400),
            cgroup_headroom: Some(Bytes::new(640)),
            address_space: None,
            data_segment: None,
        };
        assert_eq!(memory.least(), (Bytes::new(640), HostLimit::ControlGroup));
        assert_eq!(memory.usable(), Bytes::new(630));
    }

    #[test]
    fn memory_that_the_process_already_holds_is_headroom() {
        let read = files(&[
            ("/proc/self/cgroup", "0::/a\n"),
            ("/sys/fs/cgroup/a/memory.max", "1000\n"),
            ("/sys/fs/cgroup/a/memory.current", "300\n"),
        ]);
        assert_eq!(cgroup_headroom(Bytes::new(100), &read), Some(Bytes::new(800)));
        // Pages of the binary may count in another group, but never as more than the limit.
        assert_eq!(cgroup_headroom(Bytes::new(500), &read), Some(Bytes::new(1000)));
    }
}
