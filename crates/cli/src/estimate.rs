//! `fitgpt bench --estimate`: the best time that a card could reach by its data sheet, op by op;
//! and the same table with measured times.

use std::fmt::Write as _;

use clap::ArgMatches;
use fitgpt_commands::{Failure, plan, target::for_a_card};
use fitgpt_config::{Config, Precision};
use fitgpt_fit::{
    device::{self, CardSpec, Rates},
    torch,
};
use fitgpt_model::{
    job::Job,
    report::{DeviceMemory, Overhead},
};
use fitgpt_program::{Names, Program, units::Bytes};
use fitgpt_run::{
    bench::{Measured, TimedProgram},
    device::Runner,
    estimate::{BoundBy, Estimated, estimate},
    setup::RunSetup,
    time::{Kernels, RunTime},
};
use serde::Serialize;
use serde_json::json;

use super::{Outcome, OutputStyle, args, plan_text};
use crate::{
    terminal,
    words::{self, bench as text_of, grouped, names, percent},
};

/// The card of an estimate if none is named and none is in this machine.
const DEFAULT: &str = "GeForce RTX 4070";

/// A card with its peak rates.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct RatedCard {
    name: &'static str,
    #[serde(flatten)]
    rates: Rates,
}

impl RatedCard {
    /// The card that a driver calls `name`, if its rates are known.
    pub(super) fn known_as(name: &str) -> Option<Self> {
        device::find(name).ok().and_then(|gpu| Self::of(gpu).ok())
    }

    fn of(gpu: &CardSpec) -> Result<Self, device::DeviceError> {
        Ok(Self { name: gpu.name, rates: gpu.rates()? })
    }
}

/// The bounds of a job's programs on a card.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Bounds {
    precision: &'static str,
    /// One optimizer step: all micro-batches of the config, and the update.
    step_ms: f64,
    tokens_per_s: f64,
    programs: Vec<Estimated>,
}

impl Bounds {
    /// The bounds of the programs of `job` and of `sampling`.
    pub(super) fn new(job: &Job, sampling: &Job, precision: Precision, card: &RatedCard) -> Self {
        let training = job.training;
        let of = |program: &Program, tokens| estimate(program, tokens, precision, &card.rates);
        let tokens = training.batch * training.seq;
        let lists = job.training_programs(Names::Kept);
        let [train, update, evaluate] = lists.phases();
        let (train, update) = (of(train, tokens), of(update, 0));
        let evaluate = of(evaluate, training.eval_batch * training.eval_seq);
        let lists = sampling.sampling_programs();
        let [prefill, decode] = lists.both();
        let prefill = of(prefill, sampling.model.block.into());
        let decode = of(decode, sampling.samples);
        let micro_batches = training.accumulation;
        let step_ms = micro_batches as f64 * train.ms + update.ms;
        let programs = vec![train, update, evaluate, prefill, decode];
        let tokens_per_s = (micro_batches * tokens) as f64 / step_ms * 1e3;
        Self { precision: precision.name(), step_ms, tokens_per_s, programs }
    }
}

/// Answers `--estimate`.
pub(super) fn run(
    matches: &ArgMatches,
    style: OutputStyle,
    job_name: &str,
    config: &Config,
) -> Result<Outcome, Failure> {
    let gpu = match matches.get_one::<String>("gpu") {
        Some(name) => device::find(name)?,
        None => card_here(config).unwrap_or(device::find(DEFAULT)?),
    };
    let card = RatedCard::of(gpu)?;
    let precision =
        config.precision_or(if gpu.has_bf16() { Precision::Bfloat16 } else { Precision::Float16 });
    let config = config.with("bench", [("dtype", precision.name().into())])?;
    let vocab = plan::vocab(&config)?;

    // Every engine needs the CUDA context and libraries; nothing is compiled.
    let overhead = Overhead { compile_bytes: [Bytes::ZERO; 2], ..torch::overhead(&config) };
    let total_bytes = gpu.total_bytes();
    let budget = config.memory_budget().map_or(total_bytes, Bytes::new);
    let usable_bytes = budget.min(total_bytes);
    let place = DeviceMemory { name: gpu.name.to_owned(), total_bytes, usable_bytes };
    let runner = Runner::cpu(&for_a_card(&config)?);
    let planned = RunSetup::new(&config, vocab, precision, &runner, place, overhead)?;
    if !planned.report.fits {
        let message =
            text_of::too_large_for_card(planned.report.arena_bytes, gpu.name, usable_bytes);
        terminal::err(&format!("{}{message}\n", names::error()));
        return Ok(Outcome::No);
    }
    let bounds = Bounds::new(&planned.job, &one_sample(&planned.job), precision, &card);
    let time = RunTime::of(&config, &planned.job, precision, Kernels::Fitgpt, &card.rates);
    let torch = if config.compile() { Kernels::Compiled } else { Kernels::Eager };
    // PyTorch computes the same products, with the recomputation of the config.
    let torch_job = Job::new(&config, vocab, precision, &runner.target(), Bytes::new(1 << 60));
    let torch_time = RunTime::of(&config, &torch_job, precision, torch, &card.rates);
    match style {
        OutputStyle::Json => {
            let answer = json!({ "job": job_name, "config": config, "card": card,
                "estimated": bounds, "time": time, "torch_time": torch_time });
            terminal::json(&answer);
        }
        OutputStyle::Text => {
            let job = text_of::job(
                job_name,
                format!("{:.1}", planned.job.model.parameter_count() as f64 / 1e6),
                config.batch_size(),
                config.block_size(),
                precision.name(),
            );
            let memory = text_of::arena(planned.report.arena_bytes);
            let bounds = text(&card, &bounds, None);
            let torch_name = match torch {
                Kernels::Compiled => text_of::pytorch_compiled(),
                _ => text_of::pytorch_eager(),
            };
            let times =
                [("FitGPT".to_owned(), time), (torch_name, torch_time)].map(|(name, time)| {
                    format!("\n{name}\n{}\n", plan_text::time_text_in(&time, step_text))
                });
            terminal::out(&format!("{job}\n{memory}\n{bounds}{}", times.concat()));
            let plan = format!("fitgpt plan{} --gpu \"{}\"", arguments(matches), gpu.name);
            terminal::line(&format!("\n{}  ({})", names::next(plan), text_of::plans()));
        }
    }
    Ok(Outcome::Yes)
}

/// The config files and keys of the command line, to be appended to another command.
fn arguments(matches: &ArgMatches) -> String {
    let files = args::files(matches).into_iter();
    let keys = args::keys(matches).into_iter().map(|(key, value)| format!("--{key}={value}"));
    files.chain(keys).flat_map(|word| [" ".to_owned(), word]).collect()
}

/// One text at a time, as `bench` measures it.
pub(super) fn one_sample(job: &Job) -> Job {
    Job { samples: 1, ..*job }
}

/// The card in this machine that `config` would run on, if its rates are known.
fn card_here(config: &Config) -> Option<&'static CardSpec> {
    let runner = Runner::for_a_plan(config).ok()?;
    let (name, _) = runner.gpu()?;
    device::find(name).ok().filter(|gpu| gpu.rates().is_ok())
}

/// The bounds as text, next to the measured times if there are any.
pub(super) fn text(card: &RatedCard, bounds: &Bounds, measured: Option<&Measured>) -> String {
    let rates = &card.rates;
    let tera = |rate: f64| format!("{:.1}", rate / 1e12);
    let mut text = format!(
        "{}\n",
        text_of::card(
            card.name,
            format!("{:.0}", rates.bytes_per_s / 1e9),
            tera(rates.float32_flops_per_s),
            tera(rates.half_flops_per_s),
        )
    );
    for (at, program) in bounds.programs.iter().enumerate() {
        table(&mut text, program, measured.and_then(|measured| measured.programs.get(at)));
    }
    let tokens = grouped(bounds.tokens_per_s as u64);
    let _ = writeln!(text, "\n{}", text_of::step(step_text(bounds.step_ms / 1e3), tokens));
    text
}

/// The time of a step in milliseconds, the unit of the tables above it.
fn step_text(seconds: f64) -> String {
    let ms = seconds * 1e3;
    if ms < 1000.0 { format!("{ms:.1} ms") } else { format!("{ms:.0} ms") }
}

/// One program with its ops.
fn table(text: &mut String, program: &Estimated, timed: Option<&TimedProgram>) {
    let ms = |ms: f64| format!("{ms:.2}");
    let head = match timed {
        None => text_of::at_least(program.name, ms(program.ms)),
        Some(timed) => text_of::at_least_and_measured(
            program.name,
            ms(program.ms),
            ms(timed.ms),
            share(program.ms, timed.ms),
            timed.runs,
        ),
    };
    let mut columns = vec![
        words::left(&text_of::op(), 26),
        words::right(&text_of::count(), 6),
        words::right("GFLOP", 10),
        words::right("MB", 10),
        words::right(&text_of::by_flops(), 13),
        words::right(&text_of::by_bytes(), 13),
        words::right(&text_of::bound(), 10),
    ];
    if timed.is_some() {
        columns.push(words::right(&text_of::measured(), 13));
        columns.push(words::right(&text_of::of_bound(), 16));
    }
    let _ = writeln!(text, "\n{head}\n  {}", columns.concat());
    for bound in &program.ops {
        let limit = match bound.limit {
            BoundBy::Flops => text_of::flops(),
            BoundBy::Bytes => text_of::bytes(),
        };
        let _ = write!(
            text,
            "  {:<26}{:>6}{:>10.1}{:>10.1}{:>10.3} ms{:>10.3} ms{}",
            bound.op,
            bound.count,
            bound.flops as f64 / 1e9,
            bound.bytes as f64 / 1e6,
            bound.flops_ms,
            bound.bytes_ms,
            words::right(&limit, 10),
        );
        if let Some(timed) = timed {
            let measured = bound.measured_ms(timed);
            let _ = write!(text, "{measured:>10.3} ms{:>16}", share(bound.ms, measured));
        }
        text.push('\n');
    }
}

/// How close a measured time came to its bound.
fn share(bound_ms: f64, measured_ms: f64) -> String {
    percent(bound_ms / measured_ms)
}
