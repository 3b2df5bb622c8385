//! What the command line accepts: commands, flags, and every key of the config.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    sync::LazyLock,
};

use clap::{
    Arg, ArgAction, ArgMatches, Command,
    builder::{PossibleValue, StringValueParser, TypedValueParser},
};
use fitgpt_checkpoint::output::{self, Replace};
use fitgpt_commands::{Failure, origin};
use fitgpt_config::{ConfigValue, KEYS, Key, Location, MachineFacts, UnknownValue, Written};
use fitgpt_files::os;
use fitgpt_fit::device::GPUS;

use super::{keys, named};
use crate::{
    terminal,
    words::{
        self, Say as _,
        args::{not_utf8, presets_are},
        lang,
    },
};

/// Far more than any config, which has a few kilobytes.
const MAX_CONFIG_BYTES: u64 = 1 << 20;

/// The presets that are built in, by file name.
const PRESETS: [(&str, &str); 10] = [
    ("stories.py", include_str!("../../../config/stories.py")),
    ("nanogpt.py", include_str!("../../../config/nanogpt.py")),
    ("train_shakespeare_char.py", include_str!("../../../config/train_shakespeare_char.py")),
    (
        "train_shakespeare_char_cpu.py",
        include_str!("../../../config/train_shakespeare_char_cpu.py"),
    ),
    ("train_gpt2.py", include_str!("../../../config/train_gpt2.py")),
    ("train_openwebtext.py", include_str!("../../../config/train_openwebtext.py")),
    ("train_fineweb.py", include_str!("../../../config/train_fineweb.py")),
    ("llama_stories.py", include_str!("../../../config/llama_stories.py")),
    ("train_smollm_135m.py", include_str!("../../../config/train_smollm_135m.py")),
    ("finetune_shakespeare.py", include_str!("../../../config/finetune_shakespeare.py")),
];

/// The config of `train` and `sample` if no config file is given.
pub(super) const DEFAULT_PRESET: &str = "config/stories.py";

/// A preset that sets no key: nanoGPT's defaults, which all other commands use if no config file is
/// given.
pub(super) const DEFAULTS: &str = "config/nanogpt.py";

/// Adds the flags for the engine and the device.
pub(super) fn with_target(command: Command, engines: &'static [&'static str]) -> Command {
    let help = match engines {
        [.., "both"] => "What runs it: FitGPT, nanoGPT under PyTorch, or both side by side",
        _ => "What runs it: FitGPT, or nanoGPT under PyTorch",
    };
    command
        .arg(
            Arg::new("engine")
                .long("engine")
                .value_parser(clap::builder::PossibleValuesParser::new(engines))
                .default_value("fitgpt")
                .help(help),
        )
        .arg(gpu())
        .arg(
            Arg::new("reserve")
                .long("reserve")
                .value_name("SIZE")
                .help("Memory to leave free for others, such as 1GB for a desktop"),
        )
}

pub(super) fn gpu() -> Arg {
    Arg::new("gpu")
        .long("gpu")
        .value_name("NAME")
        .value_parser(SuggestedValues(&CARDS))
        .hide_possible_values(true)
        .help("A card by its name, such as \"RTX 4070\" or 4090; it need not be in this machine")
}

/// The catalogue's cards as a shell completes them: one word each, without the maker's name.
static CARDS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let word = |name: &str| {
        let name = ["GeForce ", "Tesla ", "Radeon ", "Instinct ", "Quadro ", "Apple "]
            .iter()
            .find_map(|maker| name.strip_prefix(maker))
            .unwrap_or(name);
        name.replace(' ', "-")
    };
    GPUS.iter().map(|gpu| word(gpu.name)).collect()
});

/// Accepts any text; shells offer these words as completions.
#[derive(Clone, Copy)]
pub(super) struct SuggestedValues(pub(super) &'static LazyLock<Vec<String>>);

impl TypedValueParser for SuggestedValues {
    type Value = String;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.0.iter().map(|word| PossibleValue::new(word.as_str()))))
    }
}

/// Config files, every key and `--json`.
pub(super) fn with_keys(command: Command) -> Command {
    let files = Arg::new("CONFIG")
        .action(ArgAction::Append)
        .num_args(0..)
        .help("Config files in nanoGPT's Python; later ones and later keys win");
    keys::with_keys(with_json(command.arg(files)))
}

pub(super) fn with_json(command: Command) -> Command {
    command.arg(
        Arg::new("json")
            .long("json")
            .action(ArgAction::SetTrue)
            .help("Print one JSON document instead of text"),
    )
}

/// The config files and keys of a command line, in order. If they name weights to start from, the
/// keys of those weights apply on top.
pub(super) fn written(matches: &ArgMatches, preset: Option<&str>) -> Result<Written, Failure> {
    let names = std::iter::once("CONFIG").chain(KEYS.iter().map(|key| key.name));
    let parts = in_order(matches, names);
    let has_file = parts.iter().any(|(name, _)| *name == "CONFIG");

    let mut written = Written::new();
    let facts = facts();
    if let Some(preset) = preset.filter(|_| !has_file) {
        written.read_python(preset, &text_of(Path::new(preset))?, &facts)?;
    }
    for (name, value) in parts {
        match name {
            "CONFIG" => written.read_python(value, &text_of(Path::new(value))?, &facts)?,
            key => written.set(key, value)?,
        }
    }
    if let Some(preset) = preset.filter(|_| !has_file) {
        follow_dataset(&mut written, preset)?;
    }
    named::model(&written, matches)?;
    origin::describe(written, preset)
}

/// A dataset other than the preset's gets its own `out_dir`, unless one is set, so that its run
/// does not collide with the preset's.
fn follow_dataset(written: &mut Written, preset: &str) -> Result<(), Failure> {
    let is_presets = |key: &str| written.place_of(key).is_some_and(|p| p.source == preset);
    if is_presets("dataset") || !is_presets("out_dir") {
        return Ok(());
    }
    let Some(ConfigValue::Str(dataset)) = written.get("dataset") else { return Ok(()) };
    let Some(name) = Path::new(dataset.as_ref()).file_name() else { return Ok(()) };
    let folder = format!("out-{}", name.to_string_lossy());
    Ok(written.write("out_dir", folder.into(), Location::of(preset))?)
}

/// Prints which folder is used if the config computes `out_dir` with Python that is not supported.
pub(super) fn note_unknown(written: &Written) {
    for UnknownValue { key, place, reason } in written.unknown() {
        let Some(found) = Key::find(key).filter(|key| key.name == "out_dir") else { continue };
        let ConfigValue::Str(value) = written.get(key).unwrap_or(&found.default) else { continue };
        let place = place.say(lang());
        terminal::note(&words::train::not_known(place, key, reason.say(lang()), value));
    }
}

/// The keys of a command line without config files, with their values as text.
pub(super) fn keys(matches: &ArgMatches) -> Vec<(&'static str, &str)> {
    in_order(matches, KEYS.iter().map(|key| key.name))
}

/// The values given for `names`, in the order of the command line.
fn in_order(
    matches: &ArgMatches,
    names: impl Iterator<Item = &'static str>,
) -> Vec<(&'static str, &str)> {
    let mut parts = Vec::new();
    for name in names {
        let values = matches.get_many::<String>(name).into_iter().flatten();
        let indices = matches.indices_of(name).into_iter().flatten();
        parts.extend(indices.zip(values).map(|(index, value)| (index, name, value.as_str())));
    }
    parts.sort_by_key(|(index, ..)| *index);
    parts.into_iter().map(|(_, name, value)| (name, value)).collect()
}

/// The config files of the command line.
pub(super) fn files(matches: &ArgMatches) -> Vec<String> {
    matches.get_many::<String>("CONFIG").into_iter().flatten().cloned().collect()
}

/// Refuses to write the file that the flag `name` gives if it must not be written to: the config
/// files of the command line are inputs.
pub(super) fn check_output(
    matches: &ArgMatches,
    name: &str,
    replace: Replace,
) -> Result<(), Failure> {
    let Some(path) = matches.get_one::<String>(name) else { return Ok(()) };
    let files = files(matches);
    let inputs: Vec<_> = files.iter().map(Path::new).collect();
    Ok(output::check_file(Path::new(path), &inputs, replace)?)
}

/// The config files for a `fitgpt train` that trains what was planned from `files`. Without a file,
/// `train` would use the built-in stories preset.
pub(super) fn files_to_train(files: Vec<String>) -> Vec<String> {
    if files.is_empty() { vec![DEFAULTS.to_owned()] } else { files }
}

/// The last config file of the command line with its text.
pub(super) fn last_file(matches: &ArgMatches) -> Result<Option<(String, String)>, Failure> {
    let last = matches.get_many::<String>("CONFIG").and_then(|mut files| files.next_back());
    last.map(|file| Ok((file.clone(), text_of(Path::new(file))?))).transpose()
}

/// The built-in presets: their paths as commands accept them, and their texts.
pub(super) fn presets() -> impl Iterator<Item = (String, &'static str)> {
    PRESETS.iter().map(|(name, text)| (format!("config/{name}"), *text))
}

/// The text of a config file, or of the built-in preset of this name if there is no such file.
pub(super) fn text_of(path: &Path) -> Result<String, Failure> {
    let built_in = || {
        let name = PathBuf::from(path.file_name()?);
        let is_preset_path =
            path.parent().is_none_or(|p| p.ends_with("config") || p == Path::new(""));
        let preset = PRESETS.iter().find(|(preset, _)| Path::new(preset) == name);
        preset.filter(|_| is_preset_path).map(|(_, text)| (*text).to_owned())
    };
    match os::read_text(path, MAX_CONFIG_BYTES) {
        Ok(text) => Ok(text),
        Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
            let not_utf8 = not_utf8();
            let error = std::io::Error::new(std::io::ErrorKind::InvalidData, not_utf8);
            Err(Failure::unreadable(path, &error))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => built_in().ok_or_else(|| {
            let names: Vec<_> = presets().map(|(name, _)| name).collect();
            let hint = presets_are(names.join(", "));
            Failure::unreadable(path, &error).hint(hint)
        }),
        Err(error) => Err(Failure::unreadable(path, &error)),
    }
}

/// The facts about this machine that a config's Python may use.
pub(super) fn facts() -> MachineFacts {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    MachineFacts {
        now_seconds: now.map_or(0.0, |now| now.as_secs_f64()),
        cuda_is_available: false,
        bf16_is_supported: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_card_is_completed_as_a_word_that_names_it() {
        for (word, gpu) in CARDS.iter().zip(GPUS) {
            assert!(!word.contains(' '), "{word}");
            assert_eq!(fitgpt_fit::device::find(word).unwrap().name, gpu.name, "{word}");
        }
    }

    #[test]
    fn a_preset_is_found_without_its_file() {
        let folder = Path::new("no such folder/config/stories.py");
        assert!(text_of(folder).is_ok());
        assert!(text_of(Path::new("elsewhere/stories.py")).is_err());
    }
}
