//! `fitgpt fit`: the ways to make a config fit, ranked.

use std::{fmt::Write as _, fs, path::Path};

use clap::ArgMatches;
use fitgpt_plan::fit::{self, Effect, Fit, FitOption, Note};
use serde_json::json;

use super::{Answer, Failure, Reader, args, place::Place, plan, ways};
use crate::{terminal, words::names};

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
        let failed = |error| Failure::new("file", format!("cannot write `{path}`: {error}"));
        fs::write(Path::new(path), text).map_err(failed)?;
        if reader == Reader::People {
            terminal::line(&format!("\nwritten to {path}"));
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

/// The ways as people read them.
fn table(found: &Fit, place: &Place) -> String {
    let original = &found.original;
    let mut text = format!(
        "as it is: {} at the peak ({}), {} on {} with {}\n",
        original.peak_bytes,
        original.peak_phase,
        names::verdict(original.verdict),
        place.device.name,
        place.device.usable_bytes,
    );
    for note in &found.notes {
        let _ = writeln!(text, "note: {}", note_text(note));
    }
    if found.options.is_empty() {
        text.push_str("\nnothing makes it fit\n");
        return text;
    }
    for (index, option) in found.options.iter().enumerate() {
        let mut marks = Vec::new();
        if found.recommended == Some(index) {
            marks.push("recommended");
        }
        if found.safest == Some(index) {
            marks.push("safest");
        }
        let marks =
            if marks.is_empty() { String::new() } else { format!("  <- {}", marks.join(", ")) };
        let changes = match fit::command_line(&option.changes) {
            changes if changes.is_empty() => "as it is".to_owned(),
            changes => changes,
        };
        let _ = write!(
            text,
            "\n{:>2}. {changes}{marks}\n    {}: peak {} ({}), {} less; {}, {} sequences a step",
            index + 1,
            names::verdict(option.verdict),
            option.peak_bytes,
            option.peak_phase,
            option.saved_bytes,
            effect(option.effect),
            option.effective_batch.sequences,
        );
        if option.extra_compute > 0.0 {
            let _ = write!(text, ", {:.0} % more work", option.extra_compute * 100.0);
        }
        if !option.patches.is_empty() {
            let _ = write!(text, "; nanoGPT needs the patches {}", option.patches.join(", "));
        }
        text.push('\n');
    }
    text
}

const fn effect(effect: Effect) -> &'static str {
    match effect {
        Effect::ChangesNothing => "changes nothing",
        Effect::SameMathematics => "the same mathematics",
        Effect::MicroBatch => "the same training in smaller micro-batches",
        Effect::Recompute => "the same training, some of it computed twice",
        Effect::ChangesRun => "another training",
    }
}

fn note_text(note: &Note) -> String {
    match note {
        Note::NoBf16 { instead } => {
            format!("this device has no bfloat16: write `dtype = '{instead}'`")
        }
        Note::StaticStateTooLarge { state_bytes, usable_bytes } => format!(
            "weights, gradients and moments alone need {state_bytes}, the device has \
             {usable_bytes}: no batch is small enough"
        ),
        Note::TooLargeForOnePiece { tensor, need_bytes, have_bytes } => {
            format!("`{tensor}` needs {need_bytes} in one piece, the device gives {have_bytes}")
        }
        Note::OtherSplit { batch_size, gradient_accumulation_steps, peak_bytes } => format!(
            "{batch_size} × {gradient_accumulation_steps} makes the same step too, with a peak \
             of {peak_bytes}"
        ),
    }
}
