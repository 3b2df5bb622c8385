//! The contents of a run's log, in bounded memory.
//!
//! Steps are kept in buckets, at first of one step each. When there are [`MAX_BUCKETS`], every two
//! neighbours are merged into one, which keeps the minimum, the maximum and the mean of every
//! quantity. So a log of any length takes a few megabytes, and a spike is never lost.
//!
//! Promise: a log of any length takes a few megabytes on the page, and no spike is lost. Test: this
//! file.

use std::collections::VecDeque;

use serde::Deserialize;
use serde_json::{Map, Value, json};

/// More than the pixels of any screen, so that zooming in shows more.
const MAX_BUCKETS: usize = 1 << 15;
const MAX_EVALUATIONS: usize = 4096;
const MAX_SAMPLES: usize = 100;
const MAX_SAMPLE_BYTES: usize = 4096;
/// Limits of each kept part of a plan; a config has about a hundred values.
const MAX_PLAN_VALUES: usize = 2000;
const MAX_PLAN_TEXT_BYTES: usize = 64 << 10;

/// The quantities of a step, as its event names them.
const QUANTITIES: [&str; 6] = ["loss", "lr", "grad_norm", "ms", "tokens_per_s", "loss_scale"];

/// One quantity over the steps of a bucket, without numbers that are not finite.
#[derive(Clone, Copy, Debug)]
struct Extent {
    least: f32,
    most: f32,
    mean: f32,
    count: u32,
}

impl Extent {
    fn of(value: Option<f64>) -> Self {
        match value.map(|value| value as f32).filter(|value| value.is_finite()) {
            Some(value) => Self { least: value, most: value, mean: value, count: 1 },
            None => Self { least: f32::INFINITY, most: f32::NEG_INFINITY, mean: 0.0, count: 0 },
        }
    }

    fn add(&mut self, other: Self) {
        let count = self.count.saturating_add(other.count);
        if count > 0 {
            let share = f64::from(other.count) / f64::from(count);
            let mean = f64::from(self.mean) * (1.0 - share) + f64::from(other.mean) * share;
            self.mean = mean as f32;
        }
        self.least = self.least.min(other.least);
        self.most = self.most.max(other.most);
        self.count = count;
    }
}

/// Consecutive steps.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    first_step: u64,
    last_step: u64,
    steps: u32,
    quantities: [Extent; 6],
}

impl Bucket {
    fn add(&mut self, other: &Self) {
        self.last_step = other.last_step;
        self.steps = self.steps.saturating_add(other.steps);
        for (own, other) in self.quantities.iter_mut().zip(other.quantities) {
            own.add(other);
        }
    }
}

/// A line of the log. Most fields are optional, because another version may have written the log.
#[derive(Debug, Deserialize)]
pub(super) struct LogLine {
    event: EventKind,
    step: u64,
    loss: Option<f64>,
    lr: Option<f64>,
    grad_norm: Option<f64>,
    ms: Option<f64>,
    tokens_per_s: Option<f64>,
    loss_scale: Option<f64>,
    train_loss: Option<f64>,
    val_loss: Option<f64>,
    train_loss_se: Option<f64>,
    val_loss_se: Option<f64>,
    reason: Option<String>,
    seconds: Option<f64>,
    text: Option<String>,
    prompt: Option<String>,
    run_id: Option<String>,
    plan: Option<Map<String, Value>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum EventKind {
    Plan,
    Step,
    Evaluation,
    Sample,
    Checkpoint,
    End,
    #[serde(other)]
    Other,
}

/// The fields of a plan that the page shows.
const PLAN_KEYS: [&str; 8] = [
    "config",
    "arena_bytes",
    "peak_bytes",
    "peak_phase",
    "overhead",
    "device",
    "effective_batch",
    "engine",
];

/// The log so far.
#[derive(Clone, Debug, Default)]
pub(super) struct RunHistory {
    buckets: Vec<Bucket>,
    steps_per_bucket: u32,
    evaluations: Vec<Value>,
    samples: VecDeque<Value>,
    pub(super) plan: Map<String, Value>,
    pub(super) run_id: Option<String>,
    pub(super) last_step: Option<u64>,
    pub(super) last_loss: Option<f64>,
    pub(super) last_val_loss: Option<f64>,
    pub(super) checkpoint_step: Option<u64>,
    /// Why the run ended, unless it continued after that.
    pub(super) ended: Option<String>,
    /// The duration of the run since it was started or resumed.
    pub(super) seconds: Option<f64>,
    /// Exponential moving average over the last steps.
    pub(super) step_ms: Option<f64>,
    pub(super) tokens_per_s: Option<f64>,
}

/// A range of steps, and how many points show it.
#[derive(Clone, Copy, Debug)]
pub struct Resolution {
    /// The first step.
    pub from: u64,
    /// The last step.
    pub to: u64,
    /// The most points.
    pub points: usize,
}

impl RunHistory {
    /// Adds one line. A line that is not an event is ignored.
    pub(super) fn add(&mut self, line: &[u8]) {
        let Ok(line) = serde_json::from_slice::<LogLine>(line) else { return };
        if line.event != EventKind::End {
            self.ended = None;
        }
        match line.event {
            EventKind::Plan => {
                if line.run_id.is_some() {
                    self.run_id = line.run_id.map(|id| cut(&id, 64));
                }
                let mut plan = line.plan.unwrap_or_default();
                self.plan = PLAN_KEYS
                    .iter()
                    .filter_map(|key| Some(((*key).to_owned(), plan.remove(*key)?)))
                    .filter(|(_, value)| is_small(value))
                    .collect();
            }
            EventKind::Step => self.add_step(&line),
            EventKind::Evaluation => {
                self.last_val_loss = line.val_loss;
                if self.evaluations.len() >= MAX_EVALUATIONS {
                    let mut index = 0;
                    self.evaluations.retain(|_| {
                        index += 1;
                        index % 2 == 1
                    });
                }
                self.evaluations.push(json!([
                    line.step,
                    line.train_loss,
                    line.train_loss_se,
                    line.val_loss,
                    line.val_loss_se
                ]));
            }
            EventKind::Sample => {
                if self.samples.len() >= MAX_SAMPLES {
                    self.samples.pop_front();
                }
                let text = cut(&line.text.unwrap_or_default(), MAX_SAMPLE_BYTES);
                let prompt = cut(&line.prompt.unwrap_or_default(), MAX_SAMPLE_BYTES);
                self.samples
                    .push_back(json!({ "step": line.step, "prompt": prompt, "text": text }));
            }
            EventKind::Checkpoint => self.checkpoint_step = Some(line.step),
            EventKind::End => {
                self.ended = Some(cut(&line.reason.unwrap_or_default(), 32));
                self.seconds = line.seconds;
            }
            EventKind::Other => {}
        }
    }

    fn add_step(&mut self, line: &LogLine) {
        self.last_step = Some(line.step);
        self.last_loss = line.loss;
        self.tokens_per_s = line.tokens_per_s;
        if let Some(ms) = line.ms.filter(|ms| ms.is_finite() && *ms >= 0.0) {
            self.step_ms = Some(self.step_ms.map_or(ms, |mean| 0.95 * mean + 0.05 * ms));
        }
        let values =
            [line.loss, line.lr, line.grad_norm, line.ms, line.tokens_per_s, line.loss_scale];
        let quantities = values.map(Extent::of);
        let bucket = Bucket { first_step: line.step, last_step: line.step, steps: 1, quantities };
        let is_full = self.buckets.last().is_none_or(|last| last.steps >= self.steps_per_bucket);
        if !is_full {
            self.buckets.last_mut().expect("it is not full").add(&bucket);
            return;
        }
        if self.buckets.len() >= MAX_BUCKETS {
            self.buckets = merged(&self.buckets, 2);
            self.steps_per_bucket = self.steps_per_bucket.saturating_mul(2);
        }
        self.steps_per_bucket = self.steps_per_bucket.max(1);
        self.buckets.push(bucket);
    }

    /// The quantities of the steps of a range, with at most `resolution.points` points.
    pub(super) fn series(&self, resolution: Resolution) -> Value {
        let Resolution { from, to, points } = resolution;
        let is_shown = |bucket: &&Bucket| bucket.last_step >= from && bucket.first_step <= to;
        let shown: Vec<_> = self.buckets.iter().filter(is_shown).copied().collect();
        let shown = merged(&shown, shown.len().div_ceil(points.clamp(1, MAX_BUCKETS)));
        let mut series = Map::new();
        let steps: Vec<_> = shown.iter().map(|it| it.first_step.midpoint(it.last_step)).collect();
        series.insert("step".to_owned(), json!(steps));
        for (index, name) in QUANTITIES.into_iter().enumerate() {
            let extents = || shown.iter().map(|bucket| bucket.quantities[index]);
            if extents().all(|extent| extent.count == 0) {
                continue;
            }
            let list = |of: fn(Extent) -> f32| -> Vec<Option<f32>> {
                extents().map(|extent| (extent.count > 0).then(|| of(extent))).collect()
            };
            let is_merged = shown.iter().any(|bucket| bucket.steps > 1);
            let mut quantity = json!({ "mean": list(|it| it.mean) });
            if is_merged {
                quantity["min"] = json!(list(|it| it.least));
                quantity["max"] = json!(list(|it| it.most));
            }
            series.insert(name.to_owned(), quantity);
        }
        let first = self.buckets.first().map(|bucket| bucket.first_step);
        json!({ "series": series, "first_step": first, "last_step": self.last_step })
    }

    /// Keeps only what a list of runs shows.
    pub(super) fn without_curves(self) -> Self {
        Self { buckets: Vec::new(), evaluations: Vec::new(), samples: VecDeque::new(), ..self }
    }

    /// The evaluations: step, training loss and its error, validation loss and its error.
    pub(super) fn evaluations(&self) -> &[Value] {
        &self.evaluations
    }

    /// The samples, the oldest first.
    pub(super) fn samples(&self) -> impl Iterator<Item = &Value> {
        self.samples.iter()
    }
}

/// Merges every `count` neighbours into one.
fn merged(buckets: &[Bucket], count: usize) -> Vec<Bucket> {
    let merge = |group: &[Bucket]| {
        let mut all = group[0];
        group[1..].iter().for_each(|bucket| all.add(bucket));
        all
    };
    buckets.chunks(count.max(1)).map(merge).collect()
}

/// Whether a value of a log is small enough to be kept for every run.
fn is_small(value: &Value) -> bool {
    let (mut values, mut text_bytes) = (0, 0);
    let mut left = vec![value];
    while let Some(value) = left.pop() {
        values += 1;
        match value {
            Value::String(text) => text_bytes += text.len(),
            Value::Array(all) => left.extend(all),
            Value::Object(all) => {
                text_bytes += all.keys().map(String::len).sum::<usize>();
                left.extend(all.values());
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
        if values > MAX_PLAN_VALUES || text_bytes > MAX_PLAN_TEXT_BYTES {
            return false;
        }
    }
    true
}

/// The beginning of a text, without control characters except line breaks and tabs.
fn cut(text: &str, bytes: usize) -> String {
    let end = text.floor_char_boundary(bytes);
    text[..end].chars().filter(|c| matches!(c, '\n' | '\t') || !c.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(step: u64, loss: f64) -> Vec<u8> {
        let text = format!(
            "{{\"event\":\"step\",\"step\":{step},\"loss\":{loss},\"lr\":0.001,\"grad_norm\":null,\
             \"ms\":10.0,\"tokens_per_s\":50000}}"
        );
        text.into_bytes()
    }

    const ALL: Resolution = Resolution { from: 0, to: u64::MAX, points: 100 };

    #[test]
    fn a_million_steps_stay_bounded_and_keep_their_spike() {
        let mut history = RunHistory::default();
        for n in 0..1_000_000 {
            history.add(&step(n, if n == 777_777 { 99.0 } else { 2.0 }));
        }
        assert!(history.buckets.len() <= MAX_BUCKETS);
        let series = history.series(ALL);
        let loss = &series["series"]["loss"];
        let most = loss["max"].as_array().unwrap().iter().filter_map(Value::as_f64);
        assert!(most.fold(0.0, f64::max) > 98.0);
        assert!(loss["mean"].as_array().unwrap().len() <= 100);
        assert_eq!(series["last_step"], 999_999);
    }

    #[test]
    fn a_range_is_shown_at_full_resolution() {
        let mut history = RunHistory::default();
        (0..1000).for_each(|n| history.add(&step(n, n as f64)));
        let series = history.series(Resolution { from: 10, to: 14, points: 100 });
        assert_eq!(series["series"]["step"], json!([10, 11, 12, 13, 14]));
        assert_eq!(series["series"]["loss"]["mean"], json!([10.0, 11.0, 12.0, 13.0, 14.0]));
        // Without numbers there is no curve.
        assert_eq!(series["series"].get("grad_norm"), None);
    }

    #[test]
    fn an_end_counts_unless_the_run_continues() {
        let mut history = RunHistory::default();
        history.add(br#"{"event":"end","step":3,"reason":"interrupted","seconds":1.0}"#);
        assert_eq!(history.ended.as_deref(), Some("interrupted"));
        history.add(&step(3, 1.0));
        assert_eq!(history.ended, None);
    }

    #[test]
    fn an_oversized_plan_is_not_kept() {
        let mut history = RunHistory::default();
        let plan = |config: Value| {
            json!({ "event": "plan", "step": 0, "plan": { "config": config, "arena_bytes": 7 } })
                .to_string()
        };
        let many = json!(vec![1; 100_000]);
        let deep =
            (0..100).fold(json!("x".repeat(1000)), |inner, _| json!([inner, "y".repeat(1000)]));
        let keys: Map<_, _> = (0..1000).map(|n| (format!("{n:0100}"), json!(n))).collect();
        for config in [many, deep, json!(keys)] {
            history.add(plan(config).as_bytes());
            assert_eq!((history.plan.get("config"), history.plan.len()), (None, 1));
        }
        history.add(plan(json!({ "n_layer": 2 })).as_bytes());
        assert_eq!(history.plan["config"]["n_layer"], 2);
    }

    #[test]
    fn hostile_lines_are_ignored_or_cut() {
        let mut history = RunHistory::default();
        for line in [&b"{"[..], b"[]", b"{\"event\":\"step\"}", b"\xff\xfe", b""] {
            history.add(line);
        }
        assert_eq!(history.last_step, None);
        for n in 0..300 {
            let text = "\u{1b}[31m漢".repeat(4000);
            history
                .add(json!({ "event": "sample", "step": n, "text": text }).to_string().as_bytes());
        }
        assert_eq!(history.samples.len(), MAX_SAMPLES);
        let text = history.samples.back().unwrap()["text"].as_str().unwrap();
        assert!(text.len() <= MAX_SAMPLE_BYTES && !text.contains('\u{1b}'));
        for n in 0..10_000 {
            let line = json!({ "event": "evaluation", "step": n, "val_loss": 1.0 });
            history.add(line.to_string().as_bytes());
        }
        assert!(history.evaluations.len() <= MAX_EVALUATIONS);
    }
}
