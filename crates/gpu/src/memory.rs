//! How much memory a device has, and how much of it is free. The one file here that depends on
//! the operating system.

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
