//! The CPU's kernels and their foundations: SIMD lanes, threads, disjoint parts of memory.
//!
//! A kernel is written once, generic over [`isa::Simd`], and runs at the machine's vector width.
//! Sums are split into blocks that depend on shapes only. Tasks run on a [`pool::Pool`]. The number
//! of threads decides which thread computes a number and how large the tasks of a product are; it
//! never changes a result.
//!
//! Kernels allocate nothing: the caller passes scratch, whose size is a pure function of the shape.

mod attention;
mod backend;
mod cross_entropy;
mod dispatch;
mod dropout;
mod embed;
pub mod exp;
pub mod gelu;
pub mod isa;
mod linear;
pub mod matmul;
mod muon;
mod norm;
pub mod parts;
pub mod pool;
mod product;
pub mod rates;
mod rotary;
mod rows;
mod swiglu;
mod sync;
mod target;
mod update;
mod update_8bit;

pub use self::{backend::Cpu, target::CpuTarget, update::gradient_norm};

/// The threads that kernels run on and the instruction set they use.
#[derive(Debug)]
struct Machine {
    pool: pool::Pool,
    isa: isa::Isa,
}
