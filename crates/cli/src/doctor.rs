//! `fitgpt doctor`: explains why a run ran out of memory.

use std::{
    fmt::Write as _,
    io::{self, IsTerminal as _, Read},
    path::Path,
};

use clap::ArgMatches;
use fitgpt_config::Written;
use fitgpt_doctor::{
    CandidateTensor, Cause, Certainty, Context, Decoder, Diagnosis, DoNext, Domain, Finding,
    Language, MemoryKind, Question, Snapshot, SnapshotError, diagnose, explain,
    parse::{Log, Reader as LogReader},
    topics,
};
use fitgpt_files::{formats::compression, os};
use fitgpt_fit::device;

use super::{Failure, Outcome, OutputStyle, args, origin};
use crate::{
    terminal,
    words::{self, Lang, Say as _, doctor as sentences, lang, names},
};

/// Examples, printed if there is no input.
const EXAMPLES: &str = "
  fitgpt doctor train.log --config config/train_gpt2.py --gpu \"RTX 4070\"
  python train.py 2>&1 | fitgpt doctor --batch_size=16
  fitgpt doctor --explain stale-logits
";

pub(super) fn run(matches: &ArgMatches, style: OutputStyle) -> Result<Outcome, Failure> {
    if let Some(topic) = matches.get_one::<String>("explain") {
        return page(topic);
    }
    let log = matches.get_one::<String>("LOG").map(String::as_str).filter(|log| *log != "-");
    if log.is_none() && io::stdin().is_terminal() {
        terminal::out(&(sentences::examples() + EXAMPLES));
        return Ok(Outcome::No);
    }
    let log = match log {
        Some(path) => {
            let path = Path::new(path);
            let mut file =
                os::open_endable(path).map_err(|error| Failure::unreadable(path, &error))?;
            read(&mut file, path, InputLimits::ANY_LOG)?
        }
        None => read(&mut io::stdin().lock(), Path::new("stdin"), InputLimits::ANY_LOG)?,
    };
    let log = log.into_log();

    let mut context = Context::default();
    if let Some(path) = matches.get_one::<String>("config") {
        let (text, facts) = (args::text_of(Path::new(path))?, args::facts());
        context.read_config(path, &text, &facts);
    }
    for (key, value) in args::keys(matches) {
        context.set(key, value);
    }
    for (key, value) in weights_keys(matches)? {
        context.set(key, &value);
    }
    if let Some(name) = matches.get_one::<String>("gpu") {
        context.gpu = Some(device::find(name)?);
    }

    if let Some(path) = matches.get_one::<String>("model") {
        context.decoder = Some(decoder(Path::new(path))?);
    }

    let diagnosis = diagnose(&log, &context);
    match style {
        OutputStyle::Json => terminal::line(&json(&diagnosis).to_string()),
        OutputStyle::Text => {
            terminal::out(&sentences::in_one_unit(|| text(&diagnosis, &context)));
        }
    }
    Ok(if diagnosis.kind == MemoryKind::None { Outcome::No } else { Outcome::Yes })
}

/// The keys of the pretrained weights that the config or the command line names, if they are
/// available here. Missing weights are not an error; an unsupported model is.
fn weights_keys(matches: &ArgMatches) -> Result<Vec<(&'static str, String)>, Failure> {
    let mut written = Written::new();
    if let Some(path) = matches.get_one::<String>("config") {
        // Errors in it are part of the diagnosis.
        let _ = written.read_python(path, &args::text_of(Path::new(path))?, &args::facts());
    }
    for (key, value) in args::keys(matches) {
        let _ = written.set(key, value);
    }
    origin::keys_if_known(&written)
}

/// How much of an input is read, after it was unpacked.
#[derive(Clone, Copy, Debug)]
pub(super) struct InputLimits {
    /// A longer log is read up to here.
    pub(super) log_bytes: u64,
    /// A snapshot is kept in memory, and a few compressed kilobytes may unpack to terabytes.
    pub(super) snapshot_bytes: u64,
    /// Lists and dicts of a snapshot, of which a byte can make one.
    pub(super) containers: usize,
}

impl InputLimits {
    /// A log of any length.
    const ANY_LOG: Self =
        Self { log_bytes: u64::MAX, snapshot_bytes: 4 << 30, containers: usize::MAX };
}

/// What the doctor was given.
pub(super) enum DoctorInput {
    Log(Box<Log>),
    Snapshot(Snapshot),
}

impl DoctorInput {
    /// What is diagnosed.
    pub(super) fn into_log(self) -> Log {
        match self {
            Self::Log(log) => *log,
            Self::Snapshot(snapshot) => snapshot.into_log(),
        }
    }
}

/// Reads a log or a memory snapshot, possibly compressed.
pub(super) fn read(
    source: &mut dyn Read,
    path: &Path,
    limits: InputLimits,
) -> Result<DoctorInput, Failure> {
    let unreadable = |error: io::Error| Failure::unreadable(path, &error);
    let mut source = compression::plain(source).map_err(unreadable)?;
    let mut start = Vec::new();
    (&mut source).take(2).read_to_end(&mut start).map_err(unreadable)?;
    let is_snapshot = Snapshot::is_one(&start);
    let whole = io::Cursor::new(start).chain(source);
    if !is_snapshot {
        return stream(&mut whole.take(limits.log_bytes))
            .map(|log| DoctorInput::Log(Box::new(log)))
            .map_err(unreadable);
    }
    let whole = whole.take(limits.snapshot_bytes);
    let snapshot = Snapshot::read_within(whole, limits.containers).map_err(|error| {
        let why = match error {
            SnapshotError::Pickle(error) => error.say(lang()),
            SnapshotError::NotASnapshot => sentences::not_a_snapshot(),
        };
        Failure::new("snapshot", sentences::bad_snapshot(path.display(), why))
    })?;
    Ok(DoctorInput::Snapshot(snapshot))
}

/// Reads a text as a stream.
fn stream(source: &mut dyn Read) -> io::Result<Log> {
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

/// The language of the pages.
pub(super) fn language() -> Language {
    match words::lang() {
        Lang::English => Language::English,
        Lang::Chinese => Language::Chinese,
        Lang::Japanese => Language::Japanese,
        Lang::German => Language::German,
    }
}

/// The page of a rule or a claim.
fn page(topic: &str) -> Result<Outcome, Failure> {
    let Some(page) = explain(topic, language()) else {
        let failure = Failure::new("explain", sentences::no_page(topic));
        return Err(failure.hint(sentences::pages(topics().join(", "))));
    };
    terminal::line(page.trim_end());
    Ok(Outcome::Yes)
}

/// The diagnosis as JSON, with the sentences of its advice.
pub(super) fn json(diagnosis: &Diagnosis) -> serde_json::Value {
    let mut json = serde_json::to_value(diagnosis).expect("a diagnosis is plain data");
    for (index, advice) in diagnosis.advice.iter().enumerate() {
        json["advice"][index]["text"] = sentences::advice(advice.id).into();
    }
    if let Some(question) = diagnosis.do_next.question {
        json["do_next"]["question"] = sentences::question(question).into();
    }
    json
}

/// Maximum number of candidate tensors to print.
const MAX_TENSORS: usize = 4;
/// Maximum number of config changes to print.
const MAX_FIXES: usize = 4;

/// The diagnosis as text: verdict, account, causes, recommendations, next command.
fn text(diagnosis: &Diagnosis, context: &Context) -> String {
    let mut text = format!("{}\n", sentences::kind(diagnosis.kind));
    if diagnosis.kind == MemoryKind::GpuMemory {
        let _ = writeln!(text, "{}", sentences::phase(diagnosis.phase));
    }
    if let Some(account) = &diagnosis.account {
        let _ = writeln!(text, "{}", sentences::account(account));
    }
    for found in &diagnosis.findings {
        let mark = if found.is_cause { sentences::cause() } else { sentences::seen() };
        let sentence = sentences::finding(found, diagnosis.refused.as_ref());
        let _ = writeln!(text, "{mark}  {}: {sentence}", found.rule());
    }
    text += &ties(diagnosis);
    if let Some(next) = diagnosis.next {
        let _ = writeln!(text, "{}", sentences::next(next));
    }
    for line in &diagnosis.notes {
        let _ = writeln!(text, "{}  {}", sentences::harmless(), sentences::note(*line));
    }
    if !diagnosis.advice.is_empty() {
        text += &sentences::what_to_do();
    }
    for (index, advice) in diagnosis.advice.iter().enumerate() {
        let _ = writeln!(text, "  {}. {}", index + 1, sentences::advice(advice.id));
        for command in &advice.commands {
            let _ = writeln!(text, "       {command}");
        }
    }
    text += &changes(diagnosis);
    text.push('\n');
    if let Some(cause) = diagnosis.findings.iter().find(|finding| finding.is_cause) {
        let _ = writeln!(text, "{}", sentences::more_on(cause.rule()));
    }
    let DoNext { command, question } = &diagnosis.do_next;
    if let Some(command) = command {
        let _ = writeln!(text, "{}", sentences::now(command));
    }
    if let Some(question) = question {
        let _ = writeln!(text, "{}", sentences::would_help(sentences::question(*question)));
    }
    if command.is_none() && question.is_none() {
        let _ = writeln!(text, "{}", sentences::before_a_run());
    }
    // Without a config nothing can be computed for nanoGPT; other stacks have no config to give.
    let takes_config = matches!(diagnosis.domain, Domain::NanoGpt | Domain::Unknown);
    let is_asked = *question == Some(Question::Config);
    if takes_config && context.config.is_none() && !is_asked {
        let _ = writeln!(text, "{}", sentences::config_helps());
    }
    plain(&text)
}

/// Tensors with the requested size. None are listed if the log names the tensor; those with the
/// same shape and dtype are one line.
fn ties(diagnosis: &Diagnosis) -> String {
    let is_named = |f: &Finding| {
        let (Cause::LogitsAtThePeak { asked }
        | Cause::AttentionScores { asked }
        | Cause::MlpActivation { asked }
        | Cause::WeightShaped { asked }) = &f.cause
        else {
            return false;
        };
        f.certainty == Certainty::Certain || asked.line.is_some()
    };
    let mut text = String::new();
    if diagnosis.tensors.len() < 2 || diagnosis.findings.iter().any(is_named) {
        return text;
    }
    let mut shown: Vec<&CandidateTensor> = Vec::new();
    for tensor in &diagnosis.tensors {
        let is_alike =
            |other: &&&CandidateTensor| other.shape == tensor.shape && other.dtype == tensor.dtype;
        if !shown.iter().any(|other| is_alike(&other)) {
            shown.push(tensor);
        }
    }
    if shown.len() < 2 {
        return text;
    }
    let _ = writeln!(text, "{}", sentences::ties());
    for tensor in shown.iter().take(MAX_TENSORS) {
        let _ = writeln!(text, "  {}", sentences::tensor(tensor));
    }
    let rest = shown.len().saturating_sub(MAX_TENSORS);
    if rest > 0 {
        let _ = writeln!(text, "  {}", sentences::more(rest));
    }
    text
}

/// Config changes, each with its command.
fn changes(diagnosis: &Diagnosis) -> String {
    let mut text = String::new();
    if !diagnosis.fixes.is_empty() {
        text += &sentences::fixes_heading();
    }
    for fix in diagnosis.fixes.iter().take(MAX_FIXES) {
        let verdict = names::verdict(fix.verdict);
        let training = if fix.keeps_training {
            sentences::same_training()
        } else {
            sentences::different_training()
        };
        let result = sentences::fix_line(verdict, sentences::size(fix.peak_bytes), training);
        let _ = write!(text, "  {}\n      {result}\n", fix.command);
    }
    text
}

/// Removes control characters: names and lines of code come from untrusted logs.
pub(super) fn plain(text: &str) -> String {
    text.chars().filter(|c| *c == '\n' || !c.is_control()).collect()
}

/// The sizes of a model from its `config.json`, for logs that do not name it.
fn decoder(path: &Path) -> Result<Decoder, Failure> {
    let path = if path.is_dir() { path.join("config.json") } else { path.to_owned() };
    let text = args::text_of(&path)?;
    let json: serde_json::Value = serde_json::from_str(&text)
        .map_err(|error| Failure::new("model", sentences::bad_model(path.display(), error)))?;
    // Multimodal models have the sizes of their language model one level deeper.
    let json = json.get("text_config").filter(|inner| inner.is_object()).unwrap_or(&json);
    let number = |names: &[&str]| names.iter().find_map(|name| json.get(name)?.as_u64());
    let missing = |name: &str| Failure::new("model", sentences::model_lacks(path.display(), name));
    let width =
        number(&["hidden_size", "n_embd", "d_model"]).ok_or_else(|| missing("hidden_size"))?;
    let layers = number(&["num_hidden_layers", "n_layer", "num_layers"])
        .ok_or_else(|| missing("num_hidden_layers"))?;
    let vocab = number(&["vocab_size"]).ok_or_else(|| missing("vocab_size"))?;
    let heads = number(&["num_attention_heads", "n_head", "num_heads"]).unwrap_or(1).max(1);
    let kv_heads = number(&["num_key_value_heads"]).unwrap_or(heads);
    let head_dim = number(&["head_dim"]).unwrap_or(width / heads);
    let ffn = number(&["intermediate_size", "n_inner", "ffn_dim", "d_ff"]).unwrap_or(4 * width);
    let sizes = [width, layers, vocab, heads, kv_heads, head_dim, ffn];
    if sizes.iter().any(|size| *size == 0 || *size > 1 << 24) {
        return Err(missing("sizes"));
    }
    let is_gated = number(&["num_key_value_heads"]).is_some()
        || json.get("hidden_act").is_some_and(|act| act == "silu");
    let is_tied =
        json.get("tie_word_embeddings").and_then(serde_json::Value::as_bool).unwrap_or(!is_gated);
    let (queries, keys) = (heads * head_dim, kv_heads * head_dim);
    let attention = 2 * width * queries + 2 * width * keys;
    let inner = if is_gated { 3 } else { 2 } * width * ffn;
    let embeddings = if is_tied { 1 } else { 2 } * vocab * width;
    let name = json.get("_name_or_path").and_then(|name| name.as_str()).unwrap_or("the model");
    Ok(Decoder {
        name: name.chars().filter(|c| !c.is_control()).take(80).collect(),
        parameters: embeddings + layers * (attention + inner),
        width,
        ffn,
        vocab,
        layers,
        queries,
        keys,
    })
}
