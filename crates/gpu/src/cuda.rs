//! NVIDIA cards through CUDA, which gives access to tensor cores.
//!
//! The driver's library is loaded at run time; if it is missing, no cards are listed. Kernels are
//! translated to CUDA C++ and compiled by NVRTC, so running needs NVIDIA's CUDA toolkit
//! (`CUDA_PATH`), but building does not.

use cubecl::cuda::CudaDevice;
use cudarc::driver::{
    CudaContext, DriverError,
    sys::{CUdevice_attribute, is_culib_present},
};
use fitgpt_plan::units::Bytes;

use crate::{
    device::{Adapter, AdapterKind, Api, DeviceMemory, GpuProperties, NVIDIA, whole},
    kernels::{math::SumOrder, product::ProductUnits},
};

/// Every card that the driver reports.
pub(crate) fn adapters() -> Vec<Adapter> {
    // SAFETY: only checks whether a library can be loaded.
    if !unsafe { is_culib_present() } {
        return Vec::new();
    }
    let count = CudaContext::device_count().unwrap_or(0);
    // A card whose properties cannot be read cannot be used.
    (0..count as usize).filter_map(|index| adapter(index).ok()).collect()
}

fn adapter(index: usize) -> Result<Adapter, DriverError> {
    use CUdevice_attribute::{
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR as MAJOR,
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR as MINOR,
        CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN as SHARED,
    };
    let context = CudaContext::new(index)?;
    let (free, total) = context.mem_get_info()?;
    Ok(Adapter {
        name: context.name()?,
        api: Api::Cuda,
        kind: AdapterKind::Discrete,
        driver: format!("CUDA, sm_{}{}", context.attribute(MAJOR)?, context.attribute(MINOR)?),
        memory: Some(DeviceMemory {
            total: Bytes::new(total as u64),
            free: Bytes::new(free as u64),
        }),
        properties: GpuProperties {
            max_chunk: Bytes::new(whole(total as u64)),
            // Kernels index elements with 32 bits.
            max_binding: Bytes::new(whole((total as u64).min(1 << 32))),
            shared_bytes: context.attribute(SHARED)? as usize,
            plane: [32, 32],
            has_f16: true,
            has_bf16: true,
            // Known once the device is open.
            core: ProductUnits::Units,
            sums: SumOrder::Tree,
            #[cfg(test)]
            is_recorded: false,
        },
        selector: cubecl::Device::Cuda(CudaDevice::new(index)),
        vendor: NVIDIA,
    })
}
