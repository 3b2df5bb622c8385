//! `fitgpt plan`: the memory of every phase.

use std::path::Path;

use clap::{Arg, ArgMatches, Command};
use fitgpt_checkpoint::output;
use fitgpt_commands::{
    Failure,
    config_file::ConfigSource,
    engines::ChosenEngines,
    plan::{self, EnginePlan, PlanAnswer, PlanRequest},
};
use fitgpt_model::report::Verdict;

use super::{Outcome, OutputStyle, args, named, plan_text};
use crate::{
    picture::{
        chart::{Chart, Panel},
        html, svg,
    },
    terminal,
    words::{Say as _, lang, names, plan as messages},
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
    let ChosenEngines { engines, note } = args::engines(matches, style, &config, &source.written);
    if let Some(note) = note {
        terminal::note(&note.say(lang()));
    }
    let answer = PlanRequest {
        config: &config,
        vocab: plan::vocab(&config)?,
        engines,
        device: args::device(matches, engines),
        ranks: args::ranks(matches),
        network: matches.get_one("network").copied(),
        wants_timelines: KINDS.into_iter().any(|kind| matches.contains_id(kind)),
    }
    .plan()?;
    let plan = answer.plan();
    if plan.lacks_bfloat16() {
        terminal::note(&messages::no_bfloat16(&plan.target.device.name));
    }
    for note in answer.notes(&source.written) {
        terminal::note(&note.say(lang()));
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
    let plans = &answer.plans[..];
    let is_alone = plans.len() == 1;
    terminal::line(&plan_text::heading(answer));
    match plans {
        [torch, fitgpt] => {
            terminal::out(&plan_text::text_of_both(&torch.report, &fitgpt.report));
        }
        _ => terminal::out(&plan_text::text(&answer.plan().report)),
    }
    if answer.plan().is_untried() {
        terminal::line(&plan_text::untried());
    }
    for plan in plans {
        let report = &plan.report;
        let name = plan_text::engine_name(plan.target.engine);
        let named = |text: String| {
            let line = |line| messages::of_engine(name, line);
            if is_alone { text } else { text.lines().map(line).collect::<Vec<_>>().join("\n") }
        };
        if !report.fits && is_alone {
            terminal::err(&plan_text::refusal(report));
        }
        // The time is irrelevant if the run does not fit.
        if report.verdict != Verdict::No {
            let on_cpu = || plan.time_on_this_cpu(&answer.config);
            let text = plan.time.map(|time| plan_text::time_text(&time));
            let text = text.or_else(|| Some(plan_text::time_text_on_cpu(&on_cpu()?)));
            if let Some(text) = text {
                terminal::line(&named(text));
            }
        }
        if !report.fits {
            let advice = plan_text::advice(&answer.options_of(plan), plan.target.engine);
            let heading = if is_alone { String::new() } else { format!("\n{name}:") };
            terminal::err(&format!("{heading}{advice}"));
        }
    }
    if let Some(ranks) = &answer.ranks {
        terminal::line(&plan_text::ranks(ranks));
    }
    for path in drawn {
        terminal::line(&messages::drawn(path));
    }
    for plan in plans.iter().filter(|plan| plan.report.fits) {
        let train = source.train_command(&plan.target, &answer.config, ranks);
        terminal::line(&names::next(train));
    }
    // The last line is the answer.
    let verdict = |plan: &EnginePlan| plan_text::verdict(&plan.report);
    terminal::line(&match plans {
        [torch, fitgpt] => messages::verdicts(verdict(torch), verdict(fitgpt)),
        _ => verdict(answer.plan()),
    });
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
