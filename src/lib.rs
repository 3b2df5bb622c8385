//! `fitgpt`: trains GPT-2-class models in a memory budget that it knows before the first step.
//!
//! The modules of the program; `main.rs` only calls [`cli::run`].

#![forbid(unsafe_code)]

mod words;
mod serve;
pub mod picture;
mod terminal;
pub mod cli;
