//! What the command line accepts: commands, flags, and every key of the config.

use std::{ffi::OsStr, path::Path, sync::LazyLock};

use clap::{
    Arg, ArgAction, ArgMatches, Command,
    builder::{PossibleValue, StringValueParser, TypedValueParser},
    value_parser,
};
use fitgpt_checkpoint::output::{self, Replace};
use fitgpt_commands::{
    Failure,
    config_file::{self, ConfigPart, ConfigSource},
    engines::{self, ChosenEngines, EngineRequest},
    target::{DeviceFlags, EngineChoice},
};
use fitgpt_config::{Config, ConfigValue, KEYS, Key, UnknownValue, Written};
use fitgpt_fit::device::GPUS;
use fitgpt_run::network::NetworkRate;

use super::{OutputStyle, keys, named};
use crate::{
    terminal,
    words::{self, Say as _, lang},
};

/// More ranks than any cluster has.
const MOST_RANKS: i64 = 1 << 16;

/// Adds the flags for the engine and the device.
pub(super) fn with_target(command: Command, engines: &'static [&'static str]) -> Command {
    let help = match engines {
        [.., "both"] => "Choose what runs it: FitGPT, nanoGPT under PyTorch, or both side by side",
        _ => "Choose what runs it: FitGPT, or nanoGPT under PyTorch",
    };
    command
        .arg(
            Arg::new("engine")
                .long("engine")
                .value_parser(clap::builder::PossibleValuesParser::new(engines))
                .help(help),
        )
        .arg(gpu())
        .arg(
            Arg::new("reserve")
                .long("reserve")
                .value_name("SIZE")
                .help("Leave this much memory to other programs, such as 1GB for a desktop"),
        )
}

pub(super) fn gpu() -> Arg {
    Arg::new("gpu")
        .long("gpu")
        .value_name("NAME")
        .value_parser(SuggestedValues(&CARDS))
        .hide_possible_values(true)
        .help("Plan for this card, such as \"RTX 4070\" or 4090; `list` prints all")
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
        .help("Read these config files in nanoGPT's Python; later files and keys win");
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

/// Adds `--ranks`.
pub(super) fn with_ranks(command: Command) -> Command {
    command.arg(
        Arg::new("ranks")
            .long("ranks")
            .value_name("N")
            .value_parser(value_parser!(u32).range(1..=MOST_RANKS))
            .help("Plan one rank of N that train together (`mpirun -np N fitgpt train …`)"),
    )
}

/// Adds `--network`.
pub(super) fn with_network(command: Command) -> Command {
    command.arg(
        Arg::new("network")
            .long("network")
            .value_name("RATE")
            .requires("ranks")
            .value_parser(|text: &str| text.parse::<NetworkRate>())
            .help("Estimate the time of messages between ranks at this rate, such as 10Gb (per second)"),
    )
}

/// `--ranks`.
pub(super) fn ranks(matches: &ArgMatches) -> Option<u32> {
    matches.get_one("ranks").copied()
}

/// The engines of `--engine`, or those that people see without it.
pub(super) fn engines(
    matches: &ArgMatches,
    style: OutputStyle,
    config: &Config,
    written: &Written,
) -> ChosenEngines {
    let asked = match matches.get_one::<String>("engine").map(String::as_str) {
        Some("both") => EngineRequest::Both,
        Some("torch") => EngineRequest::One(EngineChoice::Torch),
        Some(_) => EngineRequest::One(EngineChoice::Fitgpt),
        None => EngineRequest::Unnamed,
    };
    engines::choose(asked, gpu_name(matches), style == OutputStyle::Text, config, written)
}

/// Whether `--gpu list` asks for the names of all cards.
pub(super) fn asks_for_cards(matches: &ArgMatches) -> bool {
    let gpu = matches.try_get_one::<String>("gpu").ok().flatten();
    gpu.is_some_and(|name| name.eq_ignore_ascii_case("list"))
}

fn gpu_name(matches: &ArgMatches) -> Option<&str> {
    matches.get_one::<String>("gpu").map(String::as_str)
}

/// The flags about the device of `engines`.
pub(super) fn device<'a>(matches: &'a ArgMatches, engines: &[EngineChoice]) -> DeviceFlags<'a> {
    let reserve = matches.get_one::<String>("reserve").map(String::as_str);
    DeviceFlags { gpu: gpu_name(matches), reserve, is_compared: engines.len() > 1 }
}

/// The config files and keys of a command line, in order. If they name weights to start from, the
/// keys of those weights apply on top.
pub(super) fn written(matches: &ArgMatches, preset: Option<&str>) -> Result<Written, Failure> {
    let names = std::iter::once("CONFIG").chain(KEYS.iter().map(|key| key.name));
    let parts = in_order(matches, names).into_iter().map(|(name, value)| match name {
        "CONFIG" => ConfigPart::File(value),
        key => ConfigPart::Key(key, value),
    });
    let parts: Vec<_> = parts.collect();
    config_file::read(&parts, preset, |written| named::model(written, matches))
}

/// [`written`] with the names of its files.
pub(super) fn source(matches: &ArgMatches, preset: Option<&str>) -> Result<ConfigSource, Failure> {
    Ok(ConfigSource { files: files(matches), written: written(matches, preset)? })
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

/// The last config file of the command line with its text.
pub(super) fn last_file(matches: &ArgMatches) -> Result<Option<(String, String)>, Failure> {
    let last = matches.get_many::<String>("CONFIG").and_then(|mut files| files.next_back());
    last.map(|file| Ok((file.clone(), config_file::text_of(Path::new(file))?))).transpose()
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
}
