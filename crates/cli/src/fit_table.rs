//! The options of `fit` as a table, with the commands to paste.

use std::{array, fmt::Write as _};

use fitgpt_commands::{fit::RankedOptions, fit_options};
use fitgpt_fit::fit::{Fit, FitOption};
use fitgpt_model::report::Verdict;

use crate::words::{Say as _, columns, fit as messages, lang, left, names, right};

/// The options as text: a row of figures each, followed by the commands to paste.
pub(crate) fn table(options: &RankedOptions) -> String {
    let RankedOptions { found, target, commands, .. } = options;
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
        for line in &commands[index] {
            let _ = writeln!(text, "    {line}");
        }
        if let Some((_, iters)) = option.changes.iter().find(|(key, _)| *key == "eval_iters") {
            let config = &original.config;
            let sequences = u64::from(config.eval_iters()) * u64::from(config.eval_batch_size());
            let _ = writeln!(text, "    {}", messages::same_evaluation(iters, sequences));
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
