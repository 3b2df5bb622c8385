//! The memory that the runtime keeps for kernel arguments and copies.
//!
//! CubeCL keeps the arguments of the last 512 distinct launches, and staging memory for copies.
//! Their size would depend on what has run, and a page of arguments that was used once may be freed
//! and replaced by a smaller one. So a run starts with launches that use each page three times and
//! a copy of the largest size; after that the pools keep their exact size. The same happens, and is
//! measured, when a device is opened, and plans include that figure. Copies to the device are split
//! into pieces of 1 MiB, of which `wgpu` queues at most 64 in host memory.
//!
//! Promise: a device holds exactly the planned arena and pools, at the start and after 1 and 50
//! steps, and all of it is freed. Test: `crates/gpu/tests/training.rs`.

use cubecl::prelude::{BufferArg, Client};

use crate::kernels::{
    grid::{cubes, line},
    update::{self, AdamConstantsLaunch},
};

/// Copies to and from the host go through staging memory in pieces of this many bytes. The runtime
/// queues up to 64 pieces on their way to the device in host memory.
pub(crate) const PIECE: u64 = 1 << 20;

/// Enough launches to use every page of the runtime's arguments three times: see [`settle`].
const LAUNCHES: u32 = 3 * 513;

/// Brings the runtime's pools to their final size.
///
/// Arguments: through `wgpu` the runtime keeps those of the last 512 distinct launches, each in its
/// own page, plus one free page between two launches. On every thousandth request it adds one to
/// the count of the page that is free at that moment, subtracts one when the page is used, and
/// frees it at 5. A page starts with 4, so a page that was used once may be freed and replaced by
/// one of another size; a page that was used again is free for a single launch and stays. The
/// second pass over the pages contains such a thousandth request, so a third is needed.
///
/// Copies to the host: one page of the largest size. As there is no smaller one, every copy uses
/// it.
pub(crate) fn settle(client: &Client) -> Result<(), String> {
    let place = client.memory_dedicated_allocation((), |()| client.empty(PIECE as usize));
    let many = || AdamConstantsLaunch::new(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0);
    for number in 0..LAUNCHES {
        // SAFETY: the kernel writes one number, and one is bound.
        unsafe {
            update::with_many_arguments::launch_unchecked(
                client,
                cubes(1),
                line(),
                BufferArg::from_raw_parts(place.clone(), 1),
                number as f32,
                many(),
                many(),
                many(),
                many(),
            );
        }
    }
    client.read_one(place).map(drop).map_err(|error| error.to_string())
}

/// Waits until the device has finished all work.
pub(crate) fn sync(client: &Client) -> Result<(), String> {
    cubecl::future::block_on(client.sync()).map_err(|error| error.to_string())
}

/// Makes the runtime free memory that is not in use.
pub(crate) fn clean(client: &Client) -> Result<(), String> {
    client.memory_cleanup().map_err(|error| error.to_string())?;
    sync(client)
}
