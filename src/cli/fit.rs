//! `fitgpt fit`: the options that make a config fit, ranked.

use std::{array, fmt::Write as _, fs, path::Path};

use clap::ArgMatches;
use fitgpt_plan::{
    config::Written,
    fit::{self, Fit, FitOption},
    report::Verdict,
};
use serde_json::{Value, json};

use super::{
    Answer, Failure, Reader, args, fit_options, plan,
    plan_target::{EngineChoice, PlanTarget},
};
use crate::{
    attempt::Attempt,
    terminal,
    words::{columns, errors::io, fit as said, hints, left, localized, names, right},
};

pub(super) fn run(matches: &ArgMatches, reader: Reader) -> Result<Answer, Failure> {
    let written = args::written(matches, None)?;
    let config = written.resolve()?;
    let target = PlanTarget::of(matches, &config)?;
    let vocab = plan::vocab(&config)?;
    let found = fit_options::all(&config, vocab, &target);
    let lines = Lines { files: args::files(matches), written: &written, engine: target.engine };

    let recommended = found.recommended.map(|index| &found.options[index]);
    let file = args::last_file(matches)?;
    let file = file.as_ref().map(|(name, text)| (name.as_str(), text.as_str()));
    let text = recommended.map(|option| fit::write(file, &written, &option.changes)).transpose()?;
    match reader {
        Reader::Programs => terminal::line(&json(&found, &lines, text.as_deref()).to_string()),
        Reader::People => terminal::out(&localized(table(&found, &target, &lines))),
    }
    if let Some(path) = matches.get_one::<String>("write") {
        let told = write(Path::new(path), text.as_deref())?;
        if reader == Reader::People {
            terminal::line(&told);
        }
    }
    Ok(if recommended.is_some() { Answer::Yes } else { Answer::No })
}

/// What a user pastes to run an option.
struct Lines<'a> {
    files: Vec<String>,
    written: &'a Written,
    engine: EngineChoice,
}

impl Lines<'_> {
    fn of(&self, option: &FitOption) -> Vec<String> {
        let Self { files, written, engine } = self;
        match engine {
            EngineChoice::Fitgpt => vec![fit::fitgpt_command(files, written, &option.changes)],
            EngineChoice::Torch => {
                fit::nanogpt_commands(files, written, &option.changes, &option.patches)
            }
        }
    }
}

/// The document for programs: `config` is what `--write` writes, null if it writes nothing.
fn json(found: &Fit, lines: &Lines<'_>, text: Option<&str>) -> Value {
    let mut answer = serde_json::to_value(found).expect("a fit is plain data");
    answer["config"] = json!(text);
    for (index, option) in found.options.iter().enumerate() {
        answer["options"][index]["command"] = json!(lines.of(option).join("\n"));
    }
    answer
}

/// Writes the recommended option, or says why nothing is written.
fn write(path: &Path, text: Option<&str>) -> Result<String, Failure> {
    let Some(text) = text else { return Ok(said::not_written(path.display())) };
    let failed = |error| Failure::new("file", io::failed(Attempt::Write, path, error));
    fs::write(path, text).map_err(failed)?;
    Ok(said::written_to(path.display()))
}

/// The options as people read them: a row of facts each, and under it what to paste.
fn table(found: &Fit, target: &PlanTarget, lines: &Lines<'_>) -> String {
    let original = &found.original;
    let mut text = String::new();
    if found.recommended.is_none() {
        let _ = writeln!(text, "{}", hints::nothing_keeps());
    }
    let device = names::device(&target.device.name);
    let usable = target.device.usable_bytes;
    let phase = names::phase(original.peak_phase);
    let _ = match original.verdict {
        Verdict::Fits => {
            let [_, high] = original.overhead.range();
            let spare = usable.saturating_sub(original.arena_bytes + high);
            writeln!(text, "{}", said::fits_as_it_is(original.peak_bytes, phase, device, spare))
        }
        verdict => {
            let verdict = names::verdict(verdict);
            let line = said::as_it_is(original.peak_bytes, phase, verdict, device, usable);
            writeln!(text, "{line}")
        }
    };
    for note in &found.notes {
        let _ = writeln!(text, "{}{}", names::note(), said::note(note));
    }
    if found.options.is_empty() {
        return text + &said::nothing_fits();
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
            let _ = writeln!(text, "    {}", said::upgrade());
        }
        for line in lines.of(option) {
            let _ = writeln!(text, "    {line}");
        }
    }
    text
}

const COLUMNS: usize = 8;

/// What the columns hold.
fn head() -> [String; COLUMNS] {
    [
        "#".to_owned(),
        said::verdict(),
        said::peak(),
        said::phase(),
        said::saved(),
        said::work(),
        said::sequences(),
        said::training(),
    ]
}

fn row(index: usize, option: &FitOption) -> [String; COLUMNS] {
    [
        (index + 1).to_string(),
        names::verdict(option.verdict),
        option.peak_bytes.to_string(),
        names::phase(option.peak_phase),
        option.saved_bytes.to_string(),
        format!("+{:.0} %", option.extra_compute * 100.0),
        option.effective_batch.sequences.to_string(),
        said::effect(option.effect),
    ]
}

/// A row with its columns under those of the others: words to the left, numbers to the right.
fn laid_out(row: &[String; COLUMNS], widths: [usize; COLUMNS]) -> String {
    let cell = |column: usize| match column {
        1 | 3 | 7 => left(&row[column], widths[column]),
        _ => right(&row[column], widths[column]),
    };
    let cells: Vec<_> = (0..COLUMNS).map(cell).collect();
    cells.join("  ").trim_end().to_owned()
}

/// What sets an option apart. A config that fits needs no recommendation.
fn marks(found: &Fit, index: usize) -> String {
    let mut marks = Vec::new();
    if found.recommended == Some(index) && !found.options[index].changes.is_empty() {
        marks.push(said::recommended());
    }
    if found.safest == Some(index) && found.options.len() > 1 {
        marks.push(said::safest());
    }
    if marks.is_empty() { String::new() } else { format!("  <- {}", marks.join(", ")) }
}
