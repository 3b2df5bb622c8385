//! `fitgpt sample`: continues a prompt with a trained model.

use std::{path::Path, time::Instant};

use clap::{Arg, ArgAction, ArgMatches, Command};
use fitgpt_checkpoint as checkpoint;
use fitgpt_checkpoint::{NanoGptRun, PositionRows, Tensors, Weights};
use fitgpt_commands::{Failure, begin, config_file::DEFAULT_PRESET, prompt};
use fitgpt_config::Config;
use fitgpt_data::tokenizer::{Stream, Tokenizer};
use fitgpt_model::model;
use fitgpt_run::{
    device::Runner,
    sample::{Choice, ContextWindow, Sampler},
    setup,
    stop::StopFlag,
};
use serde_json::json;

use super::{Outcome, OutputStyle, args, named};
use crate::{
    terminal,
    words::{self, Say as _, lang, names, sample as text},
};

/// What nanoGPT prints after every sample.
const SEPARATOR: &str = "---------------";

/// The command with its flags.
pub(super) fn command() -> Command {
    args::with_keys(
        Command::new("sample")
            .about("Continues a prompt with a trained model")
            .arg(
                Arg::new("exact")
                    .long("exact")
                    .action(ArgAction::SetTrue)
                    .help("Past block_size, recompute the whole window for every token"),
            )
            .arg(named::weights_flag())
            .after_help(
                "Examples:\n  fitgpt sample --start=\"Once upon a time\"\n  \
                     fitgpt sample --out_dir=out --num_samples=3 --max_new_tokens=200\n  \
                     fitgpt sample --start=FILE:prompt.txt --top_p=0.9 --temperature=0.7",
            ),
    )
}

pub(super) fn run(matches: &ArgMatches, style: OutputStyle) -> Result<Outcome, Failure> {
    let written = args::written(matches, Some(DEFAULT_PRESET))?;
    args::note_unknown(&written);
    let config = written.resolve()?;
    let window = if matches.get_flag("exact") { ContextWindow::Exact } else { ContextWindow::Half };
    let stop = StopFlag::on_signals().map_err(|error| Failure::signals(&error))?;
    let folder = begin::weights_dir(&config)?;
    let answer = generate(&config, &folder, window, style, &stop)?;
    match (answer, style) {
        (Outcome::Stopped, _) => return Err(Failure::stopped()),
        // Not on stdout, which has only the samples.
        (Outcome::Yes, OutputStyle::Text) => terminal::err(&next_step(&config, &folder)),
        _ => {}
    }
    Ok(answer)
}

/// The next command: the same model with a prompt, or its export if it had one.
fn next_step(config: &Config, folder: &Path) -> String {
    let out_dir = folder.display();
    let (command, why) = if config.start().trim().is_empty() {
        (format!("fitgpt sample --out_dir={out_dir} --start=\"…\""), text::continues())
    } else {
        (format!("fitgpt export {out_dir} --to gguf --out model.gguf"), text::exports())
    };
    format!("{}  ({why})\n", names::next(command))
}

/// Prints one sample of the model that was just trained.
pub(super) fn after_training(
    config: &Config,
    out_dir: &Path,
    stop: &StopFlag,
) -> Result<(), Failure> {
    let tokens = i64::from(config.max_new_tokens().min(prompt::MAX_TOKENS_OF_A_RUN));
    let one = [("num_samples", 1i64.into()), ("max_new_tokens", tokens.into())];
    let config = config.with("train", one)?;
    let folder = checkpoint::weights_dir(out_dir);
    generate(&config, &folder, ContextWindow::Half, OutputStyle::Text, stop)?;
    Ok(())
}

fn generate(
    config: &Config,
    folder: &Path,
    window: ContextWindow,
    style: OutputStyle,
    stop: &StopFlag,
) -> Result<Outcome, Failure> {
    let mut weights = Weights::open(folder)?;
    let architecture = weights.architecture().clone();
    let dataset = weights.nanogpt().and_then(NanoGptRun::dataset);
    let tokenizer = prompt::tokenizer(config, dataset, folder, &architecture)?;
    let vocab = architecture.model.vocab;
    let prompt = prompt::prompt(config, &tokenizer, vocab)?;
    let config = with_shape(config, &weights, prompt.len())?;

    let runner = Runner::of(&config)?;
    if let (Some((device, interface)), OutputStyle::Text) = (runner.gpu(), style) {
        terminal::note(&words::train::running_on(device, interface));
    }
    let Some((planned, batch)) = setup::Sampling::new(&config, vocab, &runner)? else {
        terminal::err(&format!("{}{}\n", names::error(), text::nothing_fits()));
        return Ok(Outcome::No);
    };
    let model = planned.job.model;
    let mut texts: Vec<Vec<u32>> = Vec::new();
    let clock = Instant::now();
    let samples = u64::from(config.num_samples());
    let mut sampler = planned.sampler(window)?;
    weights.read(&Tensors::weights_of(&model), PositionRows::Crop, &mut sampler)?;
    while (texts.len() as u64) < samples {
        let first = texts.len() as u64;
        let wanted = (samples - first).min(batch) as usize;
        let mut printer =
            SamplePrinter::new(&tokenizer, style == OutputStyle::Text && samples == 1);
        let made = continue_all(&mut sampler, &config, &prompt, first, stop, &mut printer)?;
        if made.is_empty() {
            return Ok(Outcome::Stopped);
        }
        for text in &made[..wanted] {
            if style == OutputStyle::Text {
                printer.finish(text);
            }
        }
        texts.extend(made.into_iter().take(wanted));
    }
    if sampler.refills() > 0 {
        terminal::note(&text::refilled(model.block, sampler.refills()));
    }
    let seconds = clock.elapsed().as_secs_f64();
    if style == OutputStyle::Json {
        let made = samples * u64::from(config.max_new_tokens());
        let samples: Vec<_> =
            texts.iter().map(|t| json!({ "text": tokenizer.decode(t), "tokens": t })).collect();
        let rate = made as f64 / seconds;
        let arena = planned.plan.plan().arena_bytes();
        let answer = json!({ "samples": samples, "prompt_tokens": prompt.len(),
            "tokens_per_s": rate, "arena_bytes": arena, "refills": sampler.refills() });
        terminal::json(&answer);
    }
    Ok(Outcome::Yes)
}

/// Generates one batch of samples; empty if it was stopped.
fn continue_all(
    sampler: &mut Sampler,
    config: &Config,
    prompt: &[u32],
    first_sample: u64,
    stop: &StopFlag,
    printer: &mut SamplePrinter<'_>,
) -> Result<Vec<Vec<u32>>, Failure> {
    let choice = Choice::new(config);
    let mut ranked = Vec::new();
    sampler.begin(prompt)?;
    printer.begin(prompt);
    for n in 0..config.max_new_tokens() {
        if stop.is_asked_for() {
            return Ok(Vec::new());
        }
        if n > 0 {
            sampler.advance()?;
        }
        let last = sampler.choose(&choice, first_sample, &mut ranked);
        printer.push(last);
    }
    Ok(sampler.texts().to_vec())
}

/// Prints samples: a single one token by token, several when they are complete.
struct SamplePrinter<'a> {
    tokenizer: &'a Tokenizer,
    stream: Option<Stream<'a>>,
    text: String,
}

impl<'a> SamplePrinter<'a> {
    fn new(tokenizer: &'a Tokenizer, is_alone: bool) -> Self {
        Self { tokenizer, stream: is_alone.then(|| Stream::new(tokenizer)), text: String::new() }
    }

    fn begin(&mut self, prompt: &[u32]) {
        for token in prompt {
            self.push(*token);
        }
    }

    fn push(&mut self, token: u32) {
        let Some(stream) = &mut self.stream else { return };
        self.text.clear();
        stream.push(token, &mut self.text);
        terminal::out_generated(&self.text);
    }

    fn finish(&mut self, tokens: &[u32]) {
        match &mut self.stream {
            None => terminal::out_generated(&format!("{}\n", self.tokenizer.decode(tokens))),
            Some(stream) => {
                self.text.clear();
                stream.finish(&mut self.text);
                self.text.push('\n');
                terminal::out_generated(&self.text);
            }
        }
        terminal::line(SEPARATOR);
    }
}

/// The config with the model of the weights. Rotary positions have no table, so the KV cache needs
/// only as many positions as this text has tokens.
fn with_shape(config: &Config, weights: &Weights, prompt: usize) -> Result<Config, Failure> {
    let there = &weights.architecture().model;
    let wanted = prompt.saturating_add(config.max_new_tokens() as usize);
    let block = match there.positions {
        model::Positions::Learned => there.block,
        model::Positions::Rotary(_) => wanted.clamp(2, there.block as usize) as u32,
    };
    weights
        .description()
        .check_window(block)
        .map_err(|error| Failure::new("checkpoint", error.say(lang())))?;
    let changes = [("block_size", block.into()), ("eval_block_size", 0_u32.into())];
    Ok(config.with("the checkpoint", weights.description().pairs().chain(changes))?)
}
