//! NVIDIA's cards through CUDA: a thin runtime for kernels that CubeCL turns into CUDA C++.
//!
//! [`server`] is what CubeCL launches through, [`driver`] the few calls that it makes. In a run
//! those go to the driver's library ([`library`]), which is loaded at run time: without it no cards
//! are listed, and nothing panics. In tests they go to a process that executes the same
//! CUDA C++ on the CPU ([`simulated`]).
//!
//! The kernels are in the program as PTX ([`stored`]), found by a hash of their CUDA C++
//! ([`canonical`]).
//!
//! The CUDA runtime is ours. CubeCL's downloads LLVM while it builds and keeps pools of memory.
//! Ours is a CubeCL server over a few driver calls: an allocation is one of the driver's, scalars
//! travel with a launch, and a failed call makes every later one fail. `cudarc` loads the driver's
//! library at run time. A card needs nothing else of NVIDIA's: CubeCL turns a kernel into CUDA C++,
//! a hash of that text finds the kernel's PTX in the program, and the driver compiles PTX for its
//! card.
//!
//! Promise: a run through CUDA needs the driver alone, and a failing call of the driver is an error
//! with the call's name. Test: `crates/gpu/src/cuda/tests.rs`, on a stand-in for the driver's
//! library.

pub(crate) mod canonical;
pub(crate) mod driver;
pub(crate) mod compile;
mod server;
pub(crate) mod stored;
mod ptx;
mod library;
#[cfg(test)]
mod simulated;
#[cfg(test)]
mod tests;

use cubecl::prelude::Client;
use cubecl_common::device::DeviceId;

pub(crate) use self::library::{Library, adapters, faults};
#[cfg(test)]
pub(crate) use self::simulated::Simulated;
use self::{driver::Driver, server::CudaServer};
use crate::{
    adapter::{Adapter, GpuProperties},
    kernels::{math::SumOrder, product::ProductUnits},
};

fn id(index: u16) -> DeviceId {
    DeviceId { type_id: 0, index_id: index }
}

/// Opens a device of one of the drivers.
pub(crate) fn open<D: Driver>(
    index: u16,
    adapter: &Adapter,
) -> Result<(Client, GpuProperties), String> {
    let client = Client::load::<CudaServer<D>>(id(index));
    client.flush().map_err(|error| error.to_string())?; // reports why it did not open
    let of = client.properties();
    let shared_bytes = of.hardware.max_shared_memory_size;
    let (core, sums) = (ProductUnits::of(of), SumOrder::with_planes_of(&of.hardware));
    Ok((client.clone(), GpuProperties { shared_bytes, core, sums, ..adapter.properties }))
}
