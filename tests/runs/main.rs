//! Whole runs of the built program, as a user starts them.

mod bench;
mod cli;
mod demo;
mod devices;
#[cfg(target_os = "linux")]
mod memory;
mod patch;
mod program;
mod training;
