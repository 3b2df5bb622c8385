//! Runs planned programs on a backend, in one arena.

#![expect(
    clippy::inline_always,
    reason = "a kernel is compiled for an instruction set only where it is inlined into code for it"
)]

pub mod cpu;
pub mod element;
pub mod random;
