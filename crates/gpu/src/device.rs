//! Which GPUs are here, and one of them opened.
//!
//! A device is opened once in a process and shared: its driver's context is not cheap, and
//! CubeCL registers an adapter a single time.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU64, Ordering},
};

use cubecl::{
    MemoryScope,
    ir::{ElemType, FloatKind},
    prelude::Client,
    wgpu::{
        AutoGraphicsApi, MemoryConfiguration, RuntimeOptions, WgpuBackend, WgpuDevice,
        WgpuDeviceKind, try_init_setup, wgpu,
    },
};
use fitgpt_exec::BackendError;
use fitgpt_plan::{
    report::RuntimePool,
    units::{Bytes, DType},
};

#[cfg(any(feature = "cuda", test))]
use crate::cuda;
use crate::{
    arena,
    health::{Health, Trial},
    kernels::{math::Sums, product::Core},
    target::ALIGNMENT,
};

/// Through which interface a device is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Api {
    /// NVIDIA's own, in a build with feature `cuda`.
    Cuda,
    /// On Linux and Windows.
    Vulkan,
    /// On Apple's machines.
    Metal,
    /// On Windows.
    Dx12,
}

impl Api {
    /// As its makers write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cuda => "CUDA",
            Self::Vulkan => "Vulkan",
            Self::Metal => "Metal",
            Self::Dx12 => "DirectX 12",
        }
    }

    fn of(backend: wgpu::Backend) -> Option<(Self, WgpuBackend)> {
        match backend {
            wgpu::Backend::Vulkan => Some((Self::Vulkan, WgpuBackend::Vulkan)),
            wgpu::Backend::Metal => Some((Self::Metal, WgpuBackend::Metal)),
            wgpu::Backend::Dx12 => Some((Self::Dx12, WgpuBackend::Dx12)),
            _ => None,
        }
    }
}

/// What stands behind an adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A card with memory of its own.
    Discrete,
    /// A GPU that shares the host's memory.
    Integrated,
    /// A GPU of a virtual machine.
    Virtual,
    /// A driver that runs kernels on the CPU.
    Software,
    /// The driver does not say.
    Other,
}

/// A device that could be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adapter {
    /// As its driver calls it.
    pub name: String,
    /// How it is reached.
    pub api: Api,
    /// What it is.
    pub kind: Kind,
    /// The driver's name and version.
    pub driver: String,
    /// Its memory, where the driver tells.
    pub memory: Option<Memory>,
    /// What it can do.
    pub properties: Properties,
    pub(crate) selector: Selector,
    pub(crate) vendor: u32,
}

/// A device of one of the runtimes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Selector {
    Wgpu(WgpuDevice),
    /// A card, by the driver's index.
    #[cfg(feature = "cuda")]
    Cuda(u16),
    /// A card that is simulated, by its place in the list of those.
    #[cfg(test)]
    Simulated(u16),
}

impl Adapter {
    /// Whether it is a card of NVIDIA's, by the number that its maker has on the bus.
    pub const fn is_nvidia(&self) -> bool {
        self.vendor == NVIDIA
    }

    /// Whether both are one device, asked at two times.
    pub fn is_same(&self, other: &Self) -> bool {
        self.selector == other.selector
    }
}

pub(crate) const NVIDIA: u32 = 0x10de;

/// Memory of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// All of it.
    pub total: Bytes,
    /// What the driver would give this process now.
    pub free: Bytes,
}

/// Every device that a driver here offers, real GPUs first.
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
        let kind = kind(info.device_type);
        let before = list.iter().filter(|a| a.api == api && a.kind == kind).count();
        let selector = WgpuDevice::new(match kind {
            Kind::Discrete => WgpuDeviceKind::DiscreteGpu(before),
            Kind::Integrated => WgpuDeviceKind::IntegratedGpu(before),
            Kind::Virtual => WgpuDeviceKind::VirtualGpu(before),
            Kind::Software => WgpuDeviceKind::Cpu,
            Kind::Other => WgpuDeviceKind::Other(before),
        });
        list.push(Adapter {
            name: info.name,
            api,
            kind,
            driver: format!("{} {}", info.driver, info.driver_info).trim().to_owned(),
            memory: crate::memory::of(&adapter),
            properties: Properties::of(&adapter),
            selector: Selector::Wgpu(selector.on(backend)),
            vendor: info.vendor,
        });
    }
    #[cfg(feature = "cuda")]
    list.splice(0..0, crate::cuda::adapters());
    list.sort_by_key(|adapter| match adapter.kind {
        Kind::Discrete => 0,
        Kind::Integrated => 1,
        Kind::Virtual | Kind::Other => 2,
        Kind::Software => 3,
    });
    list
}

fn kind(device_type: wgpu::DeviceType) -> Kind {
    match device_type {
        wgpu::DeviceType::DiscreteGpu => Kind::Discrete,
        wgpu::DeviceType::IntegratedGpu => Kind::Integrated,
        wgpu::DeviceType::VirtualGpu => Kind::Virtual,
        wgpu::DeviceType::Cpu => Kind::Software,
        wgpu::DeviceType::Other => Kind::Other,
    }
}

/// What a device can do, as kernels and plans ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Properties {
    /// The largest single allocation.
    pub max_chunk: Bytes,
    /// The largest range that a kernel can be given at once.
    pub max_binding: Bytes,
    /// Memory that the units of a cube share.
    pub shared_bytes: usize,
    /// Units that run in step, at least and at most.
    pub plane: [u32; 2],
    /// Whether kernels can load and store float16.
    pub has_f16: bool,
    /// Whether kernels can load and store bfloat16.
    pub has_bf16: bool,
    /// What multiplies matrices of half types.
    pub(crate) core: Core,
    /// How the units of a cube add up.
    pub(crate) sums: Sums,
    /// Whether kernels are compiled for CUDA rather than launched.
    #[cfg(test)]
    pub(crate) is_recorded: bool,
}

impl Properties {
    /// Whether matrices of half types are multiplied in units of their own.
    pub fn has_tensor_cores(&self) -> bool {
        self.core != Core::Units
    }

    /// Whether units that run in step add up among themselves.
    pub fn adds_in_planes(&self) -> bool {
        self.sums == Sums::Planes
    }

    /// Kernels reach the device through WGSL, which has float16 where the device has it and
    /// bfloat16 nowhere.
    fn of(adapter: &wgpu::Adapter) -> Self {
        let (limits, info) = (adapter.limits(), adapter.get_info());
        Self {
            max_chunk: Bytes::new(whole(limits.max_buffer_size.min(1 << 62))),
            // Kernels count elements in 32 bits.
            max_binding: Bytes::new(whole(limits.max_storage_buffer_binding_size.min(1 << 32))),
            shared_bytes: limits.max_compute_workgroup_storage_size as usize,
            plane: [info.subgroup_min_size, info.subgroup_max_size],
            has_f16: adapter.features().contains(wgpu::Features::SHADER_F16),
            has_bf16: false,
            // Known when the device is open.
            core: Core::Units,
            sums: Sums::Tree,
            #[cfg(test)]
            is_recorded: false,
        }
    }

    /// Whether activations can be stored so.
    pub fn stores(&self, dtype: DType) -> bool {
        match dtype {
            // Codes are loaded and stored by words.
            DType::F32 | DType::U32 | DType::U8 => true,
            DType::F16 => self.has_f16,
            DType::Bf16 => self.has_bf16,
            DType::I64 => false,
        }
    }
}

/// An open device.
#[derive(Clone)]
pub struct Device {
    pub(crate) client: Client,
    pub(crate) health: Health,
    properties: Properties,
    name: Arc<str>,
    selector: Selector,
    pools: Arc<[RuntimePool]>,
    pub(crate) copies: Arc<AtomicU64>,
}

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Device").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Memory that a device holds for this process, as its runtime reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// Allocations of their own: arenas.
    pub arenas: Bytes,
    /// Where the runtime puts arguments of kernels and copies to the host.
    pub pools: Vec<RuntimePool>,
}

/// Devices of this process.
static OPEN: Mutex<Vec<Device>> = Mutex::new(Vec::new());

impl Device {
    /// Opens the device of `adapter`, or gives it again.
    pub fn open(adapter: &Adapter) -> Result<Self, BackendError> {
        let mut open = OPEN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(device) = open.iter().find(|device| device.selector == adapter.selector) {
            return Ok(device.clone());
        }
        let health = Health::new(&adapter.name, adapter.kind == Kind::Software)?;
        let (adapter, here) = (adapter.clone(), health.clone());
        let device = health.ask(move || {
            let mut device = here.guard(|| Self::make(&adapter, here.clone()))?;
            if device.has_pools() {
                device.pools = arena::measure_pools(&device)?.into();
            }
            Ok(device)
        })?;
        open.push(device.clone());
        Ok(device)
    }

    fn make(adapter: &Adapter, health: Health) -> Result<Self, String> {
        let (client, properties) = match &adapter.selector {
            Selector::Wgpu(selector) => Self::through_wgpu(adapter, selector, &health)?,
            #[cfg(feature = "cuda")]
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
    ) -> Result<(Client, Properties), String> {
        let options = RuntimeOptions {
            // The arena lies outside of the pools; what goes through them is small.
            memory_config: MemoryConfiguration::ExclusivePages,
            ..RuntimeOptions::try_default().map_err(|error| error.to_string())?
        };
        let setup = try_init_setup::<AutoGraphicsApi>(selector, options)
            .map_err(|error| error.to_string())?;
        let client = cubecl::Device::Wgpu(selector.clone()).client();
        // CubeCL's own callback panics on a thread of its own. Ours remembers.
        let keeper = health.clone();
        setup.device.on_uncaptured_error(Arc::new(move |error: wgpu::Error| {
            keeper.report(error.to_string());
        }));
        let limits = setup.device.limits();
        let has_f16 = client.properties().supports_type(ElemType::Float(FloatKind::F16));
        // CubeCL calls no plane of a software driver its own, though it runs them.
        let has_planes = setup.device.features().contains(wgpu::Features::SUBGROUP);
        let hardware = &client.properties().hardware;
        let of = adapter.properties;
        let properties = Properties {
            // The runtime may have asked the adapter for less than it has.
            max_chunk: of.max_chunk.min(Bytes::new(whole(limits.max_buffer_size))),
            max_binding: of
                .max_binding
                .min(Bytes::new(whole(limits.max_storage_buffer_binding_size))),
            // Apple's driver says less than is known of its chips.
            plane: [hardware.plane_size_min, hardware.plane_size_max],
            has_f16: of.has_f16 && has_f16,
            core: Core::of(client.properties()),
            sums: if has_planes { Sums::with_planes_of(hardware) } else { Sums::Tree },
            ..of
        };
        Ok((client, properties))
    }

    /// Whether its runtime keeps memory for arguments and copies. Ours for CUDA keeps none.
    pub(crate) fn has_pools(&self) -> bool {
        matches!(self.selector, Selector::Wgpu(_))
    }

    /// The same device, as if its kernels could be given no more than `max_binding` at once.
    #[must_use]
    pub fn with_bindings_of(mut self, max_binding: Bytes) -> Self {
        self.properties.max_binding = max_binding.min(self.properties.max_binding);
        self
    }

    /// The same device, as if it could do this.
    #[cfg(test)]
    pub(crate) fn as_if(&self, properties: Properties) -> Self {
        Self { properties, ..self.clone() }
    }

    /// The same device, as if no allocation could be larger than `max_chunk`.
    #[must_use]
    pub fn with_chunks_of(mut self, max_chunk: Bytes) -> Self {
        self.properties.max_chunk = max_chunk.min(self.properties.max_chunk);
        self
    }

    /// The same device, as if none of its units ran in step.
    #[must_use]
    pub fn without_planes(mut self) -> Self {
        self.properties.sums = Sums::Tree;
        self
    }

    /// Makes the device fail after `calls` more: for tests of what a run does then.
    pub fn put_on_trial(&self, trial: Trial, calls: u32) {
        self.health.put_on_trial(trial, calls);
    }

    /// What it can do.
    pub fn properties(&self) -> Properties {
        self.properties
    }

    /// As its driver calls it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the runtime holds for itself, measured when the device was opened.
    pub fn pools(&self) -> &[RuntimePool] {
        &self.pools
    }

    /// How often something was copied to the host since it was opened: each time all the work
    /// before was waited for.
    pub fn copies_to_host(&self) -> u64 {
        self.copies.load(Ordering::Relaxed)
    }

    /// What the runtime reports now.
    pub fn held(&self) -> Result<Held, BackendError> {
        let here = self.clone();
        self.health.ask(move || here.held_now())
    }

    /// On the device's thread, whose stream is the only one.
    pub(crate) fn held_now(&self) -> Result<Held, BackendError> {
        let report = self.health.guard(|| {
            arena::sync(&self.client)?;
            Ok(self.client.memory_report(MemoryScope::CurrentStream))
        })?;
        let mut held = Held { arenas: Bytes::ZERO, pools: Vec::new() };
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

/// Slots lie at multiples of this.
pub(crate) const fn whole(limit: u64) -> u64 {
    limit / ALIGNMENT * ALIGNMENT
}
