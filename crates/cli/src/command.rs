//! The whole command line.

use clap::{Arg, Command};

use super::{
    bench, completions, demo, devices, doctor, export, fit, patch, plan, prepare, sample, serve,
    train,
};
use crate::{keys::either, words::Lang};

/// What `fitgpt` and `fitgpt --help` end with.
const START_HERE: &str = "Start here:
  fitgpt train                                        train a small model now: no data, no card
  fitgpt doctor train.log --config config.py          why a PyTorch run ran out of memory
  fitgpt plan config.py --engine torch --gpu 4070     what nanoGPT will need on a card
  fitgpt serve --open                                 plans, diagnoses and runs in a browser
  fitgpt demo                                         all of it, shown here in a minute

`fitgpt COMMAND -h` fits on a screen, `fitgpt COMMAND --help` lists every key.
Reports, messages and the doctor's pages are in the language of the locale or of `--lang`;
help and usage errors, JSON and nanoGPT's log lines are in English.";

/// The whole command line.
pub fn command() -> Command {
    Command::new("fitgpt")
        .version(env!("CARGO_PKG_VERSION"))
        .about(
            "Plans the memory of training a GPT before it starts, trains within that plan, and \
             explains why a PyTorch run ran out of memory",
        )
        .subcommand_required(true)
        .arg_required_else_help(true)
        .after_help(START_HERE)
        .arg(
            Arg::new("lang")
                .long("lang")
                .global(true)
                .value_parser(Lang::ALL.map(Lang::code))
                .hide_possible_values(true)
                .help(format!(
                    "Print reports and messages in {} [default: the locale's]",
                    either(Lang::ALL.map(Lang::code))
                )),
        )
        .subcommand(plan::command())
        .subcommand(fit::command())
        .subcommand(doctor::command())
        .subcommand(prepare::command())
        .subcommand(train::command())
        .subcommand(sample::command())
        .subcommand(export::command())
        .subcommand(patch::command())
        .subcommand(bench::command())
        .subcommand(devices::command())
        .subcommand(serve::command())
        .subcommand(demo::command())
        .subcommand(completions::command())
}

#[cfg(test)]
mod tests {
    use fitgpt_config::Written;

    use super::*;
    use crate::args::written;
    use fitgpt_commands::Failure;

    fn read(args: &[&str]) -> Result<Written, Failure> {
        let matches = command().try_get_matches_from(args).unwrap();
        written(matches.subcommand().unwrap().1, None)
    }

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }

    /// The words that help starts with. A new one is welcome if it is a verb.
    const VERBS: &str = "Add Allow Average Build Change Choose Compare Compute Continue Divide \
        Draw Drop End Estimate Evaluate Favour Fetch Generate Give Hold Keep Leave Let Listen \
        Log Make Measure Multiply Name Open Patch Plan Print Put Raise Read Recompute Replace Run \
        Save Scale Search Set Share Show Start Stop Store Stretch Sum Take Train Use Warm Work \
        Write";

    #[test]
    fn every_line_of_help_says_what_it_does() {
        let verbs: Vec<_> = VERBS.split_whitespace().collect();
        let command = command();
        let args = command
            .get_subcommands()
            .flat_map(|command| command.get_arguments().map(move |arg| (command.get_name(), arg)));
        let without: Vec<_> = args
            .flat_map(|(name, arg)| {
                let texts = [arg.get_help(), arg.get_long_help()].into_iter().flatten();
                texts.map(move |text| format!("{text} ({name} {})", arg.get_id()))
            })
            .filter(|text| !verbs.contains(&text.split([' ', ',']).next().unwrap_or_default()))
            .collect();
        assert!(without.is_empty(), "{without:#?}");
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
}
