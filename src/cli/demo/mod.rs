//! `fitgpt demo`: what the program promises, shown on this machine in a minute or two.
//!
//! Every step prints the commands that it runs, as a user could type them, what they print, and
//! a verdict that was computed. No network; everything happens in a folder that is removed.

mod stage;

use std::{path::Path, time::Instant};

use clap::{Arg, ArgAction, ArgMatches, Command};
use fitgpt_plan::units::Bytes;
use serde_json::json;

use self::stage::{Folder, Halt, Stage};
use super::{Answer, Failure, Reader};
use crate::{budget::HOST_OVERHEAD, run::stop::Stop, terminal, words::demo as say};

const LOG: &str = include_str!("../../../examples/estimate-loss-batch-64.log");
const CONFIG: &str = include_str!("../../../examples/estimate-loss-batch-64.py");
const SMALL: &str = include_str!("small.py");
const WIDE: &str = include_str!("wide.py");

/// How far losses of two splits may be apart: float32 sums in another order, over the steps of
/// `small.py`; the contract for any split.
const SPLIT_TOLERANCE: f64 = 1e-4;

pub(super) fn command() -> Command {
    Command::new("demo")
        .about("Shows what the program promises, on this machine, in a minute or two")
        .arg(
            Arg::new("keep")
                .long("keep")
                .value_name("DIR")
                .help("Work in this new or empty folder and leave everything in it"),
        )
        .arg(
            Arg::new("json")
                .long("json")
                .action(ArgAction::SetTrue)
                .help("Print one JSON document instead of text, which goes to stderr"),
        )
        .after_help("Examples:\n  fitgpt demo\n  fitgpt demo --keep demo --lang de")
}

/// What a step showed.
enum Shown {
    Passed(String),
    /// This system cannot show it; why, in words.
    LeftOut(String),
}

/// One thing to show: its name in JSON, its heading, and how it goes.
struct Step {
    name: &'static str,
    title: fn() -> String,
    play: fn(&Stage) -> Result<Shown, Halt>,
}

const STEPS: [Step; 6] = [
    Step { name: "doctor", title: say::doctor, play: doctor },
    Step { name: "fit", title: say::fit, play: fit },
    Step { name: "plan", title: say::plan, play: plan },
    Step { name: "limit", title: say::limit, play: limit },
    Step { name: "split", title: say::split, play: split },
    Step { name: "resume", title: say::resume, play: resume },
];

pub(super) fn run(matches: &ArgMatches, reader: Reader) -> Result<Answer, Failure> {
    let stop = Stop::on_signals().map_err(|error| Failure::signals(&error))?;
    let folder = match matches.get_one::<String>("keep") {
        Some(path) => Folder::kept(Path::new(path))
            .map_err(|error| Failure::new("file", say::file(path, error)))?,
        None => Folder::temporary().map_err(|error| Failure::new("file", error))?,
    };
    let stage = Stage::new(folder, matches.get_one("lang"), reader, stop)?;
    let started = Instant::now();
    let mut shown = Vec::new();
    for (index, step) in STEPS.iter().enumerate() {
        let title = (step.title)();
        stage.say(&format!("== {} / {}  {title}\n", index + 1, STEPS.len()));
        let clock = Instant::now();
        let (verdict, is_left_out) = match (step.play)(&stage) {
            Ok(Shown::Passed(verdict)) => (say::passed(verdict), false),
            Ok(Shown::LeftOut(reason)) => (say::left_out(reason), true),
            Err(Halt::Stopped) => return Ok(Answer::Stopped),
            Err(Halt::Failed(reason)) => {
                return Err(Failure::new("demo", say::failed(index + 1, title, reason)));
            }
        };
        stage.say(&format!("\n-- {verdict}\n"));
        shown.push(json!({
            "name": step.name,
            "passed": !is_left_out,
            "seconds": clock.elapsed().as_secs_f64(),
        }));
    }
    let seconds = started.elapsed().as_secs_f64();
    let passed = shown.iter().filter(|step| step["passed"] == true).count();
    stage.say(&say::done(passed, STEPS.len(), format!("{seconds:.0}")));
    if let Some(path) = matches.get_one::<String>("keep") {
        stage.say(&say::kept(path));
    }
    if reader == Reader::Programs {
        terminal::line(&json!({ "steps": shown, "seconds": seconds }).to_string());
    }
    Ok(Answer::Yes)
}

/// An out-of-memory log is explained.
fn doctor(stage: &Stage) -> Result<Shown, Halt> {
    stage.write("oom.log", LOG)?;
    stage.write("oom.py", CONFIG)?;
    let ran = stage.fitgpt(&["doctor", "oom.log", "--config", "oom.py"])?;
    ran.ended_with(0)?;
    if !ran.text.contains("stale-logits") {
        return Err(Halt::Failed(say::not_found("stale-logits")));
    }
    Ok(Shown::Passed(say::doctor_passed("stale-logits")))
}

/// The config of that log is fitted to its card.
fn fit(stage: &Stage) -> Result<Shown, Halt> {
    let there = ["--engine", "torch", "--gpu", "RTX 4070"];
    stage.fitgpt(&[&["plan", "oom.py"], &there[..]].concat())?.ended_with(1)?;
    stage.say("");
    let fit = [&["fit", "oom.py"], &there[..], &["--write", "fitted.py"]].concat();
    stage.fitgpt(&fit)?.ended_with(0)?;
    stage.say("");
    stage.fitgpt(&[&["plan", "fitted.py"], &there[..]].concat())?.ended_with(0)?;
    stage.keep_json(&[&["plan", "oom.py"], &there[..]].concat(), 1, "oom.json")?;
    stage.keep_json(&[&["plan", "fitted.py"], &there[..]].concat(), 0, "fitted.json")?;
    let sequences = |file| stage.kept_number(file, "/effective_batch/sequences");
    let (before, after) = (sequences("oom.json")?, sequences("fitted.json")?);
    if before != after {
        return Err(Halt::Failed(say::other_batch(before, after)));
    }
    Ok(Shown::Passed(say::fit_passed(after)))
}

/// Every byte of a run, before it is there.
fn plan(stage: &Stage) -> Result<Shown, Halt> {
    stage.write("wide.py", WIDE)?;
    stage.fitgpt(&["plan", "wide.py"])?.ended_with(0)?;
    stage.keep_json(&["plan", "wide.py"], 0, "plan.json")?;
    Ok(Shown::Passed(say::plan_passed(arena(stage)?)))
}

/// As the step before kept it.
fn arena(stage: &Stage) -> Result<Bytes, Halt> {
    stage.kept_number("plan.json", "/arena_bytes").map(Bytes::new)
}

/// A limit of the system just above the plan is enough, and one below is refused in time.
fn limit(stage: &Stage) -> Result<Shown, Halt> {
    let arena = arena(stage)?;
    let [_, beside] = HOST_OVERHEAD.range();
    let Some(refused) = stage.limited(&["train", "wide.py", "--out_dir=refused"], arena) else {
        return Ok(Shown::LeftOut(say::no_limit_here()));
    };
    refused?.ended_with(1)?;
    stage.say("");
    // The budget keeps one part in 64 for the system, and the program's own pages count too.
    let enough = Bytes::new(((arena + beside).get() * 64).div_ceil(63)) + beside;
    let Some(ran) = stage.limited(&["train", "wide.py", "--out_dir=limited"], enough) else {
        return Ok(Shown::LeftOut(say::no_limit_here()));
    };
    ran?.ended_with(0)?;
    Ok(Shown::Passed(say::limit_passed(arena, enough)))
}

/// The same effective batch in two splits is the same training.
fn split(stage: &Stage) -> Result<Shown, Halt> {
    stage.write("small.py", SMALL)?;
    stage.fitgpt(&["train", "small.py", "--out_dir=16x1"])?.ended_with(0)?;
    stage.say("");
    let parts = ["--batch_size=4", "--gradient_accumulation_steps=4", "--out_dir=4x4"];
    stage.fitgpt(&[&["train", "small.py"], &parts[..]].concat())?.ended_with(0)?;
    let (whole, parts) = (stage.losses("16x1")?, stage.losses("4x4")?);
    let apart = apart(&whole, &parts)
        .ok_or_else(|| Halt::Failed(say::other_steps(whole.len(), parts.len())))?;
    let shown = format!("{apart:.1e}");
    if apart > SPLIT_TOLERANCE {
        return Err(Halt::Failed(say::losses_differ(shown)));
    }
    Ok(Shown::Passed(say::split_passed(whole.len(), shown)))
}

/// A run that is killed goes on as if nothing had happened.
fn resume(stage: &Stage) -> Result<Shown, Halt> {
    let killed = stage.killed_at(&["train", "small.py", "--out_dir=killed"], "iter 50:")?;
    killed.was_killed()?;
    stage.say("");
    stage.fitgpt(&["train", "--init_from=resume", "--out_dir=killed"])?.ended_with(0)?;
    let (whole, killed) = (stage.losses("16x1")?, stage.losses("killed")?);
    if whole != killed {
        let shown = apart(&whole, &killed).map(|apart| format!("{apart:.1e}"));
        return Err(Halt::Failed(match shown {
            Some(shown) => say::losses_differ(shown),
            None => say::other_steps(whole.len(), killed.len()),
        }));
    }
    Ok(Shown::Passed(say::resume_passed(whole.len())))
}

/// Largest difference at any step; `None` where the runs do not have the same steps. A loss that
/// is no number is infinitely far from any other.
fn apart(a: &[f64], b: &[f64]) -> Option<f64> {
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
    fn runs_are_as_far_apart_as_their_worst_step() {
        assert_eq!(apart(&[1.0, 2.0], &[1.0, 1.5]), Some(0.5));
        assert_eq!(apart(&[1.0, f64::NAN], &[1.0, 1.5]), Some(f64::INFINITY));
        assert_eq!(apart(&[1.0], &[1.0, 1.5]), None);
        assert_eq!(apart(&[], &[]), None);
    }

    #[test]
    fn a_folder_with_something_in_it_is_refused_and_a_new_one_is_kept() {
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join("mine"), "").unwrap();
        assert!(Folder::kept(place.path()).is_err());
        assert!(place.path().join("mine").exists());
        drop(Folder::kept(&place.path().join("new")).unwrap());
        assert!(place.path().join("new").exists());
    }
}
