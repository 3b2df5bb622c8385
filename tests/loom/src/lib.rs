//! The thread pool of `crates/exec`, compiled with `loom`'s types instead of the standard
//! library's.

pub mod cpu;
