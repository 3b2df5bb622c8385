//! The program `fitgpt`; everything is in [`fitgpt_cli::run`].

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    fitgpt_cli::run(std::env::args_os())
}
