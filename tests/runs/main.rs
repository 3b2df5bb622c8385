//! Whole runs of the built program, as a user starts them.

mod bad_input;
mod bench;
mod cli;
mod demo;
mod devices;
mod families;
mod fitting;
mod languages;
#[cfg(target_os = "linux")]
mod memory;
mod nothing_lost;
mod optimizers;
mod patch;
mod pictures;
mod presets;
mod program;
mod training;
mod weights;
