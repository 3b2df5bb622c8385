//! `fitgpt doctor`: explains why a run ran out of memory.

use std::{
    io::{self, IsTerminal as _},
    path::Path,
};

use clap::{Arg, ArgMatches, Command};
use fitgpt_commands::{
    Failure, config_file,
    doctor::{self, InputLimits, RunFacts},
};
use fitgpt_doctor::{MemoryKind, diagnose, pages as summaries, text, topics};
use fitgpt_files::os;

use super::{Outcome, OutputStyle, args, keys};
use crate::{
    terminal,
    words::{doctor as messages, lang},
};

/// Examples, printed if there is no input.
const EXAMPLES: &str = "
  fitgpt doctor train.log --config config/train_gpt2.py --gpu \"RTX 4070\"
  python train.py 2>&1 | fitgpt doctor --batch_size=16
  fitgpt doctor --explain stale-logits
";

/// Examples in the help.
const EXAMPLES_OF_HELP: &str = "Examples:
  fitgpt doctor train.log --config config/train_gpt2.py
  python train.py 2>&1 | fitgpt doctor --batch_size=16 --gpu \"RTX 4070\"
  fitgpt doctor --explain stale-logits";

/// The command with its flags.
pub(super) fn command() -> Command {
    keys::with_keys(args::with_json(
        Command::new("doctor")
            .about("Reads an out-of-memory log: what failed, which tensor, why, what to change")
            .arg(Arg::new("LOG").help("Read this log or memory snapshot; stdin if absent or `-`"))
            .arg(
                Arg::new("config")
                    .long("config")
                    .value_name("CONFIG.py")
                    .help("Compute fixes for this config of the run"),
            )
            .arg(Arg::new("model").long("model").value_name("PATH").help(
                "Read the model from its config.json or folder, if the log names no known one",
            ))
            .arg(args::gpu())
            .arg(
                Arg::new("explain")
                    .long("explain")
                    .num_args(0..=1)
                    .default_missing_value("")
                    .value_name("RULE")
                    .help("Print the page of a rule or of a common claim"),
            )
            .after_help(EXAMPLES_OF_HELP)
            .after_long_help(format!("{EXAMPLES_OF_HELP}\n\nPages of --explain:\n{}", pages())),
    ))
}

/// The names of all pages, in lines.
fn pages() -> String {
    const COLUMNS: usize = 78;
    let mut lines = vec![String::from(" ")];
    for topic in topics() {
        let line = lines.last_mut().expect("there is a line");
        if line.len() + 1 + topic.len() > COLUMNS {
            lines.push(format!("  {topic}"));
        } else {
            line.push(' ');
            line.push_str(topic);
        }
    }
    lines.join("\n")
}

pub(super) fn run(matches: &ArgMatches, style: OutputStyle) -> Result<Outcome, Failure> {
    let flag = |name| matches.get_one::<String>(name).map(String::as_str);
    if let Some(topic) = flag("explain") {
        print_page(topic, style)?;
        return Ok(Outcome::Yes);
    }
    let log = flag("LOG").filter(|log| *log != "-");
    if log.is_none() && io::stdin().is_terminal() {
        terminal::out(&(messages::examples() + EXAMPLES));
        return Ok(Outcome::No);
    }
    let input = match log.map(Path::new) {
        Some(path) => {
            let mut file =
                os::open_endable(path).map_err(|error| Failure::unreadable(path, &error))?;
            doctor::read(&mut file, path, InputLimits::ANY_LOG)?
        }
        None => doctor::read(&mut io::stdin().lock(), Path::new("stdin"), InputLimits::ANY_LOG)?,
    };
    let config = flag("config");
    let config_text = config.map(|path| config_file::text_of(Path::new(path))).transpose()?;
    let facts = RunFacts {
        config: config.zip(config_text.as_deref()),
        keys: args::keys(matches),
        gpu: flag("gpu"),
        model: flag("model").map(Path::new),
    };
    let context = facts.context(&facts.keys_of_weights()?)?;
    let diagnosis = diagnose(&input.into_log(), &context);
    match style {
        OutputStyle::Json => terminal::json(&doctor::document(&diagnosis, lang())),
        OutputStyle::Text => terminal::out(&text(lang(), &diagnosis, &context)),
    }
    Ok(if diagnosis.kind == MemoryKind::None && diagnosis.claims.is_empty() {
        Outcome::No
    } else {
        Outcome::Yes
    })
}

/// The page of a rule or claim, or without a name the list of all pages.
fn print_page(topic: &str, style: OutputStyle) -> Result<(), Failure> {
    let lang = lang();
    match (topic.is_empty(), style) {
        (true, OutputStyle::Json) => {
            terminal::json(&serde_json::json!({ "pages": summaries(lang) }));
        }
        (true, OutputStyle::Text) => {
            for page in summaries(lang) {
                terminal::line(&format!("{}\n    {}", page.name, page.summary));
            }
        }
        (false, OutputStyle::Json) => {
            let text = doctor::page(topic, lang)?.trim_end();
            terminal::json(&serde_json::json!({ "name": topic, "text": text }));
        }
        (false, OutputStyle::Text) => terminal::line(doctor::page(topic, lang)?.trim_end()),
    }
    Ok(())
}
