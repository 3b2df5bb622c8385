//! `fitgpt demo`: shows on this machine what the program promises.
//!
//! A list of commands as a user would type them, each with its exit code and with what its output
//! must have. No network; everything happens in a temporary folder.
//!
//! Promise: what the program promises can be checked on any machine in a minute. Test:
//! `tests/runs/demo.rs`.

mod sandbox;

use std::{path::Path, time::Instant};

use clap::{Arg, ArgAction, ArgMatches, Command};
use fitgpt_commands::Failure;
use fitgpt_run::stop::StopFlag;
use serde_json::json;

use self::sandbox::{DemoCommand, DemoFolder, Ending, Lines, Sandbox, StepError};
use super::{Outcome, OutputStyle};
use crate::{
    terminal,
    words::{demo as words, names},
};

/// The files that the commands read.
const FILES: [(&str, &str); 4] = [
    ("oom.log", include_str!("../../../../examples/estimate-loss-batch-64.log")),
    ("oom.py", include_str!("../../../../examples/estimate-loss-batch-64.py")),
    ("small.py", include_str!("small.py")),
    ("wide.py", include_str!("wide.py")),
];

/// Largest difference of the losses of two splits: float32 sums in another order, over the steps
/// of `small.py`. The project promises this for every split.
const SPLIT_TOLERANCE: f64 = 1e-4;

/// nanoGPT's log line of the last step.
const LAST_STEP: Lines = Lines::Last("iter ");

/// One thing to show.
struct DemoStep {
    /// In JSON.
    name: &'static str,
    title: fn() -> String,
    commands: &'static [DemoCommand],
    /// Two runs, and how far the losses of any step may be apart.
    compares: Option<([&'static str; 2], f64)>,
}

const STEPS: [DemoStep; 6] = [
    DemoStep {
        name: "doctor",
        title: words::doctor,
        commands: &[done("doctor oom.log --config oom.py", Lines::With("stale-logits:"))],
        compares: None,
    },
    DemoStep {
        name: "fit",
        title: words::fit,
        commands: &[
            // A step keeps its 512 sequences.
            DemoCommand {
                typed: "plan oom.py --engine torch --gpu 4070",
                ends: Ending::With(1),
                shows: Lines::With(" = 512 "),
            },
            done(
                "fit oom.py --engine torch --gpu 4070 --write fitted.py",
                Lines::With("fitted.py"),
            ),
            done("plan fitted.py --engine torch --gpu 4070", Lines::With(" = 512 ")),
        ],
        compares: None,
    },
    DemoStep {
        name: "plan",
        title: words::plan,
        commands: &[done("plan wide.py", Lines::All)],
        compares: None,
    },
    DemoStep {
        name: "limit",
        title: words::limit,
        commands: &[
            DemoCommand {
                typed: "train wide.py --out_dir=refused",
                ends: Ending::RefusedBelowItsPlan,
                shows: Lines::Errors,
            },
            DemoCommand {
                typed: "train wide.py --out_dir=limited",
                ends: Ending::DoneJustAboveItsPlan,
                shows: LAST_STEP,
            },
        ],
        compares: None,
    },
    DemoStep {
        name: "split",
        title: words::split,
        commands: &[
            done("train small.py --out_dir=16x1", LAST_STEP),
            done(
                "train small.py --batch_size=4 --gradient_accumulation_steps=4 --out_dir=4x4",
                LAST_STEP,
            ),
        ],
        compares: Some((["16x1", "4x4"], SPLIT_TOLERANCE)),
    },
    DemoStep {
        name: "resume",
        title: words::resume,
        commands: &[
            DemoCommand {
                typed: "train small.py --out_dir=killed",
                ends: Ending::KilledAt("iter 50:"),
                shows: Lines::Last("iter 50:"),
            },
            done("train --init_from=resume --out_dir=killed", LAST_STEP),
        ],
        compares: Some((["16x1", "killed"], 0.0)),
    },
];

/// A command that ends with exit code 0.
const fn done(typed: &'static str, shows: Lines) -> DemoCommand {
    DemoCommand { typed, ends: Ending::With(0), shows }
}

pub(super) fn command() -> Command {
    Command::new("demo")
        .about("Shows what the program promises, on this machine, in about a minute")
        .arg(
            Arg::new("keep")
                .long("keep")
                .value_name("DIR")
                .help("Work in this new or empty folder and keep everything, with the full output"),
        )
        .arg(
            Arg::new("json")
                .long("json")
                .action(ArgAction::SetTrue)
                .help("Print one JSON document; the text goes to stderr"),
        )
        .after_help("Examples:\n  fitgpt demo\n  fitgpt demo --keep demo --lang de")
}

pub(super) fn run(matches: &ArgMatches, style: OutputStyle) -> Result<Outcome, Failure> {
    let stop = StopFlag::on_signals().map_err(|error| Failure::signals(&error))?;
    let folder = match matches.get_one::<String>("keep") {
        Some(path) => DemoFolder::kept(Path::new(path))
            .map_err(|error| Failure::new("file", words::file(path, error)))?,
        None => DemoFolder::temporary().map_err(|error| Failure::new("file", error.to_string()))?,
    };
    let sandbox = Sandbox::new(folder, matches.get_one("lang"), style, stop)?;
    let started = Instant::now();
    let mut shown = Vec::new();
    for (index, step) in STEPS.iter().enumerate() {
        let title = (step.title)();
        sandbox.print(&format!("== {} / {}  {title}", index + 1, STEPS.len()));
        let clock = Instant::now();
        let passed = match show(&sandbox, step) {
            Ok(()) => true,
            Err(StepError::NoLimitHere) => false,
            Err(StepError::Stopped) => return Err(Failure::stopped()),
            Err(StepError::Failed(reason)) => {
                return Err(Failure::new("demo", words::failed(index + 1, title, reason)));
            }
        };
        let verdict = if passed { words::passed() } else { words::no_limit_here() };
        sandbox.print(&format!("-- {verdict}\n"));
        shown.push(json!({
            "name": step.name,
            "passed": passed,
            "seconds": clock.elapsed().as_secs_f64(),
        }));
    }
    let seconds = started.elapsed().as_secs_f64();
    let passed = shown.iter().filter(|step| step["passed"] == true).count();
    sandbox.print(&words::done(passed, STEPS.len(), format!("{seconds:.0}")));
    if let Some(path) = matches.get_one::<String>("keep") {
        sandbox.print(&words::kept(path));
    } else {
        sandbox.print(&names::next(format!("fitgpt demo --keep demo  ({})", words::keep())));
    }
    sandbox.print(&names::next(format!("fitgpt train  ({})", words::train())));
    if style == OutputStyle::Json {
        terminal::json(&json!({ "steps": shown, "seconds": seconds }));
    }
    Ok(Outcome::Yes)
}

/// Runs the commands of a step and compares its runs.
fn show(sandbox: &Sandbox, step: &DemoStep) -> Result<(), StepError> {
    for (name, text) in FILES {
        sandbox.write(name, text)?;
    }
    for command in step.commands {
        sandbox.show(command)?;
    }
    let Some(([a, b], most)) = step.compares else { return Ok(()) };
    let apart = largest_difference(&sandbox.losses(a)?, &sandbox.losses(b)?);
    let sentence = words::losses_differ(a, b, format!("{apart:.1e}"));
    if apart > most {
        return Err(StepError::Failed(sentence));
    }
    sandbox.print(&format!("  {sentence}"));
    Ok(())
}

/// Largest difference at any step; infinite if one run lacks a step or a loss is not a number.
fn largest_difference(a: &[f64], b: &[f64]) -> f64 {
    let apart = |(a, b): (&f64, &f64)| (a - b).abs();
    if a.len() != b.len() || a.iter().chain(b).any(|loss| loss.is_nan()) {
        return f64::INFINITY;
    }
    a.iter().zip(b).map(apart).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::float_cmp, reason = "the differences are exact")]
    fn the_worst_step_decides() {
        assert_eq!(largest_difference(&[1.0, 2.0], &[1.0, 1.5]), 0.5);
        assert_eq!(largest_difference(&[1.0, f64::NAN], &[1.0, 1.5]), f64::INFINITY);
        assert_eq!(largest_difference(&[1.0], &[1.0, 1.5]), f64::INFINITY);
    }
}
