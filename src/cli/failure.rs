//! An error as it is printed: a kind, a message, a place, and separate hints.
//!
//! Messages are in the language of the process, which is English wherever `--json` is given.

use std::fmt::{Display, Write as _};

use fitgpt_exec::BackendError;
use fitgpt_plan::{config::ConfigError, device::DeviceError};
use serde_json::{Value, json};

use crate::{
    attempt::Attempt,
    checkpoint::CheckpointError,
    data::DataError,
    export::ExportError,
    patch::{Patch, PatchError},
    prepare::PrepareError,
    run::{device::Unavailable, error::RunError, events::EventError, setup::SetupError},
    tokenizer::TokenizerError,
    words::{
        errors::{self, Spoken},
        names,
    },
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
        let place = Some(errors::config::command_line());
        Self { place, ..Self::new("usage", message) }
    }

    /// A file that cannot be read.
    pub fn unreadable(path: &std::path::Path, error: &std::io::Error) -> Self {
        let message = errors::io::failed(Attempt::Read, path, error);
        Self { place: Some(path.display().to_string()), ..Self::new("file", message) }
    }

    /// Signals cannot be handled.
    pub fn signals(error: &std::io::Error) -> Self {
        Self::new("signals", errors::io::no_signals(error))
    }

    fn of(kind: &'static str, error: &impl Spoken) -> Self {
        Self::new(kind, error.spoken())
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
        let message = match &self.place {
            Some(place) => names::placed(place, &self.message),
            None => self.message.clone(),
        };
        let mut text = format!("{}{message}\n", names::error());
        for hint in &self.hints {
            let _ = write!(text, "\n{}{hint}\n", names::hint());
        }
        text
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        let place = Some(errors::config::place(error.place()));
        Self { place, ..Self::of(error.kind(), &error) }
    }
}

impl From<DeviceError> for Failure {
    fn from(error: DeviceError) -> Self {
        Self::of("device", &error)
    }
}

impl From<DataError> for Failure {
    fn from(error: DataError) -> Self {
        let hints = errors::data::hints(&error);
        Self { hints, ..Self::of("data", &error) }
    }
}

impl From<TokenizerError> for Failure {
    fn from(error: TokenizerError) -> Self {
        Self::of("tokenizer", &error)
    }
}

impl From<PrepareError> for Failure {
    fn from(error: PrepareError) -> Self {
        Self::of("prepare", &error)
    }
}

impl From<ExportError> for Failure {
    fn from(error: ExportError) -> Self {
        match error {
            ExportError::Checkpoint { source } => source.into(),
            error => Self::of("export", &error),
        }
    }
}

impl From<PatchError> for Failure {
    fn from(error: PatchError) -> Self {
        match &error {
            PatchError::NotPython { .. } => Self::of("python", &error),
            PatchError::File { .. } => Self::of("file", &error),
            PatchError::NoSuchPatch { .. } => {
                let names: Vec<_> = Patch::ALL.iter().map(|patch| patch.name()).collect();
                Self::of("usage", &error).hint(errors::patch::there_are(names.join(", ")))
            }
        }
    }
}

impl From<CheckpointError> for Failure {
    fn from(error: CheckpointError) -> Self {
        Self::of("checkpoint", &error)
    }
}

impl From<EventError> for Failure {
    fn from(error: EventError) -> Self {
        Self::of("events", &error)
    }
}

impl From<SetupError> for Failure {
    fn from(error: SetupError) -> Self {
        match error {
            SetupError::Device(error) => error.into(),
            SetupError::Plan(_) => Self::of("plan", &error),
        }
    }
}

impl From<Unavailable> for Failure {
    fn from(error: Unavailable) -> Self {
        let hint = match &error {
            Unavailable::NotInThisBuild { .. } => errors::run::build_with_gpu(),
            Unavailable::NoType { .. } => errors::run::another_type(),
            Unavailable::UnknownMemory { .. } => errors::run::name_a_budget(),
            Unavailable::NoSuchDevice { software: Some(device), .. } => {
                errors::run::run_in_software(device)
            }
            Unavailable::NoSuchDevice { .. }
            | Unavailable::Unsuitable { .. }
            | Unavailable::Backend(_) => errors::run::run_on_cpu(),
        };
        Self::of("device", &error).hint(hint)
    }
}

impl From<BackendError> for Failure {
    fn from(error: BackendError) -> Self {
        match error {
            BackendError::Device(_) => {
                Self::of("device", &error).hint(errors::run::resume_elsewhere())
            }
            BackendError::Memory(_) => Self::of("memory", &error).hint(errors::run::run_on_cpu()),
            BackendError::Refused(_) | BackendError::Threads { .. } => Self::of("memory", &error),
        }
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Data(error) => error.into(),
            RunError::Checkpoint(error) => error.into(),
            RunError::Event(error) => error.into(),
            RunError::Backend(error) => error.into(),
            RunError::Diverged { .. } | RunError::NotFinite { .. } => {
                Self::of("diverged", &error).hint(errors::run::keep_finite())
            }
            RunError::Folder { .. } => Self::of("file", &error),
        }
    }
}
