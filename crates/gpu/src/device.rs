//! Lists the GPUs of this machine and opens them.
//!
//! A device is opened once in a process and shared: a driver context is expensive, and CubeCL
//! registers an adapter only once.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU64, Ordering},
};

use cubecl::{
    MemoryScope,
    ir::{ElemType, FloatKind},
    prelude::Client,
    wgpu::{
        AutoGraphicsApi, MemoryConfiguration, RuntimeOptions, WgpuDevice, WgpuDeviceKind,
        try_init_setup, wgpu,
    },
};
use fitgpt_exec::BackendError;
use fitgpt_program::{memory::RuntimePool, units::Bytes};

#[cfg(any(feature = "cuda", test))]
use crate::cuda;
use crate::{
    adapter::{Adapter, AdapterKind, Api, GpuProperties, Selector, whole},
    health::{Health, InjectedFault},
    kernels::{math::SumOrder, product::ProductUnits},
    memory::{self, NoVulkan},
    pools,
};

/// Every device that a driver offers, hardware first.
pub fn adapters() -> Vec<Adapter> {
    let apis = wgpu::Backends::VULKAN | wgpu::Backends::METAL | wgpu::Backends::DX12;
    let instance = wgpu::Instance::new(wgpu::InstanceDescriptor {
        backends: apis,
        ..wgpu::InstanceDescriptor::new_without_display_handle()
    });
    let mut list: Vec<Adapter> = Vec::new();
    for adapter in cubecl::future::block_on(instance.enumerate_adapters(apis)) {
        let info = adapter.get_info();
        let Some((api, backend)) = Api::of(info.backend) else { continue };
        let kind = AdapterKind::of(info.device_type);
        let before = list.iter().filter(|a| a.api == api && a.kind == kind).count();
        let selector = WgpuDevice::new(match kind {
            AdapterKind::Discrete => WgpuDeviceKind::DiscreteGpu(before),
            AdapterKind::Integrated => WgpuDeviceKind::IntegratedGpu(before),
            AdapterKind::Virtual => WgpuDeviceKind::VirtualGpu(before),
            AdapterKind::Software => WgpuDeviceKind::Cpu,
            AdapterKind::Other => WgpuDeviceKind::Other(before),
        });
        list.push(Adapter {
            name: info.name,
            api,
            kind,
            driver: format!("{} {}", info.driver, info.driver_info).trim().to_owned(),
            memory: memory::of(&adapter),
            properties: GpuProperties::of(&adapter),
            selector: Selector::Wgpu(selector.on(backend)),
            vendor: info.vendor,
        });
    }
    #[cfg(any(feature = "cuda", test))]
    list.splice(0..0, cuda::adapters());
    list.sort_by_key(|adapter| match adapter.kind {
        AdapterKind::Discrete => 0,
        AdapterKind::Integrated => 1,
        AdapterKind::Virtual | AdapterKind::Other => 2,
        AdapterKind::Software => 3,
    });
    list
}

/// The version of Vulkan on this machine.
pub fn vulkan() -> Result<String, NoVulkan> {
    let version = memory::vulkan_version()?;
    if !adapters().iter().any(|adapter| adapter.api == Api::Vulkan) {
        return Err(NoVulkan::NoDriver);
    }
    Ok(version)
}

/// Why NVIDIA cards of this machine are not reached through CUDA, one sentence each.
#[cfg(any(feature = "cuda", test))]
pub fn cuda_faults() -> Vec<String> {
    cuda::faults()
}

/// A build without CUDA looks for no cards.
#[cfg(not(any(feature = "cuda", test)))]
pub fn cuda_faults() -> Vec<String> {
    Vec::new()
}

/// An open device.
#[derive(Clone)]
pub struct GpuDevice {
    pub(crate) client: Client,
    pub(crate) health: Health,
    properties: GpuProperties,
    name: Arc<str>,
    selector: Selector,
    pools: Arc<[RuntimePool]>,
    pub(crate) copies: Arc<AtomicU64>,
}

impl std::fmt::Debug for GpuDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GpuDevice").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Memory that a device holds for this process, as its runtime reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuntimeMemory {
    /// Arenas, which are separate allocations.
    pub arenas: Bytes,
    /// The runtime's pools for kernel arguments and copies to the host.
    pub pools: Vec<RuntimePool>,
}

/// The open devices of this process.
static OPEN: Mutex<Vec<GpuDevice>> = Mutex::new(Vec::new());

impl GpuDevice {
    /// Opens the device of `adapter`, or returns it if it is open already.
    pub fn open(adapter: &Adapter) -> Result<Self, BackendError> {
        let mut open = OPEN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(device) = open.iter().find(|device| device.selector == adapter.selector) {
            return Ok(device.clone());
        }
        let health = Health::new(&adapter.name, adapter.kind == AdapterKind::Software)?;
        let (adapter, here) = (adapter.clone(), health.clone());
        let device = health.ask(move || {
            let mut device = here.guard(|| Self::make(&adapter, here.clone()))?;
            if device.has_pools() {
                device.pools = device.measure_pools()?.into();
            }
            Ok(device)
        })?;
        open.push(device.clone());
        Ok(device)
    }

    /// Forgets an open device, so that the last of its clones closes it.
    #[cfg(test)]
    pub(crate) fn forget(selector: &Selector) {
        OPEN.lock().unwrap().retain(|device| device.selector != *selector);
    }

    fn make(adapter: &Adapter, health: Health) -> Result<Self, String> {
        let (client, properties) = match &adapter.selector {
            Selector::Wgpu(selector) => Self::through_wgpu(adapter, selector, &health)?,
            #[cfg(any(feature = "cuda", test))]
            Selector::Cuda(index) => cuda::open::<cuda::Library>(*index, adapter)?,
            #[cfg(test)]
            Selector::Simulated(index) => cuda::open::<cuda::Simulated>(*index, adapter)?,
        };
        Ok(Self {
            client,
            health,
            properties,
            name: adapter.name.as_str().into(),
            selector: adapter.selector.clone(),
            pools: Arc::default(),
            copies: Arc::default(),
        })
    }

    fn through_wgpu(
        adapter: &Adapter,
        selector: &WgpuDevice,
        health: &Health,
    ) -> Result<(Client, GpuProperties), String> {
        let options = RuntimeOptions {
            // The arena is outside the pools, which only hold small allocations.
            memory_config: MemoryConfiguration::ExclusivePages,
            ..RuntimeOptions::try_default().map_err(|error| error.to_string())?
        };
        let setup = try_init_setup::<AutoGraphicsApi>(selector, options)
            .map_err(|error| error.to_string())?;
        let client = cubecl::Device::Wgpu(selector.clone()).client();
        // CubeCL's callback would panic on another thread. Ours stores the error.
        let keeper = health.clone();
        setup.device.on_uncaptured_error(Arc::new(move |error: wgpu::Error| {
            keeper.report(error.to_string());
        }));
        let limits = setup.device.limits();
        let has_f16 = client.properties().supports_type(ElemType::Float(FloatKind::F16));
        // CubeCL does not report planes for software drivers, although they work.
        let has_planes = setup.device.features().contains(wgpu::Features::SUBGROUP);
        let hardware = &client.properties().hardware;
        let of = adapter.properties;
        let properties = GpuProperties {
            // The runtime may have requested lower limits than the adapter has.
            max_chunk: of.max_chunk.min(Bytes::new(whole(limits.max_buffer_size))),
            max_binding: of
                .max_binding
                .min(Bytes::new(whole(limits.max_storage_buffer_binding_size))),
            // Apple's driver reports less than its chips support.
            plane: [hardware.plane_size_min, hardware.plane_size_max],
            has_f16: of.has_f16 && has_f16,
            core: ProductUnits::of(client.properties()),
            sums: if has_planes { SumOrder::with_planes_of(hardware) } else { SumOrder::Tree },
            ..of
        };
        Ok((client, properties))
    }

    /// Whether its runtime keeps memory for arguments and copies. Ours for CUDA keeps none.
    pub(crate) fn has_pools(&self) -> bool {
        #[cfg(test)]
        if self.properties.is_recorded {
            return false; // nothing is launched
        }
        matches!(self.selector, Selector::Wgpu(_))
    }

    /// The same device with a binding limit of `max_binding`.
    #[must_use]
    pub fn with_bindings_of(mut self, max_binding: Bytes) -> Self {
        self.properties.max_binding = max_binding.min(self.properties.max_binding);
        self
    }

    /// The same device with other properties.
    #[cfg(test)]
    pub(crate) fn as_if(&self, properties: GpuProperties) -> Self {
        Self { properties, ..self.clone() }
    }

    /// The same device with an allocation limit of `max_chunk`.
    #[must_use]
    pub fn with_chunks_of(mut self, max_chunk: Bytes) -> Self {
        self.properties.max_chunk = max_chunk.min(self.properties.max_chunk);
        self
    }

    /// The same device without planes.
    #[must_use]
    pub fn without_planes(mut self) -> Self {
        self.properties.sums = SumOrder::Tree;
        self
    }

    /// Makes the device fail after `calls` more calls, to test how a run handles it.
    pub fn inject_fault(&self, trial: InjectedFault, calls: u32) {
        self.health.inject_fault(trial, calls);
    }

    /// Its capabilities.
    pub fn properties(&self) -> GpuProperties {
        self.properties
    }

    /// As its driver calls it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The runtime's pools, measured when the device was opened.
    pub fn pools(&self) -> &[RuntimePool] {
        &self.pools
    }

    /// How many copies to the host were made since it was opened. Each waits for all earlier work.
    pub fn copies_to_host(&self) -> u64 {
        self.copies.load(Ordering::Relaxed)
    }

    /// Measures the memory that the runtime holds in addition to an arena.
    fn measure_pools(&self) -> Result<Vec<RuntimePool>, BackendError> {
        let client = &self.client;
        let round = || {
            self.health.guard(|| pools::settle(client))?;
            let pools = self.held_now()?.pools;
            self.health.guard(|| pools::clean(client))?;
            Ok(pools)
        };
        // The runtime sizes its pages by the mean request, so one round is enough.
        round()?;
        round()
    }

    /// The memory that the runtime reports now.
    pub fn held(&self) -> Result<RuntimeMemory, BackendError> {
        let here = self.clone();
        self.health.ask(move || here.held_now())
    }

    /// [`held`](Self::held), called on the device's thread, which has the only stream.
    pub(crate) fn held_now(&self) -> Result<RuntimeMemory, BackendError> {
        let report = self.health.guard(|| {
            pools::sync(&self.client)?;
            Ok(self.client.memory_report(MemoryScope::CurrentStream))
        })?;
        let mut held = RuntimeMemory { arenas: Bytes::ZERO, pools: Vec::new() };
        for stream in report.streams {
            held.arenas = held.arenas + Bytes::new(stream.pools.dedicated.usage.bytes_reserved);
            let dynamic = stream.pools.dynamic.iter().chain([&stream.pools.persistent]);
            let dynamic = dynamic.map(|pool| pool.usage.bytes_reserved).sum();
            if self.has_pools() {
                held.pools.push(RuntimePool { name: "buffers", bytes: Bytes::new(dynamic) });
            }
            for memory in stream.auxiliary {
                let bytes = Bytes::new(memory.pools.usage().bytes_reserved);
                let is_staging = memory.name.starts_with("Staging");
                held.pools.push(RuntimePool {
                    name: if is_staging { "staging" } else { "uniforms" },
                    bytes,
                });
            }
        }
        Ok(held)
    }
}
