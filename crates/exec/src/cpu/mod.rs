//! The CPU's kernels, and what they stand on: lanes, threads, disjoint parts.
//!
//! A kernel is written once over [`isa::Simd`] and runs at the width the machine has. Work is
//! cut into blocks by shapes alone and handed to a [`pool::Pool`]; the number of threads decides
//! who computes a block, never what is computed.
//!
//! Kernels allocate nothing: scratch is given by the caller, its size is a pure function.

pub mod exp;
pub mod gelu;
pub mod isa;
pub mod matmul;

pub mod parts;
pub mod pool;
