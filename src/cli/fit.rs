//! `fitgpt fit`: the ways to make a config fit, ranked.

use std::{array, fmt::Write as _, fs, path::Path};

use clap::ArgMatches;
use fitgpt_plan::fit::{self, Fit, FitOption};
use serde_json::json;

use super::{Answer, Failure, Reader, args, place::Place, plan, ways};
use crate::{
    attempt::Attempt,
    terminal,
    words::{columns, errors::io, fit as said, left, names, right},
};

pub(super) fn run(matches: &ArgMatches, reader: Reader) -> Result<Answer, Failure> {
    let written = args::written(matches, None)?;
    let config = written.resolve()?;
    let place = Place::of(matches, &config)?;
    let vocab = plan::vocab(&config)?;
    let found = ways::all(&config, vocab, &place);

    let best = chosen(&found);
    let file = args::last_file(matches)?;
    let file = file.as_ref().map(|(name, text)| (name.as_str(), text.as_str()));
    let changes = best.map_or(&[][..], |option| &option.changes);
    let text = fit::write(file, &written, changes)?;
    match reader {
        Reader::Programs => {
            let mut answer = serde_json::to_value(&found).expect("a fit is plain data");
            answer["config"] = json!(text);
            terminal::line(&answer.to_string());
        }
        Reader::People => terminal::out(&table(&found, &place)),
    }
    if let (Some(path), Some(_)) = (matches.get_one::<String>("write"), best) {
        let path = Path::new(path);
        let failed = |error| Failure::new("file", io::failed(Attempt::Write, path, error));
        fs::write(path, text).map_err(failed)?;
        if reader == Reader::People {
            terminal::line(&said::written_to(path.display()));
        }
    }
    Ok(if best.is_some() { Answer::Yes } else { Answer::No })
}

/// What `--write` writes: the first that fits without a patch that is not there yet, else the
/// first that fits, the training kept where it can be.
fn chosen(found: &Fit) -> Option<&FitOption> {
    let index = found.without_patches.or(found.recommended);
    index
        .map(|index| &found.options[index])
        .or_else(|| found.options.iter().find(|option| option.fits))
}

/// The ways as people read them: a row of facts each, and under it what to change.
fn table(found: &Fit, place: &Place) -> String {
    let original = &found.original;
    let mut text = said::as_it_is(
        original.peak_bytes,
        names::phase(original.peak_phase),
        names::verdict(original.verdict),
        names::device(&place.device.name),
        place.device.usable_bytes,
    ) + "\n";
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
        let _ = write!(text, "\n{}\n", laid_out(row, widths));
        let Some(index) = index.checked_sub(1) else { continue };
        let option = &found.options[index];
        let changes = match fit::command_line(&option.changes) {
            changes if changes.is_empty() => said::unchanged(),
            changes => changes,
        };
        let _ = writeln!(text, "    {changes}{}", marks(found, index));
        if !option.patches.is_empty() {
            let _ = writeln!(text, "    {}", said::patches(option.patches.join(", ")));
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

/// What is said of the first among the options.
fn marks(found: &Fit, index: usize) -> String {
    let mut marks = Vec::new();
    if found.recommended == Some(index) {
        marks.push(said::recommended());
    }
    if found.safest == Some(index) {
        marks.push(said::safest());
    }
    if marks.is_empty() { String::new() } else { format!("  <- {}", marks.join(", ")) }
}
