//! Where a run happens: the host, or a GPU of a build that has them.
//!
//! `cfg(feature = "gpu")` stands in this file alone: [`gpus`] is there twice, and the second one
//! knows no device.

use fitgpt_exec::{
    Backend, BackendError, Watch,
    cpu::{Cpu, CpuTarget, isa::Isa},
};
use fitgpt_plan::{
    config::{Config, DeviceChoice, Precision},
    memory::{Target, VerifiedPlan},
    program::Program,
    report::{self, Overhead},
    units::Bytes,
};
use serde::Serialize;

use crate::{budget::HOST_OVERHEAD, os, run::setup::threads};

/// Why a config cannot run where it asks to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    /// GPUs are an optional part of the program.
    #[error("this build runs on the CPU only, the config asks for `device = '{device}'`")]
    NotInThisBuild {
        /// As written.
        device: DeviceChoice,
    },
    /// Nothing here is what was asked for.
    #[error("`device = '{device}'` is not here; found: {}", list(found))]
    NoSuchDevice {
        /// As written.
        device: DeviceChoice,
        /// What is here, in the words of its drivers.
        found: Vec<String>,
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
    /// The driver does not tell how much memory there is.
    #[error("the driver of `{device}` does not tell how much memory it has")]
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
pub struct Here {
    /// As its driver calls it.
    pub name: String,
    /// Through which it is reached.
    pub interface: &'static str,
    /// Name and version.
    pub driver: String,
    /// Whether its kernels run on the CPU; such a device is used only when asked for by name.
    pub is_software: bool,
    /// All of its memory, where the driver tells.
    pub total_bytes: Option<Bytes>,
    /// What of it this process would get now.
    pub free_bytes: Option<Bytes>,
}

/// Every GPU that this build could run on; `None` where it was built without them.
pub fn here() -> Option<Vec<Here>> {
    gpus::here()
}

/// A device that was chosen for a run.
#[derive(Clone, Debug)]
pub enum Runner {
    /// The host's cores.
    Cpu(CpuTarget),
    /// A GPU.
    Gpu(gpus::Opened),
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
            DeviceChoice::Auto => Ok(gpus::best()?.map_or_else(|| Self::cpu(config), Self::Gpu)),
            device => gpus::named(device).map(Self::Gpu),
        }
    }

    /// What `config` asks for where it is here, else the host: a plan may name a device that
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
    pub fn device(&self, config: &Config) -> Result<report::Device, Unavailable> {
        let budget = config.memory_budget().map(Bytes::new);
        match self {
            Self::Cpu(_) => Ok(os::host_memory().device(budget)),
            Self::Gpu(gpu) => gpu.device(budget),
        }
    }

    /// What it takes beside the arena.
    pub fn overhead(&self) -> Overhead {
        match self {
            Self::Cpu(_) => HOST_OVERHEAD,
            Self::Gpu(gpu) => gpu.overhead(),
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

    /// Allocates the arena.
    pub fn backend(&self, plan: VerifiedPlan) -> Result<Box<dyn Backend>, BackendError> {
        match self {
            Self::Cpu(target) => Ok(Box::new(Cpu::new(plan, *target, Watch::Off)?)),
            Self::Gpu(gpu) => gpu.backend(plan),
        }
    }
}

#[cfg(feature = "gpu")]
mod gpus {
    use fitgpt_gpu::{Adapter, Api, Device, Gpu, GpuTarget, Kind, Refusal, adapters};
    use fitgpt_plan::units::DType;

    use super::{
        Backend, BackendError, Bytes, DeviceChoice, Here, Overhead, Precision, Program, Target,
        Unavailable, VerifiedPlan, Watch, os, report,
    };

    /// A GPU, opened.
    #[derive(Clone, Debug)]
    pub struct Opened {
        adapter: Adapter,
        device: Device,
        target: GpuTarget,
    }

    /// The best real GPU, where there is one; a software driver has to be asked for by name.
    pub(super) fn best() -> Result<Option<Opened>, Unavailable> {
        real(&adapters()).into_iter().next().map(Opened::new).transpose()
    }

    /// The one that `choice` names.
    pub(super) fn named(choice: DeviceChoice) -> Result<Opened, Unavailable> {
        let here = adapters();
        let through = |api| here.iter().filter(move |a| a.api == api).cloned().collect::<Vec<_>>();
        let (list, index) = match choice {
            DeviceChoice::Vulkan(index) => (through(Api::Vulkan), index),
            DeviceChoice::Metal(index) => (through(Api::Metal), index),
            DeviceChoice::Mps => (through(Api::Metal), None),
            DeviceChoice::Cuda(index) => {
                (real(&here).into_iter().filter(Adapter::is_nvidia).collect(), index)
            }
            DeviceChoice::Gpu(index) => (real(&here), index),
            DeviceChoice::Auto | DeviceChoice::Cpu => (Vec::new(), None),
        };
        let found = list.into_iter().nth(index.unwrap_or(0) as usize);
        let names = || here.iter().map(described).collect();
        let missing = || Unavailable::NoSuchDevice { device: choice, found: names() };
        Opened::new(found.ok_or_else(missing)?)
    }

    #[expect(clippy::unnecessary_wraps, reason = "a build without GPUs has no list")]
    pub(super) fn here() -> Option<Vec<Here>> {
        let list = adapters().into_iter().map(|adapter| Here {
            interface: adapter.api.name(),
            is_software: !is_real(&adapter),
            total_bytes: adapter.memory.map(|memory| memory.total),
            free_bytes: adapter.memory.map(|memory| memory.free),
            name: adapter.name,
            driver: adapter.driver,
        });
        Some(list.collect())
    }

    /// Real GPUs, each once: Windows shows a card through two interfaces.
    fn real(here: &[Adapter]) -> Vec<Adapter> {
        let through = |api| here.iter().filter(move |a| a.api == api && is_real(a)).cloned();
        let lists = [Api::Vulkan, Api::Metal, Api::Dx12].map(|api| through(api).collect());
        lists.into_iter().find(|list: &Vec<_>| !list.is_empty()).unwrap_or_default()
    }

    fn is_real(adapter: &Adapter) -> bool {
        adapter.kind != Kind::Software
    }

    fn described(adapter: &Adapter) -> String {
        let software = if is_real(adapter) { "" } else { ", software" };
        format!("{} ({}{software})", adapter.name, adapter.api.name())
    }

    /// Beside the arena: the driver's context, which cannot be asked for before it is there.
    const CONTEXT: [Bytes; 2] = [Bytes::new(32 << 20), Bytes::new(320 << 20)];
    /// Arguments of kernels and copies to the host, as the runtime pools them.
    const POOLS: [Bytes; 2] = [Bytes::new(1 << 20), Bytes::new(64 << 20)];

    impl Opened {
        fn new(adapter: Adapter) -> Result<Self, Unavailable> {
            let device = Device::open(&adapter)?;
            let target = GpuTarget::new(device.properties());
            Ok(Self { adapter, device, target })
        }

        pub(super) fn target(&self) -> &dyn Target {
            &self.target
        }

        /// Free memory, less one part in 64 of it.
        pub(super) fn device(&self, budget: Option<Bytes>) -> Result<report::Device, Unavailable> {
            let name = self.adapter.name.clone();
            let host = os::host_memory();
            let is_the_hosts = matches!(self.adapter.kind, Kind::Integrated | Kind::Software);
            let (total, free) = match (self.adapter.memory, is_the_hosts) {
                (Some(memory), true) => (memory.total, memory.free.min(host.least().0)),
                (Some(memory), false) => (memory.total, memory.free),
                (None, true) => (host.total, host.least().0),
                (None, false) => match budget {
                    Some(budget) => (budget, budget),
                    None => return Err(Unavailable::UnknownMemory { device: name }),
                },
            };
            let usable = free.saturating_sub(Bytes::new(free.get() / 64));
            let usable_bytes = budget.unwrap_or(usable);
            Ok(report::Device { name, total_bytes: total, usable_bytes })
        }

        pub(super) fn overhead(&self) -> Overhead {
            Overhead {
                context_bytes: CONTEXT,
                workspace_bytes: POOLS,
                compile_bytes: [Bytes::ZERO; 2],
            }
        }

        pub(super) fn precision(&self) -> Precision {
            let properties = self.device.properties();
            match (properties.has_bf16, properties.has_f16) {
                (true, _) => Precision::Bfloat16,
                (false, true) => Precision::Float16,
                (false, false) => Precision::Float32,
            }
        }

        pub(super) fn check(
            &self,
            programs: &[Program],
            precision: Precision,
        ) -> Result<(), Unavailable> {
            let device = || self.adapter.name.clone();
            if !self.device.properties().stores(DType::from(precision)) {
                return Err(Unavailable::NoType { device: device(), dtype: precision });
            }
            let unsuitable =
                |why: Refusal| Unavailable::Unsuitable { device: device(), why: why.to_string() };
            programs.iter().try_for_each(|program| self.target.check(program).map_err(unsuitable))
        }

        pub(super) fn name(&self) -> (&str, &'static str) {
            (&self.adapter.name, self.adapter.api.name())
        }

        pub(super) fn backend(&self, plan: VerifiedPlan) -> Result<Box<dyn Backend>, BackendError> {
            Ok(Box::new(Gpu::new(self.device.clone(), plan, Watch::Off, Bytes::ZERO)?))
        }
    }
}

#[cfg(not(feature = "gpu"))]
mod gpus {
    use super::{
        Backend, BackendError, Bytes, DeviceChoice, Here, Overhead, Precision, Program, Target,
        Unavailable, VerifiedPlan, report,
    };

    /// No GPU is ever opened.
    #[derive(Clone, Debug)]
    pub enum Opened {}

    #[expect(clippy::unnecessary_wraps, reason = "a build with GPUs can fail to open one")]
    pub(super) fn best() -> Result<Option<Opened>, Unavailable> {
        Ok(None)
    }

    pub(super) fn here() -> Option<Vec<Here>> {
        None
    }

    pub(super) fn named(device: DeviceChoice) -> Result<Opened, Unavailable> {
        Err(Unavailable::NotInThisBuild { device })
    }

    impl Opened {
        pub(super) fn target(&self) -> &dyn Target {
            match *self {}
        }

        pub(super) fn device(&self, _: Option<Bytes>) -> Result<report::Device, Unavailable> {
            match *self {}
        }

        pub(super) fn overhead(&self) -> Overhead {
            match *self {}
        }

        pub(super) fn precision(&self) -> Precision {
            match *self {}
        }

        pub(super) fn check(&self, _: &[Program], _: Precision) -> Result<(), Unavailable> {
            match *self {}
        }

        pub(super) fn name(&self) -> (&str, &'static str) {
            match *self {}
        }

        pub(super) fn backend(&self, _: VerifiedPlan) -> Result<Box<dyn Backend>, BackendError> {
            match *self {}
        }
    }
}
