//! `fitgpt doctor`: why somebody's run died.

use std::{
    fmt::Write as _,
    fs::File,
    io::{self, IsTerminal as _, Read},
    path::Path,
};

use clap::ArgMatches;
use fitgpt_doctor::{
    Case, Certainty, Diagnosis, Finding, Fix, Kind, Language, Want, diagnose, explain,
    parse::Reader as LogReader, size, topics,
};
use fitgpt_plan::{
    config::{Config, Written},
    device,
    family::Family,
    fit::{self, Engine},
    report::Device,
    torch,
};

use super::{Answer, Failure, Reader, args, origin};
use crate::{
    data::GPT2_VOCAB_SIZE,
    terminal,
    words::{self, Lang, doctor as said, names},
};

/// What to try where there is nothing to read.
const EXAMPLES: &str = "
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
        terminal::out(&(said::examples() + EXAMPLES));
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
    for (key, value) in weights_keys(matches)? {
        case.set(key, &value);
    }
    if let Some(name) = matches.get_one::<String>("gpu") {
        case.gpu = Some(device::find(name)?);
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

/// The keys of the weights that the config or the command line begins from, if they are known
/// here. Weights of another machine are nobody's fault; a model that is not supported is.
fn weights_keys(matches: &ArgMatches) -> Result<Vec<(&'static str, String)>, Failure> {
    let mut written = Written::new();
    if let Some(path) = matches.get_one::<String>("config") {
        // What is wrong with it is part of the diagnosis.
        let _ = written.read_python(path, &args::text_of(Path::new(path))?, &args::facts());
    }
    for (key, value) in args::keys(matches) {
        let _ = written.set(key, value);
    }
    origin::keys_if_known(&written)
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
    let language = match words::lang() {
        Lang::English => Language::English,
        Lang::Chinese => Language::Chinese,
        Lang::Japanese => Language::Japanese,
        Lang::German => Language::German,
    };
    let Some(page) = explain(topic, language) else {
        let failure = Failure::new("explain", said::no_page(topic));
        return Err(failure.hint(said::pages(topics().join(", "))));
    };
    terminal::line(page.trim_end());
    Ok(Answer::Yes)
}

/// The ways out under PyTorch, each computed.
fn fixes(config: &Config, device: &Device) -> Vec<Fix> {
    // PyTorch's programs are GPT-2's.
    if config.family() != Family::Gpt2 {
        return Vec::new();
    }
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

/// Tensors that print like the request, at most.
const TIES: usize = 6;
/// Ways out that are told, at most.
const WAYS: usize = 6;

/// What was seen and concluded, then the ways out.
fn told(diagnosis: &Diagnosis) -> String {
    let mut text = format!("{}\n", said::kind(diagnosis.kind));
    if diagnosis.kind == Kind::GpuMemory {
        let _ = writeln!(text, "{}", said::phase(diagnosis.phase));
    }
    for found in &diagnosis.findings {
        let mark = if found.is_cause { said::cause() } else { said::seen() };
        let sentence = said::finding(found, diagnosis.refused.as_ref());
        let _ = writeln!(text, "{mark}  {}: {sentence}", found.rule);
    }
    // Where the log names the tensor, others of its size are no candidates.
    let is_named =
        |f: &Finding| f.certainty == Certainty::Certain && f.evidence.get("tensor").is_some();
    if diagnosis.tensors.len() > 1 && !diagnosis.findings.iter().any(is_named) {
        let _ = writeln!(text, "{}", said::ties());
        for tensor in diagnosis.tensors.iter().take(TIES) {
            let _ = writeln!(text, "  {}", said::tensor(tensor));
        }
        let rest = diagnosis.tensors.len().saturating_sub(TIES);
        if rest > 0 {
            let _ = writeln!(text, "  {}", said::more(rest));
        }
    }
    if let Some(next) = diagnosis.next {
        let _ = writeln!(text, "{}", said::next(next));
    }
    for name in &diagnosis.notes {
        let _ = writeln!(text, "{}  {}", said::harmless(), said::note(name));
    }
    if !diagnosis.wants.is_empty() {
        text += &wanted(&diagnosis.wants);
    }
    if !diagnosis.fixes.is_empty() {
        text += &said::ways_out();
    }
    for fix in diagnosis.fixes.iter().take(WAYS) {
        let changes: Vec<_> =
            fix.changes.iter().map(|(key, value)| format!("--{key}={value}")).collect();
        let verdict = names::verdict(fix.verdict);
        let training =
            if fix.keeps_training { said::same_training() } else { said::another_training() };
        let way = said::way_out(verdict, size(fix.peak_bytes), training);
        let _ = write!(text, "  {}\n      {way}\n", changes.join(" "));
    }
    text
}

/// What would let it say more, with the commands that show it.
fn wanted(wants: &[Want]) -> String {
    let mut text = said::abstains();
    for want in wants {
        let _ = write!(text, "  {}\n      {}\n", said::want(want.what), want.command);
    }
    text
}
