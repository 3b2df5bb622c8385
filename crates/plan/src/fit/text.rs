//! Changes as people write them: a config file, or overrides.

use super::Change;
use crate::config::{ConfigError, Value, Written, rewrite};

/// What stands above assignments that the file did not have.
const HEADING: &str = "so that it fits";

/// The config file that holds all of `written` and `changes`.
///
/// `file` is the name and the text of the user's own, of which everything else is kept. What
/// was written elsewhere, such as on the command line, is taken over; without a file, all that
/// was written.
pub fn write(
    file: Option<(&str, &str)>,
    written: &Written,
    changes: &[Change],
) -> Result<String, ConfigError> {
    let (source, text) = file.unwrap_or(("", ""));
    let elsewhere = written
        .iter()
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

/// Overrides for a command line, each of the type that nanoGPT insists on.
pub fn command_line(changes: &[Change]) -> String {
    let overrides: Vec<_> = changes
        .iter()
        .map(|(key, value)| match value {
            Value::Str(text) => format!("--{key}={}", quoted(text)),
            value => format!("--{key}={value}"),
        })
        .collect();
    overrides.join(" ")
}

/// As a shell takes it.
fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:@%+,".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}
