//! The door of `fitgpt`: everything else is behind [`fitgpt::cli::run`].

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    fitgpt::cli::run(std::env::args_os())
}
