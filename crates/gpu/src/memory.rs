//! What drivers tell beside what `wgpu` asks them: how much memory a device has and how much of
//! it is free, and whether there is Vulkan at all. The one file here that depends on the
//! operating system.

use cubecl::wgpu::wgpu;

use crate::device::Memory;

/// What the driver tells of `adapter`; `None` where it tells nothing.
#[cfg(target_vendor = "apple")]
pub(crate) fn of(_adapter: &wgpu::Adapter) -> Option<Memory> {
    None
}

/// What the driver tells of `adapter`; `None` where it tells nothing.
///
/// Through Vulkan: the heaps of the device itself, and for each what the driver would give this
/// process now, less what it holds already. A driver without that extension tells the size alone, and then all
/// of it counts as free.
#[cfg(not(target_vendor = "apple"))]
pub(crate) fn of(adapter: &wgpu::Adapter) -> Option<Memory> {
    use ash::vk;
    use fitgpt_plan::units::Bytes;

    // SAFETY: the adapter is only looked at, and nothing made from it outlives this call.
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
    // SAFETY: as above; the chain holds only what the device supports.
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
    (total > 0).then(|| Memory { total: Bytes::new(total), free: Bytes::new(free) })
}

/// Why there is no Vulkan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoVulkan {
    /// Apple's systems have Metal.
    #[error("this system has Metal")]
    Metal,
    /// The library that finds drivers is not installed.
    #[error("the library of Vulkan was not found: {said}")]
    NoLibrary {
        /// What the system said.
        said: String,
    },
    /// It is, and finds none.
    #[error("the library of Vulkan finds no driver")]
    NoDriver,
}

/// The version of Vulkan that is installed here.
#[cfg(target_vendor = "apple")]
pub fn vulkan() -> Result<String, NoVulkan> {
    Err(NoVulkan::Metal)
}

/// The version of Vulkan that is installed here.
#[cfg(not(target_vendor = "apple"))]
pub fn vulkan() -> Result<String, NoVulkan> {
    use ash::vk;

    // SAFETY: the system's own library of Vulkan; nothing made from it outlives this call.
    let entry = unsafe { ash::Entry::load() };
    let entry = entry.map_err(|error| NoVulkan::NoLibrary { said: error.to_string() })?;
    // SAFETY: as above.
    let version = unsafe { entry.try_enumerate_instance_version() };
    let version = version.ok().flatten().unwrap_or(vk::API_VERSION_1_0);
    if !crate::adapters().iter().any(|adapter| adapter.api == crate::Api::Vulkan) {
        return Err(NoVulkan::NoDriver);
    }
    let [major, minor, patch] = [
        vk::api_version_major(version),
        vk::api_version_minor(version),
        vk::api_version_patch(version),
    ];
    Ok(format!("{major}.{minor}.{patch}"))
}
