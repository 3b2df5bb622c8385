//! Memory planning: from programs to slots in one arena.
//!
//! The planner sees sizes and lifetimes. It never sees a device handle, a file or a float, so
//! a plan for an 80 GiB card can be made on a laptop.
//!
//! Invariant: two tensors alive at the same op never share a byte. [`verify`] checks it, and
//! nothing runs on a plan that has not passed.
//!
//! Promise: a change of planned memory is visible. Test: snapshots in `tests/library/snapshots`.

mod liveness;
mod occupied;
mod place;
mod words;
#[cfg(test)]
mod tests;
mod verify;

use serde::Serialize;

pub use self::{
    liveness::{Lifetime, Peak, Profile, lifetimes, profile},
    place::{FitCheck, PlanError, place},
    verify::{PlacedOperand, PlanFault, VerifiedPlan, verify},
};
use crate::{
    Op, Program,
    units::{Bytes, DType},
};

/// Memory held by a device's runtime, by name. Part of [`Overhead::workspace_bytes`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RuntimePool {
    /// What it is used for.
    pub name: &'static str,
    /// All of it.
    pub bytes: Bytes,
}

/// What the planner needs to know about a backend. Pure: needs no device.
pub trait Target {
    /// Alignment, and the largest allocation and binding.
    fn limits(&self) -> Limits;

    /// Bytes that `op` needs while it runs, in addition to its operands.
    fn scratch(&self, program: &Program, op: &Op) -> Bytes;

    /// The type of the matrices that sampling multiplies by `activations`: bfloat16 if the device
    /// rounds them to it in every product anyway, so that storing them so changes no bit.
    fn sampled_matrices(&self, activations: DType) -> DType {
        let _ = activations;
        DType::F32
    }
}

impl<T: Target + ?Sized> Target for &T {
    fn limits(&self) -> Limits {
        (**self).limits()
    }

    fn scratch(&self, program: &Program, op: &Op) -> Bytes {
        (**self).scratch(program, op)
    }

    fn sampled_matrices(&self, activations: DType) -> DType {
        (**self).sampled_matrices(activations)
    }
}

/// A device's requirements for slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Every slot begins at a multiple of this; sizes are counted rounded up to it.
    pub alignment: u64,
    /// The largest single allocation.
    pub max_chunk: Bytes,
    /// The largest range that can be bound to a kernel.
    pub max_binding: Bytes,
    /// Bytes left free after every slot; tests write a pattern there.
    pub guard: Bytes,
}

impl Limits {
    /// A host: one allocation of any size, slots on cache lines.
    pub const HOST: Self = Self {
        alignment: 64,
        max_chunk: Bytes::new(u64::MAX / 2),
        max_binding: Bytes::new(u64::MAX / 2),
        guard: Bytes::ZERO,
    };
}

/// A kind of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Space {
    /// The memory of the device that runs the kernels.
    Device,
}

/// A byte range of the arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot {
    /// The kind of memory.
    pub space: Space,
    /// Which of the arena's allocations.
    pub chunk: u32,
    /// First byte in the chunk.
    pub start: Bytes,
    /// One past the last byte.
    pub end: Bytes,
}

impl Slot {
    /// Its length.
    pub fn bytes(&self) -> Bytes {
        self.end.saturating_sub(self.start)
    }
}

/// One program with a slot for each of its tensors, and for the scratch of each op.
#[derive(Clone, Debug, PartialEq)]
pub struct PlacedProgram {
    /// The program.
    pub program: Program,
    /// By tensor.
    pub slots: Vec<Slot>,
    /// By op; `None` if it needs none.
    pub scratch: Vec<Option<Slot>>,
}

/// Slots for several programs that share their state and their workspace.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// In the order given.
    pub programs: Vec<PlacedProgram>,
    /// Sizes of the arena's allocations.
    pub chunks: Vec<Bytes>,
}

impl Plan {
    /// What is allocated.
    pub fn arena_bytes(&self) -> Bytes {
        self.chunks.iter().copied().sum()
    }
}
