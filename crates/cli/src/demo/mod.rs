//! `fitgpt demo`: shows on this machine what the program promises.
//!
//! Every step prints the commands that it runs as a user would type them, a few lines of their
//! output, and a verdict that it computed. No network; everything happens in a temporary folder.
//!
//! Promise: what the program promises can be checked on any machine in a minute. Test:
//! `tests/runs/demo.rs`.

mod sandbox;

use std::{path::Path, time::Instant};

use clap::{Arg, ArgAction, ArgMatches, Command};
use fitgpt_commands::Failure;
use fitgpt_program::units::Bytes;
use fitgpt_run::{budget::HOST_OVERHEAD, stop::StopFlag};
use serde_json::json;

use self::sandbox::{DemoFolder, Excerpt, Sandbox, StepError};
use super::{Outcome, OutputStyle};
use crate::{
    terminal,
    words::{demo as words, names},
};

const LOG: &str = include_str!("../../../../examples/estimate-loss-batch-64.log");
const CONFIG: &str = include_str!("../../../../examples/estimate-loss-batch-64.py");
const SMALL: &str = include_str!("small.py");
const WIDE: &str = include_str!("wide.py");

/// Largest difference of the losses of two splits: float32 sums in another order, over the steps
/// of `small.py`. The project promises this for every split.
const SPLIT_TOLERANCE: f64 = 1e-4;

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

/// How a step ended.
enum DemoOutcome {
    Passed(String),
    /// This system cannot show it; with the reason, in the user's language.
    Skipped(String),
}

/// One thing to show: its name in JSON, its heading, and the function that runs it.
struct DemoStep {
    name: &'static str,
    title: fn() -> String,
    run: fn(&Sandbox) -> Result<DemoOutcome, StepError>,
}

const STEPS: [DemoStep; 6] = [
    DemoStep { name: "doctor", title: words::doctor, run: doctor },
    DemoStep { name: "fit", title: words::fit, run: fit },
    DemoStep { name: "plan", title: words::plan, run: plan },
    DemoStep { name: "limit", title: words::limit, run: limit },
    DemoStep { name: "split", title: words::split, run: split },
    DemoStep { name: "resume", title: words::resume, run: resume },
];

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
        let (verdict, is_skipped) = match (step.run)(&sandbox) {
            Ok(DemoOutcome::Passed(verdict)) => (words::passed(verdict), false),
            Ok(DemoOutcome::Skipped(reason)) => (words::skipped(reason), true),
            Err(StepError::Stopped) => return Err(Failure::stopped()),
            Err(StepError::Failed(reason)) => {
                return Err(Failure::new("demo", words::failed(index + 1, title, reason)));
            }
        };
        sandbox.print(&format!("-- {verdict}\n"));
        shown.push(json!({
            "name": step.name,
            "passed": !is_skipped,
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

/// An out-of-memory log is explained.
fn doctor(sandbox: &Sandbox) -> Result<DemoOutcome, StepError> {
    let rule = "stale-logits";
    sandbox.write("oom.log", LOG)?;
    sandbox.write("oom.py", CONFIG)?;
    let excerpt = Excerpt::Containing(vec![format!("{rule}:")]);
    let output = sandbox.fitgpt(&["doctor", "oom.log", "--config", "oom.py"], &excerpt)?;
    output.ended_with(0)?;
    if !output.text.contains(rule) {
        return Err(StepError::Failed(words::not_found(rule)));
    }
    Ok(DemoOutcome::Passed(words::doctor_passed(rule)))
}

/// The config of that log is fitted to its card.
fn fit(sandbox: &Sandbox) -> Result<DemoOutcome, StepError> {
    let card = ["--engine", "torch", "--gpu", "RTX 4070"];
    let plan = |file| [&["plan", file], &card[..]].concat();
    let verdict = Excerpt::LastContaining("GeForce RTX 4070");
    sandbox.fitgpt(&plan("oom.py"), &verdict)?.ended_with(1)?;
    let fit = [&["fit", "oom.py"], &card[..], &["--write", "fitted.py"]].concat();
    sandbox.fitgpt(&fit, &Excerpt::Containing(vec!["fitted.py".to_owned()]))?.ended_with(0)?;
    sandbox.fitgpt(&plan("fitted.py"), &verdict)?.ended_with(0)?;
    sandbox.keep_json(&plan("oom.py"), 1, "oom.json")?;
    sandbox.keep_json(&plan("fitted.py"), 0, "fitted.json")?;
    let sequences = |file| sandbox.kept_number(file, "/effective_batch/sequences");
    let (before, after) = (sequences("oom.json")?, sequences("fitted.json")?);
    if before != after {
        return Err(StepError::Failed(words::other_batch(before, after)));
    }
    Ok(DemoOutcome::Passed(words::fit_passed(after)))
}

/// Every byte of a run, before it starts.
fn plan(sandbox: &Sandbox) -> Result<DemoOutcome, StepError> {
    sandbox.write("wide.py", WIDE)?;
    sandbox.fitgpt(&["plan", "wide.py"], &Excerpt::All)?.ended_with(0)?;
    sandbox.keep_json(&["plan", "wide.py"], 0, "plan.json")?;
    Ok(DemoOutcome::Passed(words::plan_passed(arena(sandbox)?)))
}

/// The arena of the plan that [`plan`] wrote.
fn arena(sandbox: &Sandbox) -> Result<Bytes, StepError> {
    sandbox.kept_number("plan.json", "/arena_bytes").map(Bytes::new)
}

/// A limit just above the plan is enough; below it, the run is refused before it starts.
fn limit(sandbox: &Sandbox) -> Result<DemoOutcome, StepError> {
    let arena = arena(sandbox)?;
    let [_, overhead] = HOST_OVERHEAD.range();
    let error = Excerpt::Containing(vec![names::error()]);
    let refused = ["train", "wide.py", "--out_dir=refused"];
    let Some(refused) = sandbox.limited(&refused, arena, &error) else {
        return Ok(DemoOutcome::Skipped(words::no_limit_here()));
    };
    refused?.ended_with(1)?;
    // The budget keeps one part in 64 for the system, and the program's own pages count too.
    let enough = Bytes::new(((arena + overhead).get() * 64).div_ceil(63)) + overhead;
    let limited = ["train", "wide.py", "--out_dir=limited"];
    let Some(output) = sandbox.limited(&limited, enough, &LAST_STEP) else {
        return Ok(DemoOutcome::Skipped(words::no_limit_here()));
    };
    output?.ended_with(0)?;
    Ok(DemoOutcome::Passed(words::limit_passed(arena, enough)))
}

/// nanoGPT's log line of the last step.
const LAST_STEP: Excerpt = Excerpt::LastStarting("iter ");

/// The same effective batch in two splits is the same training.
fn split(sandbox: &Sandbox) -> Result<DemoOutcome, StepError> {
    sandbox.write("small.py", SMALL)?;
    sandbox.fitgpt(&["train", "small.py", "--out_dir=16x1"], &LAST_STEP)?.ended_with(0)?;
    let parts = ["--batch_size=4", "--gradient_accumulation_steps=4", "--out_dir=4x4"];
    sandbox.fitgpt(&[&["train", "small.py"], &parts[..]].concat(), &LAST_STEP)?.ended_with(0)?;
    let (whole, parts) = (sandbox.losses("16x1")?, sandbox.losses("4x4")?);
    let difference = largest_difference(&whole, &parts)
        .ok_or_else(|| StepError::Failed(words::other_steps(whole.len(), parts.len())))?;
    let shown = format!("{difference:.1e}");
    if difference > SPLIT_TOLERANCE {
        return Err(StepError::Failed(words::losses_differ(shown)));
    }
    Ok(DemoOutcome::Passed(words::split_passed(whole.len(), shown)))
}

/// A run that is killed continues as if nothing had happened.
fn resume(sandbox: &Sandbox) -> Result<DemoOutcome, StepError> {
    let killed = sandbox.killed_at(&["train", "small.py", "--out_dir=killed"], "iter 50:")?;
    killed.was_killed()?;
    let resume = ["train", "--init_from=resume", "--out_dir=killed"];
    sandbox.fitgpt(&resume, &LAST_STEP)?.ended_with(0)?;
    let (whole, killed) = (sandbox.losses("16x1")?, sandbox.losses("killed")?);
    if whole != killed {
        let shown = largest_difference(&whole, &killed).map(|d| format!("{d:.1e}"));
        return Err(StepError::Failed(match shown {
            Some(shown) => words::losses_differ(shown),
            None => words::other_steps(whole.len(), killed.len()),
        }));
    }
    Ok(DemoOutcome::Passed(words::resume_passed(whole.len())))
}

/// Largest difference at any step; `None` if the runs do not have the same steps. A loss that is
/// not a number is infinitely far from any other.
fn largest_difference(a: &[f64], b: &[f64]) -> Option<f64> {
    let distance = |(a, b): (&f64, &f64)| {
        let distance = (a - b).abs();
        if distance.is_nan() { f64::INFINITY } else { distance }
    };
    (a.len() == b.len() && !a.is_empty()).then(|| a.iter().zip(b).map(distance).fold(0.0, f64::max))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_step_decides() {
        assert_eq!(largest_difference(&[1.0, 2.0], &[1.0, 1.5]), Some(0.5));
        assert_eq!(largest_difference(&[1.0, f64::NAN], &[1.0, 1.5]), Some(f64::INFINITY));
        assert_eq!(largest_difference(&[1.0], &[1.0, 1.5]), None);
        assert_eq!(largest_difference(&[], &[]), None);
    }

    #[test]
    fn a_folder_with_something_in_it_is_refused_and_a_new_one_is_kept() {
        let parent = tempfile::tempdir().unwrap();
        std::fs::write(parent.path().join("mine"), "").unwrap();
        assert!(DemoFolder::kept(parent.path()).is_err());
        assert!(parent.path().join("mine").exists());
        drop(DemoFolder::kept(&parent.path().join("new")).unwrap());
        assert!(parent.path().join("new").exists());
    }
}
