//! Whole runs of the built program, as a user starts them.

mod cli;
mod languages;
#[cfg(target_os = "linux")]
mod memory;
mod patch;
mod program;
mod training;
