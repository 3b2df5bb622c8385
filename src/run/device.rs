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

use crate::{budget::HOST_OVERHEAD, os};

/// Why a config cannot run where it asks to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
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

impl DeviceError {
    /// What would work, as something to type.
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::NotInThisBuild { .. } => {
                "`cargo build --release --features gpu` builds one that runs on GPUs; \
                 `--device=cpu` runs it here"
            }
            Self::NoType { .. } => "write `--dtype=float16`, or `--dtype=float32`",
            Self::UnknownMemory { .. } => "say what it may take, as in `--memory_budget=8GiB`",
            Self::NoSuchDevice { .. } | Self::Unsuitable { .. } | Self::Backend(_) => {
                "`--device=cpu` runs it here"
            }
        }
    }
}

fn list(found: &[String]) -> String {
    if found.is_empty() { "no GPU".to_owned() } else { found.join(", ") }
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
        let threads = match config.threads() {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            threads => threads as usize,
        };
        Self::Cpu(CpuTarget::new(threads, Isa::best()))
    }

    /// What `config` asks for; of a GPU, opened.
    pub fn of(config: &Config) -> Result<Self, DeviceError> {
        match config.device() {
            DeviceChoice::Cpu => Ok(Self::cpu(config)),
            DeviceChoice::Auto => Ok(gpus::best()?.map_or_else(|| Self::cpu(config), Self::Gpu)),
            device => gpus::named(device).map(Self::Gpu),
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
    pub fn device(&self, config: &Config) -> Result<report::Device, DeviceError> {
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
    pub fn check(&self, programs: &[Program], precision: Precision) -> Result<(), DeviceError> {
        match self {
            Self::Cpu(_) => Ok(()),
            Self::Gpu(gpu) => gpu.check(programs, precision),
        }
    }

    /// One line for people, where they did not ask for just this.
    pub fn note(&self, config: &Config) -> Option<String> {
        match self {
            Self::Cpu(_) => None,
            Self::Gpu(gpu) => Some(gpu.note(config.device())),
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
        Backend, BackendError, Bytes, DeviceChoice, DeviceError, Overhead, Precision, Program,
        Target, VerifiedPlan, Watch, os, report,
    };

    /// A GPU, opened.
    #[derive(Clone, Debug)]
    pub struct Opened {
        adapter: Adapter,
        device: Device,
        target: GpuTarget,
    }

    /// The best real GPU, where there is one; a software driver has to be asked for by name.
    pub(super) fn best() -> Result<Option<Opened>, DeviceError> {
        real(&adapters()).into_iter().next().map(Opened::new).transpose()
    }

    /// The one that `choice` names.
    pub(super) fn named(choice: DeviceChoice) -> Result<Opened, DeviceError> {
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
        let missing = || DeviceError::NoSuchDevice { device: choice, found: names() };
        Opened::new(found.ok_or_else(missing)?)
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
        fn new(adapter: Adapter) -> Result<Self, DeviceError> {
            let device = Device::open(&adapter)?;
            let target = GpuTarget::new(device.properties());
            Ok(Self { adapter, device, target })
        }

        pub(super) fn target(&self) -> &dyn Target {
            &self.target
        }

        /// Free memory, less one part in 64 of it.
        pub(super) fn device(&self, budget: Option<Bytes>) -> Result<report::Device, DeviceError> {
            let name = self.adapter.name.clone();
            let host = os::host_memory();
            let is_the_hosts = matches!(self.adapter.kind, Kind::Integrated | Kind::Software);
            let (total, free) = match (self.adapter.memory, is_the_hosts) {
                (Some(memory), true) => (memory.total, memory.free.min(host.least().0)),
                (Some(memory), false) => (memory.total, memory.free),
                (None, true) => (host.total, host.least().0),
                (None, false) => match budget {
                    Some(budget) => (budget, budget),
                    None => return Err(DeviceError::UnknownMemory { device: name }),
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
        ) -> Result<(), DeviceError> {
            let device = || self.adapter.name.clone();
            if !self.device.properties().stores(DType::from(precision)) {
                return Err(DeviceError::NoType { device: device(), dtype: precision });
            }
            let unsuitable =
                |why: Refusal| DeviceError::Unsuitable { device: device(), why: why.to_string() };
            programs.iter().try_for_each(|program| self.target.check(program).map_err(unsuitable))
        }

        pub(super) fn note(&self, asked: DeviceChoice) -> String {
            let api = self.adapter.api.name();
            let instead = if matches!(asked, DeviceChoice::Cuda(_)) { ", not CUDA" } else { "" };
            format!("running on {} through {api}{instead}", self.adapter.name)
        }

        pub(super) fn backend(&self, plan: VerifiedPlan) -> Result<Box<dyn Backend>, BackendError> {
            Ok(Box::new(Gpu::new(self.device.clone(), plan, Watch::Off, Bytes::ZERO)?))
        }
    }
}

#[cfg(not(feature = "gpu"))]
mod gpus {
    use super::{
        Backend, BackendError, Bytes, DeviceChoice, DeviceError, Overhead, Precision, Program,
        Target, VerifiedPlan, report,
    };

    /// No GPU is ever opened.
    #[derive(Clone, Copy, Debug)]
    pub enum Opened {}

    #[expect(clippy::unnecessary_wraps, reason = "a build with GPUs can fail to open one")]
    pub(super) fn best() -> Result<Option<Opened>, DeviceError> {
        Ok(None)
    }

    pub(super) fn named(device: DeviceChoice) -> Result<Opened, DeviceError> {
        Err(DeviceError::NotInThisBuild { device })
    }

    impl Opened {
        pub(super) fn target(&self) -> &dyn Target {
            match *self {}
        }

        pub(super) fn device(&self, _: Option<Bytes>) -> Result<report::Device, DeviceError> {
            match *self {}
        }

        pub(super) fn overhead(&self) -> Overhead {
            match *self {}
        }

        pub(super) fn precision(&self) -> Precision {
            match *self {}
        }

        pub(super) fn check(&self, _: &[Program], _: Precision) -> Result<(), DeviceError> {
            match *self {}
        }

        pub(super) fn note(&self, _: DeviceChoice) -> String {
            match *self {}
        }

        pub(super) fn backend(&self, _: VerifiedPlan) -> Result<Box<dyn Backend>, BackendError> {
            match *self {}
        }
    }
}
