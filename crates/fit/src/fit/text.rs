//! Changes as text: a config file, or overrides.

use fitgpt_config::{ConfigError, ConfigValue, Key, KeyGroup, Written, rewrite};

use super::{Change, Patch};

/// The comment above added assignments.
const HEADING: &str = "so that it fits";

/// The config file that holds all of `written` and `changes`.
///
/// `file` is the name and the text of the user's file, of which everything else is kept. Values
/// written elsewhere, such as on the command line, are added.
pub fn write(
    file: Option<(&str, &str)>,
    written: &Written,
    changes: &[Change],
) -> Result<String, ConfigError> {
    let (source, text) = file.unwrap_or(("", ""));
    let elsewhere = written
        .asked_for()
        .filter(|(_, _, place)| file.is_none() || place.source != source || place.line.is_none());
    let mut all: Vec<Change> = elsewhere.map(|(key, value, _)| (key.name, value.clone())).collect();
    all.retain(|(key, _)| changes.iter().all(|(changed, _)| changed != key));
    if file.is_some() {
        all.extend_from_slice(changes);
        return rewrite(source, text, HEADING, &all);
    }
    let mut text = String::new();
    for (key, value) in all {
        text.extend([key, " = ", &value.to_string(), "\n"]);
    }
    rewrite(source, &text, HEADING, changes)
}

/// Overrides for a command line, each of the type that nanoGPT requires.
pub fn command_line(changes: &[Change]) -> String {
    let overrides: Vec<_> = changes
        .iter()
        .map(|(key, value)| match value {
            ConfigValue::Str(text) => format!("--{key}={}", quoted(text)),
            value => format!("--{key}={value}"),
        })
        .collect();
    overrides.join(" ")
}

/// The command that trains with FitGPT: the config `files`, overrides, `changes`.
pub fn fitgpt_command(files: &[String], written: &Written, changes: &[Change]) -> String {
    line("fitgpt train", files, &overrides(files, written, changes, |_| true))
}

/// The commands that train with nanoGPT, in its folder: one that patches it if needed, and
/// `python train.py`. Keys that patched nanoGPT does not have are left out.
pub fn nanogpt_commands(
    files: &[String],
    written: &Written,
    changes: &[Change],
    patches: &[Patch],
) -> Vec<String> {
    let is_known = |key: &Key| nanogpt_reads(key, patches);
    let mut lines = Vec::new();
    if !patches.is_empty() {
        let names: Vec<_> = patches.iter().map(|patch| patch.name()).collect();
        lines.push(format!("fitgpt patch . --apply --only {}", names.join(" ")));
    }
    lines.push(line("python train.py", files, &overrides(files, written, changes, is_known)));
    lines
}

/// Whether nanoGPT's `train.py` with `patches` has this key. It refuses others.
pub fn nanogpt_reads(key: &Key, patches: &[Patch]) -> bool {
    match key.group {
        KeyGroup::NanoGpt | KeyGroup::Ignored => true,
        KeyGroup::FitGpt => patches.iter().any(|patch| patch.keys().contains(&key.name)),
        KeyGroup::Sampling => false,
    }
}

/// Overrides that are not in `files`, with `changes` applied.
fn overrides(
    files: &[String],
    written: &Written,
    changes: &[Change],
    is_known: impl Fn(&Key) -> bool,
) -> Vec<Change> {
    let is_changed = |key: &Key| changes.iter().any(|(changed, _)| *changed == key.name);
    let elsewhere = written.asked_for().filter(|(key, _, place)| {
        let is_in_file = place.line.is_some() && files.contains(&place.source);
        !is_in_file && !is_changed(key)
    });
    let mut all: Vec<_> = elsewhere.map(|(key, value, _)| (key.name, value.clone())).collect();
    all.extend_from_slice(changes);
    all.retain(|(name, _)| Key::find(name).is_some_and(&is_known));
    all
}

fn line(program: &str, files: &[String], changes: &[Change]) -> String {
    let files = files.iter().map(|file| quoted(file));
    let parts = std::iter::once(program.to_owned()).chain(files);
    let overrides = Some(command_line(changes)).filter(|overrides| !overrides.is_empty());
    parts.chain(overrides).collect::<Vec<_>>().join(" ")
}

/// Quoted for a shell.
fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:@%+,".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}
