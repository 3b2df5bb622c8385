//! `crates/exec`'s thread pool, compiled over `loom` in place of the standard library.

pub mod cpu;
