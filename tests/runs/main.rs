//! Whole runs of the built program, as a user starts them.

mod cli;
#[cfg(target_os = "linux")]
mod memory;
mod patch;
mod pictures;
mod program;
mod training;
