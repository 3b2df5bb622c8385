//! Whole runs of the built program, as a user starts them.

mod advice;
mod bad_input;
mod bench;
mod cli;
mod commands;
mod demo;
mod devices;
mod families;
mod first_steps;
mod fitting;
mod folders;
mod languages;
#[cfg(target_os = "linux")]
mod memory;
mod nanogpt;
mod nothing_lost;
mod optimizers;
mod outputs;
#[cfg(unix)]
mod own_text;
mod patch;
mod pictures;
mod prepare;
mod presets;
mod program;
mod ranks;
mod samples;
mod serve;
#[cfg(target_os = "linux")]
mod terminals;
mod training;
mod verdicts;
mod vocabulary;
mod weights;
