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
pub enum NoDriver {
    /// There is no driver.
    #[error("the library `{library}` was not found")]
    NoLibrary {
        /// Its file.
        library: &'static str,
    },
    /// The library is there, the driver is not loaded.
    #[error("the driver is not running")]
    NotRunning,
    /// Another error of the driver.
    #[error(transparent)]
    Refused(NvmlError),
}

impl NoDriver {
    /// Its name in JSON.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::NoLibrary { .. } => "no-library",
            Self::NotRunning => "not-running",
            Self::Refused(_) => "refused",
        }
    }
}

/// The driver's version and the newest CUDA version it supports, if known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DriverVersion {
    /// Of the driver.
    pub driver: Option<String>,
    /// Of CUDA.
    pub cuda: Option<String>,
}

/// One card.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NvmlCard {
    /// Its number in the driver.
    pub index: u32,
    /// As the driver calls it.
    pub name: String,
    /// `None` if the driver is too old to report it.
    pub memory: Option<CardMemory>,
    /// Such as `8.9`.
    pub compute_capability: Option<String>,
    /// Whether it computes in bfloat16.
    pub has_bf16: Option<bool>,
    /// Processes that hold memory, largest first.
    pub processes: Vec<MemoryHolder>,
}

/// Used, free and reserved bytes sum to the total.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct CardMemory {
    /// All of it.
    pub total_bytes: Bytes,
    /// Kept by the driver.
    pub reserved_bytes: Bytes,
    /// By all processes.
    pub used_bytes: Bytes,
    /// By none.
    pub free_bytes: Bytes,
}

/// A process that holds memory of a card.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MemoryHolder {
    /// Its number.
    pub pid: u32,
    /// Its name, if it can be read.
    pub name: Option<String>,
    /// `None` if the driver does not report it, as under Windows' display driver model.
    pub bytes: Option<Bytes>,
}

/// The driver. Every call queries it again.
#[derive(Debug)]
pub struct NvidiaDriver(Nvml);

impl NvidiaDriver {
    /// Loads the library and connects to the driver.
    pub fn open() -> Result<Self, NoDriver> {
        Nvml::builder().lib_path(os::NVML.as_ref()).init().map(Self).map_err(|error| match error {
            NvmlError::LibloadingError(_) | NvmlError::LibraryNotFound => {
                NoDriver::NoLibrary { library: os::NVML }
            }
            NvmlError::DriverNotLoaded => NoDriver::NotRunning,
            error => NoDriver::Refused(error),
        })
    }

    /// Its versions.
    pub fn version(&self) -> DriverVersion {
        let cuda = self.0.sys_cuda_driver_version().ok();
        DriverVersion {
            driver: self.0.sys_driver_version().ok(),
            cuda: cuda.map(|v| format!("{}.{}", v / 1000, v % 1000 / 10)),
        }
    }

    /// Every card that responds.
    pub fn cards(&self) -> Vec<NvmlCard> {
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
