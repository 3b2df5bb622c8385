//! `fitgpt doctor`: why somebody's run died.

use std::{
    fmt::Write as _,
    fs::File,
    io::{self, IsTerminal as _, Read},
    path::Path,
};

use clap::ArgMatches;
use fitgpt_doctor::{
    Case, Diagnosis, Fix, Kind, diagnose, explain, parse::Reader as LogReader, topics, words,
};
use fitgpt_plan::{
    config::Config,
    device,
    fit::{self, Engine},
    report::Device,
    torch,
};

use super::{Answer, Failure, Reader, args};
use crate::{data::GPT2_VOCAB_SIZE, terminal, words::names};

/// What to try where there is nothing to read.
const EXAMPLES: &str = "\
fitgpt doctor reads a log from a file or from stdin:

  fitgpt doctor train.log --config config/train_gpt2.py --gpu \"RTX 4070\"
  python train.py 2>&1 | fitgpt doctor --batch_size=16
  fitgpt doctor --explain stale-logits
";

pub(super) fn run(matches: &ArgMatches, reader: Reader) -> Result<Answer, Failure> {
    if let Some(topic) = matches.get_one::<String>("explain") {
        return page(topic);
    }
    let log = matches.get_one::<String>("LOG").map(String::as_str).filter(|log| *log != "-");
    if log.is_none() && io::stdin().is_terminal() {
        terminal::out(EXAMPLES);
        return Ok(Answer::No);
    }
    let log = match log {
        Some(path) => {
            let path = Path::new(path);
            let unreadable = |error: io::Error| Failure::unreadable(path, &error);
            read(&mut File::open(path).map_err(unreadable)?).map_err(unreadable)?
        }
        None => read(&mut io::stdin().lock())
            .map_err(|error| Failure::unreadable(Path::new("stdin"), &error))?,
    };

    let mut case = Case::default();
    if let Some(path) = matches.get_one::<String>("config") {
        let (text, facts) = (args::text_of(Path::new(path))?, args::facts());
        case.read_config(path, &text, &facts);
    }
    for (key, value) in args::keys(matches) {
        case.set(key, value);
    }
    if let Some(name) = matches.get_one::<String>("gpu") {
        case.gpu = Some(device::find(name).map_err(|error| Failure::new("device", error))?);
    }

    let diagnosis = diagnose(&log, &case, &fixes);
    match reader {
        Reader::Programs => {
            let json = serde_json::to_string(&diagnosis).expect("a diagnosis is plain data");
            terminal::line(&json);
        }
        Reader::People => terminal::out(&told(&diagnosis)),
    }
    Ok(if diagnosis.kind == Kind::None { Answer::No } else { Answer::Yes })
}

/// Streams a log of any length.
fn read(source: &mut dyn Read) -> io::Result<fitgpt_doctor::parse::Log> {
    let mut reader = LogReader::default();
    let mut piece = vec![0; 1 << 16];
    loop {
        match source.read(&mut piece) {
            Ok(0) => return Ok(reader.finish()),
            Ok(count) => reader.push(&piece[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// The page of a rule or a claim.
fn page(topic: &str) -> Result<Answer, Failure> {
    let Some(page) = explain(topic) else {
        let all: Vec<_> = topics().into_iter().collect();
        let message = format!("there is no page `{topic}`");
        return Err(Failure::new("explain", message).hint(format!("pages: {}", all.join(", "))));
    };
    terminal::line(page.trim_end());
    Ok(Answer::Yes)
}

/// The ways out under PyTorch, each computed.
fn fixes(config: &Config, device: &Device) -> Vec<Fix> {
    let vocab = match config.vocab_size() {
        0 => GPT2_VOCAB_SIZE,
        vocab => vocab,
    };
    let precision = config.precision_or(fitgpt_plan::config::Precision::Bfloat16);
    let found = fit::fit(&fit::Case {
        config,
        vocab,
        engine: Engine::torch(precision),
        device,
        overhead: torch::overhead(config),
        has_bf16: true,
    });
    let fix = |option: fit::FitOption| Fix {
        engine: "torch",
        changes: option.changes.into_iter().map(|(key, value)| (key.to_owned(), value)).collect(),
        peak_bytes: option.peak_bytes.get(),
        saved_bytes: option.saved_bytes.get(),
        fits: option.fits,
        verdict: option.verdict,
        keeps_training: option.keeps_training,
        extra_compute: option.extra_compute,
        effective_batch: option.effective_batch,
    };
    found.options.into_iter().map(fix).collect()
}

/// What was seen and concluded, then the ways out.
fn told(diagnosis: &Diagnosis) -> String {
    let mut text = words::diagnosis(diagnosis);
    if !diagnosis.fixes.is_empty() {
        text.push_str("\nways out, each computed:\n");
    }
    for fix in diagnosis.fixes.iter().take(6) {
        let changes: Vec<_> =
            fix.changes.iter().map(|(key, value)| format!("--{key}={value}")).collect();
        let verdict = names::verdict(fix.verdict);
        let training = if fix.keeps_training { "the same training" } else { "another training" };
        let peak = words::size(fix.peak_bytes);
        let changes = changes.join(" ");
        let _ = write!(text, "  {changes}\n      {verdict}, peak {peak}, {training}\n");
    }
    text
}
