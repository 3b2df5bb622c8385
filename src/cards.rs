//! NVIDIA cards, as their driver reports them.
//!
//! The driver's library is loaded on demand, so the program builds and runs without it. Nothing here computes on a card.

use std::{collections::BTreeMap, path::Path};

use fitgpt_files::os;
use fitgpt_program::units::Bytes;
use nvml_wrapper::{
    Nvml, enums::device::UsedGpuMemory, error::NvmlError, struct_wrappers::device::ProcessInfo,
};
use serde::Serialize;

/// Why the driver cannot be queried.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoDriver {
    #[error("the library `{library}` was not found")]
    NoLibrary { library: &'static str },
    #[error("the driver is not running")]
    NotRunning,
    #[error(transparent)]
    Refused(NvmlError),
}

impl NoDriver {
    /// Its name in JSON.
    pub(crate) const fn kind(&self) -> &'static str {
        match self {
            Self::NoLibrary { .. } => "no-library",
            Self::NotRunning => "not-running",
            Self::Refused(_) => "refused",
        }
    }
}

/// The driver's version and the newest CUDA version it supports, if known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct DriverVersion {
    pub(crate) driver: Option<String>,
    pub(crate) cuda: Option<String>,
}

/// One card.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct NvmlCard {
    pub(crate) index: u32,
    pub(crate) name: String,
    /// `None` if the driver is too old to report it.
    pub(crate) memory: Option<CardMemory>,
    /// Such as `8.9`.
    pub(crate) compute_capability: Option<String>,
    pub(crate) has_bf16: Option<bool>,
    /// Processes that hold memory, largest first.
    pub(crate) processes: Vec<MemoryHolder>,
}

/// Used, free and reserved bytes sum to the total.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[expect(clippy::struct_field_names, reason = "the unit is the last word")]
pub(crate) struct CardMemory {
    pub(crate) total_bytes: Bytes,
    /// Kept by the driver.
    pub(crate) reserved_bytes: Bytes,
    pub(crate) used_bytes: Bytes,
    pub(crate) free_bytes: Bytes,
}

/// A process that holds memory of a card.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct MemoryHolder {
    pub(crate) pid: u32,
    pub(crate) name: Option<String>,
    /// `None` if the driver does not report it, as under Windows' display driver model.
    pub(crate) bytes: Option<Bytes>,
}

/// The driver. Every call queries it again.
#[derive(Debug)]
pub(crate) struct NvidiaDriver(Nvml);

impl NvidiaDriver {
    pub(crate) fn open() -> Result<Self, NoDriver> {
        Nvml::builder().lib_path(os::NVML.as_ref()).init().map(Self).map_err(|error| match error {
            NvmlError::LibloadingError(_) | NvmlError::LibraryNotFound => {
                NoDriver::NoLibrary { library: os::NVML }
            }
            NvmlError::DriverNotLoaded => NoDriver::NotRunning,
            error => NoDriver::Refused(error),
        })
    }

    pub(crate) fn version(&self) -> DriverVersion {
        let cuda = self.0.sys_cuda_driver_version().ok();
        DriverVersion {
            driver: self.0.sys_driver_version().ok(),
            cuda: cuda.map(|v| format!("{}.{}", v / 1000, v % 1000 / 10)),
        }
    }

    /// Every card that responds.
    pub(crate) fn cards(&self) -> Vec<NvmlCard> {
        let count = self.0.device_count().unwrap_or(0);
        (0..count).filter_map(|index| self.card(index).ok()).collect()
    }

    fn card(&self, index: u32) -> Result<NvmlCard, NvmlError> {
        let device = self.0.device_by_index(index)?;
        let capability = device.cuda_compute_capability().ok();
        let memory = device.memory_info().ok().map(|memory| CardMemory {
            total_bytes: Bytes::new(memory.total),
            reserved_bytes: Bytes::new(memory.reserved),
            used_bytes: Bytes::new(memory.used),
            free_bytes: Bytes::new(memory.free),
        });
        let computing = device.running_compute_processes().unwrap_or_default();
        let drawing = device.running_graphics_processes().unwrap_or_default();
        Ok(NvmlCard {
            index,
            name: device.name()?,
            memory,
            compute_capability: capability.as_ref().map(|c| format!("{}.{}", c.major, c.minor)),
            has_bf16: capability.map(|c| c.major >= 8), // Ampere was the first
            processes: self.holders(computing.into_iter().chain(drawing)),
        })
    }

    /// A process that computes and draws is on both lists with the same memory.
    fn holders(&self, processes: impl Iterator<Item = ProcessInfo>) -> Vec<MemoryHolder> {
        let mut by_pid = BTreeMap::new();
        for process in processes {
            let bytes = match process.used_gpu_memory {
                UsedGpuMemory::Used(bytes) => Some(Bytes::new(bytes)),
                UsedGpuMemory::Unavailable => None,
            };
            let held = by_pid.entry(process.pid).or_insert(None);
            *held = bytes.max(*held);
        }
        let named = |(pid, bytes)| MemoryHolder { pid, name: self.name_of(pid), bytes };
        let mut holders: Vec<_> = by_pid.into_iter().map(named).collect();
        holders.sort_by_key(|holder| std::cmp::Reverse(holder.bytes));
        holders
    }

    /// The driver also knows processes outside this container.
    fn name_of(&self, pid: u32) -> Option<String> {
        let command = self.0.sys_process_name(pid, 256).ok().filter(|name| !name.is_empty());
        let name = command.map(|command| {
            let file = Path::new(&command).file_name();
            file.map_or(command.clone(), |name| name.to_string_lossy().into_owned())
        });
        name.or_else(|| os::process_name(pid))
    }
}
