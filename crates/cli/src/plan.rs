//! `fitgpt plan`: the memory of every phase.

use std::path::Path;

use clap::{Arg, ArgMatches, Command};
use fitgpt_checkpoint::output;
use fitgpt_commands::{
    Failure,
    config_file::ConfigSource,
    plan::{self, PlanAnswer, PlanRequest},
};
use fitgpt_model::report::Verdict;

use super::{Outcome, OutputStyle, args, named, plan_text};
use crate::{
    picture::{
        chart::{Chart, Panel},
        html, svg,
    },
    terminal,
    words::{names, plan as messages},
};

/// The kinds of pictures, as flags.
const KINDS: [&str; 2] = ["svg", "html"];

/// Adds the flags of pictures.
fn with_pictures(command: Command) -> Command {
    let file = |name, help| Arg::new(name).long(name).value_name("FILE").help(help);
    command
        .arg(file("svg", "Draw the live bytes of a step and an evaluation, op by op"))
        .arg(file("html", "Draw the same as a page that shows the op under the pointer"))
}

/// The command with its flags.
pub(super) fn command() -> Command {
    args::with_keys(
            with_pictures(args::with_network(args::with_ranks(args::with_target(Command::new("plan"), &["fitgpt", "torch", "both"]))))
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
    let source = args::source(matches, None)?;
    let config = source.written.resolve()?;
    args::check_output(matches, "svg", output::SVG)?;
    args::check_output(matches, "html", output::HTML)?;
    let answer = PlanRequest {
        config: &config,
        vocab: plan::vocab(&config)?,
        engines: args::engines(matches),
        device: args::device(matches),
        ranks: args::ranks(matches),
        network: matches.get_one("network").copied(),
        wants_timelines: KINDS.into_iter().any(|kind| matches.contains_id(kind)),
    }
    .plan()?;
    let plan = answer.plan();
    if plan.lacks_bfloat16() {
        terminal::note(&messages::no_bfloat16(&plan.target.device.name));
    }
    let drawn = draw(matches, &answer)?;
    match style {
        OutputStyle::Json => terminal::json_pretty(&answer.document()),
        OutputStyle::Text => print(&answer, &source, args::ranks(matches), &drawn),
    }
    Ok(if plan.report.fits { Outcome::Yes } else { Outcome::No })
}

/// Prints the plans, the time, what would fit or what to run, and the verdict.
fn print(answer: &PlanAnswer, source: &ConfigSource, ranks: Option<u32>, drawn: &[&str]) {
    let plan = answer.plan();
    let (report, engine) = (&plan.report, plan.target.engine);
    match &answer.plans[..] {
        [torch, _] => terminal::out(&plan_text::text_of_both(&torch.report, report)),
        _ => terminal::out(&plan_text::text(report)),
    }
    if !report.fits {
        terminal::err(&plan_text::refusal(report));
    }
    // The time is irrelevant if the run does not fit.
    if let Some(time) = plan.time.filter(|_| report.verdict != Verdict::No) {
        terminal::line(&plan_text::time_text(&time));
    }
    if !report.fits {
        terminal::err(&plan_text::advice(&answer.options(), engine));
    }
    if let Some(ranks) = &answer.ranks {
        terminal::line(&plan_text::ranks(ranks));
    }
    for path in drawn {
        terminal::line(&messages::drawn(path));
    }
    if report.fits {
        let train = source.train_command(engine, &answer.config, ranks);
        terminal::line(&names::next(train));
    }
    // The last line is the answer.
    terminal::line(&plan_text::verdict(report));
}

/// Writes the requested pictures and returns their paths.
fn draw<'a>(matches: &'a ArgMatches, answer: &PlanAnswer) -> Result<Vec<&'a str>, Failure> {
    let chart = Chart { panels: answer.plans.iter().map(Panel::from).collect() };
    let mut drawn = Vec::new();
    for kind in KINDS {
        let Some(path) = matches.get_one::<String>(kind) else { continue };
        let picture = if kind == "svg" { svg::draw(&chart) } else { html::draw(&chart) };
        let path_of = Path::new(path);
        output::write_file(path_of, &picture)
            .map_err(|error| Failure::unwritable(path_of, &error))?;
        drawn.push(path.as_str());
    }
    Ok(drawn)
}
