//! The command that runs the user's own training, to which steps add their changes.

use std::fmt::Write as _;

use fitgpt_config::{Key, Written};
use fitgpt_fit::fit::{self, Change, Patch};

use crate::{diagnosis::RunContext, parse::Log, reason::TrainingRun};

/// The user's script, config and card.
#[derive(Clone, Debug)]
pub(crate) struct Invocation<'a> {
    log: &'a Log,
    context: RunContext<'a>,
    world: u64,
}

impl<'a> Invocation<'a> {
    pub(crate) fn new(log: &'a Log, context: RunContext<'a>, run: Option<&TrainingRun>) -> Self {
        Self { log, context, world: run.map_or(1, |run| run.options.ddp_world) }
    }

    /// The config file that was given, if one was.
    pub(crate) fn config(&self) -> Option<&'a str> {
        self.context.file
    }

    /// The config and the card as arguments of `fitgpt plan` and `fitgpt fit`.
    pub(crate) fn target(&self) -> String {
        let mut line = String::new();
        match self.context.file {
            Some(file) => line.push_str(&quoted(file)),
            None => {
                for (key, value) in &self.log.progress.overrides {
                    let _ =
                        write!(line, "{}--{key}={}", gap(&line), value.replace(['\'', '"'], ""));
                }
            }
        }
        for (key, value) in self.written(&[], &[]) {
            let _ = write!(line, "{}{}", gap(&line), fit::command_line(&[(key, value)]));
        }
        if line.is_empty() {
            line.push_str("CONFIG.py");
        }
        line += " --engine torch";
        match self.context.card {
            Some(card) => {
                let _ = write!(line, " --gpu \"{card}\"");
            }
            None => line += " --gpu \"YOUR CARD\"",
        }
        line
    }

    /// The training command with changes; patches come first. Keys that patched nanoGPT does not
    /// have are left out.
    pub(crate) fn train(&self, changes: &[Change], patches: &[Patch]) -> String {
        let mut line = String::new();
        if !patches.is_empty() {
            let names: Vec<_> = patches.iter().map(|patch| patch.name()).collect();
            line.extend(["fitgpt patch . --apply --only ", &names.join(" "), " && "]);
        }
        match self.world {
            0 | 1 => line.push_str("python train.py"),
            world => {
                let _ = write!(line, "torchrun --standalone --nproc_per_node={world} train.py");
            }
        }
        let is_changed = |key: &str| changes.iter().any(|(changed, _)| *changed == key);
        match (self.context.file, self.context.config) {
            (Some(file), _) => line.extend([" ", &quoted(file)]),
            (None, None) => {
                for (key, value) in
                    self.log.progress.overrides.iter().filter(|(key, _)| !is_changed(key))
                {
                    let _ = write!(line, " --{key}={}", value.replace(['\'', '"'], ""));
                }
            }
            (None, Some(_)) => {}
        }
        let is_read = |key: &Key| fit::nanogpt_reads(key, patches);
        let known = |(name, _): &&Change| Key::find(name).is_some_and(is_read);
        let mut all = self.written(changes, patches);
        all.extend(changes.iter().filter(known).cloned());
        for change in all {
            let _ = write!(line, " {}", fit::command_line(&[change]));
        }
        line
    }

    /// Keys that were given outside the file.
    fn written(&self, changes: &[Change], patches: &[Patch]) -> Vec<Change> {
        let is_changed = |key: &str| changes.iter().any(|(changed, _)| *changed == key);
        let elsewhere = self.context.config.into_iter().flat_map(Written::iter);
        let elsewhere = elsewhere.filter(|(key, _, place)| {
            place.line.is_none() && !is_changed(key.name) && fit::nanogpt_reads(key, patches)
        });
        elsewhere.map(|(key, value, _)| (key.name, value.clone())).collect()
    }
}

const fn gap(line: &str) -> &'static str {
    if line.is_empty() { "" } else { " " }
}

/// A path as one word of a shell.
fn quoted(path: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "./_-+:\\@%,=~".contains(c);
    if path.chars().all(is_plain) {
        path.to_owned()
    } else {
        format!("'{}'", path.replace('\'', "'\\''"))
    }
}
