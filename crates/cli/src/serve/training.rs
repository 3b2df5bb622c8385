//! Runs that the page starts and stops, if the server was started with `--allow-train`.
//!
//! A run is a separate process, `fitgpt train`, in a new folder below the first folder that the
//! server shows. It continues when the server ends. Stopping a run sends SIGINT, so that it saves.

use std::{
    env, fs,
    path::Path,
    process::{Child, Command, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use fitgpt_commands::Failure;
use fitgpt_files::{attempt::Attempt, os};
use fitgpt_serve::{Runs, refuse};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{error::ApiError, planner};
use crate::words::serve as messages;

/// The most runs that were started from the page and have not ended.
const MAX_RUNNING: usize = 4;
/// How long to wait until a run writes its log: it plans and touches its arena first.
const START_TIME: Duration = Duration::from_secs(20);
/// How much of the end of a failed run's output is shown.
const MAX_TAIL_BYTES: usize = 4096;
const MAX_OUTPUT_BYTES: u64 = 16 << 20;

/// Processes that were started here.
#[derive(Debug, Default)]
pub(super) struct Trainings(Mutex<Children>);

#[derive(Debug, Default)]
struct Children {
    running: Vec<Child>,
    /// How many are being started.
    starting: usize,
}

impl Children {
    /// How many are running.
    fn count(&mut self) -> usize {
        // `try_wait` also reaps those that have ended.
        self.running.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
        self.running.len()
    }
}

/// A place for a run, from before its start until it is counted or has failed.
struct StartingRun<'a>(&'a Trainings);

impl StartingRun<'_> {
    /// The run has started.
    fn started(self, child: Child) {
        // Counted before the place is free again.
        self.0.children().running.push(child);
    }
}

impl Drop for StartingRun<'_> {
    fn drop(&mut self) {
        self.0.children().starting -= 1;
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct StartRequest {
    /// The planner's state.
    plan: Value,
    /// The new folder.
    name: String,
}

impl Trainings {
    /// How many are running.
    pub(super) fn count(&self) -> usize {
        self.children().count()
    }

    fn children(&self) -> MutexGuard<'_, Children> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One of the places for runs. Looked for and taken at once, because requests are concurrent.
    fn place(&self) -> Result<StartingRun<'_>, Failure> {
        let mut children = self.children();
        if children.count() + children.starting >= MAX_RUNNING {
            return Err(Failure::new("limit", messages::too_many_runs(MAX_RUNNING)));
        }
        children.starting += 1;
        Ok(StartingRun(self))
    }

    /// Starts a run, and waits until its log exists.
    pub(super) fn start(&self, asked: &Value, runs: &Runs) -> Result<Value, ApiError> {
        let asked = StartRequest::deserialize(asked)
            .map_err(|_| refuse(400, "this is not a run to start"))?;
        let place = self.place()?;
        let root = runs.roots().first().ok_or(refuse(409, "there is no folder for runs"))?;
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        let is_name = (1..=64).contains(&asked.name.len())
            && !asked.name.starts_with(['.', '-'])
            && asked.name.chars().all(is_plain);
        if !is_name {
            return Err(Failure::new("name", messages::no_such_name(&asked.name)).into());
        }
        let (config, arguments) = planner::run_config(&asked.plan, runs.roots())?;
        let folder = root.join(&asked.name);
        let failed =
            |action: Attempt, path: &Path, error: std::io::Error| Failure::io(action, path, &error);
        fs::create_dir(&folder).map_err(|error| failed(Attempt::Create, &folder, error))?;
        let file = folder.join("config.py");
        fs::write(&file, config).map_err(|error| failed(Attempt::Write, &file, error))?;
        let output = folder.join("train.log");
        let log =
            fs::File::create(&output).map_err(|error| failed(Attempt::Create, &output, error))?;
        let errors = log.try_clone().map_err(|error| failed(Attempt::Create, &output, error))?;
        let program = env::current_exe().map_err(|error| failed(Attempt::Read, &folder, error))?;
        let mut child = Command::new(&program)
            .arg("train")
            .arg(&file)
            .args(arguments)
            .arg(format!("--out_dir={}", folder.display()))
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(errors)
            .spawn()
            .map_err(|error| failed(Attempt::Open, &program, error))?;
        let until = Instant::now() + START_TIME;
        while !folder.join("events.jsonl").exists() && Instant::now() < until {
            if let Ok(Some(_)) = child.try_wait() {
                let text = os::read_text(&output, MAX_OUTPUT_BYTES).unwrap_or_default();
                let start = text.ceil_char_boundary(text.len().saturating_sub(MAX_TAIL_BYTES));
                return Err(Failure::new("train", messages::not_started(&text[start..])).into());
            }
            thread::sleep(Duration::from_millis(20));
        }
        let pid = child.id();
        place.started(child);
        Ok(json!({ "id": runs.id_of(&folder), "pid": pid }))
    }

    /// Asks a run to stop. It saves first, so it is still there for a moment.
    pub(super) fn stop(asked: &Value, runs: &Runs) -> Result<Value, ApiError> {
        let id = asked["id"].as_str().unwrap_or_default();
        let pid = runs.process(id).ok_or(refuse(404, "no such run is training"))?;
        os::interrupt(pid).map_err(|error| Failure::new("signal", messages::not_stopped(error)))?;
        Ok(json!({ "id": id, "pid": pid }))
    }
}
