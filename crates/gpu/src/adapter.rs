//! The devices of this machine and what they can do, before one is opened.

use cubecl::wgpu::{WgpuBackend, WgpuDevice, wgpu};
use fitgpt_program::units::{Bytes, DType};

use crate::kernels::{math::SumOrder, product::ProductUnits};

/// The alignment of slots: no device needs more for a binding.
pub(crate) const ALIGNMENT: u64 = 256;

/// The interface of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Api {
    /// NVIDIA's, in a build with feature `cuda`.
    Cuda,
    /// On Linux and Windows.
    Vulkan,
    /// On Apple's machines.
    Metal,
    /// On Windows.
    Dx12,
}

impl Api {
    /// The official spelling.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cuda => "CUDA",
            Self::Vulkan => "Vulkan",
            Self::Metal => "Metal",
            Self::Dx12 => "DirectX 12",
        }
    }

    pub(crate) fn of(backend: wgpu::Backend) -> Option<(Self, WgpuBackend)> {
        match backend {
            wgpu::Backend::Vulkan => Some((Self::Vulkan, WgpuBackend::Vulkan)),
            wgpu::Backend::Metal => Some((Self::Metal, WgpuBackend::Metal)),
            wgpu::Backend::Dx12 => Some((Self::Dx12, WgpuBackend::Dx12)),
            _ => None,
        }
    }
}

/// The kind of hardware of an adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AdapterKind {
    /// A card with its own memory.
    Discrete,
    /// A GPU that shares the host's memory.
    Integrated,
    /// A GPU of a virtual machine.
    Virtual,
    /// A driver that runs kernels on the CPU.
    Software,
    /// The driver does not report it.
    Other,
}

impl AdapterKind {
    pub(crate) fn of(device_type: wgpu::DeviceType) -> Self {
        match device_type {
            wgpu::DeviceType::DiscreteGpu => Self::Discrete,
            wgpu::DeviceType::IntegratedGpu => Self::Integrated,
            wgpu::DeviceType::VirtualGpu => Self::Virtual,
            wgpu::DeviceType::Cpu => Self::Software,
            wgpu::DeviceType::Other => Self::Other,
        }
    }
}

/// A device that could be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adapter {
    /// As its driver calls it.
    pub name: String,
    /// Its interface.
    pub api: Api,
    /// Its kind of hardware.
    pub kind: AdapterKind,
    /// The driver's name and version.
    pub driver: String,
    /// Its memory, if the driver reports it.
    pub memory: Option<ReportedMemory>,
    /// Its capabilities.
    pub properties: GpuProperties,
    pub(crate) selector: Selector,
    pub(crate) vendor: u32,
}

/// A device of one of the runtimes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Selector {
    Wgpu(WgpuDevice),
    /// A card, by the driver's index.
    #[cfg(any(feature = "cuda", test))]
    Cuda(u16),
    /// A simulated card, by its index in the list of those.
    #[cfg(test)]
    Simulated(u16),
}

impl Adapter {
    /// Whether it is an NVIDIA card, by its PCI vendor id.
    pub const fn is_nvidia(&self) -> bool {
        self.vendor == NVIDIA
    }

    /// Whether both describe the same device.
    pub fn is_same(&self, other: &Self) -> bool {
        self.selector == other.selector
    }
}

pub(crate) const NVIDIA: u32 = 0x10de;

/// Memory of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReportedMemory {
    /// Total bytes.
    pub total: Bytes,
    /// Bytes that this process could allocate now.
    pub free: Bytes,
}

/// The capabilities of a device that kernels and plans depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuProperties {
    /// The largest single allocation.
    pub max_chunk: Bytes,
    /// The largest range that can be bound for a kernel.
    pub max_binding: Bytes,
    /// Memory that the units of a cube share.
    pub shared_bytes: usize,
    /// The smallest and largest number of units that run in lockstep (a plane).
    pub plane: [u32; 2],
    /// Whether kernels can load and store float16.
    pub has_f16: bool,
    /// Whether kernels can load and store bfloat16.
    pub has_bf16: bool,
    /// The most channels of a head for which the device has kernels.
    pub widest_head: usize,
    /// The units that multiply matrices of 16-bit types.
    pub(crate) core: ProductUnits,
    /// How the units of a cube sum their numbers.
    pub(crate) sums: SumOrder,
    /// Whether kernels are compiled for CUDA rather than launched.
    #[cfg(test)]
    pub(crate) is_recorded: bool,
}

impl GpuProperties {
    /// Whether matrices of 16-bit types are multiplied by tensor cores.
    pub fn has_tensor_cores(&self) -> bool {
        self.core != ProductUnits::Units
    }

    /// Whether the units of a plane sum their numbers directly.
    pub fn adds_in_planes(&self) -> bool {
        self.sums == SumOrder::Planes
    }

    /// Kernels are compiled through WGSL, which has float16 if the device does, and never bfloat16.
    pub(crate) fn of(adapter: &wgpu::Adapter) -> Self {
        let (limits, info) = (adapter.limits(), adapter.get_info());
        Self {
            max_chunk: Bytes::new(whole(limits.max_buffer_size.min(1 << 62))),
            // Kernels index elements with 32 bits.
            max_binding: Bytes::new(whole(limits.max_storage_buffer_binding_size.min(1 << 32))),
            shared_bytes: limits.max_compute_workgroup_storage_size as usize,
            plane: [info.subgroup_min_size, info.subgroup_max_size],
            has_f16: adapter.features().contains(wgpu::Features::SHADER_F16),
            has_bf16: false,
            widest_head: usize::MAX,
            // Known once the device is open.
            core: ProductUnits::Units,
            sums: SumOrder::Tree,
            #[cfg(test)]
            is_recorded: false,
        }
    }

    /// Whether tensors can be stored as `dtype`.
    pub fn stores(&self, dtype: DType) -> bool {
        match dtype {
            // Codes are loaded and stored as words.
            DType::F32 | DType::U32 | DType::U8 => true,
            DType::F16 => self.has_f16,
            DType::Bf16 => self.has_bf16,
            DType::I64 => false,
        }
    }
}

/// `limit`, rounded down to the alignment of slots.
pub(crate) const fn whole(limit: u64) -> u64 {
    limit / ALIGNMENT * ALIGNMENT
}
