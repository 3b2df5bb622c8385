//! `fitgpt train`: plans, prints the plan, and trains within it.

use std::{path::Path, rc::Rc, time::Instant};

use clap::{Arg, ArgAction, ArgMatches, Command};
use fitgpt_checkpoint::{
    HeldFolder, LOG_FILE, PositionRows, Scaler,
    events::{self, Event, EventLog},
    output,
};
use fitgpt_config::{Config, Precision, Written};
use fitgpt_data::Dataset;
use fitgpt_exec::{ArenaRefused, BackendError};
use fitgpt_files::{attempt::Attempt, disk::Disk};
use fitgpt_model::{Model, Parameter, ParameterRole, report::DeviceMemory, shard::Share};
use fitgpt_program::units::Bytes;
use fitgpt_run::{
    budget::{HOST_OVERHEAD, less_a_margin},
    device::{self, Runner, unused_card},
    host,
    ranks::{Ranks, SharedInput},
    setup::{self, RunSetup},
    stop::StopFlag,
    train::{self, LossHistory, Run, RunEnd},
    trainer::Trainer,
};
use serde_json::json;

use super::{
    Failure, Outcome, OutputStyle, args,
    begin::{self, Start, StartingPoint, StepSplit},
    failure,
    fit_options::{self, AdaptedConfig},
    named,
    out_dir::{self, ExistingRun},
    plan,
    plan_target::PlanTarget,
    progress::RunLines,
    sample,
    together::{self, any_no, first_no, together},
};
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
                .help("If it does not fit, change settings that keep the training, and list them"),
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
        terminal::err(&format!("{}{}{message}\n", failure::label(), names::error()));
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

/// Trains as one of `ranks`. Until the first step all ranks do the same, except that only the root
/// reads and writes the run's folder; after that, the others follow the root's commands.
fn train(matches: &ArgMatches, style: OutputStyle, ranks: &Rc<Ranks>) -> Result<Outcome, Failure> {
    let stop = StopFlag::on_signals().and_then(|stop| {
        #[cfg(unix)]
        if ranks.are_of_open_mpi() {
            stop.also_on_continue()?;
        }
        Ok(stop)
    });
    let stop = stop.map_err(|error| Failure::signals(&error));
    let stop = together(ranks, stop)?;
    // A closed pipe or a full disk on stdout must not end a run.
    terminal::continue_without_stdout();
    let written = together(ranks, args::written(matches, Some(args::DEFAULT_PRESET)))?;
    together(ranks, together::check_same(ranks, &written))?;
    let wants_fit = matches.get_flag("fit");
    let existing =
        if matches.get_flag("overwrite") { ExistingRun::Replace } else { ExistingRun::Refuse };
    let mut beginning = together(ranks, beginning(matches, &written, existing, ranks))?;
    beginning.config = together::config_of_root(ranks, &beginning.config)?;
    let folder = setup::out_dir(&beginning.config);

    let data = Dataset::open(beginning.config.dataset(), Path::new("."));
    let data = together(ranks, data.map_err(Failure::from))?;
    together(ranks, check_same_data(ranks, &data))?;
    let vocab = together(ranks, vocab(&beginning.config, &data))?;
    together(ranks, beginning.check_shape(vocab))?;
    let runner = together(ranks, together::runner(ranks, &beginning.config))?;
    let memory = together::memory(ranks, &runner, &beginning.config);
    let (memory, least) = together(ranks, memory)?;
    let here = LocalPlanner { vocab, runner: runner.clone(), memory, share: ranks.share() };
    let mut planned = together(ranks, here.plan(&beginning.config))?;

    if let Some((device, interface)) = runner.gpu() {
        terminal::note(&words::running_on(device, interface));
    }
    if let Some(card) = unused_card(&beginning.config, &runner) {
        terminal::note(&words::unused(card));
    }
    args::note_unknown(&written);
    for key in written.ignored() {
        terminal::note(&if key == "wandb_log" { words::wandb() } else { words::ignored(key) });
    }
    let mut adapted = None;
    if wants_fit {
        adapted = together(ranks, adapt(&beginning, &here, &planned))?;
        if let Some(adapted) = &adapted {
            beginning.config = adapted.config.clone();
        }
        beginning.config = together::config_of_root(ranks, &beginning.config)?;
        planned = together(ranks, here.plan(&beginning.config))?;
    }
    let StartingPoint { config: as_written, start } = beginning;
    let precision = runner.precision(&as_written);
    let config = with_choices(&as_written, &planned, vocab, precision)?;
    if style == OutputStyle::Text {
        terminal::out(&introduction(&config, &planned.job.model));
        if ranks.count() > 1 {
            let hosts = ranks_words::hosts(ranks.n_hosts());
            let line = ranks_words::together(ranks.count(), hosts, config.lanes());
            terminal::line(&line);
        }
        if ranks.wants_more_connections() {
            terminal::line(&ranks_words::more_connections());
        }
        terminal::out(&begin::introduction(&start, &config));
        if wants_fit && planned.report.fits {
            let text =
                adapted.as_ref().map_or_else(|| words::fits_already() + "\n", AdaptedConfig::text);
            terminal::out(&text);
        }
        terminal::out(&plan::text(&planned.report));
    }
    // The machine with the least memory decides for all, and the message names it.
    if let Some(too_small) = any_no(ranks, planned.report.fits, least) {
        let is_resumed = matches!(start, Start::Resume(..));
        if too_small == ranks.rank() {
            refuse(&as_written, &here, &planned, style)?;
        }
        if wants_fit && is_resumed && style == OutputStyle::Text {
            terminal::err(&format!("{}{}\n", names::note(), words::resume_keeps_rounding()));
        }
        return Ok(Outcome::No);
    }
    let needed = planned.report.arena_bytes;
    let message = not_free(&planned, &runner, ranks.count_on_host() as u64);
    let is_free = message.is_none();
    if let Some(message) = message {
        no(message, style);
    }
    if first_no(ranks, is_free).is_some() {
        return Ok(Outcome::No);
    }
    let svg = matches.get_one::<String>("svg").map(Path::new).filter(|_| ranks.is_root());
    let lock = if ranks.is_root() {
        let is_allowed = args::check_output(matches, "svg", output::SVG);
        let ready = is_allowed
            .and_then(|()| out_dir::prepare(&folder, svg, &start, existing, &planned.job, &config));
        Some(ready)
    } else {
        None
    };
    let lock = together(ranks, lock.transpose())?;

    let scaler = match precision {
        Precision::Float16 => Scaler::DYNAMIC,
        Precision::Float32 | Precision::Bfloat16 => Scaler::NONE,
    };
    let made = planned.backend();
    // If two runs start at the same time, one must give up before the system kills either.
    let is_taken = matches!(&made, Err(BackendError::Refused(ArenaRefused::Taken { .. })));
    if let (Err(error), true) = (&made, is_taken) {
        no(error.say(lang()), style);
    }
    if first_no(ranks, !is_taken).is_some() {
        return Ok(Outcome::No);
    }
    let backend = made.map_err(|error| without_arena(error, &as_written, &here));
    let backend = together(ranks, backend)?;
    // The arena has been touched; what is left must be enough for the overhead.
    let (left, _) = host::memory().least();
    let [least_left, _] = planned.report.overhead.range();
    let is_left = !runner.is_host() || left >= least_left;
    if !is_left {
        let taken = ArenaRefused::Taken { asked: needed, left };
        no(BackendError::Refused(taken).say(lang()), style);
    }
    if first_no(ranks, is_left).is_some() {
        return Ok(Outcome::No);
    }
    let architecture = start.architecture(&config, vocab, &data);
    let tokenizer_folder = start.tokenizer_folder(&data).map(Path::to_owned);
    let log = folder.join(LOG_FILE);
    let begun = if ranks.is_root() { Some(out_dir::begin(&folder, &start, &log)?) } else { None };
    if ranks.is_root() {
        train::write_tokenizer(tokenizer_folder.as_deref(), &architecture, &folder)?;
    }
    let samples =
        if ranks.is_root() { sample::in_training(&config, &folder, &architecture)? } else { None };
    let trainer =
        Trainer::of_rank(Rc::clone(ranks), backend, config.clone(), planned.job, data, scaler);
    let mut trainer = together(ranks, trainer.map_err(Failure::from))?;
    let Some(begun) = begun else {
        trainer.follow(&stop)?;
        return Ok(Outcome::Yes);
    };
    let loaded = load(start, &mut trainer, &begun.held, &log).and_then(|mut loaded| {
        if matches.get_flag("tensorboard") {
            loaded.events = loaded.events.with_tensorboard(&folder)?;
        }
        Ok(loaded)
    });
    let loaded = loaded.map_err(|failure| {
        trainer.end();
        failure.agreed()
    });
    let StartedRun { events, saved } = loaded?;
    let run_id = begun.run_id.clone();
    trainer.share_weights()?;

    let mut lines =
        RunLines::new(&config, &planned.job.model, planned.report.arena_bytes, style.into());
    lines.warn_if_long(trainer.position.step, device::threads(&config));
    let (folder_of_run, stop_run) = (folder.clone(), &stop);
    let mut run = Run {
        trainer,
        folder: folder_of_run,
        held: Rc::clone(&begun.held),
        tokenizer_folder,
        architecture,
        events,
        report: &mut |progress| lines.show(progress),
        started: Instant::now(),
        stop: stop_run,
        saved,
        run_id: run_id.clone(),
        samples,
        evaluated: LossHistory::of_log(&log)?.evaluations.pop(),
    };
    let mut report = serde_json::to_value(&planned.report).expect("a report is plain data");
    if let Some(adapted) = &adapted {
        report["fit"] = adapted.to_json();
    }
    let step = run.trainer.position.step;
    run.events.write(&Event::Plan { step, run_id: Some(run_id), plan: report })?;
    if let Some(address) = fitgpt_serve::page_of(&folder) {
        terminal::note(&serve_words::shown_at(address));
    }
    let trained = run.train().map_err(Failure::from);
    let is_midway = run.trainer.is_midway();
    if !is_midway {
        run.trainer.end();
    }
    let trained = trained.map_err(|failure| if is_midway { failure } else { failure.agreed() });

    // Free the arena before sampling allocates its own.
    drop(run);
    // Also for a run that failed: that is when the curve helps most.
    let drawn = svg.map_or(Ok(()), |path| draw(path, &log, style));
    let (ended, history) = trained?;
    drawn?;
    drop(begun); // while the folder is locked
    drop(lock);
    match style {
        OutputStyle::Text => print_end(&config, &folder, ended, &history, &stop)?,
        OutputStyle::Json => {
            let summary = summary(&config, ended, &history, adapted.as_ref());
            terminal::line(&summary.to_string());
        }
    }
    match ended {
        RunEnd::Done => Ok(Outcome::Yes),
        RunEnd::Stopped => Ok(Outcome::Stopped),
        RunEnd::Abandoned => Err(Failure::new("stopped", words::stopped_unsaved())),
    }
}

/// Prints why the run cannot start now.
fn no(message: String, style: OutputStyle) {
    let failure = Failure::new("memory", message);
    match style {
        OutputStyle::Text => terminal::err(&failure.to_text()),
        OutputStyle::Json => terminal::line(&failure.to_json().to_string()),
    }
}

/// Why this machine has too little free memory now for a plan that is within its budget, with this
/// many ranks on it.
fn not_free(planned: &RunSetup, runner: &Runner, ranks_here: u64) -> Option<String> {
    let (free, limit) = host::memory().least();
    let (needed, message): (_, fn(_, _, _) -> _) = if runner.is_host() {
        (planned.report.arena_bytes, words::not_free_now)
    } else {
        // The tokens of a batch are read on the host before they are copied to the device.
        let [least, _] = HOST_OVERHEAD.range();
        (least + planned.job.staging_bytes(), words::host_too_small)
    };
    // All ranks of this machine allocate at the same time.
    let needed = Bytes::new(needed.get().saturating_mul(ranks_here));
    (needed > free).then(|| message(needed, free, words::limit(limit)))
}

/// The config and what it starts from. Only the root opens checkpoints and pretrained weights; the
/// others get its config and weights.
fn beginning(
    matches: &ArgMatches,
    written: &Written,
    existing: ExistingRun,
    ranks: &Ranks,
) -> Result<StartingPoint, Failure> {
    let split = if matches.get_flag("fit") { StepSplit::AsBefore } else { StepSplit::AsWritten };
    let mut beginning = if ranks.is_root() {
        StartingPoint::of(matches, written, split)?
    } else {
        StartingPoint { config: written.resolve()?, start: Start::Scratch }
    };
    if ranks.is_root() {
        out_dir::check_new(&beginning.start, &setup::out_dir(&beginning.config), existing)?;
        beginning.config = together::with_lanes(ranks.count() as u32, &beginning.config)?;
    }
    Ok(beginning)
}

fn check_same_data(ranks: &Ranks, data: &Dataset) -> Result<(), Failure> {
    if ranks.count() == 1 {
        return Ok(());
    }
    let fingerprint = serde_json::to_string(&data.fingerprint()?).expect("it is plain data");
    Ok(ranks.check_same(SharedInput::Data, fingerprint.as_bytes())?)
}

/// The inputs that all plans of this rank on this machine share.
struct LocalPlanner {
    vocab: u32,
    runner: Runner,
    memory: DeviceMemory,
    share: Share,
}

impl LocalPlanner {
    /// Plans training within the budget.
    fn plan(&self, config: &Config) -> Result<RunSetup, Failure> {
        let Self { vocab, runner, memory, share } = self;
        let (precision, overhead) = (runner.precision(config), runner.overhead());
        let memory = memory.clone();
        Ok(RunSetup::of_share(config, *vocab, precision, runner, memory, overhead, *share)?)
    }

    /// This machine as the target of other plans.
    fn target(&self, config: &Config) -> Result<PlanTarget, Failure> {
        let mut target = PlanTarget::of_runner(config, self.runner.clone())?;
        (target.device, target.share) = (self.memory.clone(), self.share);
        Ok(target)
    }
}

/// The failure if the arena was refused. If the device has less memory than the plan, it includes
/// options that fit.
fn without_arena(error: BackendError, config: &Config, here: &LocalPlanner) -> Failure {
    let free = match &error {
        BackendError::Memory(refused) => refused.free,
        _ => None,
    };
    let failure = Failure::from(error);
    let (Some(free), Ok(mut place)) = (free, here.target(config)) else { return failure };
    place.device.usable_bytes = less_a_margin(free);
    let found = fit_options::all(config, here.vocab, &place);
    fit_options::advice(&found, place.engine).into_iter().fold(failure, Failure::hint)
}

/// What `--fit` changes; `None` if the config fits already, or if no allowed change makes it fit.
fn adapt(
    beginning: &StartingPoint,
    here: &LocalPlanner,
    planned: &RunSetup,
) -> Result<Option<AdaptedConfig>, Failure> {
    let LocalPlanner { vocab, runner, .. } = here;
    let memory = host::memory();
    let (really_free, _) = memory.least();
    let report = &planned.report;
    if report.fits && (!runner.is_host() || report.arena_bytes <= really_free) {
        return Ok(None);
    }
    let config = &beginning.config;
    let mut place = here.target(config)?;
    if runner.is_host() {
        // The budget may exceed the memory of this machine.
        place.device.usable_bytes = place.device.usable_bytes.min(memory.usable());
    }
    if beginning.is_resumed() {
        fit_options::adapt_resumed(config, *vocab, &place, report)
    } else {
        fit_options::adapt(config, *vocab, &place, report)
    }
}

/// The log of a run that is about to start or to continue.
struct StartedRun {
    events: EventLog,
    /// The step of the checkpoint in the folder.
    saved: Option<u64>,
}

/// Loads the first weights, and starts or continues the log.
fn load(
    start: Start,
    trainer: &mut Trainer,
    held: &Rc<HeldFolder>,
    log: &Path,
) -> Result<StartedRun, Failure> {
    let folder = held.path();
    match start {
        Start::Resume(mut checkpoint, document) => {
            let log_id = events::run_id(&Disk::real(), log)?;
            if let (Some(in_log), Some(saved)) = (&log_id, checkpoint.run_id())
                && in_log != saved
            {
                let message =
                    words::log_of_another_run(log.display(), in_log, folder.display(), saved);
                return Err(Failure::new("checkpoint", message)
                    .hint(words::move_the_log(log.display(), folder.display())));
            }
            let tensors = trainer.tensors().clone();
            checkpoint.read(&tensors, trainer)?;
            if document.data.as_ref().is_some_and(|data| *data != trainer.fingerprint()) {
                terminal::note(&words::data_changed());
            }
            let is_nanogpt = checkpoint.nanogpt().is_some();
            let new_scaler = trainer.position.scaler;
            trainer.position = document.position;
            if is_nanogpt {
                trainer.position.scaler = new_scaler;
            }
            let step = trainer.position.step;
            return Ok(StartedRun {
                events: EventLog::resume(&Disk::real(), log, step)?.0.within(Rc::clone(held)),
                saved: (!is_nanogpt).then_some(step),
            });
        }
        Start::Pretrained(mut weights, _) => {
            let tensors = trainer.tensors().clone();
            weights.read(&tensors, PositionRows::Crop, trainer)?;
        }
        Start::Scratch => trainer.initialise()?,
    }
    Ok(StartedRun {
        events: EventLog::create(&Disk::real(), log)?.within(Rc::clone(held)),
        saved: None,
    })
}

/// The config with every choice that affects rounding made explicit, as checkpoints store it.
fn with_choices(
    config: &Config,
    planned: &RunSetup,
    vocab: u32,
    precision: Precision,
) -> Result<Config, Failure> {
    let chunk = planned.job.training.loss_chunk_rows;
    let dtype = precision.name();
    let changes = [
        ("vocab_size", i64::from(vocab).into()),
        ("loss_chunk_rows", (chunk as i64).into()),
        ("dtype", dtype.into()),
    ];
    Ok(config.with("plan", changes)?)
}

/// The size of the model's vocabulary: the config's, else the data's.
fn vocab(config: &Config, data: &Dataset) -> Result<u32, Failure> {
    match (config.vocab_size(), data.vocab_size()) {
        (0, data) => Ok(data),
        (config, data) if config < data && data != fitgpt_data::GPT2_VOCAB_SIZE => {
            Err(Failure::new("vocabulary", words::vocab_too_small(config, data)))
        }
        (config, _) => Ok(config),
    }
}

/// nanoGPT's first lines.
fn introduction(config: &Config, model: &Model) -> String {
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
fn refuse(
    config: &Config,
    here: &LocalPlanner,
    planned: &RunSetup,
    style: OutputStyle,
) -> Result<(), Failure> {
    match style {
        OutputStyle::Text => {
            terminal::err(&format!("{}{}", failure::label(), plan::refusal(&planned.report)));
            let place = here.target(config)?;
            let found = fit_options::all_after(&planned.report, config, here.vocab, &place);
            terminal::err(&fit_options::hints(&found, place.engine));
        }
        OutputStyle::Json => {
            let report = serde_json::to_string_pretty(&planned.report);
            terminal::line(&report.expect("a report is plain data"));
        }
    }
    Ok(())
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new("file", Attempt::Write.failed(lang(), path, error))
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
    output::write_file(path, &picture).map_err(|error| cannot_write(path, &error))?;
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
) -> Result<(), Failure> {
    if let Some(picture) = curve::draw(&history.steps) {
        let title = words::loss_of_steps(history.steps.len());
        terminal::out(&format!("\n{title}\n{picture}"));
    }
    if ended == RunEnd::Stopped {
        terminal::line(&words::stopped(folder.display()));
        return Ok(());
    }
    if ended == RunEnd::Abandoned || config.eval_only() || history.steps.is_empty() {
        return Ok(());
    }
    terminal::line(&words::a_sample());
    sample::after_training(config, folder, stop)?;
    terminal::line(&words::saved_in(folder.display()));
    Ok(())
}

/// What `--json` prints at the end.
fn summary(
    config: &Config,
    ended: RunEnd,
    history: &LossHistory,
    adapted: Option<&AdaptedConfig>,
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
        "fit": adapted.map(AdaptedConfig::to_json),
    })
}
