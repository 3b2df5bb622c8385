//! `fitgpt fit`: the options that make a config fit, ranked.

use std::{array, fmt::Write as _, path::Path};

use clap::{Arg, ArgMatches, Command};
use fitgpt_checkpoint::output::{self, Replace};
use fitgpt_commands::{
    Failure, fit_options,
    target::{EngineChoice, PlanTarget},
};
use fitgpt_config::Written;
use fitgpt_files::attempt::Attempt;
use fitgpt_fit::fit::{self, Fit, FitOption};
use fitgpt_model::report::Verdict;
use fitgpt_say::Say as _;
use serde_json::{Value, json};

use super::{Outcome, OutputStyle, args, plan, plan_ranks, target};
use crate::{
    terminal,
    words::{columns, fit as messages, lang, left, localized, names, right},
};

/// The command with its flags.
pub(super) fn command() -> Command {
    args::with_keys(
        plan_ranks::with_ranks(args::with_target(Command::new("fit"), &["fitgpt", "torch"]))
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
    let written = args::written(matches, None)?;
    let mut config = written.resolve()?;
    let vocab = plan::vocab(&config)?;
    let ranks = plan_ranks::of(matches, &config, vocab)?;
    let mut target = target::of(matches, &config)?;
    if let Some((with_lanes, share)) = ranks {
        (config, target.share) = (with_lanes, share);
    }
    args::check_output(matches, "write", Replace::Any)?;
    let found = fit_options::all(&config, vocab, &target);
    let files = args::files(matches);
    let lines = OptionCommands { files, written: &written, engine: target.engine };

    let recommended = found.recommended.map(|index| &found.options[index]);
    let file = args::last_file(matches)?;
    let file = file.as_ref().map(|(name, text)| (name.as_str(), text.as_str()));
    let changes = recommended.map_or(&[][..], |option| &option.changes);
    let text = fit::write(file, &written, changes)?;
    match style {
        OutputStyle::Json => terminal::json(&json(&found, &lines, &text)),
        OutputStyle::Text => terminal::out(&localized(table(&found, &target, &lines))),
    }
    if let Some(path) = matches.get_one::<String>("write") {
        let message = write(Path::new(path), recommended.map(|_| text.as_str()))?;
        if style == OutputStyle::Text {
            terminal::line(&message);
        }
    }
    if style == OutputStyle::Text {
        let file = matches.get_one::<String>("write").filter(|_| recommended.is_some());
        terminal::line(&next_step(recommended, file, &lines));
    }
    Ok(if recommended.is_some() { Outcome::Yes } else { Outcome::No })
}

/// The command to run next: the recommended option, from the file if it was written to one. If
/// nothing can be recommended, `fit` for another card.
fn next_step(
    recommended: Option<&FitOption>,
    file: Option<&String>,
    lines: &OptionCommands<'_>,
) -> String {
    let Some(option) = recommended else {
        return format!(
            "\n{}  ({})",
            names::next("fitgpt fit … --gpu NAME"),
            messages::other_card()
        );
    };
    let command = match file {
        Some(file) => OptionCommands {
            files: vec![file.clone()],
            written: &Written::new(),
            engine: lines.engine,
        }
        .of(&FitOption { changes: Vec::new(), ..option.clone() }),
        None => lines.of(option),
    };
    format!("\n{}", names::next(command.join(" && ")))
}

/// Builds the commands that run an option.
pub(super) struct OptionCommands<'a> {
    pub(super) files: Vec<String>,
    pub(super) written: &'a Written,
    pub(super) engine: EngineChoice,
}

impl OptionCommands<'_> {
    fn of(&self, option: &FitOption) -> Vec<String> {
        let Self { files, written, engine } = self;
        match engine {
            EngineChoice::Fitgpt => {
                let files = args::files_to_train(files.clone());
                vec![fit::fitgpt_command(&files, written, &option.changes)]
            }
            EngineChoice::Torch => {
                fit::nanogpt_commands(files, written, &option.changes, &option.patches)
            }
        }
    }
}

/// The document for programs. `config` is the text that `--write` writes, or the unchanged config
/// if no option keeps the training and fits.
pub(super) fn json(found: &Fit, lines: &OptionCommands<'_>, text: &str) -> Value {
    let mut answer = serde_json::to_value(found).expect("a fit is plain data");
    answer["config"] = json!(text);
    for (index, option) in found.options.iter().enumerate() {
        answer["options"][index]["command"] = json!(lines.of(option).join("\n"));
    }
    answer
}

/// Writes the recommended option, or reports why nothing is written.
fn write(path: &Path, text: Option<&str>) -> Result<String, Failure> {
    let Some(text) = text else { return Ok(messages::not_written(path.display())) };
    output::write_file(path, text).map_err(|error| Failure::io(Attempt::Write, path, &error))?;
    Ok(messages::written_to(path.display()))
}

/// The options as text: a row of figures each, followed by the commands to paste.
fn table(found: &Fit, target: &PlanTarget, lines: &OptionCommands<'_>) -> String {
    let original = &found.original;
    let mut text = String::new();
    if found.recommended.is_none() {
        let _ = writeln!(text, "{}", fit_options::nothing_keeps().say(lang()));
    }
    let device = names::device(&target.device.name);
    let usable = target.device.usable_bytes;
    let phase = names::phase(original.peak_phase);
    let _ = match original.verdict {
        Verdict::Fits => {
            let [_, high] = original.overhead.range();
            let spare = usable.saturating_sub(original.arena_bytes + high);
            writeln!(text, "{}", messages::fits_as_it_is(original.peak_bytes, phase, device, spare))
        }
        verdict => {
            let verdict = verdict.say(lang());
            let line = messages::as_it_is(original.peak_bytes, phase, verdict, device, usable);
            writeln!(text, "{line}")
        }
    };
    for note in &found.notes {
        let _ = writeln!(text, "{}{}", names::note(), messages::note(note));
    }
    if found.options.is_empty() {
        return text + &messages::nothing_fits();
    }
    let mut rows = vec![head()];
    rows.extend(found.options.iter().enumerate().map(|(index, option)| row(index, option)));
    let widths: [usize; COLUMNS] =
        array::from_fn(|column| rows.iter().map(|row| columns(&row[column])).max().unwrap_or(0));
    for (index, row) in rows.iter().enumerate() {
        let _ = write!(text, "\n{}", laid_out(row, widths));
        let Some(index) = index.checked_sub(1) else {
            text.push('\n');
            continue;
        };
        let option = &found.options[index];
        let _ = writeln!(text, "{}", marks(found, index));
        if !option.upgrades.is_empty() {
            let _ = writeln!(text, "    {}", messages::upgrade());
        }
        for line in lines.of(option) {
            let _ = writeln!(text, "    {line}");
        }
    }
    text
}

const COLUMNS: usize = 8;

/// The column headings.
fn head() -> [String; COLUMNS] {
    [
        "#".to_owned(),
        messages::verdict(),
        messages::peak(),
        messages::phase(),
        messages::saved(),
        messages::work(),
        messages::sequences(),
        messages::training(),
    ]
}

fn row(index: usize, option: &FitOption) -> [String; COLUMNS] {
    [
        (index + 1).to_string(),
        option.verdict.say(lang()),
        option.peak_bytes.to_string(),
        names::phase(option.peak_phase),
        option.saved_bytes.to_string(),
        format!("+{:.0} %", option.extra_compute * 100.0),
        option.effective_batch.sequences.to_string(),
        messages::effect(option.effect),
    ]
}

/// A row with aligned columns: words to the left, numbers to the right.
fn laid_out(row: &[String; COLUMNS], widths: [usize; COLUMNS]) -> String {
    let cell = |column: usize| match column {
        1 | 3 | 7 => left(&row[column], widths[column]),
        _ => right(&row[column], widths[column]),
    };
    let cells: Vec<_> = (0..COLUMNS).map(cell).collect();
    cells.join("  ").trim_end().to_owned()
}

/// The marks of an option. A config that fits gets no recommendation.
fn marks(found: &Fit, index: usize) -> String {
    let mut marks = Vec::new();
    if found.recommended == Some(index) && !found.options[index].changes.is_empty() {
        marks.push(messages::recommended());
    }
    if found.safest == Some(index) && found.options.len() > 1 {
        marks.push(messages::safest());
    }
    if marks.is_empty() { String::new() } else { format!("  <- {}", marks.join(", ")) }
}
