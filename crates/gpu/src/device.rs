//! Which GPUs are here, and one of them opened.
//!
//! A device is opened once in a process and shared: its driver's context is not cheap, and
//! CubeCL registers an adapter a single time.
//!
//! What goes wrong on a device is not seen where it was asked for: drivers report it to a
//! callback, later. [`Device::check`] is where such a report becomes an error, and every copy
//! to the host asks it first, so that garbage is never read as a result.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, OnceLock},
};

use cubecl::{
    ir::{ElemType, FloatKind},
    prelude::Client,
    wgpu::{
        AutoGraphicsApi, MemoryConfiguration, RuntimeOptions, WgpuBackend, WgpuDevice,
        WgpuDeviceKind, try_init_setup, wgpu,
    },
};
use fitgpt_exec::{BackendError, DeviceFault};
use fitgpt_plan::units::{Bytes, DType};

use crate::{kernels::product::Core, target::ALIGNMENT};

/// Through which interface a device is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Api {
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
            Self::Vulkan => "Vulkan",
            Self::Metal => "Metal",
            Self::Dx12 => "DirectX 12",
        }
    }

    fn of(backend: wgpu::Backend) -> Option<Self> {
        match backend {
            wgpu::Backend::Vulkan => Some(Self::Vulkan),
            wgpu::Backend::Metal => Some(Self::Metal),
            wgpu::Backend::Dx12 => Some(Self::Dx12),
            _ => None,
        }
    }

    const fn backend(self) -> WgpuBackend {
        match self {
            Self::Vulkan => WgpuBackend::Vulkan,
            Self::Metal => WgpuBackend::Metal,
            Self::Dx12 => WgpuBackend::Dx12,
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
    selector: WgpuDevice,
    vendor: u32,
}

impl Adapter {
    /// Whether it is a card of NVIDIA's, by the number that its maker has on the bus.
    pub const fn is_nvidia(&self) -> bool {
        self.vendor == 0x10de
    }
}

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
        let Some(api) = Api::of(info.backend) else { continue };
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
            selector: selector.on(api.backend()),
            vendor: info.vendor,
        });
    }
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
    /// Whether kernels can load and store float16.
    pub has_f16: bool,
    /// Whether kernels can load and store bfloat16.
    pub has_bf16: bool,
    /// What multiplies matrices of half types.
    pub(crate) core: Core,
    /// Whether kernels are compiled for CUDA rather than launched.
    #[cfg(test)]
    pub(crate) is_recorded: bool,
}

impl Properties {
    /// Whether matrices of half types are multiplied in units of their own.
    pub fn has_tensor_cores(&self) -> bool {
        self.core != Core::Units
    }

    /// Whether activations can be stored so.
    pub fn stores(&self, dtype: DType) -> bool {
        match dtype {
            DType::F32 | DType::U32 => true,
            DType::F16 => self.has_f16,
            DType::Bf16 => self.has_bf16,
            DType::I64 | DType::U8 => false,
        }
    }
}

/// An open device.
#[derive(Clone)]
pub struct Device {
    pub(crate) client: Client,
    fault: Arc<OnceLock<String>>,
    properties: Properties,
    name: Arc<str>,
    selector: WgpuDevice,
}

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Device").field("name", &self.name).finish_non_exhaustive()
    }
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
        let fault =
            |said: String| BackendError::Device(DeviceFault { device: adapter.name.clone(), said });
        let make = || -> Result<Self, BackendError> {
            let options = RuntimeOptions {
                // The arena lies outside of the pools; what goes through them is small.
                memory_config: MemoryConfiguration::ExclusivePages,
                ..RuntimeOptions::try_default().map_err(|error| fault(error.to_string()))?
            };
            let setup = try_init_setup::<AutoGraphicsApi>(&adapter.selector, options)
                .map_err(|error| fault(error.to_string()))?;
            let client = cubecl::Device::Wgpu(adapter.selector.clone()).client();
            let limits = setup.device.limits();
            let of = client.properties();
            let has = |kind| of.supports_type(ElemType::Float(kind));
            let properties = Properties {
                max_chunk: Bytes::new(whole(limits.max_buffer_size.min(1 << 62))),
                // Kernels count elements in 32 bits.
                max_binding: Bytes::new(whole(limits.max_storage_buffer_binding_size.min(1 << 32))),
                shared_bytes: of.hardware.max_shared_memory_size,
                has_f16: has(FloatKind::F16),
                has_bf16: has(FloatKind::BF16),
                core: Core::of(of),
                #[cfg(test)]
                is_recorded: false,
            };
            let said = Arc::new(OnceLock::new());
            // CubeCL's own callback panics on a thread of its own. Ours remembers.
            let remember = Arc::clone(&said);
            setup.device.on_uncaptured_error(Arc::new(move |error: wgpu::Error| {
                let _ = remember.set(error.to_string());
            }));
            let name = adapter.name.as_str().into();
            let selector = adapter.selector.clone();
            Ok(Self { client, fault: said, properties, name, selector })
        };
        let device = catch_unwind(AssertUnwindSafe(make))
            .unwrap_or_else(|panic| Err(fault(words(&*panic))))?;
        open.push(device.clone());
        Ok(device)
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

    /// What it can do.
    pub fn properties(&self) -> Properties {
        self.properties
    }

    /// As its driver calls it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The first thing that went wrong on the device, if any has.
    pub fn check(&self) -> Result<(), BackendError> {
        match self.fault.get() {
            Some(said) => Err(self.error(said.clone())),
            None => Ok(()),
        }
    }

    /// Runs `work`, in which CubeCL may panic; afterwards nothing has gone wrong.
    pub(crate) fn guard<T>(
        &self,
        work: impl FnOnce() -> Result<T, String>,
    ) -> Result<T, BackendError> {
        self.check()?;
        let result = catch_unwind(AssertUnwindSafe(work))
            .unwrap_or_else(|panic| Err(words(&*panic)))
            .map_err(|said| {
                let _ = self.fault.set(said.clone());
                self.error(said)
            })?;
        self.check()?;
        Ok(result)
    }

    fn error(&self, said: String) -> BackendError {
        BackendError::Device(DeviceFault { device: self.name.to_string(), said })
    }
}

/// Slots lie at multiples of this.
const fn whole(limit: u64) -> u64 {
    limit / ALIGNMENT * ALIGNMENT
}

/// What a panic said.
fn words(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().map(str::to_owned);
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "the device's thread ended without a word".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_wrong_on_a_device_is_an_error_and_stays_one() {
        let adapter = adapters().into_iter().find(|adapter| adapter.kind == Kind::Software);
        let adapter = adapter.expect("a software Vulkan driver (Debian: mesa-vulkan-drivers)");
        let device = Device::open(&adapter).unwrap();
        assert_eq!(device.guard(|| Ok(3)), Ok(3));
        let lost = device.guard(|| -> Result<(), String> { panic!("the card fell off the bus") });
        let fault =
            DeviceFault { device: adapter.name, said: "the card fell off the bus".to_owned() };
        assert_eq!(lost, Err(BackendError::Device(fault.clone())));
        // Nothing is asked of it again, and nothing read.
        let later = device.guard(|| -> Result<(), String> { unreachable!("it is lost") });
        assert_eq!(later, Err(BackendError::Device(fault)));
    }
}
