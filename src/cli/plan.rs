//! `fitgpt plan`: the memory of every phase.

use clap::ArgMatches;
use fitgpt_plan::{
    config::{Config, Precision},
    report::{PlanReport, Verdict},
    torch,
};

use super::{
    Answer, Failure, Reader, args,
    place::{Engine, Place},
    ways,
};
use crate::{data::Dataset, picture::bars, run::setup::Setup, terminal, words};

pub(super) fn run(matches: &ArgMatches, reader: Reader) -> Result<Answer, Failure> {
    let config = args::written(matches, None)?.resolve()?;
    let place = Place::of(matches, &config)?;
    let vocab = vocab(&config)?;
    let report = &report(&config, vocab, &place)?;
    match reader {
        Reader::Programs => {
            let json = serde_json::to_string_pretty(report).expect("a report is plain data");
            terminal::line(&json);
        }
        Reader::People => {
            terminal::out(&text(report));
            if !report.fits {
                terminal::err(&refusal(report));
                let found = ways::all(&config, vocab, &place);
                terminal::err(&ways::hints(&found, place.engine));
            }
        }
    }
    Ok(if report.fits { Answer::Yes } else { Answer::No })
}

/// Plans for `place`.
pub(super) fn report(config: &Config, vocab: u32, place: &Place) -> Result<PlanReport, Failure> {
    let Place { device, overhead, precision, has_bf16, .. } = place.clone();
    if precision == Precision::Bfloat16 && !has_bf16 {
        terminal::note(&words::plan::no_bfloat16(&device.name));
    }
    match place.engine {
        Engine::Torch => Ok(torch::torch_report(config, vocab, precision, device, overhead)),
        Engine::Fitgpt => Ok(Setup::new(config, vocab, precision, device, overhead)?.report),
    }
}

/// The vocabulary: the config's, else what the data says, else GPT-2's. A plan needs no data,
/// so a dataset that is not there is no error here.
pub(super) fn vocab(config: &Config) -> Result<u32, Failure> {
    if config.vocab_size() > 0 {
        return Ok(config.vocab_size());
    }
    let here = std::path::Path::new(".");
    Ok(Dataset::vocab_size_of(config.dataset(), here)?)
}

/// The plan as people read it.
pub(super) fn text(report: &PlanReport) -> String {
    let batch = report.effective_batch;
    let config = &report.config;
    let [low, high] = report.overhead.range();
    let split = words::plan::split(
        config.batch_size(),
        config.gradient_accumulation_steps(),
        grouped(batch.sequences),
        grouped(batch.tokens),
    );
    let device = &report.device;
    let arena =
        words::plan::arena(report.arena_bytes, low, high, device.usable_bytes, &device.name);
    format!("{split}\n\n{}\n{arena}\n", bars::plan(report))
}

/// Why a plan cannot be run, with its largest terms.
pub(super) fn refusal(report: &PlanReport) -> String {
    let phase = report.phases.iter().find(|p| p.name == report.peak_phase);
    let terms = phase.map_or(String::new(), |phase| {
        let at = words::plan::peak_at(phase.at.index, phase.name, &phase.at.op);
        format!("\n  {at}\n{}", bars::terms(&phase.classes))
    });
    let [low, high] = report.overhead.range();
    let (need, budget) = (report.arena_bytes, report.device.usable_bytes);
    let said = if report.verdict == Verdict::Tight {
        words::plan::refused_tight(need, low, high, budget)
    } else {
        words::plan::refused(need, high, budget)
    };
    format!("{}{said}\n{terms}", words::names::error())
}

/// `524,288`.
pub(super) fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_grouped_by_three() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(524_288), "524,288");
        assert_eq!(grouped(1_000_000), "1,000,000");
    }
}
