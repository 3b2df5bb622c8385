//! Options for a plan that does not fit: hints for people, and what `train --fit` applies.
//!
//! Every option was planned. `train --fit` only applies options that keep the training.
//!
//! On a resume it only uses options that change no bit, which is recomputation: the split of a step
//! and the rows of a chunk decide the order of sums, so they stay as in the checkpoint.

use std::fmt::Write as _;

use fitgpt_config::{Config, ConfigValue, GradCheckpoint};
use fitgpt_fit::fit::{self, Effect, Fit, FitOption, FitRequest};
use fitgpt_model::report::{PlanReport, Verdict};
use fitgpt_program::units::Bytes;
use fitgpt_run::{budget, setup::RunSetup};
use fitgpt_say::{Lang, Sentence};
use serde_json::json;

use super::{
    Failure,
    target::{EngineChoice, PlanTarget},
};
use crate::words::{hints, report};

/// The most hints of one kind.
const HINTS: usize = 3;

/// Every option that makes `config` fit `target`.
pub fn all(config: &Config, vocab: u32, target: &PlanTarget) -> Fit {
    asked_of(config, vocab, target, fit::fit)
}

/// [`all`] if `config` was planned already: `original` is its report.
pub fn all_after(original: &PlanReport, config: &Config, vocab: u32, target: &PlanTarget) -> Fit {
    asked_of(config, vocab, target, |request| fit::fit_planned(request, original.clone()))
}

fn asked_of(
    config: &Config,
    vocab: u32,
    target: &PlanTarget,
    search: impl FnOnce(&FitRequest<'_>) -> Fit,
) -> Fit {
    let backend = target.runner.target();
    let engine = match target.engine {
        EngineChoice::Fitgpt => {
            let staging = budget::staging(&target.device);
            fit::Engine::Fitgpt { target: &backend, precision: target.precision, staging }
        }
        EngineChoice::Torch => {
            fit::Engine::Torch { precision: target.precision, kernels: target.kernels() }
        }
    };
    search(&FitRequest {
        config,
        vocab,
        engine,
        device: &target.device,
        overhead: target.overhead,
        has_bf16: target.has_bf16,
        is_faster_in_bf16: target.engine == EngineChoice::Fitgpt
            && !target.is_card
            && target.runner.is_faster_in_bf16(),
        share: target.share,
    })
}

/// No option keeps the training.
pub fn nothing_keeps() -> Sentence {
    hints::nothing_keeps()
}

/// The best options, one per line.
pub fn advice(found: &Fit, engine: EngineChoice) -> Vec<Sentence> {
    let mut lines = Vec::new();
    // The unchanged config can be an option too; it is not advice.
    let keeping =
        |o: &&FitOption| o.keeps_training && o.verdict != Verdict::No && !o.changes.is_empty();
    // One option of each effect: two splits of a batch are the same advice.
    let mut effects: Vec<(Verdict, Effect)> = Vec::new();
    for option in found.options.iter().filter(keeping) {
        let kind = (option.verdict, option.effect);
        if !effects.contains(&kind) && (option.fits || lines.is_empty()) && lines.len() < HINTS {
            effects.push(kind);
            lines.push(hint(option));
        }
    }
    let fits = found.recommended.is_some();
    if !fits {
        lines.push(hints::nothing_keeps());
        let others = found.options.iter().filter(|o| !o.keeps_training || o.verdict == Verdict::No);
        let others = others.filter(|o| !o.changes.is_empty());
        lines.extend(others.take(HINTS).map(hint));
    }
    let evaluates_more = found.options.iter().any(|option| {
        keeping(&option) && option.changes.iter().any(|(key, _)| *key == "eval_iters")
    });
    if evaluates_more {
        let config = &found.original.config;
        let sequences = u64::from(config.eval_iters()) * u64::from(config.eval_batch_size());
        lines.push(hints::same_evaluation(sequences));
    }
    lines.push(match engine {
        EngineChoice::Fitgpt if fits => hints::train_does_it(),
        _ => hints::fit_lists_all(),
    });
    lines
}

/// The text of one option.
fn hint(option: &FitOption) -> Sentence {
    let changes = fit::command_line(&option.changes);
    let peak = option.peak_bytes;
    let text = match option.verdict {
        Verdict::No => hints::not_enough(changes, peak),
        _ if !option.keeps_training => hints::another_training(changes, peak),
        Verdict::Tight => hints::tight(changes, peak),
        Verdict::Fits if option.extra_compute >= 0.005 => {
            hints::fits_for_work(changes, peak, percent(option.extra_compute))
        }
        Verdict::Fits if option.effect == Effect::MicroBatch => {
            hints::fits_same_step(changes, option.effective_batch.sequences, peak)
        }
        Verdict::Fits => hints::fits(changes, peak),
    };
    let patches: Vec<_> = option.patches.iter().map(|patch| patch.name()).collect();
    match patches.join(", ") {
        patches if patches.is_empty() => text,
        patches => hints::after_patches(text, patches),
    }
}

/// A share in percent.
fn percent(share: f64) -> String {
    format!("{:.0}", share * 100.0)
}

/// A config that `--fit` adapted.
pub struct AdaptedConfig {
    /// The config that fits.
    pub config: Config,
    /// Key, old value, new value.
    changes: Vec<(&'static str, ConfigValue, ConfigValue)>,
    before: PlanReport,
    peak: Bytes,
    /// Additional work, as a share of a step.
    extra_compute: f64,
    is_resumed: bool,
}

/// The best option that keeps the training, if there is one.
pub fn adapt(
    config: &Config,
    vocab: u32,
    target: &PlanTarget,
    before: &PlanReport,
) -> Result<Option<AdaptedConfig>, Failure> {
    let found = all_after(before, config, vocab, target);
    let Some(option) = found.recommended.map(|index| &found.options[index]) else {
        return Ok(None);
    };
    let adapted = config.with("--fit", option.changes.iter().cloned())?;
    Ok(Some(AdaptedConfig {
        changes: changed(config, &adapted),
        config: adapted,
        before: before.clone(),
        peak: option.peak_bytes,
        extra_compute: option.extra_compute,
        is_resumed: false,
    }))
}

/// For a resumed run: only recomputation, which changes no bit.
pub fn adapt_resumed(
    config: &Config,
    vocab: u32,
    target: &PlanTarget,
    before: &PlanReport,
) -> Result<Option<AdaptedConfig>, Failure> {
    if config.grad_checkpoint() != GradCheckpoint::Off {
        return Ok(None);
    }
    let adapted = config.with("--fit", [("grad_checkpoint", "auto".into())])?;
    let PlanTarget { device, overhead, precision, runner, share, .. } = target.clone();
    let planned = RunSetup::of_share(&adapted, vocab, precision, &runner, device, overhead, share)?;
    Ok(planned.report.fits.then(|| AdaptedConfig {
        changes: changed(config, &adapted),
        config: adapted,
        before: before.clone(),
        peak: planned.report.peak_bytes,
        extra_compute: planned.job.extra_compute(),
        is_resumed: true,
    }))
}

/// The keys in which two configs differ.
fn changed(old: &Config, new: &Config) -> Vec<(&'static str, ConfigValue, ConfigValue)> {
    let both = old.pairs().into_iter().zip(new.pairs());
    both.filter(|(old, new)| old != new).map(|((key, old), (_, new))| (key, old, new)).collect()
}

impl AdaptedConfig {
    /// What was changed and why, as text.
    pub fn text(&self, lang: Lang) -> String {
        let [_, high] = self.before.overhead.range();
        let budget = self.before.device.usable_bytes;
        let mut text = report::adapted(lang, self.before.arena_bytes, high, budget) + "\n";
        for (key, old, new) in &self.changes {
            let _ = writeln!(text, "  {key}: {old} → {new}");
        }
        let (before, after, more) =
            (self.before.peak_bytes, self.peak, percent(self.extra_compute));
        let sum = if self.is_resumed {
            report::adapted_resume(lang, before, after, more)
        } else {
            let sequences = self.config.effective_batch().sequences;
            report::adapted_sum(lang, before, after, more, sequences)
        };
        text + &sum + "\n"
    }

    /// The same as JSON.
    pub fn to_json(&self) -> serde_json::Value {
        let changes: serde_json::Map<_, _> =
            self.changes.iter().map(|(key, _, new)| ((*key).to_owned(), json!(new))).collect();
        json!({
            "changes": changes,
            "peak_bytes_before": self.before.peak_bytes,
            "peak_bytes": self.peak,
            "extra_compute": self.extra_compute,
        })
    }
}
