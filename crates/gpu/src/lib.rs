//! Runs planned programs on a GPU, in one arena on the device.
//!
//! Kernels are written once, in Rust, and compiled for the device at run time by `CubeCL`:
//! through WGSL for Vulkan, Metal and `DirectX` 12, through CUDA C++ for NVIDIA's own stack
//! (feature `cuda`). No type of `CubeCL` leaves this crate.
//!
//! Promises: kernels allocate nothing; every slot that a kernel is given comes from a verified
//! plan, and those of one kernel do not touch; every sum has a fixed order; between two copies
//! to the host nothing waits for the device.

mod arena;
mod backend;
#[cfg(any(feature = "cuda", test))]
mod cuda;
mod device;
mod dispatch;
#[cfg(test)]
mod gate;
mod health;
mod kernels;
mod memory;
mod target;

pub use self::{
    backend::Gpu,
    device::{Adapter, Api, Device, Held, Kind, Memory, Properties, adapters},
    health::Trial,
    memory::{NoVulkan, vulkan},
    target::{GpuTarget, Refusal},
};
