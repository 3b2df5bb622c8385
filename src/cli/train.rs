//! `fitgpt train`: plans, prints the plan, and trains in it.

use std::path::{Path, PathBuf};

use clap::ArgMatches;
use fitgpt_plan::{
    config::{Config, InitFrom, Precision, Written},
    model::Model,
    units::Bytes,
};
use serde_json::json;

use super::{Answer, Failure, Reader, args, plan, sample};
use crate::{
    checkpoint::{self, Checkpoint, Lock},
    data::Dataset,
    os,
    picture::curve,
    run::{
        device::Runner,
        events::{Event, EventLog},
        progress::Progress,
        scaler::Scaler,
        setup::{self, Setup},
        stop::Stop,
        train::{Document, Ended, History, Run},
        trainer::{Trainer, entries},
    },
    terminal,
};

pub(super) fn run(matches: &ArgMatches, reader: Reader) -> Result<Answer, Failure> {
    let stop = Stop::on_signals().map_err(|error| Failure::new("signals", error))?;
    let written = args::written(matches, Some(args::DEFAULT_PRESET))?;
    let config = written.resolve()?;
    let folder = setup::out_dir(&config);

    // A resume takes the checkpoint's config, and above it only what was written now.
    let mut resumed = None;
    let config = match config.init_from() {
        InitFrom::Scratch => config,
        InitFrom::Resume => {
            // Held until the end: nobody else may save into this folder.
            let (checkpoint, document) = open(&folder)?;
            let written = args::written(matches, None)?;
            let config = merged(&document, written, &folder)?;
            resumed = Some((checkpoint, document));
            config
        }
        InitFrom::Pretrained(name) => {
            let message = format!("`init_from = '{name}'` needs weights that are not built in");
            return Err(Failure::new("init-from", message).hint(
                "train from nothing with `--init_from=scratch`, or go on with `--init_from=resume`",
            ));
        }
    };

    let data = Dataset::open(config.dataset(), Path::new("."))?;
    let vocab = vocab(&config, &data)?;
    if let Some((checkpoint, _)) = &resumed {
        check_shape(checkpoint, &config, vocab, &folder)?;
    }
    let runner = Runner::of(&config)?;
    let precision = runner.precision(&config);
    let device = runner.device(&config)?;
    let planned = Setup::new(&config, vocab, precision, &runner, device, runner.overhead())?;
    let config = with_choices(&config, &planned, vocab, precision)?;

    if let Some(note) = runner.note(&config) {
        terminal::note(&note);
    }
    for key in written.ignored() {
        terminal::note(&format!("`{key}` means nothing here and is ignored"));
    }
    if reader == Reader::People {
        terminal::out(&introduction(&config, &planned.job.model));
        terminal::out(&plan::text(&planned.report));
    }
    if !planned.report.fits {
        return Ok(refuse(&planned, reader));
    }
    let (really_free, limit) = os::host_memory().least();
    let needed = planned.report.arena_bytes;
    if matches!(runner, Runner::Cpu(_)) && needed > really_free {
        let message = format!(
            "the plan needs {needed}, this machine has {really_free} ({limit}) now",
            limit = limit.name()
        );
        terminal::err(&format!("error: {message}\n"));
        return Ok(Answer::No);
    }

    let lock = Lock::take(&folder)?;
    checkpoint::recover(&folder)?;
    check_disk(&folder, &planned.job.model, &config)?;

    let scaler = match precision {
        Precision::Float16 => Scaler::DYNAMIC,
        Precision::Float32 | Precision::Bfloat16 => Scaler::NONE,
    };
    let backend = planned.backend()?;
    let architecture = setup::architecture(&config, vocab, data.tokenizer().within(vocab));
    let mut trainer = Trainer::new(backend, config.clone(), planned.job, data, scaler)?;
    let log = folder.join("events.jsonl");
    let (events, saved) = if let Some((checkpoint, document)) = &mut resumed {
        let entries = trainer.entries().to_vec();
        checkpoint.read(&entries, &mut trainer)?;
        trainer.position = document.position.clone();
        let step = trainer.position.step;
        (EventLog::resume(&log, step)?.0, Some(step))
    } else {
        checkpoint::forget_best(&folder)?;
        trainer.initialise()?;
        (EventLog::create(&log)?, None)
    };

    let progress =
        Progress::new(&config, &planned.job.model, planned.report.arena_bytes, reader.into());
    let mut run =
        Run { trainer, folder: folder.clone(), architecture, events, progress, stop: &stop, saved };
    let report = serde_json::to_value(&planned.report).expect("a report is plain data");
    run.events.write(&Event::Plan { step: run.trainer.position.step, plan: report })?;
    let (ended, history) = run.train()?;

    // The arena goes before sampling plans its own.
    drop(run);
    drop(lock);
    match reader {
        Reader::People => farewell(&config, &folder, ended, &history, &stop)?,
        Reader::Programs => terminal::line(&summary(&config, ended, &history).to_string()),
    }
    Ok(match ended {
        Ended::Done => Answer::Yes,
        Ended::Stopped => Answer::Stopped,
    })
}

/// The checkpoint of `folder` with its document.
fn open(folder: &Path) -> Result<(Checkpoint, Document), Failure> {
    let checkpoint = Checkpoint::open(folder)?;
    let document = checkpoint.document()?;
    Ok((checkpoint, document))
}

/// The checkpoint's config with what was written now above it.
fn merged(document: &Document, written: Written, folder: &Path) -> Result<Config, Failure> {
    let source = format!("the checkpoint in {}", folder.display());
    let mut all = Written::from_pairs(&source, document.config.clone())?;
    all.merge(written);
    let folder = folder.display().to_string();
    Ok(all.resolve()?.with("command line", [("out_dir", folder.into())])?)
}

/// The config with every choice that touches rounding written out, as checkpoints keep it.
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
            let message =
                format!("`vocab_size = {config}` is less than the {data} symbols of the data");
            Err(Failure::new("vocabulary", message))
        }
        (config, _) => Ok(config),
    }
}

/// A checkpoint of another shape is refused by the first key that differs.
fn check_shape(
    checkpoint: &Checkpoint,
    config: &Config,
    vocab: u32,
    folder: &Path,
) -> Result<(), Failure> {
    let there = checkpoint.architecture();
    let sizes = [
        ("n_layer", there.n_layer, config.n_layer()),
        ("n_head", there.n_head, config.n_head()),
        ("n_embd", there.n_embd, config.n_embd()),
        ("block_size", there.block_size, config.block_size()),
        ("vocab_size", there.vocab_size, vocab),
        ("bias", usize::from(there.bias), u32::from(config.bias())),
    ];
    for (key, there, here) in sizes {
        if there != here as usize {
            let folder = folder.display();
            let message = format!(
                "the checkpoint in `{folder}` has `{key} = {there}`, the config says `{here}`"
            );
            return Err(Failure::new("checkpoint", message)
                .hint("a resume takes the model's shape from its checkpoint: leave the key out"));
        }
    }
    Ok(())
}

/// Compares what checkpoints need with what the disk has, before hours are spent.
fn check_disk(folder: &Path, model: &Model, config: &Config) -> Result<(), Failure> {
    if config.eval_only() {
        return Ok(());
    }
    let entries = entries(&model.parameters());
    // The first save finds nothing to replace, the second stands beside the first for a moment.
    let mut needed = 2 * checkpoint::bytes_needed(&entries);
    if !config.always_save_checkpoint() {
        needed += 2 * checkpoint::weights_bytes_needed(&entries);
    }
    let here = ["model.safetensors", "state.safetensors"];
    let replaced: u64 = here
        .iter()
        .filter_map(|name| std::fs::metadata(folder.join(name)).ok())
        .map(|m| m.len())
        .sum();
    let needed = Bytes::new(needed.saturating_sub(replaced));
    match os::disk_free(folder) {
        Some(free) if free < needed => {
            let folder = folder.display();
            let message =
                format!("checkpoints in `{folder}` need {needed}, the disk has {free} free");
            Err(Failure::new("disk", message)
                .hint("free some space, or write `--out_dir` to another disk"))
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
    let positions = u64::from(model.block) * u64::from(model.channels);
    let millions = (model.parameter_count() - positions) as f64 / 1e6;
    let tokens = plan::grouped(config.effective_batch().tokens);
    format!(
        "tokens per iteration will be: {tokens}\nnumber of parameters: {millions:.2}M\n\
         num decayed parameter tensors: {decayed}, with {decayed_count} parameters\n\
         num non-decayed parameter tensors: {other}, with {other_count} parameters\n"
    )
}

/// Says no before anything is allocated.
fn refuse(planned: &Setup, reader: Reader) -> Answer {
    match reader {
        Reader::People => terminal::err(&plan::refusal(&planned.report)),
        Reader::Programs => {
            let report = serde_json::to_string_pretty(&planned.report);
            terminal::line(&report.expect("a report is plain data"));
        }
    }
    Answer::No
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
        terminal::out(&format!("\nloss of {} steps\n{picture}", history.steps.len()));
    }
    let folder: PathBuf = folder.to_owned();
    if ended == Ended::Stopped {
        let folder = folder.display();
        terminal::line(&format!(
            "stopped; `fitgpt train --init_from=resume --out_dir={folder}` goes on"
        ));
        return Ok(());
    }
    if config.eval_only() || history.steps.is_empty() {
        return Ok(());
    }
    terminal::line("\na sample:\n");
    sample::after_training(config, &folder, stop)?;
    let folder = folder.display();
    terminal::line(&format!(
        "\nsaved in {folder}; `fitgpt sample --out_dir={folder} --start=\"…\"` continues any text"
    ));
    Ok(())
}

/// What `--json` prints at the end.
fn summary(config: &Config, ended: Ended, history: &History) -> serde_json::Value {
    let last = history.evaluations.last();
    json!({
        "out_dir": config.out_dir(),
        "ended": match ended { Ended::Done => "done", Ended::Stopped => "interrupted" },
        "steps": history.steps.len(),
        "loss": history.steps.last().map(|(_, loss)| loss),
        "train_loss": last.map(|(_, e)| e.train.mean),
        "val_loss": last.map(|(_, e)| e.val.mean),
    })
}
