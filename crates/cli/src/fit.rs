//! `fitgpt fit`: the options that make a config fit, ranked.

use std::path::Path;

use clap::{Arg, ArgMatches, Command};
use fitgpt_checkpoint::output::Replace;
use fitgpt_commands::{
    Failure,
    engines::ChosenEngines,
    fit::{OptionsRequest, RankedOptions, WRITTEN_BY_FIT},
    plan,
    target::EngineChoice,
};
use fitgpt_config::Config;

use super::{Outcome, OutputStyle, args, fit_table, plan_text};
use crate::{
    terminal,
    words::{Say as _, fit as messages, lang, localized, names},
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
    args::check_output(matches, "write", Replace::Like(&[WRITTEN_BY_FIT]))?;
    let file = args::last_file(matches)?;
    let ChosenEngines { engines, note } = args::engines(matches, style, &config, &source.written);
    let path = matches.get_one::<String>("write").map(String::as_str);
    if path.is_some() && engines.len() > 1 {
        return Err(
            Failure::new("usage", messages::whose_config()).hint(messages::name_the_engine())
        );
    }
    if let Some(note) = note {
        terminal::note(&note.say(lang()));
    }
    let search = |engine: &EngineChoice| {
        OptionsRequest {
            config: &config,
            vocab,
            engine: *engine,
            device: args::device(matches, engines),
            ranks: args::ranks(matches),
            source: &source,
            file: file.as_ref().map(|(name, text)| (name.as_str(), text.as_str())),
        }
        .search()
    };
    let all = engines.iter().map(search).collect::<Result<Vec<_>, _>>()?;
    // The answer is FitGPT's if there are two.
    let options = all.last().expect("there is at least one engine");
    match style {
        OutputStyle::Json => terminal::json(&options.document()),
        OutputStyle::Text => print(&all, &config),
    }
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
        print_next(&all, path);
    }
    Ok(if options.recommended().is_some() { Outcome::Yes } else { Outcome::No })
}

/// Prints what was found for each engine.
fn print(all: &[RankedOptions], config: &Config) {
    for (index, options) in all.iter().enumerate() {
        let RankedOptions { target, notes, .. } = options;
        for note in notes {
            terminal::note(&note.say(lang()));
        }
        if index > 0 {
            terminal::line("");
        }
        let engine = plan_text::engine_of(target, config);
        let precision = target.precision.name();
        terminal::line(&plan_text::heading_of(&engine, &target.device.name, precision));
        if target.engine == EngineChoice::Fitgpt && target.is_card {
            terminal::line(&plan_text::untried());
        }
        terminal::out(&localized(fit_table::table(options)));
    }
}

/// Prints the command to run next: the recommended option of each engine, from the file if it was
/// written to one. If nothing can be recommended, `fit` for another card.
fn print_next(all: &[RankedOptions], file: Option<&str>) {
    let commands: Vec<_> = all.iter().filter_map(|options| options.next_commands(file)).collect();
    terminal::line("");
    if commands.is_empty() {
        let next = names::next("fitgpt fit … --gpu NAME");
        terminal::line(&format!("{next}  ({})", messages::other_card()));
    }
    for commands in commands {
        terminal::line(&names::next(commands.join(" && ")));
    }
}
