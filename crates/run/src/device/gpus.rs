//! GPUs, in a build with feature `gpu`: which one a name selects, and opening it.

use fitgpt_exec::MemoryRefused;
use fitgpt_fit::device::GRAPHICS_CONTEXT_BYTES;
use fitgpt_gpu::{
    Adapter, AdapterKind, Api, Gpu, GpuDevice, GpuRefusal, GpuTarget, NoVulkan, adapters,
    cuda_faults, vulkan,
};
use fitgpt_program::units::DType;

use super::{
    AvailableGpu, AvailableGpus, Backend, BackendError, Bytes, CaseSelection, DTYPES, DeviceChoice,
    Factors, Overhead, Precision, Program, ReportCase, RuntimePool, Target, Unavailable,
    VerifiedPlan, Watch, host, judge_each, report,
};
use crate::budget::less_a_margin;

/// An open GPU.
#[derive(Clone, Debug)]
pub struct Opened {
    adapter: Adapter,
    device: GpuDevice,
    target: GpuTarget,
}

/// The best real GPU, if there is one; a software driver is used only by name.
pub(super) fn best() -> Result<Option<Opened>, Unavailable> {
    let here = adapters();
    let choice = DeviceChoice::Gpu(None);
    chosen(choice, &here.iter().map(AdapterTraits::of).collect::<Vec<_>>())
        .map(|index| Opened::new(here[index].clone()))
        .transpose()
}

/// The GPU that `choice` names.
pub(super) fn named(choice: DeviceChoice) -> Result<Opened, Unavailable> {
    let here = adapters();
    let traits: Vec<_> = here.iter().map(AdapterTraits::of).collect();
    if let Some(index) = chosen(choice, &traits) {
        return Opened::new(here[index].clone());
    }
    let software = here.iter().find(|adapter| adapter.kind == AdapterKind::Software);
    let is_cuda = matches!(choice, DeviceChoice::Cuda(_));
    let faults = if is_cuda { cuda_faults() } else { Vec::new() };
    Err(Unavailable::NoSuchDevice {
        device: choice,
        found: here.iter().map(described).chain(faults).collect(),
        software: software.map(|adapter| adapter.name.clone()),
    })
}

/// The properties of an adapter by which a choice selects it.
#[derive(Clone, Copy, Debug)]
struct AdapterTraits {
    api: Api,
    is_software: bool,
    is_nvidia: bool,
}

impl AdapterTraits {
    fn of(adapter: &Adapter) -> Self {
        Self {
            api: adapter.api,
            is_software: adapter.kind == AdapterKind::Software,
            is_nvidia: adapter.is_nvidia(),
        }
    }
}

/// How many devices are of the kind that `choice` names.
pub(super) fn count(choice: DeviceChoice) -> usize {
    matching(choice, &adapters().iter().map(AdapterTraits::of).collect::<Vec<_>>()).len()
}

/// Which of the adapters `choice` names. A software driver is selected only by the name of its
/// interface.
fn chosen(choice: DeviceChoice, here: &[AdapterTraits]) -> Option<usize> {
    let index = match choice {
        DeviceChoice::Vulkan(index)
        | DeviceChoice::Metal(index)
        | DeviceChoice::Cuda(index)
        | DeviceChoice::Gpu(index) => index.unwrap_or(0),
        DeviceChoice::Mps | DeviceChoice::Auto | DeviceChoice::Cpu => 0,
    };
    matching(choice, here).get(index as usize).copied()
}

/// The adapters of the kind that `choice` names, ignoring its index.
fn matching(choice: DeviceChoice, here: &[AdapterTraits]) -> Vec<usize> {
    // Each real card once: Windows lists it under two interfaces, and a build with CUDA lists
    // NVIDIA's under a third one, which is the fastest.
    let has_cuda = here.iter().any(|of| of.api == Api::Cuda);
    let first = [Api::Vulkan, Api::Metal, Api::Dx12]
        .into_iter()
        .find(|api| here.iter().any(|of| of.api == *api && !of.is_software));
    let is_real = |of: &AdapterTraits| {
        let through = if of.is_nvidia && has_cuda { Some(Api::Cuda) } else { first };
        !of.is_software && Some(of.api) == through
    };
    let matches = |of: &AdapterTraits| match choice {
        DeviceChoice::Vulkan(_) => of.api == Api::Vulkan,
        DeviceChoice::Metal(_) | DeviceChoice::Mps => of.api == Api::Metal,
        DeviceChoice::Cuda(_) => is_real(of) && of.is_nvidia,
        DeviceChoice::Gpu(_) | DeviceChoice::Auto => is_real(of),
        DeviceChoice::Cpu => false,
    };
    (0..here.len()).filter(|at| matches(&here[*at])).collect()
}

#[expect(clippy::unnecessary_wraps, reason = "a build without GPUs has no list")]
pub(super) fn available_gpus() -> Option<AvailableGpus> {
    let list = adapters().into_iter().map(|adapter| {
        let memory = memory_of(&adapter);
        let of = adapter.properties;
        let types = [DType::F32, DType::F16, DType::Bf16];
        AvailableGpu {
            interface: adapter.api.name(),
            is_software: adapter.kind == AdapterKind::Software,
            total_bytes: memory.map(|(total, _)| total),
            free_bytes: memory.map(|(_, free)| free),
            budget_bytes: memory.map(|(_, free)| less_a_margin(free)),
            max_allocation_bytes: of.max_chunk,
            max_binding_bytes: of.max_binding,
            shared_bytes: Bytes::new(of.shared_bytes as u64),
            subgroup: of.plane,
            types: types.into_iter().filter(|t| of.stores(*t)).map(DType::name).collect(),
            name: adapter.name,
            driver: adapter.driver,
        }
    });
    let vulkan = vulkan().map_err(|error: NoVulkan| error.to_string());
    Some(AvailableGpus { gpus: list.collect(), vulkan })
}

fn described(adapter: &Adapter) -> String {
    let software = if adapter.kind == AdapterKind::Software { ", software" } else { "" };
    format!("{} ({}{software})", adapter.name, adapter.api.name())
}

/// The total and the free memory of a device, if its driver reports them. A device that shares the
/// host's memory has no more than the host.
fn memory_of(adapter: &Adapter) -> Option<(Bytes, Bytes)> {
    let is_the_hosts = matches!(adapter.kind, AdapterKind::Integrated | AdapterKind::Software);
    let host = is_the_hosts.then(host::memory);
    match (adapter.memory, host) {
        (Some(memory), Some(host)) => Some((memory.total, memory.free.min(host.least().0))),
        (Some(memory), None) => Some((memory.total, memory.free)),
        (None, Some(host)) => Some((host.total, host.least().0)),
        (None, None) => None,
    }
}

impl Opened {
    fn new(adapter: Adapter) -> Result<Self, Unavailable> {
        let device = GpuDevice::open(&adapter)?;
        let target = GpuTarget::new(device.properties());
        Ok(Self { adapter, device, target })
    }

    pub(super) fn target(&self) -> &dyn Target {
        &self.target
    }

    pub(super) fn device(
        &self,
        budget: Option<Bytes>,
    ) -> Result<report::DeviceMemory, Unavailable> {
        let name = self.adapter.name.clone();
        match (memory_of(&self.adapter), budget) {
            (Some((total_bytes, free)), _) => {
                let usable_bytes = budget.unwrap_or_else(|| less_a_margin(free));
                Ok(report::DeviceMemory { name, total_bytes, usable_bytes })
            }
            (None, Some(budget)) => {
                Ok(report::DeviceMemory { name, total_bytes: budget, usable_bytes: budget })
            }
            (None, None) => Err(Unavailable::UnknownMemory { device: name }),
        }
    }

    pub(super) fn overhead(&self) -> Overhead {
        let pools = self.pools().iter().map(|pool| pool.bytes).fold(Bytes::ZERO, |a, b| a + b);
        Overhead {
            context_bytes: GRAPHICS_CONTEXT_BYTES,
            workspace_bytes: [pools; 2],
            compile_bytes: [Bytes::ZERO; 2],
        }
    }

    pub(super) fn pools(&self) -> Vec<RuntimePool> {
        self.device.pools().to_vec()
    }

    pub(super) fn precision(&self) -> Precision {
        let properties = self.device.properties();
        match (properties.has_bf16, properties.has_f16) {
            (true, _) => Precision::Bfloat16,
            (false, true) => Precision::Float16,
            (false, false) => Precision::Float32,
        }
    }

    pub(super) fn check<'p>(
        &self,
        programs: impl IntoIterator<Item = &'p Program>,
        precision: Precision,
    ) -> Result<(), Unavailable> {
        let device = || self.adapter.name.clone();
        if !self.device.properties().stores(precision.dtype()) {
            return Err(Unavailable::NoType { device: device(), dtype: precision });
        }
        let unsuitable =
            |why: GpuRefusal| Unavailable::Unsuitable { device: device(), why: why.to_string() };
        programs.into_iter().try_for_each(|program| self.target.check(program).map_err(unsuitable))
    }

    pub(super) fn name(&self) -> (&str, &'static str) {
        (&self.adapter.name, self.adapter.api.name())
    }

    /// Checks the free memory again: the budget may be set by hand, and other processes come and
    /// go. A driver may accept an allocation that is larger than its memory, and then page or end
    /// the process.
    pub(super) fn backend(&self, plan: VerifiedPlan) -> Result<Box<dyn Backend>, BackendError> {
        let now = adapters().into_iter().find(|adapter| adapter.is_same(&self.adapter));
        let free = now.as_ref().and_then(memory_of).map(|(_, free)| free);
        let asked = plan.plan().arena_bytes();
        let refused = || MemoryRefused { device: self.adapter.name.clone(), asked, free }.into();
        if free.is_some_and(|free| asked > free) {
            return Err(refused());
        }
        match Gpu::new(self.device.clone(), plan, Watch::Off, Bytes::ZERO) {
            Ok(gpu) => Ok(Box::new(gpu)),
            Err(BackendError::Memory(_)) => Err(refused()),
            Err(other) => Err(other),
        }
    }

    /// Runs the suite with guard bytes after each slot, which detect writes outside a tensor.
    pub(super) fn judge(&self, report: &mut ReportCase<'_>) -> Result<(), BackendError> {
        const GUARD: Bytes = Bytes::new(256);
        let properties = self.device.properties();
        let target = GpuTarget { guard: GUARD, ..self.target };
        let types: Vec<_> = DTYPES.into_iter().filter(|dtype| properties.stores(*dtype)).collect();
        let has_rounded = properties.has_tensor_cores();
        let factors = if has_rounded { Factors::Rounded } else { Factors::Exact };
        let mut make = |plan| -> Result<Box<dyn Backend>, BackendError> {
            Ok(Box::new(Gpu::new(self.device.clone(), plan, Watch::Poison, GUARD)?))
        };
        let all = CaseSelection { dtypes: &types, factors, ops: &[] };
        judge_each(&all, &target, &mut make, report)
    }

    pub(super) fn driver(&self) -> &str {
        &self.adapter.driver
    }

    pub(super) fn is_software(&self) -> bool {
        self.adapter.kind == AdapterKind::Software
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOFTWARE: AdapterTraits =
        AdapterTraits { api: Api::Vulkan, is_software: true, is_nvidia: false };
    const RADEON: AdapterTraits = AdapterTraits { is_software: false, ..SOFTWARE };
    const GEFORCE: AdapterTraits = AdapterTraits { is_nvidia: true, ..RADEON };
    const GEFORCE_DX12: AdapterTraits = AdapterTraits { api: Api::Dx12, ..GEFORCE };
    const APPLE: AdapterTraits = AdapterTraits { api: Api::Metal, ..RADEON };

    #[test]
    fn a_software_driver_is_used_only_by_the_name_of_its_interface() {
        for choice in [DeviceChoice::Gpu(None), DeviceChoice::Auto, DeviceChoice::Cuda(None)] {
            assert_eq!(chosen(choice, &[SOFTWARE]), None, "{choice}");
        }
        assert_eq!(chosen(DeviceChoice::Vulkan(None), &[SOFTWARE]), Some(0));
        assert_eq!(chosen(DeviceChoice::Vulkan(Some(1)), &[SOFTWARE]), None);
    }

    #[test]
    fn cuda_also_selects_nvidia_cards_through_vulkan() {
        let here = [RADEON, GEFORCE, GEFORCE_DX12, SOFTWARE];
        assert_eq!(chosen(DeviceChoice::Cuda(None), &here), Some(1));
        assert_eq!(chosen(DeviceChoice::Cuda(Some(0)), &here), Some(1));
        assert_eq!(chosen(DeviceChoice::Cuda(Some(1)), &here), None);
        assert_eq!(chosen(DeviceChoice::Cuda(None), &[RADEON, SOFTWARE]), None);
    }

    #[test]
    fn a_card_with_cuda_is_used_through_cuda() {
        const CUDA: AdapterTraits = AdapterTraits { api: Api::Cuda, ..GEFORCE };
        let here = [GEFORCE, RADEON, CUDA, GEFORCE_DX12, SOFTWARE];
        assert_eq!(chosen(DeviceChoice::Cuda(None), &here), Some(2));
        assert_eq!(chosen(DeviceChoice::Vulkan(None), &here), Some(0));
        let gpu = |index| chosen(DeviceChoice::Gpu(index), &here);
        assert_eq!([Some(0), Some(1), Some(2)].map(gpu), [Some(1), Some(2), None]);
    }

    #[test]
    fn an_index_counts_each_real_card_once() {
        let here = [GEFORCE, RADEON, GEFORCE_DX12, SOFTWARE];
        let gpu = |index| chosen(DeviceChoice::Gpu(index), &here);
        assert_eq!([None, Some(0), Some(1), Some(2)].map(gpu), [Some(0), Some(0), Some(1), None]);
        assert_eq!(chosen(DeviceChoice::Auto, &here), Some(0));
        assert_eq!(chosen(DeviceChoice::Metal(None), &here), None);
        for choice in [DeviceChoice::Metal(None), DeviceChoice::Mps, DeviceChoice::Gpu(None)] {
            assert_eq!(chosen(choice, &[APPLE]), Some(0), "{choice}");
        }
    }
}
