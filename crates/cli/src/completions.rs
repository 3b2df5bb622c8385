//! `fitgpt completions`: shell completions of commands, flags, keys and card names.

use clap::{Arg, ArgMatches, Command};
use clap_complete::Shell;
use fitgpt_commands::Failure;

use super::Outcome;
use crate::terminal;

pub(super) fn command() -> Command {
    Command::new("completions")
        .about("Prints shell completions of commands, flags, keys and card names")
        .arg(
            Arg::new("SHELL")
                .required(true)
                .value_parser(clap::value_parser!(Shell))
                .help("Print the completions of this shell"),
        )
        .after_help(
            "To install them, once:\n\n  \
             bash        fitgpt completions bash > ~/.local/share/bash-completion/completions/fitgpt\n  \
             zsh         fitgpt completions zsh > ~/.zfunc/_fitgpt\n              \
             with `fpath+=~/.zfunc; autoload -Uz compinit; compinit` in ~/.zshrc\n  \
             fish        fitgpt completions fish > ~/.config/fish/completions/fitgpt.fish\n  \
             powershell  fitgpt completions powershell >> $PROFILE\n  \
             elvish      fitgpt completions elvish >> ~/.config/elvish/rc.elv\n\n\
             The folders of bash, zsh and fish must exist: `mkdir -p` makes them. Then open a new\n\
             shell, or run `source <(fitgpt completions bash)` in this one.",
        )
}

#[expect(clippy::unnecessary_wraps, reason = "every command has this signature")]
/// Prints the completions of `all`, the whole command line.
pub(super) fn run(matches: &ArgMatches, all: &mut Command) -> Result<Outcome, Failure> {
    let shell = *matches.get_one::<Shell>("SHELL").expect("clap requires it");
    let mut script = Vec::new();
    clap_complete::generate(shell, all, "fitgpt", &mut script);
    terminal::out(&String::from_utf8_lossy(&script));
    Ok(Outcome::Yes)
}
