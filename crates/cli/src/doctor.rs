//! `fitgpt doctor`: explains why a run ran out of memory.

use std::{
    io::{self, IsTerminal as _, Read},
    path::Path,
};

use clap::{Arg, ArgMatches, Command};
use fitgpt_commands::{Failure, config_file, origin};
use fitgpt_config::Written;
use fitgpt_doctor::{
    Context, Decoder, Diagnosis, MemoryKind, Snapshot, diagnose, explain,
    parse::{Log, Reader as LogReader},
    text, topics,
};
use fitgpt_files::{formats::compression, os};
use fitgpt_fit::device;

use super::{Outcome, OutputStyle, args, keys};
use crate::{
    terminal,
    words::{Say as _, doctor as sentences, lang},
};

/// Examples, printed if there is no input.
const EXAMPLES: &str = "
  fitgpt doctor train.log --config config/train_gpt2.py --gpu \"RTX 4070\"
  python train.py 2>&1 | fitgpt doctor --batch_size=16
  fitgpt doctor --explain stale-logits
";

/// The command with its flags.
pub(super) fn command() -> Command {
    keys::with_keys(args::with_json(
        Command::new("doctor")
            .about("Reads an out-of-memory log: what failed, which tensor, why, what to change")
            .arg(Arg::new("LOG").help("A log or a memory snapshot; stdin if absent or `-`"))
            .arg(
                Arg::new("config")
                    .long("config")
                    .value_name("CONFIG.py")
                    .help("The config of the run: gives computed fixes"),
            )
            .arg(
                Arg::new("model")
                    .long("model")
                    .value_name("PATH")
                    .help("A model's config.json or its folder, if the log names no known model"),
            )
            .arg(args::gpu())
            .arg(
                Arg::new("explain")
                    .long("explain")
                    .value_name("RULE")
                    .help("Print the page of a rule or of a common claim"),
            )
            .after_help(
                "Examples:\n  fitgpt doctor train.log --config config/train_gpt2.py\n  \
                     python train.py 2>&1 | fitgpt doctor --batch_size=16 --gpu \"RTX 4070\"\n  \
                     fitgpt doctor --explain stale-logits",
            ),
    ))
}

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
        let (text, facts) = (config_file::text_of(Path::new(path))?, config_file::facts());
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
        OutputStyle::Json => terminal::json(&json(&diagnosis)),
        OutputStyle::Text => terminal::out(&text(lang(), &diagnosis, &context)),
    }
    Ok(if diagnosis.kind == MemoryKind::None { Outcome::No } else { Outcome::Yes })
}

/// The keys of the pretrained weights that the config or the command line names, if they are
/// available here. Missing weights are not an error; an unsupported model is.
fn weights_keys(matches: &ArgMatches) -> Result<Vec<(&'static str, String)>, Failure> {
    let mut written = Written::new();
    if let Some(path) = matches.get_one::<String>("config") {
        // Errors in it are part of the diagnosis.
        let _ = written.read_python(
            path,
            &config_file::text_of(Path::new(path))?,
            &config_file::facts(),
        );
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
        let why = error.say(lang());
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

/// The page of a rule or a claim.
fn page(topic: &str) -> Result<Outcome, Failure> {
    let Some(page) = explain(topic, lang()) else {
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
        json["advice"][index]["text"] = advice.id.say(lang()).into();
    }
    if let Some(question) = diagnosis.do_next.question {
        json["do_next"]["question"] = question.say(lang()).into();
    }
    json
}

/// The sizes of a model from its `config.json`, for logs that do not name it.
fn decoder(path: &Path) -> Result<Decoder, Failure> {
    let path = if path.is_dir() { path.join("config.json") } else { path.to_owned() };
    let text = config_file::text_of(&path)?;
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
