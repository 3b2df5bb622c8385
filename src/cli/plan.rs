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
};
use crate::{data::Dataset, picture::bars, run::setup::Setup, terminal};

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
            }
        }
    }
    Ok(if report.fits { Answer::Yes } else { Answer::No })
}

/// Plans for `place`.
fn report(config: &Config, vocab: u32, place: &Place) -> Result<PlanReport, Failure> {
    let Place { device, overhead, precision, has_bf16, runner, .. } = place.clone();
    if precision == Precision::Bfloat16 && !has_bf16 {
        let name = &device.name;
        terminal::note(&format!("{name} has no bfloat16: write `dtype = 'float16'`"));
    }
    match place.engine {
        Engine::Torch => Ok(torch::torch_report(config, vocab, precision, device, overhead)),
        Engine::Fitgpt => {
            Ok(Setup::new(config, vocab, precision, &runner, device, overhead)?.report)
        }
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
    format!(
        "micro-batch {} × {} = {} sequences, {} tokens a step\n\n{}\n\
         arena {} · beside it {} to {} · budget {} of {}\n",
        config.batch_size(),
        config.gradient_accumulation_steps(),
        grouped(batch.sequences),
        grouped(batch.tokens),
        bars::plan(report),
        report.arena_bytes,
        low,
        high,
        report.device.usable_bytes,
        report.device.name,
    )
}

/// Why a plan cannot be run, with its largest terms.
pub(super) fn refusal(report: &PlanReport) -> String {
    let phase = report.phases.iter().find(|p| p.name == report.peak_phase);
    let terms = phase.map_or(String::new(), |phase| {
        let (op, index, name) = (&phase.at.op, phase.at.index, phase.name);
        format!("\n  peak at op {index} of `{name}`, `{op}`\n{}", bars::terms(&phase.classes))
    });
    let [low, high] = report.overhead.range();
    let beside = if report.verdict == Verdict::Tight {
        format!("; it fits only if no more than {low} are needed beside it, and {high} can be")
    } else {
        format!(" and up to {high} beside it")
    };
    format!(
        "error: the plan needs {}{beside}, the budget is {}\n{terms}",
        report.arena_bytes, report.device.usable_bytes
    )
}

/// A verdict in people's words.
pub(super) const fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Fits => "fits",
        Verdict::Tight => "tight",
        Verdict::No => "does not fit",
    }
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
