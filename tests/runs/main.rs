//! Whole runs of the built program, as a user starts them.

mod bench;
mod cli;
#[cfg(target_os = "linux")]
mod memory;
mod patch;
mod program;
mod training;
