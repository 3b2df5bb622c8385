//! The CPU's kernels, and what they stand on: lanes, threads, disjoint parts.
//!
//! A kernel is written once over [`isa::Simd`] and runs at the width the machine has. Sums are
//! cut into blocks by shapes alone. Tasks go to a [`pool::Pool`]; the number of threads decides
//! who computes a number, and how large the tasks of a product are, never what is computed.
//!
//! Kernels allocate nothing: scratch is given by the caller, its size is a pure function.

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

pub use self::{backend::Cpu, target::CpuTarget};

/// What kernels run on: threads, and the instructions they use.
#[derive(Debug)]
struct Machine {
    pool: pool::Pool,
    isa: isa::Isa,
}
