//! Runs planned programs on a GPU, in one arena on the device.
//!
//! Kernels are written once, in Rust, and `CubeCL` compiles them for the device at run time:
//! through WGSL for Vulkan, Metal and `DirectX` 12, through CUDA C++ for CUDA (feature `cuda`). No
//! `CubeCL` type is public in this crate.
//!
//! Invariants: kernels allocate nothing; every slot that is bound comes from a verified plan, and
//! the bindings of one kernel do not overlap; every sum has a fixed order; nothing waits for the
//! device except copies to the host.

mod health;
mod kernels;
mod adapter;
mod memory;
#[cfg(any(feature = "cuda", test))]
mod cuda;
mod pools;
mod target;
mod device;
mod arena;
mod dispatch;
mod backend;
#[cfg(test)]
mod gate;

pub use self::{
    adapter::{Adapter, AdapterKind, Api, GpuProperties, ReportedMemory},
    backend::Gpu,
    device::{GpuDevice, RuntimeMemory, adapters, cuda_faults, vulkan},
    health::InjectedFault,
    memory::NoVulkan,
    target::{GpuRefusal, GpuTarget},
};
