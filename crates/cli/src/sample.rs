//! `fitgpt sample`: continues a prompt with a trained model.

use std::path::Path;

use clap::{Arg, ArgAction, ArgMatches, Command};
use fitgpt_commands::{
    Failure, begin,
    config_file::DEFAULT_PRESET,
    sample::{MadeSamples, PromptedModel, SampleEvent},
};
use fitgpt_config::Config;
use fitgpt_data::tokenizer::{Stream, Tokenizer};
use fitgpt_run::{sample::ContextWindow, stop::StopFlag};
use serde_json::{Value, json};

use super::{Outcome, OutputStyle, args, named};
use crate::{
    terminal,
    words::{self, names, sample as text},
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
                    .help("Recompute the whole window for every token past block_size"),
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
    let model = PromptedModel::of(&config, &folder)?;
    let answer = generate(model, window, style, &stop)?;
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
    let model = PromptedModel::after_training(config, out_dir)?;
    generate(model, ContextWindow::Half, OutputStyle::Text, stop)?;
    Ok(())
}

/// Makes and prints the samples.
fn generate(
    mut model: PromptedModel,
    window: ContextWindow,
    style: OutputStyle,
    stop: &StopFlag,
) -> Result<Outcome, Failure> {
    if let (Some((device, interface)), OutputStyle::Text) = (model.runner.gpu(), style) {
        terminal::note(&words::train::running_on(device, interface));
    }
    let Some(mut opened) = model.open(window)? else {
        terminal::err(&format!("{}{}\n", names::error(), text::nothing_fits()));
        return Ok(Outcome::No);
    };
    let made = match style {
        OutputStyle::Json => opened.generate(stop, &mut |_| {})?,
        OutputStyle::Text => {
            let mut printer = SamplePrinter::new(&model.tokenizer, model.n_samples() == 1);
            opened.generate(stop, &mut |event| printer.show(event))?
        }
    };
    let Some(made) = made else { return Ok(Outcome::Stopped) };
    if made.refills > 0 {
        terminal::note(&text::refilled(made.block, made.refills));
    }
    if style == OutputStyle::Json {
        terminal::json(&document(&made, &model.tokenizer));
    }
    Ok(Outcome::Yes)
}

fn document(made: &MadeSamples, tokenizer: &Tokenizer) -> Value {
    let text = |tokens: &Vec<u32>| json!({ "text": tokenizer.decode(tokens), "tokens": tokens });
    let samples: Vec<_> = made.texts.iter().map(text).collect();
    json!({ "samples": samples, "prompt_tokens": made.prompt_tokens,
        "tokens_per_s": made.tokens_per_s, "arena_bytes": made.arena_bytes, "refills": made.refills })
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

    fn show(&mut self, event: SampleEvent<'_>) {
        match event {
            SampleEvent::Begun(prompt) => prompt.iter().for_each(|token| self.push(*token)),
            SampleEvent::Token(token) => self.push(token),
            SampleEvent::Complete(tokens) => self.finish(tokens),
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
