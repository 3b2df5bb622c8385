//! The output of a run in a terminal: nanoGPT's log lines, and a progress line that is overwritten.

use std::time::{Duration, Instant};

use fitgpt_config::Config;
use fitgpt_model::Model;
use fitgpt_program::units::Bytes;
use fitgpt_run::{schedule, train::Progress, trainer::Evaluated};
use fitgpt_say::Say as _;

use crate::{
    terminal,
    words::{lang, train as words},
};

/// The bfloat16 peak of an A100, to which nanoGPT relates its `mfu`.
const A100_FLOPS: f64 = 312e12;

/// How often the progress line is overwritten.
const REFRESH: Duration = Duration::from_millis(200);

/// A run that takes longer than this is announced at the start.
const LONG: Duration = Duration::from_hours(24);

/// The assumed rate of one thread for the estimate before the first step; printed with it. A Zen 3
/// core did 60 in steps of the 124M model.
const GFLOPS_PER_THREAD: f64 = 50.0;

/// Prints what happens in a run, with the time that is left.
#[derive(Debug)]
pub(super) struct RunLines {
    config: Config,
    arena: Bytes,
    flops_per_step: f64,
    shown: Option<Instant>,
    steps: u64,
    step_seconds: f64,
    evaluations: u64,
    evaluation_seconds: f64,
    mfu: Option<f64>,
    is_watched: bool,
    lines: LogStream,
}

/// Where nanoGPT's log lines go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LogStream {
    /// As in nanoGPT.
    Stdout,
    /// If stdout is for a JSON document.
    Stderr,
}

impl RunLines {
    /// The state at the start of a run.
    pub(super) fn new(config: &Config, model: &Model, arena: Bytes, lines: LogStream) -> Self {
        let tokens = config.effective_batch().tokens as f64;
        Self {
            config: config.clone(),
            arena,
            flops_per_step: model_flops_per_token(model, config.block_size()) * tokens,
            shown: None,
            steps: 0,
            step_seconds: 0.0,
            evaluations: 0,
            evaluation_seconds: 0.0,
            mfu: None,
            is_watched: terminal::is_watched(),
            lines,
        }
    }

    /// Prints one thing that happened.
    pub(super) fn show(&mut self, progress: Progress<'_>) {
        match progress {
            Progress::Evaluating { step } => self.working(&words::evaluating(step)),
            Progress::Evaluated { step, losses: Evaluated { train, val }, seconds } => {
                self.evaluations += 1;
                self.evaluation_seconds += seconds;
                self.line(&format!(
                    "step {step}: train loss {:.4}, val loss {:.4} (standard errors {:.4}, {:.4})",
                    train.mean, val.mean, train.standard_error, val.standard_error
                ));
            }
            Progress::Sampling { step } => self.working(&words::sampling(step)),
            Progress::Sampled { step, excerpt } => {
                self.line(&format!("step {step}: sample: {excerpt}"));
            }
            Progress::Stepped { step, loss, seconds } => self.stepped(step, loss, seconds),
            Progress::Overflowed { step, scale } => self.note(&words::overflowed(step, scale)),
            Progress::Saving { folder } => {
                self.line(&format!("saving checkpoint to {}", folder.display()));
            }
            Progress::NoCard(error) => self.note(&error.say(lang())),
            Progress::Ended if self.is_watched => terminal::clear_progress(),
            Progress::Ended => {}
        }
    }

    /// Warns before the first step if the run will be long, judging by its FLOPs.
    pub(super) fn warn_if_long(&self, step: u64, threads: usize) {
        let work = self.work_from(step);
        let seconds = work / (GFLOPS_PER_THREAD * 1e9 * threads as f64);
        let time = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
        if time > LONG {
            let work = format!("{work:.1e}");
            self.note(&words::long_before(human(time), work, threads, GFLOPS_PER_THREAD));
        }
    }

    /// Floating-point operations from `step` to the end, including evaluations: a forward pass is a
    /// third of a step.
    fn work_from(&self, step: u64) -> f64 {
        let config = &self.config;
        let evaluations = schedule::evaluations_from(config, step);
        let sequences = 2.0 * f64::from(config.eval_iters()) * f64::from(config.eval_batch_size());
        let tokens = sequences * f64::from(config.eval_block_size());
        let per_token = self.flops_per_step / config.effective_batch().tokens as f64;
        let evaluating = evaluations as f64 * tokens * per_token / 3.0;
        if config.eval_only() {
            return tokens * per_token / 3.0;
        }
        let steps = (config.max_iters() + 1).saturating_sub(step);
        steps as f64 * self.flops_per_step + evaluating
    }

    /// One step is done; every `log_interval` prints nanoGPT's line.
    fn stepped(&mut self, step: u64, loss: f64, seconds: f64) {
        // The first step also starts threads and warms caches: it would spoil the estimate.
        if self.steps == 1 {
            self.step_seconds = seconds;
        }
        self.steps += 1;
        self.step_seconds += seconds;
        if self.steps > 5 {
            let now = self.flops_per_step / seconds / A100_FLOPS;
            self.mfu = Some(self.mfu.map_or(now, |mfu| 0.9 * mfu + 0.1 * now));
        }
        if step.is_multiple_of(self.config.log_interval()) {
            let (ms, mfu) = (seconds * 1e3, self.mfu.unwrap_or(-1.0) * 100.0);
            self.line(&format!("iter {step}: loss {loss:.4}, time {ms:.2}ms, mfu {mfu:.2}%"));
        }
        if self.steps == 2 && self.left(step) > LONG {
            self.note(&words::long_measured(human(self.left(step))));
        }
        self.show_step(step, loss, seconds);
    }

    /// A log line, above the progress line.
    fn line(&self, text: &str) {
        if self.is_watched {
            terminal::clear_progress();
        }
        match self.lines {
            LogStream::Stdout => terminal::line(text),
            LogStream::Stderr => terminal::err(&format!("{text}\n")),
        }
    }

    /// A note on stderr, above the progress line.
    fn note(&self, text: &str) {
        if self.is_watched {
            terminal::clear_progress();
        }
        terminal::note(text);
    }

    /// Shows that something without steps is running.
    fn working(&self, what: &str) {
        if self.is_watched {
            terminal::progress(what);
        }
    }

    /// Time left for the whole run, including evaluations.
    fn left(&self, step: u64) -> Duration {
        let steps = self.config.max_iters().saturating_sub(step);
        let evaluations = schedule::evaluations_from(&self.config, step + 1);
        let mean = |sum: f64, n: u64| if n == 0 { 0.0 } else { sum / n as f64 };
        let seconds = steps as f64 * mean(self.step_seconds, self.steps)
            + evaluations as f64 * mean(self.evaluation_seconds, self.evaluations);
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    }

    fn show_step(&mut self, step: u64, loss: f64, seconds: f64) {
        if !self.is_watched || self.shown.is_some_and(|at| at.elapsed() < REFRESH) {
            return;
        }
        self.shown = Some(Instant::now());
        let last = self.config.max_iters();
        let rate = self.config.effective_batch().tokens as f64 / seconds;
        let (arena, left) = (self.arena, human(self.left(step)));
        let (loss, rate) = (format!("{loss:.4}"), format!("{rate:.0}"));
        terminal::progress(&words::progress(step, last, loss, rate, arena, left));
    }
}

/// FLOPs of one token, forward and backward, as nanoGPT counts them: 6N + 12·L·C·T, where N
/// excludes the position embedding.
fn model_flops_per_token(model: &Model, seq: u32) -> f64 {
    let positions = u64::from(model.block) * u64::from(model.channels);
    let parameters = (model.parameter_count() - positions) as f64;
    let scores = f64::from(model.layers) * f64::from(model.channels) * f64::from(seq);
    6.0 * parameters + 12.0 * scores
}

/// `3:25`, `2:03:25`, `4.5 days`.
fn human(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match hours {
        0 => format!("{minutes}:{rest:02}"),
        1..48 => format!("{hours}:{minutes:02}:{rest:02}"),
        _ => words::days(format!("{:.1}", seconds as f64 / 86400.0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_clocks_and_long_ones_as_days() {
        assert_eq!(human(Duration::from_secs(65)), "1:05");
        assert_eq!(human(Duration::from_secs(3 * 3600 + 4)), "3:00:04");
        assert_eq!(human(Duration::from_hours(36 * 24)), "36.0 days");
    }
}
