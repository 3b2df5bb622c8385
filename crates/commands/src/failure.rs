//! A failure as it is printed: a kind, a message, a place, and separate hints, in every language.

use std::{
    fmt::Write as _,
    io::{self, ErrorKind},
    path::Path,
};

use fitgpt_checkpoint::{
    CheckpointError, events::EventError, export::ExportError, output::OutputError,
};
use fitgpt_config::ConfigError;
use fitgpt_data::{DataError, tokenizer::TokenizerError};
use fitgpt_exec::BackendError;
use fitgpt_files::attempt::Attempt;
use fitgpt_fit::{
    device::DeviceError,
    patch::{Patch, PatchError},
};
use fitgpt_prepare::{PrepareError, hub::HubError};
use fitgpt_run::{
    cards::{MemoryHolder, NvidiaDriver, NvmlCard},
    device::Unavailable,
    error::RunError,
    ranks::{self, LaunchError, Mismatch},
    setup::SetupError,
};
use fitgpt_say::{Lang, Say, Sentence};
use serde_json::{Value, json};

use super::labels as words;
use crate::words::{failure as sentences, ranks as ranks_words};

/// `[rank 3, host b] `, or nothing in a single process.
pub fn label(lang: Lang) -> String {
    ranks::own_name().map_or_else(String::new, |name| format!("{} ", name.say(lang)))
}

/// Something went wrong; exit code 2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    kind: &'static str,
    message: Sentence,
    place: Option<Sentence>,
    hints: Vec<Sentence>,
    reach: FailureScope,
}

/// Which ranks know about a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FailureScope {
    /// Only this one: the others would wait for it.
    Alone,
    /// All of them, and this one reports it.
    Agreed,
    /// All of them, and another one reports it.
    Elsewhere,
}

impl Failure {
    /// A failure without a place.
    pub fn new(kind: &'static str, message: impl Into<Sentence>) -> Self {
        let (message, hints) = (message.into(), Vec::new());
        Self { kind, message, place: None, hints, reach: FailureScope::Alone }
    }

    /// A failure whose message is what `error` says.
    pub fn of(kind: &'static str, error: &impl Say) -> Self {
        Self::new(kind, Sentence::about(error))
    }

    /// Where it is.
    #[must_use]
    pub fn at(self, place: Sentence) -> Self {
        Self { place: Some(place), ..self }
    }

    /// Adds a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<Sentence>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Adds a hint that lists the processes that hold memory of the card that its driver calls
    /// `device`.
    fn with_holders_of(self, device: &str) -> Self {
        let cards = NvidiaDriver::open().map_or_else(|_| Vec::new(), |driver| driver.cards());
        others_on(&cards, device).into_iter().fold(self, Self::hint)
    }

    /// The error was printed, by another rank or before.
    pub fn elsewhere() -> Self {
        Self { reach: FailureScope::Elsewhere, ..Self::new("rank", "") }
    }

    /// Marks it as known to all ranks.
    #[must_use]
    pub fn agreed(self) -> Self {
        Self { reach: FailureScope::Agreed, ..self }
    }

    /// Whether only this rank knows about it.
    pub fn is_alone(&self) -> bool {
        self.reach == FailureScope::Alone
    }

    /// Whether this process reports it.
    pub fn is_reported_here(&self) -> bool {
        self.reach != FailureScope::Elsewhere
    }

    /// What went wrong, without place and hints.
    pub fn message(&self, lang: Lang) -> String {
        self.message.say(lang)
    }

    /// A file that cannot be read.
    pub fn unreadable(path: &Path, error: &io::Error) -> Self {
        let failure = Self::io(Attempt::Read, path, error).missing(path, error);
        failure.at(Sentence::literal(path.display()))
    }

    /// A file whose content cannot be read; `reason` is not the operating system's.
    pub fn unreadable_for(path: &Path, reason: &Sentence) -> Self {
        let message = Sentence::of(|lang| Attempt::Read.failed(lang, path, reason.say(lang)));
        Self::new("file", message).at(Sentence::literal(path.display()))
    }

    /// Adds the folder in which a relative path was not found.
    fn missing(self, path: &Path, error: &io::Error) -> Self {
        match std::env::current_dir() {
            Ok(folder) if error.kind() == ErrorKind::NotFound && path.is_relative() => {
                self.hint(sentences::relative_to(folder.display()))
            }
            _ => self,
        }
    }

    /// A signal stopped a command that saves nothing.
    pub fn stopped() -> Self {
        Self::new("stopped", sentences::stopped_early())
    }

    /// Signals cannot be handled.
    pub fn signals(error: &io::Error) -> Self {
        Self::new("signals", sentences::no_signals(error))
    }

    /// A file that cannot be written.
    pub fn unwritable(path: &Path, error: &io::Error) -> Self {
        Self::io(Attempt::Write, path, error).at(Sentence::literal(path.display()))
    }

    /// An operation on a file that failed. It has no place: its message names the path.
    pub fn io(attempt: Attempt, path: &Path, error: &io::Error) -> Self {
        Self::new("file", Sentence::of(|lang| attempt.failed(lang, path, error)))
    }

    /// As a document, in `lang`.
    pub fn to_json(&self, lang: Lang) -> Value {
        let message = format!("{}{}", label(lang), self.message.say(lang));
        let place = self.place.as_ref().map(|place| place.say(lang));
        json!({ "error": { "kind": self.kind, "message": message, "place": place } })
    }

    /// Like [`to_json`](Self::to_json), with the hints, for the page.
    pub fn to_json_with_hints(&self, lang: Lang) -> Value {
        let mut json = self.to_json(lang);
        let hints: Vec<_> = self.hints.iter().map(|hint| hint.say(lang)).collect();
        json["error"]["hints"] = json!(hints);
        json
    }

    /// As a person reads it, with the hints.
    pub fn to_text(&self, lang: Lang) -> String {
        let message = self.message.say(lang);
        let message = match self.place.as_ref().map(|place| place.say(lang)) {
            Some(place) if !message.contains(&format!("`{place}`")) => {
                words::placed(lang, place, message)
            }
            _ => message,
        };
        let mut text = format!("{}{}{message}\n", label(lang), words::error(lang));
        for hint in &self.hints {
            let _ = write!(text, "\n{}{}\n", words::hint(lang), hint.say(lang));
        }
        text
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self::of(error.kind(), &error).at(Sentence::about(error.place()))
    }
}

impl From<LaunchError> for Failure {
    fn from(error: LaunchError) -> Self {
        match error {
            LaunchError::NotInThisBuild { .. } => {
                Self::of("ranks", &error).hint(ranks_words::build_with_mpi())
            }
            LaunchError::NotStarted => Self::of("ranks", &error),
        }
    }
}

impl From<Mismatch> for Failure {
    fn from(error: Mismatch) -> Self {
        Self::of("ranks", &error).hint(ranks_words::make_equal())
    }
}

impl From<DeviceError> for Failure {
    fn from(error: DeviceError) -> Self {
        let failure = Self::of("device", &error);
        match error {
            DeviceError::Unknown { .. } => {
                failure.hint(sentences::plan_for_a_size()).hint(sentences::all_cards())
            }
            DeviceError::Ambiguous { .. } | DeviceError::NoRates { .. } => failure,
        }
    }
}

impl From<DataError> for Failure {
    fn from(error: DataError) -> Self {
        let count = error.hints(Lang::English).len();
        let hint = |n| Sentence::of(|lang| error.hints(lang).swap_remove(n));
        (0..count).map(hint).fold(Self::of("data", &error), Self::hint)
    }
}

impl From<TokenizerError> for Failure {
    fn from(error: TokenizerError) -> Self {
        Self::of("tokenizer", &error)
    }
}

impl From<PrepareError> for Failure {
    fn from(error: PrepareError) -> Self {
        let failure = Self::of("prepare", &error);
        match &error {
            PrepareError::Io { path, source, .. } => failure.missing(path, source),
            _ => failure,
        }
    }
}

impl From<HubError> for Failure {
    fn from(error: HubError) -> Self {
        let failure = Self::of("hub", &error);
        match error.hint(Lang::English) {
            Some(_) => failure.hint(Sentence::of(|lang| error.hint(lang).unwrap_or_default())),
            None => failure,
        }
    }
}

impl From<ExportError> for Failure {
    fn from(error: ExportError) -> Self {
        match error {
            ExportError::Checkpoint { source } => source.into(),
            ExportError::Config(source) => source.into(),
            ExportError::Output(source) => Self { kind: "export", ..source.into() },
            error => Self::of("export", &error),
        }
    }
}

impl From<OutputError> for Failure {
    fn from(error: OutputError) -> Self {
        let failure = Self::of("file", &error);
        match error {
            OutputError::Exists { .. } => failure,
            _ => failure.hint(sentences::another_path()),
        }
    }
}

impl From<PatchError> for Failure {
    fn from(error: PatchError) -> Self {
        match &error {
            PatchError::NotPython { .. } => Self::of("python", &error),
            PatchError::File { source, .. } if source.kind() == ErrorKind::NotFound => {
                Self::of("file", &error).hint(sentences::which_folder())
            }
            PatchError::File { .. } => Self::of("file", &error),
            PatchError::NoSuchPatch { .. } => {
                let names: Vec<_> = Patch::ALL.iter().map(|patch| patch.name()).collect();
                Self::of("usage", &error).hint(sentences::there_are(names.join(", ")))
            }
        }
    }
}

impl From<CheckpointError> for Failure {
    fn from(error: CheckpointError) -> Self {
        let failure = Self::of("checkpoint", &error);
        match error {
            CheckpointError::Missing { .. } => failure.hint(sentences::train_first()),
            CheckpointError::TwoCheckpoints { .. } => failure.hint(sentences::choose_one()),
            _ => failure,
        }
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
            Unavailable::NotInThisBuild { .. } => sentences::build_with_gpu(),
            Unavailable::NoType { .. } => sentences::another_type(),
            Unavailable::UnknownMemory { .. } => sentences::name_a_budget(),
            Unavailable::NoSuchDevice { software: Some(device), .. } => {
                sentences::run_in_software(device)
            }
            Unavailable::NoSuchDevice { .. }
            | Unavailable::Unsuitable { .. }
            | Unavailable::Backend(_) => sentences::run_on_cpu(),
        };
        let failure = Self::of("device", &error);
        // On a full card, not even the driver's context can be allocated.
        let failure = match &error {
            Unavailable::Backend(BackendError::Device(fault))
                if fault.message.contains("OUT_OF_MEMORY") =>
            {
                failure.with_holders_of(&fault.device)
            }
            _ => failure,
        };
        failure.hint(hint)
    }
}

impl From<BackendError> for Failure {
    fn from(error: BackendError) -> Self {
        match error {
            BackendError::Device(_) => {
                Self::of("device", &error).hint(sentences::resume_elsewhere())
            }
            BackendError::Memory(ref refused) => Self::of("memory", &error)
                .with_holders_of(&refused.device)
                .hint(sentences::run_on_cpu()),
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
                Self::of("diverged", &error).hint(sentences::keep_finite())
            }
            RunError::FolderLost { ref saved_in, .. } => {
                Self::of("checkpoint", &error).hint(sentences::resume_there(saved_in.display()))
            }
            RunError::FolderLostUnsaved { .. } => Self::of("checkpoint", &error),
            RunError::Folder { .. } => Self::of("file", &error),
        }
    }
}

/// The processes that hold memory of the card that its driver calls `device`.
fn others_on(cards: &[NvmlCard], device: &str) -> Option<Sentence> {
    let own = std::process::id();
    let of_card = cards.iter().filter(|card| card.name == device);
    let others: Vec<_> =
        of_card.flat_map(|card| &card.processes).filter(|holder| holder.pid != own).collect();
    let is_held = !others.is_empty();
    let text = |lang| format!("`{device}`: {}", held_by(others.iter().copied()).say(lang));
    is_held.then(|| Sentence::of(text))
}

/// `held by 4711 python 512 MiB, …`
pub fn held_by<'a>(list: impl IntoIterator<Item = &'a MemoryHolder>) -> Sentence {
    sentences::held_by(holders(list))
}

/// `4711 python 512 MiB, …`
pub fn holders<'a>(list: impl IntoIterator<Item = &'a MemoryHolder>) -> String {
    let one = |holder: &MemoryHolder| {
        let name = holder.name.as_deref().unwrap_or("?");
        let bytes = holder.bytes.map_or_else(|| "?".to_owned(), |bytes| bytes.to_string());
        format!("{} {name} {bytes}", holder.pid)
    };
    list.into_iter().map(one).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use fitgpt_program::units::Bytes;

    use super::*;
    use fitgpt_run::cards::MemoryHolder;

    #[test]
    fn a_full_card_is_reported_with_the_processes_that_hold_it() {
        let holder = |pid: u32, name: &str| {
            let bytes = Some(Bytes::new(3 << 30));
            MemoryHolder { pid, name: Some(name.to_owned()), bytes }
        };
        let card = |name: &str, processes| NvmlCard {
            index: 0,
            name: name.to_owned(),
            memory: None,
            compute_capability: None,
            has_bf16: None,
            processes,
        };
        let own = holder(std::process::id(), "fitgpt");
        let cards = [
            card("RTX 4070", vec![own.clone(), holder(4711, "python")]),
            card("RTX 4090", vec![holder(4712, "blender")]),
            card("T4", vec![own]),
        ];
        let text = others_on(&cards, "RTX 4070").unwrap().say(Lang::English);
        assert!(text.contains("RTX 4070") && text.contains("4711 python"), "{text}");
        assert!(!text.contains("fitgpt") && !text.contains("4712"), "{text}");
        assert_eq!(others_on(&cards, "T4"), None);
        assert_eq!(others_on(&cards, "A100"), None);
    }
}
