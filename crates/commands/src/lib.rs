//! What the commands do: typed requests and answers, without a command line or a terminal.
//!
//! Whatever a user may read is a [`Sentence`](fitgpt_say::Sentence), said in the language of the
//! reader by the caller.
//!
//! Promise: bad input of every kind gives exit code 2 and loses no checkpoint. Test:
//! `tests/runs/bad_input.rs`.

#![forbid(unsafe_code)]

mod words;
pub mod labels;
mod failure;
pub mod origin;
pub mod target;
pub mod engines;
pub mod config_file;
pub mod fit_options;
pub mod together;
mod plan_ranks;
mod remarks;
pub mod plan;
pub mod fit;
pub mod doctor;
pub mod download;
pub mod prepare;
pub mod export;
pub mod begin;
mod vocabulary;
pub mod out_dir;
pub mod prompt;
pub mod sample;
pub mod train;

pub use self::failure::{Failure, held_by, holders, label};
