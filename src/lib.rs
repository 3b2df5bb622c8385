//! The rooms of `fitgpt`. The program itself is thin: it reads a command line and calls these.

pub mod checkpoint;
pub mod run;
