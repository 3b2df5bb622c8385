//! The CPU's kernels and their foundations: SIMD lanes, threads, disjoint parts of memory.
//!
//! A kernel is written once, generic over [`isa::Simd`], and runs at the machine's vector width.
//! Sums are split into blocks that depend on shapes only. Tasks run on a [`pool::Pool`]. The number
//! of threads decides which thread computes a number and how large the tasks of a product are; it
//! never changes a result.
//!
//! Kernels allocate nothing: the caller passes scratch, whose size is a pure function of the shape.
//!
//! Promise: neither the number of threads nor recomputation changes a bit; after its first run a
//! program allocates nothing. Test: `crates/exec/tests/cpu_conformance.rs`,
//! `crates/exec/tests/no_allocation.rs`, `tests/batches_allocate_nothing.rs`.

pub mod isa;
mod element;
mod exp;
mod gelu;
pub mod parts;
mod product;
mod rows;
mod dropout;
mod embed;
mod norm;
mod rotary;
mod swiglu;
mod sync;
pub mod pool;
mod attention;
pub mod matmul;
mod cross_entropy;
mod linear;
pub mod rates;
mod update;
mod muon;
mod target;
mod update_8bit;
mod dispatch;
mod backend;

use fitgpt_program::Products;

pub use self::{backend::Cpu, target::CpuTarget, update::gradient_norm};

/// The threads that kernels run on, and the instruction set and arithmetic that they use.
#[derive(Debug)]
struct Machine {
    pool: pool::Pool,
    isa: isa::Isa,
    products: Products,
}

impl Machine {
    /// How activations of type `E` are multiplied.
    #[inline(always)]
    fn products<E: element::Element>(&self) -> Products {
        if E::HAS_PAIRS { self.products } else { Products::Float32 }
    }
}
