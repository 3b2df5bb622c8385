//! What went wrong, ready to be told: a kind, a message, a place, and hints apart from it.

use std::fmt::{Display, Write as _};

use fitgpt_exec::BackendError;
use serde_json::{Value, json};

use crate::{
    checkpoint::CheckpointError,
    data::DataError,
    run::{error::RunError, events::EventError, setup::SetupError},
    tokenizer::TokenizerError,
    words::names,
};

/// Something went wrong; exit code 2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    kind: &'static str,
    message: String,
    place: Option<String>,
    hints: Vec<String>,
}

impl Failure {
    /// A failure without a place.
    pub fn new(kind: &'static str, message: impl Display) -> Self {
        Self { kind, message: format!("{message}"), place: None, hints: Vec::new() }
    }

    /// The same with advice.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// The command line itself is wrong.
    pub fn usage(error: &clap::Error) -> Self {
        let text = error.render().to_string();
        let message = text.lines().next().unwrap_or_default();
        let message = message.trim_start_matches("error: ");
        Self { place: Some("command line".into()), ..Self::new("usage", message) }
    }

    /// A file that cannot be read.
    pub fn unreadable(path: &std::path::Path, error: &std::io::Error) -> Self {
        let path = path.display().to_string();
        let message = format!("cannot read `{path}`: {error}");
        Self { place: Some(path), ..Self::new("file", message) }
    }

    /// A file that cannot be written.
    pub fn unwritable(path: &std::path::Path, error: &std::io::Error) -> Self {
        let path = path.display().to_string();
        let message = format!("cannot write `{path}`: {error}");
        Self { place: Some(path), ..Self::new("file", message) }
    }

    pub(super) fn to_json(&self) -> Value {
        json!({ "error": { "kind": self.kind, "message": self.message, "place": self.place } })
    }

    pub(super) fn to_text(&self) -> String {
        let place = self.place.as_ref().map_or(String::new(), |place| format!("{place}: "));
        let mut text = format!("{}{place}{}\n", names::error(), self.message);
        for hint in &self.hints {
            let _ = write!(text, "\n{}{hint}\n", names::hint());
        }
        text
    }
}

impl From<fitgpt_plan::config::ConfigError> for Failure {
    fn from(error: fitgpt_plan::config::ConfigError) -> Self {
        let place = Some(error.place().to_string());
        Self { place, ..Self::new(error.kind(), error.message()) }
    }
}

impl From<DataError> for Failure {
    fn from(error: DataError) -> Self {
        Self::new("data", error)
    }
}

impl From<TokenizerError> for Failure {
    fn from(error: TokenizerError) -> Self {
        Self::new("tokenizer", error)
    }
}

impl From<CheckpointError> for Failure {
    fn from(error: CheckpointError) -> Self {
        Self::new("checkpoint", error)
    }
}

impl From<EventError> for Failure {
    fn from(error: EventError) -> Self {
        Self::new("events", error)
    }
}

impl From<SetupError> for Failure {
    fn from(error: SetupError) -> Self {
        let hint = match &error {
            SetupError::NoSuchDevice { .. } => "add `--device=cpu` to run it here",
            SetupError::Plan(_) => return Self::new("plan", error),
        };
        Self::new("device", error).hint(hint)
    }
}

impl From<BackendError> for Failure {
    fn from(error: BackendError) -> Self {
        Self::new("memory", error)
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Data(error) => error.into(),
            RunError::Checkpoint(error) => error.into(),
            RunError::Event(error) => error.into(),
            RunError::Backend(error) => error.into(),
            RunError::Diverged { .. } => Self::new("diverged", error).hint(
                "a lower `--learning_rate`, a longer `--warmup_iters` or `--dtype=float32` keep \
                 a loss finite; `--init_from=resume` goes on from the last checkpoint",
            ),
            RunError::Folder { .. } => Self::new("file", error),
        }
    }
}
