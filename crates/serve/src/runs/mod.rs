//! The runs that the page shows: found below the given folders, summarised for the list, and
//! followed when a page shows them.
//!
//! A run's id is a hash of its path, so a request cannot name a folder that was not found here.

mod find;
mod history;
mod follow;

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use fitgpt_files::os;
use serde_json::{Value, json};

pub use self::history::Resolution;
use self::{
    find::{FoundRun, FoundRuns},
    follow::{Follower, glance},
    history::RunHistory,
};

/// How long the list of folders stays valid.
const SEARCH_INTERVAL: Duration = Duration::from_secs(5);
/// How long the state of the runs stays valid.
const REFRESH_INTERVAL: Duration = Duration::from_millis(400);
/// The most logs that are followed at a time.
const MAX_FOLLOWED: usize = 12;
/// How long one refresh of all runs may read logs. The next one continues with the others.
const REFRESH_TIME: Duration = Duration::from_millis(500);
/// How long one request may read a log. The next one continues.
const READING_TIME: Duration = Duration::from_secs(2);
/// On systems that do not report which process writes a log: a run whose log has not grown for this
/// long and has no end was killed.
const SILENCE: Duration = Duration::from_mins(10);

/// Every run below some folders.
#[derive(Debug)]
pub struct Runs {
    roots: Vec<PathBuf>,
    state: Mutex<RunsState>,
}

#[derive(Debug, Default)]
struct RunsState {
    found: Vec<FoundRun>,
    is_partial: bool,
    found_at: Option<Instant>,
    refreshed_at: Option<Instant>,
    /// The run that the next refresh starts with, in the order of `found`.
    next_refresh: usize,
    summaries: HashMap<String, RunSummary>,
    followed: Vec<(String, Arc<Mutex<Follower>>)>, // most recently used last
}

/// A run in the list.
#[derive(Clone, Debug)]
struct RunSummary {
    bytes: u64,
    modified: Option<SystemTime>,
    history: Arc<RunHistory>,
    document: Value,
}

impl Runs {
    /// The runs below `roots`, which exist.
    pub fn new(roots: Vec<PathBuf>) -> Self {
        Self { roots, state: Mutex::default() }
    }

    /// The folders that are searched.
    pub fn roots(&self) -> &[PathBuf] {
        &self.roots
    }

    /// Lists all runs, after a refresh if the last one is old.
    pub fn list(&self) -> Vec<Value> {
        let mut state = self.lock();
        self.refresh(&mut state);
        let summaries = state.found.iter().filter_map(|run| state.summaries.get(&run.id));
        summaries.map(|summary| summary.document.clone()).collect()
    }

    /// Whether the last search ended before it had seen every folder.
    pub fn is_partial(&self) -> bool {
        self.lock().is_partial
    }

    /// Everything of one run: its curves, evaluations, samples and plan.
    pub fn run(&self, id: &str, resolution: Resolution) -> Option<Value> {
        let (follower, summary) = {
            let mut state = self.lock();
            self.refresh(&mut state);
            let found = state.found.iter().find(|run| run.id == id)?.clone();
            let summary = state.summaries.get(id).map(|summary| summary.document.clone())?;
            (followed(&mut state, &found), summary)
        };
        let mut follower = lock(&follower);
        let is_whole = follower.advance(READING_TIME).ok()?;
        let history = &follower.history;
        let mut document = history.series(resolution);
        document["summary"] = summary;
        document["evaluations"] = json!(history.evaluations());
        document["samples"] = json!(history.samples().collect::<Vec<_>>());
        document["plan"] = json!(history.plan);
        document["device"] = json!(history.plan.get("device").map(|device| &device["name"]));
        document["read"] = json!(if is_whole { 1.0 } else { follower.share().min(1.0) });
        Some(document)
    }

    /// The process that trains a run now.
    pub fn process(&self, id: &str) -> Option<u32> {
        let mut state = self.lock();
        self.refresh(&mut state);
        process_of(&state.found.iter().find(|run| run.id == id)?.folder)
    }

    /// The id of the run in `folder`, which may not exist yet. The next request searches for it.
    pub fn id_of(&self, folder: &Path) -> String {
        self.lock().found_at = None;
        id_of(folder)
    }

    fn refresh(&self, state: &mut RunsState) {
        let is_old = |at: Option<Instant>, age| at.is_none_or(|at| at.elapsed() > age);
        if is_old(state.found_at, SEARCH_INTERVAL) {
            let FoundRuns { runs, is_partial } = find::runs(&self.roots);
            state.found = runs;
            state.is_partial = is_partial;
            state.found_at = Some(Instant::now());
            let RunsState { found, summaries, followed, .. } = state;
            let is_there = |id: &str| found.iter().any(|run| run.id == id);
            summaries.retain(|id, _| is_there(id));
            followed.retain(|(id, _)| is_there(id));
        }
        if is_old(state.refreshed_at, REFRESH_INTERVAL) {
            let until = Instant::now() + REFRESH_TIME;
            let count = state.found.len();
            for n in 0..count {
                let index = (state.next_refresh + n) % count;
                if Instant::now() > until {
                    state.next_refresh = index;
                    break;
                }
                let run = state.found[index].clone();
                let last = state.summaries.remove(&run.id);
                if let Some(summary) = summary(&run, last) {
                    state.summaries.insert(run.id, summary);
                }
            }
            state.refreshed_at = Some(Instant::now());
        }
    }

    fn lock(&self) -> MutexGuard<'_, RunsState> {
        lock(&self.state)
    }
}

/// Ignores poisoning: the state that a panicking thread left is at worst outdated.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The follower of a run. Drops the least recently used one if there are too many.
fn followed(state: &mut RunsState, run: &FoundRun) -> Arc<Mutex<Follower>> {
    let index = state.followed.iter().position(|(id, _)| *id == run.id);
    let entry = match index {
        Some(index) => state.followed.remove(index),
        None => (run.id.clone(), Arc::new(Mutex::new(Follower::new(run.log())))),
    };
    let follower = Arc::clone(&entry.1);
    state.followed.push(entry);
    if state.followed.len() > MAX_FOLLOWED {
        state.followed.remove(0);
    }
    follower
}

/// Summarises a run. A log that has not changed is not read again.
fn summary(run: &FoundRun, last: Option<RunSummary>) -> Option<RunSummary> {
    let log = run.log();
    let facts = std::fs::symlink_metadata(&log).ok()?;
    let (bytes, modified) = (facts.len(), facts.modified().ok());
    let history = match last {
        Some(last) if last.bytes == bytes && last.modified == modified => last.history,
        _ => Arc::new(glance(&log).ok()?),
    };
    let process = process_of(&run.folder);
    let state = state(&history, process, modified);
    let memory = process.filter(|_| state == "training").and_then(os::process_memory);
    let config = history.plan.get("config");
    let key = |name: &str| config.and_then(|config| config.get(name)).cloned();
    let max_iters = key("max_iters").and_then(|value| value.as_u64());
    let left = max_iters.zip(history.last_step).map(|(all, step)| all.saturating_sub(step));
    let seconds_left = left.zip(history.step_ms).map(|(left, ms)| left as f64 * ms / 1e3);
    let changed = modified.and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok());
    let document = json!({
        "id": run.id,
        "name": run.name,
        "state": state,
        "step": history.last_step,
        "max_iters": max_iters,
        "loss": history.last_loss,
        "val_loss": history.last_val_loss,
        "tokens_per_s": history.tokens_per_s,
        "step_ms": history.step_ms,
        "seconds_left": seconds_left.filter(|_| state == "training"),
        "checkpoint_step": history.checkpoint_step,
        "arena_bytes": history.plan.get("arena_bytes"),
        "resident_bytes": memory.map(|memory| memory.resident),
        "changed": changed.map(|at| at.as_secs()),
        "log_bytes": bytes,
        "run_id": history.run_id,
    });
    Some(RunSummary { bytes, modified, history, document })
}

/// The state of a run, from its log and from the process that writes it.
fn state(history: &RunHistory, process: Option<u32>, modified: Option<SystemTime>) -> &'static str {
    match history.ended.as_deref() {
        Some("done") => return "done",
        Some("interrupted") => return "interrupted",
        Some("diverged") => return "diverged",
        Some(_) => return "failed",
        None => {}
    }
    let is_silent = modified.and_then(|at| at.elapsed().ok()).is_some_and(|age| age > SILENCE);
    // Linux reports which process writes the log.
    let is_gone = process.is_none() && (cfg!(target_os = "linux") || is_silent);
    if is_gone { "stopped" } else { "training" }
}

/// The process that trains in `folder`: the lock names it, and it has the log open.
fn process_of(folder: &Path) -> Option<u32> {
    let text = os::read_text(&folder.join(".lock"), 32).ok()?;
    let pid = text.trim().parse().ok()?;
    let held = os::open_file(pid, "events.jsonl")?;
    (held == folder.join("events.jsonl")).then_some(pid)
}

/// The id of the run in `folder`, a path without links.
pub(super) fn id_of(folder: &Path) -> String {
    // The keys of this hasher are the same in every process of one version.
    let mut hasher = DefaultHasher::new();
    folder.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}
