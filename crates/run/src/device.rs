//! The device of a run: the host, or a GPU if this build supports GPUs.
//!
//! `cfg(feature = "gpu")` is only in this file: it selects one of two modules [`gpus`], of which
//! the second has no devices.
//!
//! Promise: a software driver is used only by name; `cuda` means NVIDIA cards, also through Vulkan.
//! Test: this file, `tests/gpu/main.rs`.

#[cfg(feature = "gpu")]
mod gpus;
#[cfg(not(feature = "gpu"))]
#[path = "device/no_gpus.rs"]
mod gpus;

use std::ops::ControlFlow;

use fitgpt_config::{Config, DeviceChoice, Precision};
use fitgpt_conformance::{CaseSelection, DTYPES, Factors, JudgedCase, WATCHED, judge_each};
use fitgpt_exec::{
    Backend, BackendError, Watch,
    cpu::{Cpu, CpuTarget, isa::Isa},
};
use fitgpt_files::os;
use fitgpt_model::report::{self, Overhead};
use fitgpt_program::{
    Products, Program,
    memory::{RuntimePool, Target, VerifiedPlan},
    units::{Bytes, DType},
};
use serde::Serialize;

use crate::{budget::HOST_OVERHEAD, cards::NvidiaDriver, host};

/// Why a config cannot run on the device it names.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    /// GPUs are an optional part of the program.
    NotInThisBuild {
        /// As written.
        device: DeviceChoice,
    },
    /// No device of this machine is the one that was asked for.
    NoSuchDevice {
        /// As written.
        device: DeviceChoice,
        /// The devices that were found, by their drivers' names.
        found: Vec<String>,
        /// A software driver's device among them, which could be asked for by name.
        software: Option<String>,
    },
    /// The device does not support a type.
    NoType {
        /// As its driver calls it.
        device: String,
        /// The type of the activations.
        dtype: Precision,
    },
    /// Its kernels cannot run this model.
    Unsuitable {
        /// As its driver calls it.
        device: String,
        /// Why the kernels cannot run it.
        why: String,
    },
    /// The driver does not report how much memory there is.
    UnknownMemory {
        /// As its driver calls it.
        device: String,
    },
    /// The device could not be opened.
    Backend(#[from] BackendError),
}

/// Device names as text.
pub fn list(found: &[String]) -> String {
    if found.is_empty() { "no GPU".to_owned() } else { found.join(", ") }
}

/// A GPU that a driver offers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AvailableGpu {
    /// As its driver calls it.
    pub name: String,
    /// The API through which it is used.
    pub interface: &'static str,
    /// Name and version.
    pub driver: String,
    /// Whether its kernels run on the CPU; such a device is used only when asked for by name.
    pub is_software: bool,
    /// All of its memory, if the driver reports it.
    pub total_bytes: Option<Bytes>,
    /// How much of it this process could allocate now.
    pub free_bytes: Option<Bytes>,
    /// What a run may take: the free memory minus a margin.
    pub budget_bytes: Option<Bytes>,
    /// The largest single allocation; an arena has as many as it needs.
    pub max_allocation_bytes: Bytes,
    /// The most memory that a kernel can bind at once; larger tensors are processed in parts.
    pub max_binding_bytes: Bytes,
    /// Shared memory of a workgroup.
    pub shared_bytes: Bytes,
    /// Subgroup sizes: `[least, most]`.
    pub subgroup: [u32; 2],
    /// Types in which activations can be stored.
    pub types: Vec<&'static str>,
}

/// The GPUs that a build with feature `gpu` finds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AvailableGpus {
    /// Every GPU that a driver offers.
    pub gpus: Vec<AvailableGpu>,
    /// The version of Vulkan, or why there is none.
    pub vulkan: Result<String, String>,
}

/// The GPUs that this build could run on; `None` if it was built without feature `gpu`.
pub fn available_gpus() -> Option<AvailableGpus> {
    gpus::available_gpus()
}

/// The device of the rank that is number `index` on its machine: devices are assigned round-robin,
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
        0 => choice, // the host, or an error later
        count => kind(Some((index % count) as u32)),
    }
}

/// A card that a run on the host leaves unused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnusedCard {
    /// This build has no GPUs.
    NotInThisBuild {
        /// As NVIDIA's driver calls it; `None` if it is visible on the PCI bus only.
        card: Option<String>,
    },
    /// No driver offers it to this build.
    NotReached {
        /// As above.
        card: Option<String>,
    },
}

/// The first NVIDIA card, if the run uses the host although the config does not ask for it.
pub fn unused_card(config: &Config, runner: &Runner) -> Option<UnusedCard> {
    if !runner.is_host() || config.device() != DeviceChoice::Auto {
        return None;
    }
    let card = NvidiaDriver::open().ok().and_then(|driver| driver.cards().into_iter().next());
    let card = card.map(|card| card.name);
    if card.is_none() && os::nvidia_cards_on_the_bus() == 0 {
        return None;
    }
    let is_built_in = cfg!(feature = "gpu");
    Some(if is_built_in {
        UnusedCard::NotReached { card }
    } else {
        UnusedCard::NotInThisBuild { card }
    })
}

/// Threads that kernels use.
pub fn threads(config: &Config) -> usize {
    match config.threads() {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        threads => threads as usize,
    }
}

/// The factors of products over bfloat16 activations, on a CPU that has an instruction for such
/// factors or has not.
pub fn products(config: &Config, has_pairs: bool) -> Products {
    let best = if has_pairs { Products::Bfloat16 } else { Products::Float32 };
    config.matmul_dtype().unwrap_or(best)
}

/// Receives each case of the conformance suite, and returns whether to run the next one.
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
    /// The host, with the threads of `config`.
    pub fn cpu(config: &Config) -> Self {
        let target = CpuTarget::new(threads(config), Isa::best());
        Self::Cpu(target.with_products(products(config, target.isa.has_pairs())))
    }

    /// The device that `config` asks for. A GPU is opened.
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

    /// The device that `config` asks for if it is in this machine, else the host: a plan may be for
    /// another machine.
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

    /// Whether it is a CPU with an instruction for bfloat16 factors, which the config lets it use.
    pub fn is_faster_in_bf16(&self) -> bool {
        match self {
            Self::Cpu(target) => target.isa.has_pairs() && target.products == Products::Bfloat16,
            Self::Gpu(_) => false,
        }
    }

    /// Its properties for the planner.
    pub fn target(&self) -> &dyn Target {
        match self {
            Self::Cpu(target) => target,
            Self::Gpu(gpu) => gpu.target(),
        }
    }

    /// The memory that a plan is compared with: the config's budget, or what is free.
    pub fn device(&self, config: &Config) -> Result<report::DeviceMemory, Unavailable> {
        let budget = config.memory_budget().map(Bytes::new);
        match self {
            Self::Cpu(_) => Ok(host::memory().device(budget)),
            Self::Gpu(gpu) => gpu.device(budget),
        }
    }

    /// The memory it takes in addition to the arena.
    pub fn overhead(&self) -> Overhead {
        match self {
            Self::Cpu(_) => HOST_OVERHEAD,
            Self::Gpu(gpu) => gpu.overhead(),
        }
    }

    /// The part of the overhead that was measured on the device.
    pub fn pools(&self) -> Vec<RuntimePool> {
        match self {
            Self::Cpu(_) => Vec::new(),
            Self::Gpu(gpu) => gpu.pools(),
        }
    }

    /// The type of stored activations: the config's, else the best one for the device. On a CPU
    /// half precision gives no speed, so that is float32.
    pub fn precision(&self, config: &Config) -> Precision {
        match self {
            Self::Cpu(_) => config.precision_or(Precision::Float32),
            Self::Gpu(gpu) => config.precision_or(gpu.precision()),
        }
    }

    /// The factors of its products, if it is a CPU that computes in bfloat16.
    pub fn products(&self, config: &Config) -> Option<Products> {
        match self {
            Self::Cpu(target) if self.precision(config) == Precision::Bfloat16 => {
                Some(target.products)
            }
            Self::Cpu(_) | Self::Gpu(_) => None,
        }
    }

    /// Whether its kernels support `programs`, regardless of memory.
    pub fn check<'a>(
        &self,
        programs: impl IntoIterator<Item = &'a Program>,
        precision: Precision,
    ) -> Result<(), Unavailable> {
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
                let mut suites = vec![(Products::Float32, &DTYPES[..], Factors::Exact)];
                if target.isa.has_pairs() {
                    suites.push((Products::Bfloat16, &[DType::Bf16], Factors::Rounded));
                }
                let mut flow = ControlFlow::Continue(());
                for (products, dtypes, factors) in suites {
                    let target = target.with_products(products);
                    let mut make = |plan| -> Result<Box<dyn Backend>, BackendError> {
                        Ok(Box::new(Cpu::new(plan, target, Watch::Poison)?))
                    };
                    if flow.is_continue() {
                        let all = CaseSelection { dtypes, factors, ops: &[] };
                        judge_each(&all, &target, &mut make, &mut |case| {
                            flow = report(case);
                            flow
                        })?;
                    }
                }
                Ok(())
            }
            Self::Gpu(gpu) => gpu.judge(report),
        }
    }
}

/// Fails with the free bytes if they are not enough for the overhead and for `rest`, the part of an
/// arena that is not touched yet. Two runs that start at the same time both see all of the memory;
/// without this check the system would kill one of them while it touches its arena.
fn is_still_free(rest: Bytes) -> Result<(), Bytes> {
    let left = host::memory().untouched();
    let [overhead, _] = HOST_OVERHEAD.range();
    if left < rest + overhead { Err(left) } else { Ok(()) }
}
