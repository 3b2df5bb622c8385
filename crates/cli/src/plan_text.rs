//! A plan as text: what `plan` prints, and other commands that show a plan.

use fitgpt_commands::{
    fit_options,
    plan::{EnginePlan, PlanAnswer, PlannedRanks},
    target::{EngineChoice, PlanTarget},
};
use fitgpt_config::{Config, Precision};
use fitgpt_fit::fit::Fit;
use fitgpt_model::report::{PlanReport, Verdict};
use fitgpt_program::{memory::RuntimePool, units::Bytes};
use fitgpt_run::{budget::THIS_MACHINE, device::available_gpus, time::RunTime};

use crate::{
    picture::bars,
    words::{Say as _, grouped, lang, names, plan as messages, ranks as ranks_messages},
};

/// The best options as text to print below a refusal.
pub(crate) fn advice(found: &Fit, engine: EngineChoice) -> String {
    let lines = fit_options::advice(found, engine).into_iter();
    let lines = lines.map(|line| format!("{}{}\n", names::hint(), line.say(lang())));
    format!("\n{}", lines.collect::<String>())
}

/// The first line of a report: what runs, on what, in which precision.
pub(crate) fn heading(answer: &PlanAnswer) -> String {
    let name = |plan: &EnginePlan| engine_of(&plan.target, &answer.config);
    let engines: Vec<_> = answer.plans.iter().map(name).collect();
    let EnginePlan { target, report, .. } = answer.plan();
    let mut precisions: Vec<_> = answer.plans.iter().map(|plan| plan.target.precision).collect();
    precisions.dedup();
    let precisions: Vec<_> = precisions.into_iter().map(Precision::name).collect();
    debug_assert_eq!(target.device.name, report.device.name);
    heading_of(&engines.join(" / "), &report.device.name, &precisions.join(" / "))
}

/// [`heading`] from its parts.
pub(crate) fn heading_of(engine: &str, device: &str, precision: &str) -> String {
    messages::heading(engine, names::device(device), precision)
}

/// An engine with the way it runs.
pub(crate) fn engine_of(target: &PlanTarget, config: &Config) -> String {
    match target.engine {
        EngineChoice::Fitgpt => "FitGPT".to_owned(),
        EngineChoice::Torch if target.torch_options(config).compile => messages::torch_compiled(),
        EngineChoice::Torch => messages::torch_eager(),
    }
}

/// An engine's name.
pub(crate) const fn engine_name(engine: EngineChoice) -> &'static str {
    match engine {
        EngineChoice::Fitgpt => "FitGPT",
        EngineChoice::Torch => "PyTorch",
    }
}

/// What is to be known about FitGPT on cards.
pub(crate) fn untried() -> String {
    if available_gpus().is_some() { messages::untried() } else { messages::untried_cpu_build() }
}

/// The estimated time on this machine's CPU as text.
pub(crate) fn time_text_on_cpu(time: &RunTime) -> String {
    let [quickest_step, slowest_step] = time.step_s.map(duration);
    let [quickest, slowest] = time.run_s.map(duration);
    let [slow, fast] = time.tokens_per_s.map(|rate| grouped(rate as u64));
    let rate = messages::rate(quickest_step, slowest_step, slow, fast);
    format!("{rate}\n{}", messages::run_time_on_cpu(quickest, slowest))
}

/// The plan as text.
pub(crate) fn text(report: &PlanReport) -> String {
    format!("{}\n\n{}\n{}\n{}", split(report), bars::plan(report), arena(report), pools(report))
}

/// Two plans as text.
pub(crate) fn text_of_both(torch: &PlanReport, fitgpt: &PlanReport) -> String {
    let line = |name, report: &PlanReport| {
        messages::engine(name, report.verdict.say(lang()), arena(report))
    };
    let (theirs, ours) = (torch.peak_bytes, fitgpt.arena_bytes);
    let ratio = format!("{:.2}", theirs.get() as f64 / ours.get().max(1) as f64);
    format!(
        "{}\n\n{}\n{}\n{}\n{}\n",
        split(fitgpt),
        bars::both(torch, fitgpt),
        line("PyTorch", torch),
        line("FitGPT", fitgpt),
        messages::ratio(theirs, ours, ratio),
    )
}

/// How a step is split.
fn split(report: &PlanReport) -> String {
    let (batch, config) = (report.effective_batch, &report.config);
    messages::split(
        config.batch_size(),
        config.gradient_accumulation_steps(),
        grouped(batch.sequences),
        grouped(batch.tokens),
    )
}

/// The total, the overhead and the budget.
fn arena(report: &PlanReport) -> String {
    arena_in(report, |bytes| bytes.to_string())
}

/// [`arena`] with sizes in another unit.
pub(crate) fn arena_in(report: &PlanReport, size: impl Fn(Bytes) -> String) -> String {
    let [low, high] = report.overhead.range().map(&size);
    let (device, need) = (&report.device, size(report.arena_bytes));
    let name = names::device(&device.name);
    let (total, overhead): (fn(_, _, _, _, _, _) -> _, _) =
        match (report.engine, device.name == THIS_MACHINE) {
            ("torch", true) => (messages::tensors, messages::python_overhead()),
            ("torch", false) => (messages::tensors, messages::card_overhead()),
            (_, true) => (messages::arena, messages::host_overhead()),
            (_, false) => (messages::arena, messages::gpu_overhead()),
        };
    total(need, low, high, overhead, size(device.usable_bytes), name)
}

/// The estimated time as text.
pub(crate) fn time_text(time: &RunTime) -> String {
    time_text_in(time, duration)
}

/// The estimated time as text, with the time of a step as `step_text` writes its seconds.
pub(crate) fn time_text_in(time: &RunTime, step_text: fn(f64) -> String) -> String {
    let percent = |share: f64| format!("{:.0}", share * 100.0);
    let [quickest_step, slowest_step] = time.step_s.map(step_text);
    let [quickest, slowest] = time.run_s.map(duration);
    let [slow, fast] = time.tokens_per_s.map(|rate| grouped(rate as u64));
    let [least, most] = time.efficiency.map(percent);
    let rate = messages::rate(quickest_step, slowest_step, slow, fast);
    format!("{rate}\n{}", messages::run_time(quickest, slowest, least, most))
}

/// A duration with two significant digits.
pub(crate) fn duration(seconds: f64) -> String {
    let (value, unit) = match seconds {
        s if s < 1.0 => (s * 1e3, "ms"),
        s if s < 120.0 => (s, "s"),
        s if s < 120.0 * 60.0 => (s / 60.0, "min"),
        s if s < 72.0 * 3600.0 => (s / 3600.0, "h"),
        s => (s / 86400.0, "d"),
    };
    if value < 10.0 { format!("{value:.1} {unit}") } else { format!("{value:.0} {unit}") }
}

/// Whether it fits, and by how much.
pub(crate) fn verdict(report: &PlanReport) -> String {
    verdict_in(report, |bytes| bytes.to_string())
}

/// [`verdict`] with sizes in another unit.
pub(crate) fn verdict_in(report: &PlanReport, size: impl Fn(Bytes) -> String) -> String {
    let [low, high] = report.overhead.range();
    let (need, usable) = (report.arena_bytes, report.device.usable_bytes);
    let device = names::device(&report.device.name);
    match report.verdict {
        Verdict::Fits => messages::fits(device, size(usable.saturating_sub(need + high))),
        Verdict::Tight => {
            messages::tight(device, size(usable.saturating_sub(need)), size(low), size(high))
        }
        Verdict::No => messages::does_not_fit(device, size((need + low).saturating_sub(usable))),
    }
}

/// What the device's runtime takes, if it was measured.
fn pools(report: &PlanReport) -> String {
    let one = |pool: &RuntimePool| format!("{} {}", names::pool(pool.name), pool.bytes);
    let taken = report.pools.iter().filter(|pool| pool.bytes > Bytes::ZERO);
    let list: Vec<_> = taken.map(one).collect();
    if list.is_empty() { String::new() } else { messages::pools(list.join(", ")) + "\n" }
}

/// Why a plan does not fit, with its largest classes.
pub(crate) fn refusal(report: &PlanReport) -> String {
    let phase = report.phases.iter().find(|p| p.name == report.peak_phase);
    let terms = phase.map_or(String::new(), |phase| {
        let at = messages::peak_at(phase.at.index, phase.name, &phase.at.op);
        format!("\n  {at}\n{}", bars::terms(&phase.classes))
    });
    let [low, high] = report.overhead.range();
    let (need, budget) = (report.arena_bytes, report.device.usable_bytes);
    let reason = if report.verdict == Verdict::Tight {
        messages::refused_tight(need, low, high, budget)
    } else {
        messages::refused(need, high, budget)
    };
    format!("{}{reason}\n{terms}", names::error())
}

/// The ranks of a plan as text.
pub(crate) fn ranks(ranks: &PlannedRanks) -> String {
    let PlannedRanks { count, rank, lanes, buffer_bytes, .. } = *ranks;
    let [low, high] = ranks.optimizer_bytes.map(Bytes::new);
    let mut text = ranks_messages::share(count, lanes, rank, low, high, buffer_bytes);
    if let Some(network) = &ranks.network {
        let bytes = Bytes::new(network.sent_bytes);
        let seconds = |s: f64| format!("{s:.2}");
        text.push('\n');
        text += &ranks_messages::traffic(bytes, seconds(network.transfer_s));
        if let (Some(exposed), Some(shares)) = (network.exposed_s, network.efficiency) {
            let [least, most] = exposed.map(seconds);
            let [low, high] = shares.map(|share| format!("{:.0}", share * 100.0));
            text += &ranks_messages::efficiency(least, most, low, high);
        }
    }
    text
}
