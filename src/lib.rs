//! `fitgpt`: trains GPT-2-class models in a memory budget that it knows before the first step.
//!
//! This is the map of the program's rooms; `main.rs` only opens the door.

pub mod cli;

pub mod attempt;
pub mod budget;
mod cards;
pub mod data;
pub mod formats;
pub mod prepare;
pub mod tokenizer;

pub mod checkpoint;
pub mod run;
mod watch;

pub mod patch;

mod os;
pub mod picture;
mod terminal;
mod words;
