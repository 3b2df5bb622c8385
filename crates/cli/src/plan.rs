//! `fitgpt plan`: the memory of every phase.

use std::path::Path;

use clap::{Arg, ArgMatches, Command};
use fitgpt_checkpoint::output;
use fitgpt_commands::{
    Failure, fit_options,
    target::{EngineChoice, PlanTarget},
};
use fitgpt_config::{Config, Precision, Written};
use fitgpt_data::Dataset;
use fitgpt_fit::{
    device,
    fit::{self, Fit, Patch},
    torch,
};
use fitgpt_model::{
    job::Job,
    report::{PlanReport, Verdict},
    shard::Share,
};
use fitgpt_program::{memory::RuntimePool, units::Bytes};
use fitgpt_run::{
    budget::THIS_MACHINE,
    setup::RunSetup,
    time::{Kernels, RunTime},
};
use fitgpt_say::Say as _;
use serde::Serialize;

use super::{
    Outcome, OutputStyle, args, named,
    plan_ranks::{self, PlannedRanks},
    target,
};
use crate::{
    picture::{
        bars,
        chart::{Chart, Panel},
        html, svg,
    },
    terminal,
    words::{self, grouped, lang},
};

/// The best options as text to print below a refusal.
pub(super) fn advice(found: &Fit, engine: EngineChoice) -> String {
    let lines = fit_options::advice(found, engine).into_iter();
    let lines = lines.map(|line| format!("{}{}\n", words::names::hint(), line.say(lang())));
    format!("\n{}", lines.collect::<String>())
}

/// Adds the flags of this command.
pub(super) fn with_pictures(command: Command) -> Command {
    let file = |name, help| Arg::new(name).long(name).value_name("FILE").help(help);
    command
        .arg(file("svg", "Draw the live bytes of a step and an evaluation, op by op"))
        .arg(file("html", "The same as a page that shows the op under the pointer"))
}

/// The command with its flags.
pub(super) fn command() -> Command {
    args::with_keys(
            with_pictures(plan_ranks::with_network(plan_ranks::with_ranks(args::with_target(Command::new("plan"), &["fitgpt", "torch", "both"]))))
                .arg(named::description_flag())
                .about("Shows the memory of every phase of a run, before anything is allocated")
                .after_help(
                    "Examples:\n  fitgpt plan config/train_gpt2.py\n  \
                     fitgpt plan config/train_gpt2.py --engine torch --gpu \"RTX 4070\"\n  \
                     fitgpt plan --batch_size=4 --gradient_accumulation_steps=128 --budget 12GB\n  \
                     fitgpt plan config/train_gpt2.py --engine both --gpu 4070 --html plan.html",
                )
                .after_long_help(
                    "Examples:\n  fitgpt plan config/train_gpt2.py\n  \
                     fitgpt plan config/train_gpt2.py --engine torch --gpu \"RTX 4070\"\n  \
                     fitgpt plan --batch_size=4 --gradient_accumulation_steps=128 --budget 12GB\n  \
                     fitgpt plan config/train_gpt2.py --engine both --gpu 4070 --html plan.html\n  \
                     fitgpt plan --init_from=meta-llama/Llama-3.2-1B --gpu \"RTX 4090\"\n  \
                     fitgpt plan config/train_gpt2.py --ranks 8 --gpu 4090 --network 10Gb\n  \
                     fitgpt plan config/train_gpt2.py --json\n\n\
                     With `--engine both` the exit code, and `fits` and `verdict` in the JSON, are\n\
                     those of FitGPT's plan; `fitgpt` and `torch` in the JSON hold both plans.",
                ),
        )
}

pub(super) fn run(matches: &ArgMatches, style: OutputStyle) -> Result<Outcome, Failure> {
    let written = args::written(matches, None)?;
    let mut config = written.resolve()?;
    let vocab = vocab(&config)?;
    let mut share = Share::WHOLE;
    if let Some((with_lanes, largest)) = plan_ranks::of(matches, &config, vocab)? {
        (config, share) = (with_lanes, largest);
    }
    args::check_output(matches, "svg", output::SVG)?;
    args::check_output(matches, "html", output::HTML)?;
    let targets = target::engines(matches).iter().map(|e| target::of_engine(*e, matches, &config));
    let mut targets: Vec<_> = targets.collect::<Result<_, _>>()?;
    for target in &mut targets {
        target.share = share;
    }
    // The answer is that of the last one, which is FitGPT if there are two.
    let target = targets.last().expect("there is at least one engine");
    if target.precision == Precision::Bfloat16 && !target.has_bf16 {
        terminal::note(&words::plan::no_bfloat16(&target.device.name));
    }
    let planned = |target: &PlanTarget| planned(&config, vocab, target, wants_picture(matches));
    let planned: Vec<_> = targets.iter().map(planned).collect::<Result<_, _>>()?;
    let ranks = planned
        .last()
        .and_then(|Planned { time, job, .. }| PlannedRanks::of(matches, job, time.as_ref()));
    let (panels, times): (_, Vec<_>) =
        planned.into_iter().map(|planned| (planned.panel, planned.time)).unzip();
    let chart = Chart { panels };
    let drawn = draw(matches, &chart)?;

    let pairs = chart.panels.iter().zip(&times);
    let timed: Vec<_> = pairs
        .map(|(panel, time)| TimedReport { report: &panel.report, time: *time, ranks })
        .collect();
    let answer = match &timed[..] {
        [torch, fitgpt] => print_both(torch, fitgpt, style),
        timed => print_one(&timed[0], style),
    };
    if style == OutputStyle::Text {
        // The time is irrelevant if the run does not fit.
        let last = timed.last().expect("there is at least one engine");
        if let Some(time) = last.time.filter(|_| last.report.verdict != Verdict::No) {
            terminal::line(&time_text(&time));
        }
        if answer == Outcome::No {
            let found = fit_options::all_after(last.report, &config, vocab, target);
            terminal::err(&advice(&found, target.engine));
        }
        if let Some(ranks) = &ranks {
            terminal::line(&ranks.text());
        }
        for path in drawn {
            terminal::line(&words::plan::drawn(path));
        }
        if answer == Outcome::Yes {
            let train = train_command(target.engine, args::files(matches), &written, &config);
            let train = match matches.get_one::<u32>("ranks") {
                Some(ranks) => plan_ranks::command_of(*ranks, &train),
                None => train,
            };
            terminal::line(&words::names::next(train));
        }
        // The last line is the answer.
        terminal::line(&verdict(last.report));
    }
    Ok(answer)
}

/// The command that runs what was planned.
pub(super) fn train_command(
    engine: EngineChoice,
    files: Vec<String>,
    written: &Written,
    config: &Config,
) -> String {
    match engine {
        EngineChoice::Fitgpt => fit::fitgpt_command(&args::files_to_train(files), written, &[]),
        EngineChoice::Torch => {
            let patches = Patch::of_config(config);
            fit::nanogpt_commands(&files, written, &[], &patches).join(" && ")
        }
    }
}

/// A plan, its job, and the run's time if the card's rates are known.
pub(super) struct Planned {
    pub(super) panel: Panel,
    pub(super) time: Option<RunTime>,
    pub(super) job: Job,
}

/// Plans for `target`, and estimates the time if the card's rates are known.
pub(super) fn planned(
    config: &Config,
    vocab: u32,
    target: &PlanTarget,
    wants_picture: bool,
) -> Result<Planned, Failure> {
    let PlanTarget { engine, device, overhead, precision, runner, share, .. } = target.clone();
    let rates = device::find(&device.name).ok().and_then(|gpu| gpu.rates().ok());
    let time = |job: &Job, kernels| {
        rates.map(|rates| RunTime::of(config, job, precision, kernels, &rates))
    };
    let (report, timelines, time, job) = match engine {
        EngineChoice::Torch => {
            let options = target.torch_options(config);
            let report = torch::torch_report(config, vocab, &options, device, overhead);
            let timelines = wants_picture.then(|| torch::torch_timelines(config, vocab, &options));
            let kernels = if options.compile { Kernels::Compiled } else { Kernels::Eager };
            // PyTorch computes the same products, with the recomputation of the config.
            let job = Job::new(config, vocab, precision, &runner.target(), Bytes::new(1 << 60));
            (report, timelines, time(&job, kernels), job)
        }
        EngineChoice::Fitgpt => {
            let setup =
                RunSetup::of_share(config, vocab, precision, &runner, device, overhead, share)?;
            let timelines = wants_picture.then(|| setup.timelines());
            let time = time(&setup.job, Kernels::Fitgpt);
            (setup.report, timelines, time, setup.job)
        }
    };
    let panel = Panel { report, timelines: timelines.unwrap_or_default(), precision, vocab };
    Ok(Planned { panel, time, job })
}

/// The report of `plan`.
pub(super) fn report(
    config: &Config,
    vocab: u32,
    target: &PlanTarget,
) -> Result<PlanReport, Failure> {
    Ok(planned(config, vocab, target, false)?.panel.report)
}

fn wants_picture(matches: &ArgMatches) -> bool {
    ["svg", "html"].into_iter().any(|kind| matches.contains_id(kind))
}

/// Writes the requested pictures and returns their paths.
fn draw<'a>(matches: &'a ArgMatches, chart: &Chart) -> Result<Vec<&'a str>, Failure> {
    let mut drawn = Vec::new();
    for kind in ["svg", "html"] {
        let Some(path) = matches.get_one::<String>(kind) else { continue };
        let picture = if kind == "svg" { svg::draw(chart) } else { html::draw(chart) };
        let path_of = Path::new(path);
        output::write_file(path_of, &picture)
            .map_err(|error| Failure::unwritable(path_of, &error))?;
        drawn.push(path.as_str());
    }
    Ok(drawn)
}

/// Prints the plan of one engine.
fn print_one(timed: &TimedReport<'_>, style: OutputStyle) -> Outcome {
    let report = timed.report;
    match style {
        OutputStyle::Json => print_json(timed),
        OutputStyle::Text => {
            terminal::out(&text(report));
            if !report.fits {
                terminal::err(&refusal(report));
            }
        }
    }
    if report.fits { Outcome::Yes } else { Outcome::No }
}

/// A report, and the estimated time if the card's rates are known.
#[derive(Serialize)]
pub(super) struct TimedReport<'a> {
    #[serde(flatten)]
    pub(super) report: &'a PlanReport,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) time: Option<RunTime>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ranks: Option<PlannedRanks>,
}

/// What `--engine both --json` prints. The verdict is that of FitGPT's plan.
#[derive(Serialize)]
struct BothReports<'a> {
    engine: &'static str,
    fits: bool,
    verdict: Verdict,
    fitgpt: &'a TimedReport<'a>,
    torch: &'a TimedReport<'a>,
}

/// Prints the plans of both engines. The answer is that of FitGPT's plan.
fn print_both(torch: &TimedReport<'_>, fitgpt: &TimedReport<'_>, style: OutputStyle) -> Outcome {
    let PlanReport { fits, verdict, .. } = *fitgpt.report;
    match style {
        OutputStyle::Json => {
            print_json(&BothReports { engine: "both", fits, verdict, fitgpt, torch });
        }
        OutputStyle::Text => {
            terminal::out(&text_of_both(torch.report, fitgpt.report));
            if !fits {
                terminal::err(&refusal(fitgpt.report));
            }
        }
    }
    if fits { Outcome::Yes } else { Outcome::No }
}

fn print_json(document: &impl Serialize) {
    terminal::json_pretty(document);
}

/// The vocabulary: the config's, else the data's, else GPT-2's. A plan needs no data, so a missing
/// dataset is not an error.
pub(super) fn vocab(config: &Config) -> Result<u32, Failure> {
    if config.vocab_size() > 0 {
        return Ok(config.vocab_size());
    }
    let here = std::path::Path::new(".");
    Ok(Dataset::vocab_size_of(config.dataset(), here)?)
}

/// The plan as text.
pub(super) fn text(report: &PlanReport) -> String {
    format!("{}\n\n{}\n{}\n{}", split(report), bars::plan(report), arena(report), pools(report))
}

/// Two plans as text.
fn text_of_both(torch: &PlanReport, fitgpt: &PlanReport) -> String {
    let line = |name, report: &PlanReport| {
        words::plan::engine(name, report.verdict.say(words::lang()), arena(report))
    };
    let (theirs, ours) = (torch.peak_bytes, fitgpt.arena_bytes);
    let ratio = format!("{:.2}", theirs.get() as f64 / ours.get().max(1) as f64);
    format!(
        "{}\n\n{}\n{}\n{}\n{}\n",
        split(fitgpt),
        bars::both(torch, fitgpt),
        line("PyTorch", torch),
        line("FitGPT", fitgpt),
        words::plan::ratio(theirs, ours, ratio),
    )
}

/// How a step is split.
fn split(report: &PlanReport) -> String {
    let (batch, config) = (report.effective_batch, &report.config);
    words::plan::split(
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
pub(super) fn arena_in(report: &PlanReport, size: impl Fn(Bytes) -> String) -> String {
    let [low, high] = report.overhead.range().map(&size);
    let (device, need) = (&report.device, size(report.arena_bytes));
    let name = words::names::device(&device.name);
    let (total, overhead): (fn(_, _, _, _, _, _) -> _, _) =
        match (report.engine, device.name == THIS_MACHINE) {
            ("torch", true) => (words::plan::tensors, words::plan::python_overhead()),
            ("torch", false) => (words::plan::tensors, words::plan::card_overhead()),
            (_, true) => (words::plan::arena, words::plan::host_overhead()),
            (_, false) => (words::plan::arena, words::plan::gpu_overhead()),
        };
    total(need, low, high, overhead, size(device.usable_bytes), name)
}

/// The estimated time as text.
pub(super) fn time_text(time: &RunTime) -> String {
    time_text_in(time, duration)
}

/// The estimated time as text, with the time of a step as `step_text` writes its seconds.
pub(super) fn time_text_in(time: &RunTime, step_text: fn(f64) -> String) -> String {
    let percent = |share: f64| format!("{:.0}", share * 100.0);
    let [quickest_step, slowest_step] = time.step_s.map(step_text);
    let [quickest, slowest] = time.run_s.map(duration);
    let [slow, fast] = time.tokens_per_s.map(|rate| grouped(rate as u64));
    let [least, most] = time.efficiency.map(percent);
    let rate = words::plan::rate(quickest_step, slowest_step, slow, fast);
    format!("{rate}\n{}", words::plan::run_time(quickest, slowest, least, most))
}

/// A duration with two significant digits.
pub(super) fn duration(seconds: f64) -> String {
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
fn verdict(report: &PlanReport) -> String {
    verdict_in(report, |bytes| bytes.to_string())
}

/// [`verdict`] with sizes in another unit.
pub(super) fn verdict_in(report: &PlanReport, size: impl Fn(Bytes) -> String) -> String {
    let [low, high] = report.overhead.range();
    let (need, usable) = (report.arena_bytes, report.device.usable_bytes);
    let device = words::names::device(&report.device.name);
    match report.verdict {
        Verdict::Fits => words::plan::fits(device, size(usable.saturating_sub(need + high))),
        Verdict::Tight => {
            words::plan::tight(device, size(usable.saturating_sub(need)), size(low), size(high))
        }
        Verdict::No => words::plan::does_not_fit(device, size((need + low).saturating_sub(usable))),
    }
}

/// What the device's runtime takes, if it was measured.
fn pools(report: &PlanReport) -> String {
    let one = |pool: &RuntimePool| format!("{} {}", words::names::pool(pool.name), pool.bytes);
    let taken = report.pools.iter().filter(|pool| pool.bytes > Bytes::ZERO);
    let list: Vec<_> = taken.map(one).collect();
    if list.is_empty() { String::new() } else { words::plan::pools(list.join(", ")) + "\n" }
}

/// Why a plan does not fit, with its largest classes.
pub(super) fn refusal(report: &PlanReport) -> String {
    let phase = report.phases.iter().find(|p| p.name == report.peak_phase);
    let terms = phase.map_or(String::new(), |phase| {
        let at = words::plan::peak_at(phase.at.index, phase.name, &phase.at.op);
        format!("\n  {at}\n{}", bars::terms(&phase.classes))
    });
    let [low, high] = report.overhead.range();
    let (need, budget) = (report.arena_bytes, report.device.usable_bytes);
    let reason = if report.verdict == Verdict::Tight {
        words::plan::refused_tight(need, low, high, budget)
    } else {
        words::plan::refused(need, high, budget)
    };
    format!("{}{reason}\n{terms}", words::names::error())
}
