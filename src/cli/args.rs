//! What the command line accepts: commands, flags, and every key of the config.

use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, ArgMatches, Command};
use fitgpt_plan::config::{KEYS, KeyGroup, MachineFacts, Written};

use super::{Failure, bench, origin, prepare};
use crate::{
    os,
    words::{Lang, errors},
};

/// A config has a few kilobytes.
const MAX_CONFIG_BYTES: u64 = 1 << 20;

/// The presets that are built in, by file name.
const PRESETS: [(&str, &str); 9] = [
    ("stories.py", include_str!("../../config/stories.py")),
    ("train_shakespeare_char.py", include_str!("../../config/train_shakespeare_char.py")),
    ("train_shakespeare_char_cpu.py", include_str!("../../config/train_shakespeare_char_cpu.py")),
    ("train_gpt2.py", include_str!("../../config/train_gpt2.py")),
    ("train_openwebtext.py", include_str!("../../config/train_openwebtext.py")),
    ("train_fineweb.py", include_str!("../../config/train_fineweb.py")),
    ("llama_stories.py", include_str!("../../config/llama_stories.py")),
    ("train_smollm_135m.py", include_str!("../../config/train_smollm_135m.py")),
    ("finetune_shakespeare.py", include_str!("../../config/finetune_shakespeare.py")),
];

/// What `train` and `sample` begin from where no config file is given.
pub(super) const DEFAULT_PRESET: &str = "config/stories.py";

/// The whole command line.
pub fn command() -> Command {
    Command::new("fitgpt")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Trains GPT-2-class models in a memory budget that it knows before the first step")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .arg(
            Arg::new("lang")
                .long("lang")
                .global(true)
                .value_parser(Lang::ALL.map(Lang::code))
                .help("The language of what people read [default: the locale's]"),
        )
        .subcommand(with_keys(
            super::plan::with_pictures(with_place(Command::new("plan"), &["fitgpt", "torch", "both"]))
                .about("The memory of every phase, before anything is allocated")
                .after_help(
                    "Examples:\n  fitgpt plan config/train_gpt2.py\n  \
                     fitgpt plan --batch_size=4 --gradient_accumulation_steps=128 --budget 12GB\n  \
                     fitgpt plan config/train_gpt2.py --engine torch --gpu \"RTX 4070\"\n  \
                     fitgpt plan config/train_gpt2.py --engine both --gpu 4070 --html plan.html\n  \
                     fitgpt plan config/train_gpt2.py --json\n\n\
                     With `--engine both` the answer (exit code, `fits` and `verdict` of the JSON's\n\
                     top level) is FitGPT's; `fitgpt` and `torch` hold each engine's own document.",
                ),
        ))
        .subcommand(with_keys(
            with_place(Command::new("fit"), &["fitgpt", "torch"])
                .about("The ways to make a config fit, ranked, each a plan that was made")
                .arg(
                    Arg::new("write")
                        .long("write")
                        .value_name("FILE.py")
                        .help("Write the recommended option as a config, with your comments"),
                )
                .after_help(
                    "Examples:\n  fitgpt fit config/train_gpt2.py --budget 8GB\n  \
                     fitgpt fit my.py --engine torch --gpu \"RTX 4070\" --write fitted.py",
                ),
        ))
        .subcommand(with_only_keys(
            Command::new("doctor")
                .about(
                    "Reads an out-of-memory log: what failed, which tensor, why, and the ways out",
                )
                .arg(Arg::new("LOG").help("A log or a memory snapshot; stdin if it is absent or `-`"))
                .arg(
                    Arg::new("config")
                        .long("config")
                        .value_name("CONFIG.py")
                        .help("The config of the run, if the log does not show it"),
                )
                .arg(
                    Arg::new("model")
                        .long("model")
                        .value_name("PATH")
                        .help("A model's config.json or its folder, if the log does not name a known model"),
                )
                .arg(gpu())
                .arg(
                    Arg::new("explain")
                        .long("explain")
                        .value_name("RULE")
                        .help("Print the page of a rule or of a common claim"),
                )
                .after_help(
                    "Examples:\n  fitgpt doctor train.log --config config/train_gpt2.py\n  \
                     python train.py 2>&1 | fitgpt doctor --batch_size=16 --gpu \"RTX 4070\"\n  \
                     fitgpt doctor --explain stale-logits",
                ),
        ))
        .subcommand(prepare::command())
        .subcommand(with_keys(super::train::command()))
        .subcommand(with_keys(
            Command::new("sample")
                .about("Continues a prompt with a trained model")
                .arg(
                    Arg::new("exact")
                        .long("exact")
                        .action(ArgAction::SetTrue)
                        .help("Past block_size, recompute the whole window for every token"),
                )
                .after_help(
                    "Examples:\n  fitgpt sample --start=\"Once upon a time\"\n  \
                     fitgpt sample --out_dir=out --num_samples=3 --max_new_tokens=200\n  \
                     fitgpt sample --start=FILE:prompt.txt --top_p=0.9 --temperature=0.7",
                ),
        ))
        .subcommand(super::patch::command())
        .subcommand(with_keys(bench::command()))
        .subcommand(super::devices::command())
        .subcommand(super::demo::command())
        .subcommand(super::completions::command())
}

/// Who runs it, and where.
pub(super) fn with_place(command: Command, engines: &'static [&'static str]) -> Command {
    let help = match engines {
        [.., "both"] => "Who runs it: this program, nanoGPT under PyTorch, or both side by side",
        _ => "Who runs it: this program, or nanoGPT under PyTorch",
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
                .help("Memory to leave to others, such as 1GB for a desktop on the card"),
        )
}

pub(super) fn gpu() -> Arg {
    Arg::new("gpu")
        .long("gpu")
        .value_name("NAME")
        .help("A card by its name, such as \"RTX 4070\" or 4090; it need not be here")
}

/// Config files, every key and `--json`.
pub(super) fn with_keys(command: Command) -> Command {
    let files = Arg::new("CONFIG")
        .action(ArgAction::Append)
        .num_args(0..)
        .help("Config files in nanoGPT's Python; later ones and later keys win");
    with_only_keys(command.arg(files))
}

/// Every key and `--json`.
fn with_only_keys(command: Command) -> Command {
    let mut command = command.arg(
        Arg::new("json")
            .long("json")
            .action(ArgAction::SetTrue)
            .help("Print one JSON document instead of text"),
    );
    for key in KEYS {
        let heading = match key.group {
            KeyGroup::NanoGpt => "nanoGPT's keys",
            KeyGroup::Ignored => "nanoGPT's keys that mean nothing here",
            KeyGroup::FitGpt => "FitGPT's own keys",
            KeyGroup::Sampling => "Keys of sampling",
        };
        let mut arg = Arg::new(key.name)
            .long(key.name)
            .value_name("VALUE")
            .action(ArgAction::Append)
            .num_args(1)
            .allow_hyphen_values(true)
            .help_heading(heading)
            .help(key.help);
        if key.name == "memory_budget" {
            arg = arg.visible_alias("budget");
        }
        command = command.arg(arg);
    }
    command
}

/// The config files and keys of a command line, in the order in which they are there; over them
/// those of the weights that they begin from, if they name any.
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
    origin::describe(written, preset)
}

/// The keys of a command line that takes no config files, with their texts.
pub(super) fn keys(matches: &ArgMatches) -> Vec<(&'static str, &str)> {
    in_order(matches, KEYS.iter().map(|key| key.name))
}

/// What was given under `names`, in the order in which it was given.
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

/// The last config file of the command line with its text.
pub(super) fn last_file(matches: &ArgMatches) -> Result<Option<(String, String)>, Failure> {
    let last = matches.get_many::<String>("CONFIG").and_then(|mut files| files.next_back());
    last.map(|file| Ok((file.clone(), text_of(Path::new(file))?))).transpose()
}

/// A config's text: the file's, or the built-in preset's of that name where there is no file.
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
            let not_utf8 = errors::io::not_utf8();
            let error = std::io::Error::new(std::io::ErrorKind::InvalidData, not_utf8);
            Err(Failure::unreadable(path, &error))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            built_in().ok_or_else(|| Failure::unreadable(path, &error))
        }
        Err(error) => Err(Failure::unreadable(path, &error)),
    }
}

/// What a config's Python may ask about this machine.
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

    fn read(args: &[&str]) -> Result<Written, Failure> {
        let matches = command().try_get_matches_from(args).unwrap();
        written(matches.subcommand().unwrap().1, None)
    }

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn later_wins_between_files_and_keys() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("c.py");
        std::fs::write(&file, "batch_size = 3\n").unwrap();
        let file = file.to_str().unwrap();
        let after = read(&["fitgpt", "plan", "--batch_size=5", file]).unwrap();
        assert_eq!(after.resolve().unwrap().batch_size(), 3);
        let before = read(&["fitgpt", "plan", file, "--batch_size", "5"]).unwrap();
        assert_eq!(before.resolve().unwrap().batch_size(), 5);
    }

    #[test]
    fn budget_is_the_memory_budget() {
        let written = read(&["fitgpt", "plan", "--budget", "12GB"]).unwrap();
        assert_eq!(written.resolve().unwrap().memory_budget(), Some(12_000_000_000));
    }

    #[test]
    fn a_preset_is_there_without_its_file() {
        let folder = Path::new("no such folder/config/stories.py");
        assert!(text_of(folder).is_ok());
        assert!(text_of(Path::new("elsewhere/stories.py")).is_err());
    }
}
