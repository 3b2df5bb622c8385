//! `fitgpt bench`: speed and memory of a job on this machine, compared with the machine's peak
//! rates.

use std::{fmt::Write as _, time::Duration};

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use fitgpt_commands::{Failure, plan};
use fitgpt_config::{Config, Precision, Written};
use fitgpt_program::Products;
use fitgpt_run::{
    bench::{self, Effort, MachinePeaks, Measured, OpTimes, TimedProgram},
    device::Runner,
    setup::{RunSetup, Sampling},
};
use serde_json::json;

use super::{
    Outcome, OutputStyle, args,
    estimate::{self, Bounds, RatedCard},
};
use crate::{
    terminal,
    words::{self, bench as text_of, grouped, names, percent},
};

/// Named jobs: the keys in which they differ from nanoGPT's defaults.
const JOBS: [(&str, &[(&str, &str)]); 3] = [
    ("gpt2", &[("batch_size", "4"), ("block_size", "1024")]),
    (
        "shakespeare_char",
        &[
            ("n_layer", "6"),
            ("n_head", "6"),
            ("n_embd", "384"),
            ("block_size", "256"),
            ("batch_size", "64"),
            ("dropout", "0.2"),
            ("vocab_size", "65"),
        ],
    ),
    (
        "shakespeare_char_cpu",
        &[
            ("n_layer", "4"),
            ("n_head", "4"),
            ("n_embd", "128"),
            ("block_size", "64"),
            ("batch_size", "12"),
            ("vocab_size", "65"),
        ],
    ),
];

/// The command with its flags.
pub(super) fn command() -> Command {
    args::with_keys(flags())
}

fn flags() -> Command {
    Command::new("bench")
        .about("Measures speed and memory op by op, compared with this machine's peak rates")
        .arg(
            Arg::new("job")
                .long("job")
                .value_parser(JOBS.map(|(name, _)| name))
                .help("Measure a named job [default without a config: gpt2]"),
        )
        .arg(
            Arg::new("runs")
                .long("runs")
                .value_name("N")
                .value_parser(value_parser!(u32).range(1..))
                .default_value("3")
                .help("Run every program at least N times; the fastest counts"),
        )
        .arg(
            Arg::new("estimate")
                .long("estimate")
                .action(ArgAction::SetTrue)
                .help("Run nothing: compute bounds for a card from its data sheet, op by op"),
        )
        .arg(args::gpu().requires("estimate"))
        .after_help(
            "Examples:\n  fitgpt bench\n  fitgpt bench --job shakespeare_char --runs 10\n  \
             fitgpt bench config/train_shakespeare_char.py --dtype=bfloat16\n  \
             fitgpt bench --batch_size=2 --grad_checkpoint=True --json\n  \
             fitgpt bench --device=gpu\n  \
             fitgpt bench --estimate --gpu \"RTX 4070\"",
        )
}

pub(super) fn run(matches: &ArgMatches, style: OutputStyle) -> Result<Outcome, Failure> {
    let (name, config) = job(matches)?;
    if matches.get_flag("estimate") {
        return estimate::run(matches, style, &name, &config);
    }
    let runs = matches.get_one::<u32>("runs").copied().unwrap_or(3);
    let effort = Effort { runs, at_least: Duration::from_millis(500) };
    let vocab = plan::vocab(&config)?;
    let runner = Runner::of(&config)?;
    let device = runner.device(&config)?;
    let precision = runner.precision(&config);
    let config = config.with("bench", [("dtype", precision.name().into())])?;

    let planned =
        RunSetup::new(&config, vocab, precision, &runner, device.clone(), runner.overhead())?;
    if !planned.report.fits {
        let (need, have) = (planned.report.arena_bytes, device.usable_bytes);
        let message = text_of::too_large(need, have);
        terminal::err(&format!("{}{message}\n", words::names::error()));
        return Ok(Outcome::No);
    }
    progress(&name);
    let mut measured = bench::training(&planned, &config, effort)?;
    // Sampling is measured one text at a time.
    let one = config.with("bench", [("num_samples", 1i64.into())])?;
    if let Some((sampling, _)) = Sampling::new(&one, vocab, &runner)? {
        measured.programs.extend(bench::sampling(&sampling, &one, effort)?);
    }
    let baseline = match runner.gpu() {
        None => Baseline::Host(MachinePeaks::measure(&config, &runner)?),
        Some((driver_name, interface)) => {
            let sampling = estimate::one_sample(&planned.job);
            let bounds = RatedCard::known_as(driver_name)
                .map(|card| (card, Bounds::new(&planned.job, &sampling, precision, &card)));
            Baseline::Gpu { name: driver_name.to_owned(), interface, bounds }
        }
    };
    if terminal::is_watched() {
        terminal::clear_progress();
    }
    match style {
        OutputStyle::Json => {
            let mut answer = json!({ "job": name, "config": config, "measured": measured });
            match baseline {
                Baseline::Host(machine) => answer["machine"] = json!(machine),
                Baseline::Gpu { name, interface, bounds } => {
                    answer["gpu"] = json!({ "name": name, "interface": interface });
                    if let Some((card, bounds)) = bounds {
                        answer["card"] = json!(card);
                        answer["estimated"] = json!(bounds);
                    }
                }
            }
            terminal::json(&answer);
        }
        OutputStyle::Text => {
            terminal::out(&text(&name, &config, &baseline, &measured));
            let estimate = "fitgpt bench --estimate --gpu \"RTX 4070\"";
            terminal::line(&format!("\n{}  ({})", names::next(estimate), text_of::estimates()));
        }
    }
    Ok(Outcome::Yes)
}

/// What a measurement is compared with.
enum Baseline {
    /// This machine's peak rates, measured in the same run.
    Host(MachinePeaks),
    /// The rates in the card's data sheet, if known.
    Gpu { name: String, interface: &'static str, bounds: Option<(RatedCard, Bounds)> },
}

fn progress(name: &str) {
    if terminal::is_watched() {
        terminal::progress(&text_of::measuring(name));
    }
}

/// A job's name and config: the named job's keys first, then the command line.
fn job(matches: &ArgMatches) -> Result<(String, Config), Failure> {
    let file = args::last_file(matches)?.map(|(name, _)| name);
    let asked = matches.get_one::<String>("job").map(String::as_str);
    let named = if file.is_none() { Some(asked.unwrap_or("gpt2")) } else { asked };
    let mut written = Written::new();
    if let Some(name) = named {
        let (_, keys) =
            JOBS.iter().find(|(job, _)| *job == name).expect("clap accepts only these jobs");
        // An estimate runs nothing, so it takes the batch of the config, as `plan` does.
        let is_plain = name == "gpt2" && matches.get_flag("estimate");
        for (key, value) in keys.iter().filter(|_| !is_plain) {
            written.set(key, value)?;
        }
    }
    written.merge(args::written(matches, None)?);
    let name = named.map(str::to_owned).or(file).unwrap_or_default();
    Ok((name, written.resolve()?))
}

fn text(name: &str, config: &Config, baseline: &Baseline, measured: &Measured) -> String {
    let job = text_of::job(
        name,
        format!("{:.1}", measured.parameters as f64 / 1e6),
        config.batch_size(),
        config.block_size(),
        config.precision_or(Precision::Float32).name(),
    );
    let planned = measured.arena_bytes;
    let resident = measured.resident_bytes;
    match baseline {
        Baseline::Host(machine) => {
            let gflops = format!("{:.0}", machine.peak_flops_per_s / 1e9);
            let gbytes = format!("{:.1}", machine.peak_bytes_per_s / 1e9);
            let (threads, isa) = (machine.threads, machine.isa);
            let about = if machine.factors == Products::Bfloat16.name() {
                text_of::machine_of_pairs(threads, isa, gflops, gbytes)
            } else {
                text_of::machine(threads, isa, gflops, gbytes)
            };
            let memory = resident.map_or_else(
                || text_of::arena(planned),
                |resident| text_of::resident(planned, resident),
            );
            let mut text = format!("{job}\n{about}\n{memory}\n");
            for program in &measured.programs {
                table(&mut text, program, Some(machine));
            }
            text
        }
        Baseline::Gpu { name, interface, bounds } => {
            let mut text =
                format!("{job}\n{}\n{}\n", text_of::gpu(name, interface), text_of::arena(planned));
            if let Some((card, bounds)) = bounds {
                return text + &estimate::text(card, bounds, Some(measured));
            }
            let _ = writeln!(text, "{}", text_of::no_figures(name));
            for program in &measured.programs {
                table(&mut text, program, None);
            }
            text
        }
    }
}

/// One program with its ops.
fn table(text: &mut String, program: &TimedProgram, machine: Option<&MachinePeaks>) {
    let ms = format!("{:.2}", program.ms);
    let name = program.name;
    let head = if program.tokens == 0 {
        text_of::program_without_tokens(name, ms, program.runs)
    } else {
        let tokens = grouped(program.tokens_per_s() as u64);
        let gflops = format!("{:.0}", program.flops_per_s() / 1e9);
        match machine {
            Some(machine) => {
                let share = percent(program.flops_per_s() / machine.peak_flops_per_s);
                text_of::program(name, ms, tokens, gflops, share, program.runs)
            }
            None => text_of::program_alone(name, ms, tokens, gflops, program.runs),
        }
    };
    let mut columns = vec![
        words::left(&text_of::op(), 26),
        words::right(&text_of::count(), 6),
        words::right(&text_of::time(), 13),
        words::right(&text_of::share(), 8),
        words::right(&text_of::rate(), 16),
    ];
    if machine.is_some() {
        columns.push(words::right(&text_of::of_machine(), 16));
    }
    let _ = writeln!(text, "\n{head}\n  {}", columns.concat());
    let whole: f64 = program.ops.iter().map(|kind| kind.ms).sum();
    for kind in &program.ops {
        let (rate, of_machine) = rates(kind, machine);
        let _ = writeln!(
            text,
            "  {:<26}{:>6}{:>10.2} ms{:>8}{rate:>16}{of_machine}",
            kind.op,
            kind.count,
            kind.ms,
            percent(kind.ms / whole),
        );
    }
}

/// The rate of an op, and its share of the machine's peak: FLOP/s for matrix products, else
/// bytes/s.
fn rates(kind: &OpTimes, machine: Option<&MachinePeaks>) -> (String, String) {
    let seconds = kind.ms / 1e3;
    let share = |share: f64| format!("{:>16}", percent(share));
    if kind.flops > 0 {
        let rate = kind.flops as f64 / seconds;
        let of = machine.map_or_else(String::new, |m| share(rate / m.peak_flops_per_s));
        (format!("{:.1} GFLOP/s", rate / 1e9), of)
    } else {
        let rate = kind.bytes as f64 / seconds;
        let of = machine.map_or_else(String::new, |m| share(rate / m.peak_bytes_per_s));
        (format!("{:.1} GB/s", rate / 1e9), of)
    }
}
