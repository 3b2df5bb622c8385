//! `fitgpt train`: plans, prints the plan, and trains in it.

use std::{
    fs::{self, OpenOptions},
    path::Path,
};

use clap::{Arg, ArgAction, ArgMatches, Command};
use fitgpt_exec::BackendError;
use fitgpt_plan::{
    config::{Config, Precision},
    job::Job,
    model::{Model, Parameter, Role},
    units::Bytes,
};
use serde_json::json;

use super::{
    Answer, Failure, Reader, args,
    begin::{self, Beginning, Start, StepSplit},
    fit_options::{self, Adapted},
    plan,
    plan_target::PlanTarget,
    sample,
};
use crate::{
    attempt::Attempt,
    budget::less_a_margin,
    checkpoint::{self, Lock, Positions, Tensors},
    data::Dataset,
    os,
    picture::{curve, curve_svg},
    run::{
        device::{Runner, unused_card},
        events::{self, Event, EventLog},
        progress::Progress,
        scaler::Scaler,
        setup::{self, Setup},
        stop::Stop,
        train::{Ended, History, Run, new_run_id},
        trainer::Trainer,
    },
    terminal,
    tokenizer::huggingface,
    words::{errors::io, names, train as words},
};

/// The command without its keys.
pub(super) fn command() -> Command {
    Command::new("train")
        .about("Plans, prints the plan, and trains in it")
        .arg(
            Arg::new("fit")
                .long("fit")
                .action(ArgAction::SetTrue)
                .help("If it does not fit, change what does not affect the training, and list it"),
        )
        .arg(
            Arg::new("overwrite")
                .long("overwrite")
                .action(ArgAction::SetTrue)
                .help("Replace the run in `out_dir`: its checkpoints and its log are removed"),
        )
        .arg(
            Arg::new("svg")
                .long("svg")
                .value_name("FILE")
                .help("Write the loss curve as a picture at the end"),
        )
        .after_help(
            "Without a config file it trains the built-in `stories` preset.\n\n\
             Examples:\n  fitgpt train\n  \
             fitgpt train config/train_shakespeare_char.py --device=cpu --max_iters=100\n  \
             fitgpt train config/train_gpt2.py --budget 6GB --fit --svg loss.svg\n  \
             fitgpt train --init_from=resume --out_dir=out-stories",
        )
}

pub(super) fn run(matches: &ArgMatches, reader: Reader) -> Result<Answer, Failure> {
    let stop = Stop::on_signals().map_err(|error| Failure::signals(&error))?;
    // A closed pipe or a full disk behind stdout must not end a run.
    terminal::continue_without_stdout();
    let written = args::written(matches, Some(args::DEFAULT_PRESET))?;
    let wants_fit = matches.get_flag("fit");
    let split = if wants_fit { StepSplit::AsBefore } else { StepSplit::AsWritten };
    let mut beginning = Beginning::of(matches, &written, split)?;
    let folder = setup::out_dir(&beginning.config);
    let existing = if matches.get_flag("overwrite") { Existing::Remove } else { Existing::Refuse };
    check_new(&beginning.start, &folder, existing)?;

    let data = Dataset::open(beginning.config.dataset(), Path::new("."))?;
    let vocab = vocab(&beginning.config, &data)?;
    beginning.check_shape(vocab)?;
    let runner = Runner::of(&beginning.config)?;
    let mut planned = plan_here(&beginning.config, vocab, &runner)?;

    if let Some((device, interface)) = runner.gpu() {
        terminal::note(&words::running_on(device, interface));
    }
    if let Some(card) = unused_card(&beginning.config, &runner) {
        terminal::note(&words::unused(card));
    }
    for key in written.ignored() {
        terminal::note(&words::ignored(key));
    }
    let mut adapted = None;
    if wants_fit {
        adapted = adapt(&beginning, vocab, &runner, &planned)?;
        if let Some(adapted) = &adapted {
            beginning.config = adapted.config.clone();
            planned = plan_here(&beginning.config, vocab, &runner)?;
        }
    }
    let Beginning { config: as_written, start } = beginning;
    let precision = runner.precision(&as_written);
    let config = with_choices(&as_written, &planned, vocab, precision)?;
    if reader == Reader::People {
        terminal::out(&introduction(&config, &planned.job.model));
        terminal::out(&begin::introduction(&start, &config));
        if wants_fit && planned.report.fits {
            let text = adapted.as_ref().map_or_else(|| words::fits_already() + "\n", Adapted::text);
            terminal::out(&text);
        }
        terminal::out(&plan::text(&planned.report));
    }
    if !planned.report.fits {
        let is_resumed = matches!(start, Start::Resume(..));
        refuse(&as_written, vocab, &runner, &planned, reader)?;
        if wants_fit && is_resumed && reader == Reader::People {
            terminal::err(&format!("{}{}\n", names::note(), words::resume_keeps_rounding()));
        }
        return Ok(Answer::No);
    }
    let (really_free, limit) = os::host_memory().least();
    let needed = planned.report.arena_bytes;
    if runner.is_host() && needed > really_free {
        let message = words::not_free_now(needed, really_free, words::limit(limit));
        terminal::err(&format!("{}{message}\n", names::error()));
        return Ok(Answer::No);
    }
    let svg = matches.get_one::<String>("svg").map(Path::new);
    if let Some(path) = svg {
        check_writable(path)?;
    }

    let lock = Lock::take(&folder)?;
    checkpoint::recover(&folder)?;
    // Again, because another run may have saved while this one was planned.
    check_new(&start, &folder, existing)?;
    check_disk(&folder, &planned.job, &config)?;

    let scaler = match precision {
        Precision::Float16 => Scaler::DYNAMIC,
        Precision::Float32 | Precision::Bfloat16 => Scaler::NONE,
    };
    let backend =
        planned.backend().map_err(|error| without_arena(error, &as_written, vocab, &runner))?;
    // The arena is touched now. If another process took its memory at the same time, one of the
    // two must give way before the system kills either.
    let (left, limit) = os::host_memory().least();
    let [least_left, _] = planned.report.overhead.range();
    if runner.is_host() && left < least_left {
        let message = words::taken_meanwhile(needed, left, words::limit(limit));
        terminal::err(&format!("{}{message}\n", names::error()));
        return Ok(Answer::No);
    }
    let architecture = start.architecture(&config, vocab, &data);
    if let Some(from) = start.tokenizer_folder(&data) {
        checkpoint::carry_tokenizer(from, &folder)?;
    } else if let Some(tokenizer) = &architecture.tokenizer {
        let files = huggingface::files(tokenizer, vocab, config.block_size());
        checkpoint::write_tokenizer(&files, &folder)?;
    }
    let mut trainer = Trainer::new(backend, config.clone(), planned.job, data, scaler)?;
    let log = folder.join("events.jsonl");
    let Loaded { events, saved, run_id } = load(start, &mut trainer, &folder, &log)?;

    let progress =
        Progress::new(&config, &planned.job.model, planned.report.arena_bytes, reader.into());
    progress.warn_if_long(trainer.position.step, setup::threads(&config));
    let (folder_of_run, stop_run) = (folder.clone(), &stop);
    let mut run = Run {
        trainer,
        folder: folder_of_run,
        architecture,
        events,
        progress,
        stop: stop_run,
        saved,
        run_id: run_id.clone(),
    };
    let mut report = serde_json::to_value(&planned.report).expect("a report is plain data");
    if let Some(adapted) = &adapted {
        report["fit"] = adapted.to_json();
    }
    let step = run.trainer.position.step;
    run.events.write(&Event::Plan { step, run_id: Some(run_id), plan: report })?;
    let trained = run.train();

    // The arena goes before sampling plans its own.
    drop(run);
    // Also of a run that failed: its curve helps most.
    if let Some(path) = svg {
        draw(path, &log, reader)?;
    }
    let (ended, history) = trained?;
    drop(lock);
    match reader {
        Reader::People => farewell(&config, &folder, ended, &history, &stop)?,
        Reader::Programs => {
            let summary = summary(&config, ended, &history, adapted.as_ref());
            terminal::line(&summary.to_string());
        }
    }
    match ended {
        Ended::Done => Ok(Answer::Yes),
        Ended::Stopped => Ok(Answer::Stopped),
        Ended::Abandoned => Err(Failure::new("stopped", words::stopped_unsaved())),
    }
}

/// Plans training on this machine, within the budget.
fn plan_here(config: &Config, vocab: u32, runner: &Runner) -> Result<Setup, Failure> {
    let device = runner.device(config)?;
    let precision = runner.precision(config);
    Ok(Setup::new(config, vocab, precision, runner, device, runner.overhead())?)
}

/// Why there is no arena; if the device has less memory than the plan, with what fits it.
fn without_arena(error: BackendError, config: &Config, vocab: u32, runner: &Runner) -> Failure {
    let free = match &error {
        BackendError::Memory(refused) => refused.free,
        _ => None,
    };
    let failure = Failure::from(error);
    let (Some(free), Ok(mut place)) = (free, place(config, runner)) else { return failure };
    place.device.usable_bytes = less_a_margin(free);
    let found = fit_options::all(config, vocab, &place);
    fit_options::advice(&found, place.engine).into_iter().fold(failure, Failure::hint)
}

/// This machine as the place of a plan.
fn place(config: &Config, runner: &Runner) -> Result<PlanTarget, Failure> {
    PlanTarget::of_runner(config, runner.clone())
}

/// What `--fit` changes; `None` if it fits already, and if nothing that may be changed makes it
/// fit.
fn adapt(
    beginning: &Beginning,
    vocab: u32,
    runner: &Runner,
    planned: &Setup,
) -> Result<Option<Adapted>, Failure> {
    let memory = os::host_memory();
    let (really_free, _) = memory.least();
    let report = &planned.report;
    if report.fits && (!runner.is_host() || report.arena_bytes <= really_free) {
        return Ok(None);
    }
    let config = &beginning.config;
    let mut place = place(config, runner)?;
    if runner.is_host() {
        // The budget may be more than the memory there is.
        place.device.usable_bytes = place.device.usable_bytes.min(memory.usable());
    }
    if beginning.is_resumed() {
        fit_options::adapt_resumed(config, vocab, &place, report)
    } else {
        fit_options::adapt(config, vocab, &place, report)
    }
}

/// What to do with a run that is in the folder already.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Existing {
    Refuse,
    Remove,
}

/// Refuses to begin a new run in a folder that holds a checkpoint, unless it may be removed.
fn check_new(start: &Start, folder: &Path, existing: Existing) -> Result<(), Failure> {
    if matches!(start, Start::Resume(..)) {
        return Ok(());
    }
    if existing == Existing::Refuse && checkpoint::exists(folder) {
        let failure = Failure::new("checkpoint", words::holds_a_checkpoint(folder.display()));
        return Err(failure.hint(words::resume_or_move(folder.display())));
    }
    Ok(checkpoint::check_replaceable(folder)?)
}

/// A run that is about to begin or to continue.
struct Loaded {
    events: EventLog,
    /// The step of the checkpoint in the folder.
    saved: Option<u64>,
    run_id: String,
}

/// Puts the first weights in place, and begins the log or continues it.
fn load(start: Start, trainer: &mut Trainer, folder: &Path, log: &Path) -> Result<Loaded, Failure> {
    match start {
        Start::Resume(mut checkpoint, document) => {
            let log_id = events::run_id(log)?;
            if let (Some(in_log), Some(saved)) = (&log_id, checkpoint.run_id())
                && in_log != saved
            {
                let message = words::strangers(log.display(), in_log, folder.display(), saved);
                return Err(Failure::new("checkpoint", message)
                    .hint(words::part_strangers(log.display(), folder.display())));
            }
            let run_id = checkpoint.run_id().map(str::to_owned).or(log_id);
            let tensors = trainer.tensors().clone();
            checkpoint.read(&tensors, trainer)?;
            if document.data.as_ref().is_some_and(|data| *data != trainer.fingerprint()) {
                terminal::note(&words::data_changed());
            }
            trainer.position = document.position;
            let step = trainer.position.step;
            return Ok(Loaded {
                events: EventLog::resume(log, step)?.0,
                saved: Some(step),
                run_id: run_id.unwrap_or_else(new_run_id),
            });
        }
        Start::Pretrained(mut weights, _) => {
            let tensors = trainer.tensors().clone();
            weights.read(&tensors, Positions::Crop, trainer)?;
        }
        Start::Scratch => trainer.initialise()?,
    }
    checkpoint::remove(folder)?;
    Ok(Loaded { events: EventLog::create(log)?, saved: None, run_id: new_run_id() })
}

/// The config with every choice that affects rounding written out, as checkpoints keep it.
fn with_choices(
    config: &Config,
    planned: &Setup,
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

/// The vocabulary that the model gets: the config's, else the data's.
fn vocab(config: &Config, data: &Dataset) -> Result<u32, Failure> {
    match (config.vocab_size(), data.vocab_size()) {
        (0, data) => Ok(data),
        (config, data) if config < data && data != crate::data::GPT2_VOCAB_SIZE => {
            Err(Failure::new("vocabulary", words::vocab_too_small(config, data)))
        }
        (config, _) => Ok(config),
    }
}

/// Checks the disk for all checkpoints that will be kept, before hours are spent.
fn check_disk(folder: &Path, job: &Job, config: &Config) -> Result<(), Failure> {
    if config.eval_only() {
        return Ok(());
    }
    let tensors = Tensors::of(&job.model, &job.training.optimizer);
    // Those that are kept, the best one, and the next one while it is written.
    let count = u64::from(config.keep_checkpoints()).saturating_add(2);
    let mut needed = count.saturating_mul(checkpoint::bytes_needed(&tensors));
    if !config.always_save_checkpoint() {
        needed += 2 * checkpoint::weights_bytes_needed(&tensors);
    }
    let present = checkpoint::bytes_present(folder)?;
    let needed = Bytes::new(needed.saturating_sub(present));
    match os::disk_free(folder) {
        Some(free) if free < needed => {
            let message = words::disk_too_small(folder.display(), needed, free);
            Err(Failure::new("disk", message).hint(words::free_some_space()))
        }
        _ => Ok(()),
    }
}

/// nanoGPT's first lines.
fn introduction(config: &Config, model: &Model) -> String {
    let parameters = model.parameters();
    let counted = |decays| {
        let list: Vec<_> = parameters.iter().filter(|p| p.decays() == decays).collect();
        (list.len(), plan::grouped(list.iter().map(|p| p.count()).sum()))
    };
    let ((decayed, decayed_count), (other, other_count)) = (counted(true), counted(false));
    let is_position = |p: &&Parameter| p.role == Role::Positions;
    let positions: u64 = parameters.iter().filter(is_position).map(Parameter::count).sum();
    let millions = (model.parameter_count() - positions) as f64 / 1e6;
    let tokens = plan::grouped(config.effective_batch().tokens);
    format!(
        "tokens per iteration will be: {tokens}\nnumber of parameters: {millions:.2}M\n\
         num decayed parameter tensors: {decayed}, with {decayed_count} parameters\n\
         num non-decayed parameter tensors: {other}, with {other_count} parameters\n"
    )
}

/// Explains why it does not fit, before anything is allocated, and what would make it fit.
fn refuse(
    config: &Config,
    vocab: u32,
    runner: &Runner,
    planned: &Setup,
    reader: Reader,
) -> Result<(), Failure> {
    match reader {
        Reader::People => {
            terminal::err(&plan::refusal(&planned.report));
            let place = place(config, runner)?;
            let found = fit_options::all(config, vocab, &place);
            terminal::err(&fit_options::hints(&found, place.engine));
        }
        Reader::Programs => {
            let report = serde_json::to_string_pretty(&planned.report);
            terminal::line(&report.expect("a report is plain data"));
        }
    }
    Ok(())
}

/// Finds out before the run, not after it, that a file cannot be written.
fn check_writable(path: &Path) -> Result<(), Failure> {
    let opened = OpenOptions::new().append(true).create(true).open(path);
    opened.map(|_| ()).map_err(|error| cannot_write(path, &error))
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new("file", io::failed(Attempt::Write, path, error))
}

/// Draws what the log holds; of a resumed run all of it.
fn draw(path: &Path, log: &Path, reader: Reader) -> Result<(), Failure> {
    let history = History::of_log(log)?;
    let evaluations = |of: fn(&crate::run::trainer::Evaluated) -> f64| {
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
    fs::write(path, picture).map_err(|error| cannot_write(path, &error))?;
    if reader == Reader::People {
        terminal::line(&words::curve_written(path.display()));
    }
    Ok(())
}

/// The curve, and a sample of what was learned.
fn farewell(
    config: &Config,
    folder: &Path,
    ended: Ended,
    history: &History,
    stop: &Stop,
) -> Result<(), Failure> {
    if let Some(picture) = curve::draw(&history.steps) {
        let title = words::loss_of_steps(history.steps.len());
        terminal::out(&format!("\n{title}\n{picture}"));
    }
    if ended == Ended::Stopped {
        terminal::line(&words::stopped(folder.display()));
        return Ok(());
    }
    if ended == Ended::Abandoned || config.eval_only() || history.steps.is_empty() {
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
    ended: Ended,
    history: &History,
    adapted: Option<&Adapted>,
) -> serde_json::Value {
    let last = history.evaluations.last();
    json!({
        "out_dir": config.out_dir(),
        "ended": match ended {
            Ended::Done => "done",
            Ended::Stopped | Ended::Abandoned => "interrupted",
        },
        "steps": history.steps.len(),
        "loss": history.steps.last().map(|(_, loss)| loss),
        "train_loss": last.map(|(_, e)| e.train.mean),
        "val_loss": last.map(|(_, e)| e.val.mean),
        "fit": adapted.map(Adapted::to_json),
    })
}
