//! Runs planned programs on a backend, in one arena.
//!
//! `reference` defines every op in plain loops, `cpu` has the fast kernels, and `conformance`
//! compares any backend with the reference.
//!
//! Promise: a refactoring changes no bit of GPT-2's losses, norms and weights, in three types, with
//! dropout, biases, recomputation and resuming, on portable, AVX2 and AVX-512 code; unsafe code is
//! only in the files that are listed. Test: `tests/library/gpt2_bits.rs`, `tests/unsafe_code.rs`.

#![deny(clippy::wildcard_enum_match_arm)]
#![expect(
    clippy::inline_always,
    reason = "a kernel uses an instruction set only if it is inlined into code compiled for it"
)]

pub mod arena;
mod arguments;
mod backend;
mod words;
pub mod codebook;

pub mod random;

pub mod reference;

pub mod cpu;

pub use self::{
    arena::{ArenaRefused, BeforeTouch},
    arguments::Arguments,
    backend::{Backend, BackendError, DeviceFault, GUARD, MemoryRefused, POISON, Watch},
};
