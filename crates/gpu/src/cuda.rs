//! NVIDIA's cards through CUDA: the way to their tensor cores.
//!
//! The driver's library is looked for at run time: where it is missing there are no cards, and
//! nothing panics. Kernels become CUDA C++ and are compiled by NVRTC, so that a machine needs
//! NVIDIA's CUDA toolkit (`CUDA_PATH`) to run, though not to build.

use cubecl::cuda::CudaDevice;
use cudarc::driver::{
    CudaContext, DriverError,
    sys::{CUdevice_attribute, is_culib_present},
};
use fitgpt_plan::units::Bytes;

use crate::{
    device::{Adapter, Api, Kind, Memory, NVIDIA, Properties, whole},
    kernels::{math::Sums, product::Core},
};

/// Every card that the driver shows.
pub(crate) fn adapters() -> Vec<Adapter> {
    // SAFETY: only asks whether a library can be loaded.
    if !unsafe { is_culib_present() } {
        return Vec::new();
    }
    let count = CudaContext::device_count().unwrap_or(0);
    // A card that cannot be asked cannot be run on.
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
        kind: Kind::Discrete,
        driver: format!("CUDA, sm_{}{}", context.attribute(MAJOR)?, context.attribute(MINOR)?),
        memory: Some(Memory { total: Bytes::new(total as u64), free: Bytes::new(free as u64) }),
        properties: Properties {
            max_chunk: Bytes::new(whole(total as u64)),
            // Kernels count elements in 32 bits.
            max_binding: Bytes::new(whole((total as u64).min(1 << 32))),
            shared_bytes: context.attribute(SHARED)? as usize,
            plane: [32, 32],
            has_f16: true,
            has_bf16: true,
            // Known when the device is open.
            core: Core::Units,
            sums: Sums::Tree,
            #[cfg(test)]
            is_recorded: false,
        },
        selector: cubecl::Device::Cuda(CudaDevice::new(index)),
        vendor: NVIDIA,
    })
}
