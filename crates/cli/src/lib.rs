//! The command line: arguments in, an exit code out. One file per command.
//!
//! 0 done · 1 the answer is no · 2 something went wrong · 130 stopped by a signal, after saving.

#![forbid(unsafe_code)]

mod words;
mod picture;
mod terminal;
mod demo;
mod keys;
mod named;
mod args;
mod cards;
mod plan_text;
mod plan;
mod export;
mod prepare;
mod progress;
mod estimate;
mod bench;
mod doctor;
mod fit_table;
mod fit;
mod patch;
mod sample;
mod selftest;
mod watch;
mod devices;
mod serve;
mod train;
mod completions;
mod command;

use std::{ffi::OsString, process::ExitCode};

use clap::{
    ArgMatches,
    error::{ContextKind, ContextValue},
};
use fitgpt_commands::Failure;
use fitgpt_config::Location;
use fitgpt_say::Sentence;

pub use self::command::command;
use self::progress::LogStream;
use crate::words::Lang;

/// The most values of an argument that an error lists.
const MAX_LISTED_VALUES: usize = 30;

/// How a command ended if nothing went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is done, or the answer is yes.
    Yes,
    /// The answer is no.
    No,
    /// Stopped by a signal; everything is saved.
    Stopped,
}

/// Whether a command prints text for people or JSON for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OutputStyle {
    Text,
    Json,
}

impl From<OutputStyle> for LogStream {
    fn from(style: OutputStyle) -> Self {
        match style {
            OutputStyle::Text => Self::Stdout,
            OutputStyle::Json => Self::Stderr,
        }
    }
}

/// Runs the program with its arguments, its own name first.
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args: Vec<_> = args.into_iter().collect();
    let wants_json = args.iter().skip(1).any(|arg| arg == "--json");
    // JSON is English in every locale, including the messages in it.
    words::set_lang(if wants_json { Lang::English } else { words::of_locale() });
    let matches = match command().try_get_matches_from(&args) {
        Ok(matches) => matches,
        Err(mut error) if error.use_stderr() => {
            shorten(&mut error);
            if wants_json {
                return fail(&usage(&error), OutputStyle::Json);
            }
            terminal::err(&error.render().to_string());
            return ExitCode::from(2);
        }
        // clap returns `--help` and `--version` as errors.
        Err(help) => {
            terminal::out_styled(&help.render());
            return ExitCode::SUCCESS;
        }
    };
    if let Some(code) = matches.get_one::<String>("lang").filter(|_| !wants_json) {
        words::set_lang(Lang::of(code).expect("clap accepts only these languages"));
    }
    let style = if wants_json { OutputStyle::Json } else { OutputStyle::Text };
    match dispatch(&matches, style) {
        Ok(_) if terminal::has_lost_output() => ExitCode::from(2),
        Ok(Outcome::Yes) => ExitCode::SUCCESS,
        Ok(Outcome::No) => ExitCode::from(1),
        Ok(Outcome::Stopped) => ExitCode::from(130),
        Err(failure) => fail(&failure, style),
    }
}

/// The command line itself is wrong.
fn usage(error: &clap::Error) -> Failure {
    let text = error.render().to_string();
    let message = text.lines().next().unwrap_or_default();
    let message = message.trim_start_matches("error: ");
    Failure::new("usage", message).at(Sentence::about(&Location::command_line()))
}

/// Leaves out a list of accepted values that would fill the screen, such as that of all cards.
fn shorten(error: &mut clap::Error) {
    if let Some(ContextValue::Strings(values)) = error.get(ContextKind::ValidValue)
        && values.len() > MAX_LISTED_VALUES
    {
        let _ = error.remove(ContextKind::ValidValue);
    }
}

fn dispatch(matches: &ArgMatches, style: OutputStyle) -> Result<Outcome, Failure> {
    if let Some((_, matches)) = matches.subcommand()
        && args::asks_for_cards(matches)
    {
        return Ok(cards::print(style));
    }
    match matches.subcommand() {
        Some(("plan", matches)) => plan::run(matches, style),
        Some(("doctor", matches)) => doctor::run(matches, style),
        Some(("prepare", matches)) => prepare::run(matches, style),
        Some(("export", matches)) => export::run(matches, style),
        Some(("fit", matches)) => fit::run(matches, style),
        Some(("patch", matches)) => patch::run(matches, style),
        Some(("bench", matches)) => bench::run(matches, style),
        Some(("train", matches)) => train::run(matches, style),
        Some(("sample", matches)) => sample::run(matches, style),
        Some(("devices", matches)) => devices::run(matches, style),
        Some(("serve", matches)) => serve::run(matches, style),
        Some(("demo", matches)) => demo::run(matches, style),
        Some(("completions", matches)) => completions::run(matches, &mut command()),
        other => unreachable!("clap accepts no other command: {other:?}"),
    }
}

fn fail(failure: &Failure, style: OutputStyle) -> ExitCode {
    match style {
        _ if !failure.is_reported_here() => {}
        OutputStyle::Json => terminal::json(&failure.to_json(words::lang())),
        OutputStyle::Text => terminal::err(&failure.to_text(words::lang())),
    }
    ExitCode::from(2)
}
