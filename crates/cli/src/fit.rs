//! `fitgpt fit`: the options that make a config fit, ranked.

use std::path::Path;

use clap::{Arg, ArgMatches, Command};
use fitgpt_checkpoint::output::Replace;
use fitgpt_commands::{
    Failure,
    fit::{OptionsRequest, RankedOptions},
    plan,
};

use super::{Outcome, OutputStyle, args, fit_table};
use crate::{
    terminal,
    words::{fit as messages, localized, names},
};

/// The command with its flags.
pub(super) fn command() -> Command {
    args::with_keys(
        args::with_ranks(args::with_target(Command::new("fit"), &["fitgpt", "torch"]))
            .about("Finds changes that make a config fit: ranked, each one planned")
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
    )
}

pub(super) fn run(matches: &ArgMatches, style: OutputStyle) -> Result<Outcome, Failure> {
    let source = args::source(matches, None)?;
    let config = source.written.resolve()?;
    let vocab = plan::vocab(&config)?;
    args::check_output(matches, "write", Replace::Any)?;
    let file = args::last_file(matches)?;
    let [engine] = *args::engines(matches) else { unreachable!("clap accepts one engine") };
    let options = OptionsRequest {
        config: &config,
        vocab,
        engine,
        device: args::device(matches),
        ranks: args::ranks(matches),
        source: &source,
        file: file.as_ref().map(|(name, text)| (name.as_str(), text.as_str())),
    }
    .search()?;
    match style {
        OutputStyle::Json => terminal::json(&options.document()),
        OutputStyle::Text => terminal::out(&localized(fit_table::table(&options))),
    }
    let path = matches.get_one::<String>("write").map(String::as_str);
    let is_written = match path {
        Some(path) => options.write(Path::new(path))?,
        None => false,
    };
    if style == OutputStyle::Text {
        match path {
            Some(path) if is_written => terminal::line(&messages::written_to(path)),
            Some(path) => terminal::line(&messages::not_written(path)),
            None => {}
        }
        terminal::line(&next_step(&options, path));
    }
    Ok(if options.recommended().is_some() { Outcome::Yes } else { Outcome::No })
}

/// The command to run next: the recommended option, from the file if it was written to one. If
/// nothing can be recommended, `fit` for another card.
fn next_step(options: &RankedOptions, file: Option<&str>) -> String {
    match options.next_commands(file) {
        Some(commands) => format!("\n{}", names::next(commands.join(" && "))),
        None => {
            format!("\n{}  ({})", names::next("fitgpt fit … --gpu NAME"), messages::other_card())
        }
    }
}
