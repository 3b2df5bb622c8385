//! Where a run happens: the host, or a GPU of a build that has them.
//!
//! `cfg(feature = "gpu")` is in this file alone: [`gpus`] is there twice, and the second one
//! knows no device.

#[cfg(feature = "gpu")]
mod gpus;
#[cfg(not(feature = "gpu"))]
#[path = "device/no_gpus.rs"]
mod gpus;

use std::ops::ControlFlow;

use fitgpt_exec::{
    Backend, BackendError, Watch,
    conformance::{CaseSelection, DTYPES, Factors, JudgedCase, WATCHED, judge_each},
    cpu::{Cpu, CpuTarget, isa::Isa},
};
use fitgpt_plan::{
    config::{Config, DeviceChoice, Precision},
    memory::{Target, VerifiedPlan},
    program::Program,
    report::{self, Overhead, RuntimePool},
    units::Bytes,
};
use serde::Serialize;

use crate::{budget::HOST_OVERHEAD, cards::Driver, os, run::setup::threads};

/// Why a config cannot run on the device it names.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    /// GPUs are an optional part of the program.
    #[error("this build runs on the CPU only, the config asks for `device = '{device}'`")]
    NotInThisBuild {
        /// As written.
        device: DeviceChoice,
    },
    /// Nothing here is what was asked for.
    #[error("`device = '{device}'` is not available; found: {}", list(found))]
    NoSuchDevice {
        /// As written.
        device: DeviceChoice,
        /// What is here, in the words of its drivers.
        found: Vec<String>,
        /// A software driver's device among it, which could be asked for by name.
        software: Option<String>,
    },
    /// The device has no such type.
    #[error("`{device}` has no {}", dtype.name())]
    NoType {
        /// As its driver calls it.
        device: String,
        /// Of the activations.
        dtype: Precision,
    },
    /// Its kernels cannot run this model.
    #[error("`{device}` cannot run this model: {why}")]
    Unsuitable {
        /// As its driver calls it.
        device: String,
        /// What the kernels miss.
        why: String,
    },
    /// The driver does not report how much memory there is.
    #[error("the driver of `{device}` does not report how much memory it has")]
    UnknownMemory {
        /// As its driver calls it.
        device: String,
    },
    /// The device could not be opened.
    #[error(transparent)]
    Backend(#[from] BackendError),
}

/// Names for people.
pub(crate) fn list(found: &[String]) -> String {
    if found.is_empty() { "no GPU".to_owned() } else { found.join(", ") }
}

/// A GPU that a driver offers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AvailableGpu {
    /// As its driver calls it.
    pub name: String,
    /// Through which it is reached.
    pub interface: &'static str,
    /// Name and version.
    pub driver: String,
    /// Whether its kernels run on the CPU; such a device is used only when asked for by name.
    pub is_software: bool,
    /// All of its memory, if the driver reports it.
    pub total_bytes: Option<Bytes>,
    /// What of it this process would get now.
    pub free_bytes: Option<Bytes>,
    /// What a run may take: what is free, less a margin.
    pub budget_bytes: Option<Bytes>,
    /// The largest single allocation; an arena has as many as it needs.
    pub max_allocation_bytes: Bytes,
    /// The most of it that a kernel sees at once; larger tensors are worked on in parts.
    pub max_binding_bytes: Bytes,
    /// What the units of a workgroup share.
    pub shared_bytes: Bytes,
    /// Units that run in step, at least and at most.
    pub subgroup: [u32; 2],
    /// How activations can be stored.
    pub types: Vec<&'static str>,
}

/// What a build with GPUs sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AvailableGpus {
    /// Every GPU that a driver offers.
    pub gpus: Vec<AvailableGpu>,
    /// The version of Vulkan, or why there is none.
    pub vulkan: Result<String, String>,
}

/// What this build could run on; `None` if it was built without GPUs.
pub fn available_gpus() -> Option<AvailableGpus> {
    gpus::available_gpus()
}

/// The device of the rank that is number `index` on its machine: devices are dealt out in turns,
/// unless `choice` names one.
pub fn device_in_turn(choice: DeviceChoice, index: usize) -> DeviceChoice {
    let kind: fn(Option<u32>) -> DeviceChoice = match choice {
        DeviceChoice::Auto | DeviceChoice::Gpu(None) => DeviceChoice::Gpu,
        DeviceChoice::Cuda(None) => DeviceChoice::Cuda,
        DeviceChoice::Vulkan(None) => DeviceChoice::Vulkan,
        DeviceChoice::Metal(None) => DeviceChoice::Metal,
        _ => return choice,
    };
    match gpus::count(kind(None)) {
        0 => choice, // the host, or an error that says so
        count => kind(Some((index % count) as u32)),
    }
}

/// A card that a run on the host leaves unused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unused {
    /// This build has no GPUs.
    NotInThisBuild {
        /// As NVIDIA's driver calls it; `None` if only the bus shows it.
        card: Option<String>,
    },
    /// No driver offers it to this build.
    NotReached {
        /// As above.
        card: Option<String>,
    },
}

/// NVIDIA's first card, if the run is on the host without having been asked to.
pub fn unused_card(config: &Config, runner: &Runner) -> Option<Unused> {
    if !runner.is_host() || config.device() != DeviceChoice::Auto {
        return None;
    }
    let card = Driver::open().ok().and_then(|driver| driver.cards().into_iter().next());
    let card = card.map(|card| card.name);
    if card.is_none() && os::nvidia_cards_on_the_bus() == 0 {
        return None;
    }
    let is_built_in = cfg!(feature = "gpu");
    Some(if is_built_in { Unused::NotReached { card } } else { Unused::NotInThisBuild { card } })
}

/// What is done with each case of the conformance suite, and whether the next one is run.
pub type ReportCase<'r> = dyn FnMut(JudgedCase) -> ControlFlow<()> + 'r;

/// A device that was chosen for a run.
#[derive(Clone, Debug)]
pub enum Runner {
    /// The host's cores.
    Cpu(CpuTarget),
    /// A GPU.
    Gpu(Box<gpus::Opened>),
}

impl Runner {
    /// The host, as `config` wants it used.
    pub fn cpu(config: &Config) -> Self {
        Self::Cpu(CpuTarget::new(threads(config), Isa::best()))
    }

    /// What `config` asks for; of a GPU, opened.
    pub fn of(config: &Config) -> Result<Self, Unavailable> {
        match config.device() {
            DeviceChoice::Cpu => Ok(Self::cpu(config)),
            DeviceChoice::Auto => {
                let best = gpus::best()?.map(Box::new);
                Ok(best.map_or_else(|| Self::cpu(config), Self::Gpu))
            }
            device => gpus::named(device).map(Box::new).map(Self::Gpu),
        }
    }

    /// What `config` asks for if it is here, else the host: a plan may name a device that
    /// is somewhere else.
    pub fn for_a_plan(config: &Config) -> Result<Self, Unavailable> {
        match Self::of(config) {
            Err(Unavailable::NotInThisBuild { .. } | Unavailable::NoSuchDevice { .. }) => {
                Ok(Self::cpu(config))
            }
            found => found,
        }
    }

    /// Whether it is the host.
    pub const fn is_host(&self) -> bool {
        matches!(self, Self::Cpu(_))
    }

    /// Whether it is a GPU whose kernels do not run on the CPU.
    pub fn is_card(&self) -> bool {
        match self {
            Self::Cpu(_) => false,
            Self::Gpu(gpu) => !gpu.is_software(),
        }
    }

    /// Whether it stores activations as bfloat16.
    pub fn has_bf16(&self) -> bool {
        match self {
            Self::Cpu(_) => true,
            Self::Gpu(gpu) => gpu.precision() == Precision::Bfloat16,
        }
    }

    /// What the planner must know of it.
    pub fn target(&self) -> &dyn Target {
        match self {
            Self::Cpu(target) => target,
            Self::Gpu(gpu) => gpu.target(),
        }
    }

    /// The memory that a plan is judged by: the budget that the user wrote, or what is free.
    pub fn device(&self, config: &Config) -> Result<report::DeviceMemory, Unavailable> {
        let budget = config.memory_budget().map(Bytes::new);
        match self {
            Self::Cpu(_) => Ok(os::host_memory().device(budget)),
            Self::Gpu(gpu) => gpu.device(budget),
        }
    }

    /// What it takes in addition to the arena.
    pub fn overhead(&self) -> Overhead {
        match self {
            Self::Cpu(_) => HOST_OVERHEAD,
            Self::Gpu(gpu) => gpu.overhead(),
        }
    }

    /// What of it was measured on the device.
    pub fn pools(&self) -> Vec<RuntimePool> {
        match self {
            Self::Cpu(_) => Vec::new(),
            Self::Gpu(gpu) => gpu.pools(),
        }
    }

    /// How activations are stored: what the config says, else what suits the device. A CPU
    /// gains no speed by halves.
    pub fn precision(&self, config: &Config) -> Precision {
        match self {
            Self::Cpu(_) => config.precision_or(Precision::Float32),
            Self::Gpu(gpu) => config.precision_or(gpu.precision()),
        }
    }

    /// Whether it can run `programs`, whatever their size.
    pub fn check(&self, programs: &[Program], precision: Precision) -> Result<(), Unavailable> {
        match self {
            Self::Cpu(_) => Ok(()),
            Self::Gpu(gpu) => gpu.check(programs, precision),
        }
    }

    /// A GPU's name, and the interface through which it is reached.
    pub fn gpu(&self) -> Option<(&str, &'static str)> {
        match self {
            Self::Cpu(_) => None,
            Self::Gpu(gpu) => Some(gpu.name()),
        }
    }

    /// The name and version of a GPU's driver.
    pub fn driver(&self) -> Option<&str> {
        match self {
            Self::Cpu(_) => None,
            Self::Gpu(gpu) => Some(gpu.driver()),
        }
    }

    /// Allocates the arena.
    pub fn backend(&self, plan: VerifiedPlan) -> Result<Box<dyn Backend>, BackendError> {
        match self {
            Self::Cpu(target) => {
                Ok(Box::new(Cpu::touched(plan, *target, Watch::Off, &mut is_still_free)?))
            }
            Self::Gpu(gpu) => gpu.backend(plan),
        }
    }

    /// Runs the conformance suite's ops on it, in every type that it stores.
    pub fn judge(&self, report: &mut ReportCase<'_>) -> Result<(), BackendError> {
        match self {
            Self::Cpu(target) => {
                let target = CpuTarget { limits: WATCHED, ..*target };
                let mut make = |plan| -> Result<Box<dyn Backend>, BackendError> {
                    Ok(Box::new(Cpu::new(plan, target, Watch::Poison)?))
                };
                let factors = Factors::Exact;
                let all = CaseSelection { dtypes: &DTYPES, factors, ops: &[] };
                judge_each(&all, &target, &mut make, report)
            }
            Self::Gpu(gpu) => gpu.judge(report),
        }
    }
}

/// Fails with what is free if that is not enough for the overhead and for `rest`, the part of an arena
/// that is not touched yet. Two runs that start at the same time both see all of the memory;
/// without this question the system would kill one of them while it touches its arena.
fn is_still_free(rest: Bytes) -> Result<(), Bytes> {
    let left = os::host_memory().untouched();
    let [overhead, _] = HOST_OVERHEAD.range();
    if left < rest + overhead { Err(left) } else { Ok(()) }
}
