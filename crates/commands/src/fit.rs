//! The options that make a config fit, ranked, with the commands that run them.

use std::path::Path;

use fitgpt_checkpoint::output;
use fitgpt_config::{Config, Written};
use fitgpt_files::attempt::Attempt;
use fitgpt_fit::fit::{self, Fit, FitOption};
use fitgpt_say::Sentence;
use serde_json::{Value, json};

use super::{
    Failure,
    config_file::ConfigSource,
    fit_options, plan_ranks, remarks,
    target::{DeviceFlags, EngineChoice, PlanTarget},
};

/// The first line of every config that is written, so that only those are replaced.
pub const WRITTEN_BY_FIT: &str = "# written by fitgpt fit";

/// What must fit.
#[derive(Clone, Debug)]
pub struct OptionsRequest<'a> {
    /// The run.
    pub config: &'a Config,
    /// The size of its vocabulary.
    pub vocab: u32,
    /// What runs it.
    pub engine: EngineChoice,
    /// On what.
    pub device: DeviceFlags<'a>,
    /// How many ranks train together, if there are several.
    pub ranks: Option<u32>,
    /// The files and keys of the config.
    pub source: &'a ConfigSource,
    /// The file that the recommended option is written into: its name and its text.
    pub file: Option<(&'a str, &'a str)>,
}

/// The options, each of them planned.
pub struct RankedOptions {
    /// What was found.
    pub found: Fit,
    /// What it must fit on.
    pub target: PlanTarget,
    /// What is to be said about the config.
    pub notes: Vec<Sentence>,
    /// The commands that run each option.
    pub commands: Vec<Vec<String>>,
    /// The config file with the recommended option in it; the unchanged config if there is none.
    pub text: String,
}

impl OptionsRequest<'_> {
    /// Searches.
    pub fn search(&self) -> Result<RankedOptions, Failure> {
        let Self { config, vocab, engine, device, ranks, source, file } = self.clone();
        let on = |engine, config: &Config| PlanTarget::on(engine, device, config);
        let (mut targets, config) = plan_ranks::targets(&[engine], config, vocab, ranks, on)?;
        let target = targets.remove(0);
        let found = fit_options::all(&config, vocab, &target);
        let recommended = found.recommended.map(|index| &found.options[index]);
        let changes = recommended.map_or(&[][..], |option| &option.changes);
        let text = fit::write(file, &source.written, changes)?;
        let is_marked = text.starts_with(WRITTEN_BY_FIT);
        let text = if is_marked { text } else { format!("{WRITTEN_BY_FIT}\n{text}") };
        let commands =
            found.options.iter().map(|option| source.commands_of(engine, option)).collect();
        let mut notes = target.notes(&config);
        notes.extend(remarks::of_rate(&config));
        if engine == EngineChoice::Torch {
            let written = &source.written;
            notes.extend(remarks::of_keys(&config, written, vocab, &target, &found.original));
        }
        Ok(RankedOptions { found, target, notes, commands, text })
    }
}

impl RankedOptions {
    /// The best option that keeps the training.
    pub fn recommended(&self) -> Option<&FitOption> {
        self.found.recommended.map(|index| &self.found.options[index])
    }

    /// The commands that run the recommended option, from `file` if it was written there.
    pub fn next_commands(&self, file: Option<&str>) -> Option<Vec<String>> {
        let index = self.found.recommended?;
        let Some(file) = file else { return Some(self.commands[index].clone()) };
        let source = ConfigSource { files: vec![file.to_owned()], written: Written::new() };
        let option = FitOption { changes: Vec::new(), ..self.found.options[index].clone() };
        Some(source.commands_of(self.target.engine, &option))
    }

    /// Writes the recommended option as a config; `false` if there is none.
    pub fn write(&self, path: &Path) -> Result<bool, Failure> {
        if self.found.recommended.is_none() {
            return Ok(false);
        }
        output::write_file(path, &self.text)
            .map_err(|error| Failure::io(Attempt::Write, path, &error))?;
        Ok(true)
    }

    /// The document for programs.
    pub fn document(&self) -> Value {
        let mut document = serde_json::to_value(&self.found).expect("a fit is plain data");
        document["config"] = json!(self.text);
        for (index, commands) in self.commands.iter().enumerate() {
            document["options"][index]["command"] = json!(commands.join("\n"));
        }
        document
    }
}
