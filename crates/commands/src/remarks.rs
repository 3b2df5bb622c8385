//! What a plan of nanoGPT under PyTorch says about keys that people set to save memory: whether nanoGPT
//! has them, and what they change, each compared with the plan without the key.

use std::cmp::Ordering;

use fitgpt_config::{Config, ConfigValue, Key, Written};
use fitgpt_fit::{
    fit::Change,
    torch::{self, Rules},
};
use fitgpt_model::{
    report::{PlanReport, Verdict},
    shard::Share,
};
use fitgpt_program::units::Bytes;
use fitgpt_say::Sentence;

use super::{engines::patch_of, target::PlanTarget};
use crate::words::remarks as words;

/// Keys that patches add to nanoGPT.
const PATCHED: [&str; 6] = [
    "eval_batch_size",
    "eval_block_size",
    "grad_checkpoint",
    "loss_chunk_rows",
    "loss_alone",
    "drop_stale_logits",
];

/// Keys of evaluations that cost time and no memory.
const TIME_ALONE: [&str; 2] = ["eval_iters", "eval_interval"];

/// A learning rate of AdamW that is written for an optimizer with a much lower one.
pub(crate) fn of_rate(config: &Config) -> Option<Sentence> {
    let own = config.optimizer().low_rate()?;
    let written = config.learning_rate();
    let times = written / own;
    (times > 5.0).then(|| words::rate_of_adamw(written, config.optimizer().title(), own))
}

/// The remarks about `written`, which was planned for `target` with the result `report`.
pub(crate) fn of_keys(
    config: &Config,
    written: &Written,
    vocab: u32,
    target: &PlanTarget,
    report: &PlanReport,
) -> Vec<Sentence> {
    let others = Comparison { config, vocab, target };
    let is_changed = |name: &str| {
        let default = &Key::find(name).expect("a key of the table").default;
        written.get(name).is_some_and(|value| value != default)
    };
    let mut remarks = Vec::new();
    if is_changed("compile") && target.rules == Rules::Cuda && target.kernels().has_triton {
        remarks.extend(others.compiled(report));
    }
    for key in PATCHED.into_iter().filter(|key| is_changed(key)) {
        remarks.extend(others.patched(key, report));
    }
    if is_changed("eval_block_size") {
        remarks.push(words::another_loss(config.eval_block_size(), config.block_size()));
    }
    let is_idle = |key: &&str| is_changed(key) && report.verdict != Verdict::Fits;
    remarks.extend(TIME_ALONE.into_iter().find(is_idle).map(words::time_alone));
    if target.share.ranks > 1 {
        remarks.push(others.buckets(report));
    }
    remarks
}

/// Plans the same run with other keys.
struct Comparison<'a> {
    config: &'a Config,
    vocab: u32,
    target: &'a PlanTarget,
}

impl Comparison<'_> {
    fn with(&self, change: Change) -> Option<PlanReport> {
        let config = self.config.with("comparison", [change]).ok()?;
        let options = self.target.torch_options(&config);
        let overhead = torch::overhead_with(self.target.rules, options.compile);
        let device = self.target.device.clone();
        Some(torch::torch_report(&config, self.vocab, &options, device, overhead))
    }

    /// `compile = False`, if the compiled run needs less.
    fn compiled(&self, eager: &PlanReport) -> Option<Sentence> {
        let compiled = self.with(("compile", true.into()))?;
        let (peak, than) = (compiled.peak_bytes, eager.peak_bytes);
        if peak >= than {
            return None;
        }
        let [_, high] = compiled.overhead.range();
        let spare = compiled.device.usable_bytes.saturating_sub(compiled.arena_bytes + high);
        Some(match compiled.verdict {
            Verdict::Fits => words::compiled_fits(peak, than, spare),
            Verdict::Tight => words::compiled_is_tight(peak, than),
            Verdict::No => words::compiled_needs_less(peak, than),
        })
    }

    /// A key that a patch adds: what it does to the peak.
    fn patched(&self, key: &'static str, report: &PlanReport) -> Option<Sentence> {
        let patch = patch_of(key)?.name();
        // nanoGPT has no 'auto', patched or not.
        if self.config.pairs().contains(&(key, ConfigValue::from("auto"))) {
            return None;
        }
        let default = Key::find(key)?.default.clone();
        let (before, after) = (self.with((key, default))?.peak_bytes, report.peak_bytes);
        Some(match after.cmp(&before) {
            Ordering::Less => words::patched_lowers(key, patch, before, after),
            Ordering::Greater => words::patched_raises(key, patch, before, after),
            Ordering::Equal => words::patched_is_idle(key, patch, words::phase(report.peak_phase)),
        })
    }

    /// Several workers: what their buckets take.
    fn buckets(&self, report: &PlanReport) -> Sentence {
        let alone = PlanTarget { share: Share::WHOLE, ..self.target.clone() };
        let alone = Comparison { target: &alone, ..*self };
        let options = alone.target.torch_options(self.config);
        let device = self.target.device.clone();
        let single =
            torch::torch_report(self.config, self.vocab, &options, device, self.target.overhead);
        let more = report.peak_bytes.saturating_sub(single.peak_bytes);
        if more == Bytes::ZERO { words::cards_do_not_help() } else { words::buckets(more) }
    }
}
