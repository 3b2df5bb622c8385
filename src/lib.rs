//! `fitgpt`: trains GPT-2-class models in a memory budget that it knows before the first step.
//!
//! The modules of the program; `main.rs` only calls [`cli::run`].

#![forbid(unsafe_code)]

pub mod cli;

pub mod attempt;
pub mod budget;
mod cards;
pub mod data;
pub mod export;
pub mod formats;
pub mod hub;
pub mod prepare;
pub mod pytorch;
pub mod tokenizer;

pub mod checkpoint;
mod disk;
pub mod ranks;
pub mod run;
mod watch;

pub mod patch;
mod serve;

mod os;
pub mod picture;
mod terminal;
mod words;
