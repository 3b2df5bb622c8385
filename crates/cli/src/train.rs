//! `fitgpt train`: plans, prints the plan, and trains within it.

use std::{
    path::{Path, PathBuf},
    rc::Rc,
};

use clap::{Arg, ArgAction, ArgMatches, Command};
use fitgpt_checkpoint::{NANOGPT_FILE, output};
use fitgpt_commands::{
    Failure, begin,
    config_file::DEFAULT_PRESET,
    fit_options::AdaptedConfig,
    out_dir::ExistingRun,
    together::together,
    train::{self, FinishedRun, Opening, PlannedRun, TrainRequest},
};
use fitgpt_config::{Config, InitFrom};
use fitgpt_files::attempt::Attempt;
use fitgpt_model::{Model, Parameter, ParameterRole};
use fitgpt_run::{
    device::{self, unused_card},
    ranks::Ranks,
    stop::StopFlag,
    train::{LossHistory, RunEnd},
};
use fitgpt_say::Sentence;
use serde_json::json;

use super::{Outcome, OutputStyle, args, named, plan_text, progress::RunLines, sample};
use crate::{
    picture::{curve, curve_svg},
    terminal,
    words::{
        Say as _, grouped, lang, names, ranks as ranks_words, serve as serve_words, train as words,
    },
};

#[cfg(all(test, not(feature = "mpi")))]
mod collectives;

/// The command with its flags.
pub(super) fn command() -> Command {
    args::with_keys(flags())
}

fn flags() -> Command {
    Command::new("train")
        .about("Plans, prints the plan, and trains within it")
        .arg(
            Arg::new("fit")
                .long("fit")
                .action(ArgAction::SetTrue)
                .help("Change settings that keep the training if it does not fit, and list them"),
        )
        .arg(
            Arg::new("overwrite")
                .long("overwrite")
                .action(ArgAction::SetTrue)
                .help("Replace the run in `out_dir`: its checkpoints and its log are removed"),
        )
        .arg(
            Arg::new("tensorboard")
                .long("tensorboard")
                .action(ArgAction::SetTrue)
                .help("Write event files for TensorBoard to `out_dir/tensorboard`"),
        )
        .arg(
            Arg::new("svg")
                .long("svg")
                .value_name("FILE")
                .help("Write the loss curve as an SVG picture at the end"),
        )
        .arg(named::weights_flag())
        .after_help(
            "Without a config file it trains the built-in `stories` preset.\n\n\
             Examples:\n  fitgpt train\n  \
             fitgpt train config/train_shakespeare_char.py --device=cpu --max_iters=100\n  \
             fitgpt train config/train_gpt2.py --budget 6GB --fit --svg loss.svg\n  \
             fitgpt train --init_from=resume --out_dir=out-stories",
        )
}

pub(super) fn run(matches: &ArgMatches, style: OutputStyle) -> Result<Outcome, Failure> {
    let ranks = Ranks::start(|silent| {
        let message = silent.say(lang());
        terminal::err(&format!("{}{}{message}\n", fitgpt_commands::label(lang()), names::error()));
    })?;
    if !ranks.is_root() {
        terminal::only_errors();
    }
    run_as(matches, style, &Rc::new(ranks))
}

/// Runs the command as one of `ranks`.
fn run_as(matches: &ArgMatches, style: OutputStyle, ranks: &Rc<Ranks>) -> Result<Outcome, Failure> {
    let trained = train(matches, style, ranks);
    if let Err(failure) = &trained
        && ranks.count() > 1
    {
        // Before any rank ends: launchers kill all of them when one ends with an error.
        super::fail(failure, style);
        if failure.is_alone() {
            ranks.abort();
        }
        ranks.leave();
        return Err(Failure::elsewhere());
    }
    ranks.leave();
    trained
}

/// Trains as one of `ranks`.
fn train(matches: &ArgMatches, style: OutputStyle, ranks: &Rc<Ranks>) -> Result<Outcome, Failure> {
    let stop = train::stop_flag(ranks)?;
    // A closed pipe or a full disk on stdout must not end a run.
    terminal::continue_without_stdout();
    let request = together(ranks, request(matches, ranks))?;
    let (svg, wants_fit) = (request.svg.clone(), request.wants_fit);
    let planned = PlannedRun::of(request, ranks)?;
    show_notes(&planned);
    if style == OutputStyle::Text {
        terminal::out(&introduction(&planned, ranks, wants_fit));
    }
    if let (Some(step), None) = (planned.finished_at(), &svg) {
        planned.recover_folder()?;
        terminal::note(&words::already_done(step, planned.config.max_iters(), 2 * step));
        if style == OutputStyle::Json {
            let history = LossHistory::default();
            terminal::json(&summary(&planned.config, RunEnd::Done, &history, None));
        }
        return Ok(Outcome::Yes);
    }
    if let Some(rank) = planned.does_not_fit_on() {
        if rank == ranks.rank() {
            refuse(&planned, style)?;
        }
        if wants_fit && planned.is_resumed() && style == OutputStyle::Text {
            terminal::err(&format!("{}{}\n", names::note(), words::resume_keeps_rounding()));
        }
        return Ok(Outcome::No);
    }
    let adapted = planned.adapted.as_ref().map(AdaptedConfig::to_json);
    let model = *planned.model();
    let arena = planned.report().arena_bytes;
    let mut opened = match planned.open()? {
        Opening::Ready(opened) => opened,
        Opening::Following(mut trainer) => {
            trainer.follow(&stop)?;
            return Ok(Outcome::Yes);
        }
        Opening::NotNow(reason) => return Ok(not_now(reason, style)),
    };
    let (config, folder) = (opened.config().clone(), opened.folder().to_owned());
    let log = opened.log().to_owned();
    let mut lines = RunLines::new(&config, &model, arena, style.into());
    lines.warn_if_long(opened.step(), device::threads(&config));
    let trained = opened.run(&stop, show_page, &mut |progress| lines.show(progress));
    // Also for a run that failed: that is when the curve helps most.
    let drawn = svg.map_or(Ok(()), |path| draw(&path, &log, style));
    let FinishedRun { ended, history } = trained?;
    drawn?;
    drop(opened); // the folder is no longer locked
    match style {
        OutputStyle::Text => print_end(&config, &folder, ended, &history, &stop),
        OutputStyle::Json => {
            terminal::json(&summary(&config, ended, &history, adapted.as_ref()));
        }
    }
    match ended {
        RunEnd::Done => Ok(Outcome::Yes),
        RunEnd::Stopped => Ok(Outcome::Stopped),
        RunEnd::Abandoned => Err(Failure::new("stopped", words::stopped_unsaved())),
    }
}

/// What the command line asks for.
fn request(matches: &ArgMatches, ranks: &Ranks) -> Result<TrainRequest, Failure> {
    let written = args::written(matches, Some(DEFAULT_PRESET))?;
    let is_resumed = written.resolve().is_ok_and(|c| matches!(c.init_from(), InitFrom::Resume));
    let written_now = (is_resumed && ranks.is_root()).then(|| args::written(matches, None));
    let replaces = matches.get_flag("overwrite");
    let svg = matches.get_one::<String>("svg").map(PathBuf::from);
    Ok(TrainRequest {
        written,
        written_now: written_now.transpose()?,
        wants_fit: matches.get_flag("fit"),
        existing: if replaces { ExistingRun::Replace } else { ExistingRun::Refuse },
        wants_tensorboard: matches.get_flag("tensorboard"),
        svg: svg.filter(|_| ranks.is_root()),
        inputs: args::files(matches).into_iter().map(PathBuf::from).collect(),
        note: |note| terminal::note(&note.say(lang())),
    })
}

/// Prints what is not as the user may expect.
fn show_notes(planned: &PlannedRun) {
    let runner = planned.runner();
    if let Some((device, interface)) = runner.gpu() {
        terminal::note(&words::running_on(device, interface));
    }
    if let Some(card) = unused_card(&planned.config, runner) {
        terminal::note(&words::unused(card));
    }
    let written = planned.written();
    args::note_unknown(written);
    if let Some(note) = planned.note_on_rate() {
        terminal::note(&note.say(lang()));
    }
    for key in written.ignored() {
        terminal::note(&if key == "wandb_log" { words::wandb() } else { words::ignored(key) });
    }
}

/// The page that shows the run in `folder`, if there is one.
fn show_page(folder: &Path) {
    if let Some(address) = fitgpt_serve::page_of(folder) {
        terminal::note(&serve_words::shown_at(address));
    }
}

/// Prints why the run cannot start now, if it is known on this rank.
fn not_now(reason: Option<Sentence>, style: OutputStyle) -> Outcome {
    let failure = reason.map(|reason| Failure::new("memory", reason));
    match (failure, style) {
        (None, _) => {}
        (Some(failure), OutputStyle::Text) => terminal::err(&failure.to_text(lang())),
        (Some(failure), OutputStyle::Json) => terminal::json(&failure.to_json(lang())),
    }
    Outcome::No
}

/// What is printed before the run: nanoGPT's first lines, the ranks, what it starts from, what was
/// changed, and the plan.
fn introduction(planned: &PlannedRun, ranks: &Ranks, wants_fit: bool) -> String {
    let (config, report) = (&planned.config, planned.report());
    let mut text = first_lines(config, planned.model());
    if ranks.count() > 1 {
        let hosts = ranks_words::hosts(ranks.n_hosts());
        text += &ranks_words::together(ranks.count(), hosts, config.lanes());
        text.push('\n');
    }
    if ranks.wants_more_connections() {
        text += &ranks_words::more_connections();
        text.push('\n');
    }
    text += &begin::introduction(lang(), &planned.start, config);
    if wants_fit && report.fits {
        let adapted = planned.adapted.as_ref();
        text +=
            &adapted.map_or_else(|| words::fits_already() + "\n", |adapted| adapted.text(lang()));
    }
    let precision = planned.runner().precision(config).name();
    text += &plan_text::heading_of("FitGPT", &report.device.name, precision);
    text.push('\n');
    text + &plan_text::text(report)
}

/// nanoGPT's first lines.
fn first_lines(config: &Config, model: &Model) -> String {
    let parameters = model.parameters();
    let counted = |decays| {
        let list: Vec<_> = parameters.iter().filter(|p| p.decays() == decays).collect();
        (list.len(), grouped(list.iter().map(|p| p.count()).sum()))
    };
    let ((decayed, decayed_count), (other, other_count)) = (counted(true), counted(false));
    let is_position = |p: &&Parameter| p.role == ParameterRole::Positions;
    let positions: u64 = parameters.iter().filter(is_position).map(Parameter::count).sum();
    let millions = (model.parameter_count() - positions) as f64 / 1e6;
    let tokens = grouped(config.effective_batch().tokens);
    format!(
        "tokens per iteration will be: {tokens}\nnumber of parameters: {millions:.2}M\n\
         num decayed parameter tensors: {decayed}, with {decayed_count} parameters\n\
         num non-decayed parameter tensors: {other}, with {other_count} parameters\n"
    )
}

/// Explains why it does not fit, before anything is allocated, and what would make it fit.
fn refuse(planned: &PlannedRun, style: OutputStyle) -> Result<(), Failure> {
    let report = planned.report();
    match style {
        OutputStyle::Text => {
            terminal::err(&format!(
                "{}{}",
                fitgpt_commands::label(lang()),
                plan_text::refusal(report)
            ));
            let (found, engine) = planned.options()?;
            terminal::err(&plan_text::advice(&found, engine));
        }
        OutputStyle::Json => {
            terminal::json_pretty(report);
        }
    }
    Ok(())
}

/// Draws the losses in the log, which has all steps of a resumed run.
fn draw(path: &Path, log: &Path, style: OutputStyle) -> Result<(), Failure> {
    let history = LossHistory::of_log(log)?;
    let evaluations = |of: fn(&fitgpt_run::trainer::Evaluated) -> f64| {
        history.evaluations.iter().map(|(step, e)| (*step, of(e))).collect()
    };
    let picture = curve_svg::draw(&curve_svg::Curve {
        title: words::loss_of_steps(history.steps.len()),
        axis: words::axis_step(),
        line: (words::legend_steps(), history.steps.clone()),
        dots: [
            (words::legend_train(), evaluations(|e| e.train.mean)),
            (words::legend_val(), evaluations(|e| e.val.mean)),
        ],
    });
    output::write_file(path, &picture)
        .map_err(|error| Failure::io(Attempt::Write, path, &error))?;
    if style == OutputStyle::Text {
        terminal::line(&words::curve_written(path.display()));
    }
    Ok(())
}

/// Prints the loss curve, a sample and the next command.
fn print_end(
    config: &Config,
    folder: &Path,
    ended: RunEnd,
    history: &LossHistory,
    stop: &StopFlag,
) {
    if let Some(picture) = curve::draw(&history.steps) {
        let title = words::loss_of_steps(history.steps.len());
        terminal::out(&format!("\n{title}\n{picture}"));
    }
    if ended == RunEnd::Stopped {
        terminal::line(&words::stopped(folder.display()));
        return;
    }
    if ended == RunEnd::Abandoned || config.eval_only() || history.steps.is_empty() {
        return;
    }
    terminal::line(&words::a_sample());
    // The run is saved: whatever is missing for a sample is not its failure.
    if let Err(failure) = sample::after_training(config, folder, stop) {
        terminal::note(&words::no_sample(failure.message(lang())));
    }
    terminal::line(&words::saved_in(folder.display()));
    if folder.join(NANOGPT_FILE).is_file() {
        terminal::line(&words::nanogpt_file_is_old(folder.display()));
    }
}

/// What `--json` prints at the end.
fn summary(
    config: &Config,
    ended: RunEnd,
    history: &LossHistory,
    adapted: Option<&serde_json::Value>,
) -> serde_json::Value {
    let last = history.evaluations.last();
    json!({
        "out_dir": config.out_dir(),
        "ended": match ended {
            RunEnd::Done => "done",
            RunEnd::Stopped | RunEnd::Abandoned => "interrupted",
        },
        "steps": history.steps.len(),
        "loss": history.steps.last().map(|(_, loss)| loss),
        "train_loss": last.map(|(_, e)| e.train.mean),
        "val_loss": last.map(|(_, e)| e.val.mean),
        "fit": adapted,
    })
}
