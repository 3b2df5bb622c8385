//! Driver facts that `wgpu` does not report: how much memory a device has, how much is free, and
//! whether Vulkan is installed. The only file of this crate that depends on the operating system.
//!
//! Memory is read twice: for the plan, and again before the arena is allocated, because a written
//! budget may be anything and other processes come and go. Drivers overcommit (software drivers and
//! Windows page), so an arena larger than the free memory is refused before it is tried.
//!
//! Promise: an arena larger than the device's memory is refused, with an option that fits. Test:
//! `tests/gpu/faults.rs`.

use cubecl::wgpu::wgpu;

use crate::adapter::ReportedMemory;

/// The memory of `adapter`; `None` if the driver does not report it.
#[cfg(target_vendor = "apple")]
pub(crate) fn of(_adapter: &wgpu::Adapter) -> Option<ReportedMemory> {
    None
}

/// The memory of `adapter`; `None` if the driver does not report it.
///
/// Through Vulkan: the device's own heaps, and for each the driver's budget for this process less
/// what it already holds. A driver without that extension only reports the size, and all of it
/// counts as free.
#[cfg(not(target_vendor = "apple"))]
pub(crate) fn of(adapter: &wgpu::Adapter) -> Option<ReportedMemory> {
    use ash::vk;
    use fitgpt_program::units::Bytes;

    // SAFETY: the adapter is only read, and nothing made from it outlives this call.
    let adapter = unsafe { adapter.as_hal::<wgpu::hal::api::Vulkan>() }?;
    let instance = adapter.shared_instance().raw_instance();
    let device = adapter.raw_physical_device();
    // SAFETY: the device belongs to this instance, which lives as long as the adapter.
    let extensions = unsafe { instance.enumerate_device_extension_properties(device) }.ok()?;
    let tells_budget = extensions.iter().any(|e| {
        e.extension_name_as_c_str().is_ok_and(|name| name == ash::ext::memory_budget::NAME)
    });
    let mut budget = vk::PhysicalDeviceMemoryBudgetPropertiesEXT::default();
    let mut memory = vk::PhysicalDeviceMemoryProperties2::default();
    if tells_budget {
        memory = memory.push_next(&mut budget);
    }
    // SAFETY: as above; the chain contains only structures that the device supports.
    unsafe { instance.get_physical_device_memory_properties2(device, &mut memory) };
    let heaps = memory.memory_properties;
    let (mut total, mut free) = (0, 0);
    for (index, heap) in heaps.memory_heaps[..heaps.memory_heap_count as usize].iter().enumerate() {
        if heap.flags.contains(vk::MemoryHeapFlags::DEVICE_LOCAL) {
            total += heap.size;
            free += if tells_budget {
                budget.heap_budget[index].saturating_sub(budget.heap_usage[index])
            } else {
                heap.size
            };
        }
    }
    (total > 0).then(|| ReportedMemory { total: Bytes::new(total), free: Bytes::new(free) })
}

/// Why there is no Vulkan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoVulkan {
    /// Apple's systems have Metal.
    #[error("this system has Metal")]
    Metal,
    /// Vulkan's loader library is not installed.
    #[error("the Vulkan loader was not found: {message}")]
    NoLibrary {
        /// The error of the system.
        message: String,
    },
    /// The loader is installed but finds no driver.
    #[error("the Vulkan loader finds no driver")]
    NoDriver,
}

/// The version of Vulkan's loader.
#[cfg(target_vendor = "apple")]
pub(crate) fn vulkan_version() -> Result<String, NoVulkan> {
    Err(NoVulkan::Metal)
}

/// The version of Vulkan's loader.
#[cfg(not(target_vendor = "apple"))]
pub(crate) fn vulkan_version() -> Result<String, NoVulkan> {
    use ash::vk;

    // SAFETY: loads the system's Vulkan loader; nothing made from it outlives this call.
    let entry = unsafe { ash::Entry::load() };
    let entry = entry.map_err(|error| NoVulkan::NoLibrary { message: error.to_string() })?;
    // SAFETY: as above.
    let version = unsafe { entry.try_enumerate_instance_version() };
    let version = version.ok().flatten().unwrap_or(vk::API_VERSION_1_0);
    let [major, minor, patch] = [
        vk::api_version_major(version),
        vk::api_version_minor(version),
        vk::api_version_patch(version),
    ];
    Ok(format!("{major}.{minor}.{patch}"))
}
