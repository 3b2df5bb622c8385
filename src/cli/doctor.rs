//! `fitgpt doctor`: why somebody's run died.

use std::{
    fmt::Write as _,
    fs::File,
    io::{self, IsTerminal as _, Read},
    path::Path,
};

use clap::ArgMatches;
use fitgpt_doctor::{
    Case, Cause, Certainty, Decoder, Diagnosis, DoNext, Finding, Kind, Language, Snapshot,
    SnapshotError, Tensor, diagnose, explain,
    parse::{Log, Reader as LogReader},
    topics,
};
use fitgpt_plan::device;

use super::{Answer, Failure, Reader, args};
use crate::{
    terminal,
    words::{self, Lang, doctor as said, errors::Spoken as _, names},
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
            let mut file = File::open(path).map_err(|error| Failure::unreadable(path, &error))?;
            read(&mut file, path)?
        }
        None => read(&mut io::stdin().lock(), Path::new("stdin"))?,
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
        case.gpu = Some(device::find(name)?);
    }

    if let Some(path) = matches.get_one::<String>("model") {
        case.decoder = Some(decoder(Path::new(path))?);
    }

    let diagnosis = diagnose(&log, &case);
    match reader {
        Reader::Programs => terminal::line(&json(&diagnosis).to_string()),
        Reader::People => terminal::out(&text(&diagnosis)),
    }
    Ok(if diagnosis.kind == Kind::None { Answer::No } else { Answer::Yes })
}

/// Reads a log of any length, or a memory snapshot.
fn read(source: &mut dyn Read, path: &Path) -> Result<Log, Failure> {
    let mut start = Vec::new();
    let unreadable = |error: io::Error| Failure::unreadable(path, &error);
    (&mut *source).take(2).read_to_end(&mut start).map_err(unreadable)?;
    let is_snapshot = Snapshot::is_one(&start);
    let mut whole = io::Cursor::new(start).chain(source);
    if !is_snapshot {
        return stream(&mut whole).map_err(unreadable);
    }
    let snapshot = Snapshot::read(whole).map_err(|error| {
        let why = match error {
            SnapshotError::Pickle(error) => error.spoken(),
            SnapshotError::NotASnapshot => said::not_a_snapshot(),
        };
        Failure::new("snapshot", said::bad_snapshot(path.display(), why))
    })?;
    Ok(snapshot.into_log())
}

/// Streams a text.
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

/// The answer for programs: the diagnosis, with the sentences of its advice.
fn json(diagnosis: &Diagnosis) -> serde_json::Value {
    let mut json = serde_json::to_value(diagnosis).expect("a diagnosis is plain data");
    for (index, advice) in diagnosis.advice.iter().enumerate() {
        json["advice"][index]["text"] = said::advice(advice.id).into();
    }
    if let Some(question) = diagnosis.do_next.question {
        json["do_next"]["question"] = said::question(question).into();
    }
    json
}

/// Tensors that print like the request, at most.
const TIES: usize = 4;
/// Changes that are printed, at most.
const WAYS: usize = 4;

/// Verdict, account, causes, what to do, the next command.
fn text(diagnosis: &Diagnosis) -> String {
    let mut text = format!("{}\n", said::kind(diagnosis.kind));
    if diagnosis.kind == Kind::GpuMemory {
        let _ = writeln!(text, "{}", said::phase(diagnosis.phase));
    }
    if let Some(account) = &diagnosis.account {
        let _ = writeln!(text, "{}", said::account(account));
    }
    for found in &diagnosis.findings {
        let mark = if found.is_cause { said::cause() } else { said::seen() };
        let sentence = said::finding(found, diagnosis.refused.as_ref());
        let _ = writeln!(text, "{mark}  {}: {sentence}", found.rule());
    }
    text += &ties(diagnosis);
    if let Some(next) = diagnosis.next {
        let _ = writeln!(text, "{}", said::next(next));
    }
    for name in &diagnosis.notes {
        let _ = writeln!(text, "{}  {}", said::harmless(), said::note(name));
    }
    if !diagnosis.advice.is_empty() {
        text += &said::what_to_do();
    }
    for (index, advice) in diagnosis.advice.iter().enumerate() {
        let _ = writeln!(text, "  {}. {}", index + 1, said::advice(advice.id));
        for command in &advice.commands {
            let _ = writeln!(text, "       {command}");
        }
    }
    text += &changes(diagnosis);
    let DoNext { command, question } = &diagnosis.do_next;
    if command.is_some() || question.is_some() {
        text.push('\n');
    }
    if let Some(command) = command {
        let _ = writeln!(text, "{}", said::now(command));
    }
    if let Some(question) = question {
        let _ = writeln!(text, "{}", said::would_help(said::question(*question)));
    }
    if let Some(cause) = diagnosis.findings.iter().find(|finding| finding.is_cause) {
        let _ = writeln!(text, "{}", said::more_on(cause.rule()));
    }
    plain(&text)
}

/// Tensors that all print like the request. Where the log names the tensor, others of its size
/// are no candidates, and those that differ in their type only are one line.
fn ties(diagnosis: &Diagnosis) -> String {
    let is_named = |f: &Finding| {
        let asked = match &f.cause {
            Cause::LogitsAtThePeak { asked }
            | Cause::AttentionScores { asked }
            | Cause::MlpActivation { asked }
            | Cause::WeightShaped { asked } => asked,
            _ => return false,
        };
        f.certainty == Certainty::Certain || asked.line.is_some()
    };
    let mut text = String::new();
    if diagnosis.tensors.len() < 2 || diagnosis.findings.iter().any(is_named) {
        return text;
    }
    let mut shown: Vec<&Tensor> = Vec::new();
    for tensor in &diagnosis.tensors {
        let is_alike =
            |other: &&&Tensor| other.shape == tensor.shape && other.dtype == tensor.dtype;
        if !shown.iter().any(|other| is_alike(&other)) {
            shown.push(tensor);
        }
    }
    if shown.len() < 2 {
        return text;
    }
    let _ = writeln!(text, "{}", said::ties());
    for tensor in shown.iter().take(TIES) {
        let _ = writeln!(text, "  {}", said::tensor(tensor));
    }
    let rest = shown.len().saturating_sub(TIES);
    if rest > 0 {
        let _ = writeln!(text, "  {}", said::more(rest));
    }
    text
}

/// Changes of the config, each with its line.
fn changes(diagnosis: &Diagnosis) -> String {
    let mut text = String::new();
    if !diagnosis.fixes.is_empty() {
        text += &said::ways_out();
    }
    for fix in diagnosis.fixes.iter().take(WAYS) {
        let verdict = names::verdict(fix.verdict);
        let training =
            if fix.keeps_training { said::same_training() } else { said::another_training() };
        let way = said::way_out(verdict, said::size(fix.peak_bytes), training);
        let _ = write!(text, "  {}\n      {way}\n", fix.command);
    }
    text
}

/// What a terminal would obey is not printed: names and lines of code come from strangers.
fn plain(text: &str) -> String {
    text.chars().filter(|c| *c == '\n' || !c.is_control()).collect()
}

/// The sizes of a model out of its `config.json`, for logs that do not name it.
fn decoder(path: &Path) -> Result<Decoder, Failure> {
    let path = if path.is_dir() { path.join("config.json") } else { path.to_owned() };
    let text = args::text_of(&path)?;
    let json: serde_json::Value = serde_json::from_str(&text)
        .map_err(|error| Failure::new("model", said::bad_model(path.display(), error)))?;
    // Models that see or hear keep their language model's sizes one level deeper.
    let json = json.get("text_config").filter(|inner| inner.is_object()).unwrap_or(&json);
    let number = |names: &[&str]| names.iter().find_map(|name| json.get(name)?.as_u64());
    let missing = |name: &str| Failure::new("model", said::model_lacks(path.display(), name));
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
