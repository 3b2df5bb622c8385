//! Why a run ran out of memory: what is read, and what is known in addition to the log.

use std::{
    io::{self, Read},
    path::Path,
};

use fitgpt_config::Written;
use fitgpt_doctor::{
    Context, Decoder, Diagnosis, Snapshot, explain, nearest,
    parse::{Log, Reader as LogReader},
    step_text, topics,
};
use fitgpt_files::formats::compression;
use fitgpt_fit::device;
use fitgpt_say::{Lang, Say as _, Sentence};
use serde_json::Value;

use super::{Failure, config_file, origin};
use crate::words::doctor as words;

/// What is known about the run in addition to its log.
#[derive(Clone, Debug, Default)]
pub struct RunFacts<'a> {
    /// The config file: its name and its text.
    pub config: Option<(&'a str, &'a str)>,
    /// Keys that override it.
    pub keys: Vec<(&'static str, &'a str)>,
    /// The card.
    pub gpu: Option<&'a str>,
    /// The `config.json` of the model, or its folder.
    pub model: Option<&'a Path>,
}

impl RunFacts<'_> {
    /// What the diagnosis uses. `weights` are the keys of the pretrained weights that the config
    /// names, if they are on this machine and may be looked at.
    pub fn context(&self, weights: &[(&'static str, String)]) -> Result<Context, Failure> {
        let mut context = Context::default();
        if let Some((name, text)) = self.config {
            context.read_config(name, text, &config_file::facts());
        }
        for (key, value) in &self.keys {
            context.set(key, value);
        }
        for (key, value) in weights {
            context.set(key, value);
        }
        context.gpu = self.gpu.map(device::find).transpose()?;
        context.decoder = self.model.map(decoder).transpose()?;
        Ok(context)
    }

    /// The keys of the pretrained weights that the run starts from, if they are on this machine.
    /// Missing weights are not an error; an unsupported model is.
    pub fn keys_of_weights(&self) -> Result<Vec<(&'static str, String)>, Failure> {
        let mut written = Written::new();
        // Errors in the config are part of the diagnosis.
        if let Some((name, text)) = self.config {
            let _ = written.read_python(name, text, &config_file::facts());
        }
        for (key, value) in &self.keys {
            let _ = written.set(key, value);
        }
        origin::keys_if_known(&written)
    }
}

/// How much of an input is read, after it was unpacked.
#[derive(Clone, Copy, Debug)]
pub struct InputLimits {
    /// A longer log is read up to here.
    pub log_bytes: u64,
    /// A snapshot is kept in memory, and a few compressed kilobytes may unpack to terabytes.
    pub snapshot_bytes: u64,
    /// Lists and dicts of a snapshot, of which a byte can make one.
    pub containers: usize,
}

impl InputLimits {
    /// A log of any length.
    pub const ANY_LOG: Self =
        Self { log_bytes: u64::MAX, snapshot_bytes: 4 << 30, containers: usize::MAX };
}

/// What the doctor was given.
pub enum DoctorInput {
    /// Text.
    Log(Box<Log>),
    /// What PyTorch's allocator recorded.
    Snapshot(Snapshot),
}

impl DoctorInput {
    /// What is diagnosed.
    pub fn into_log(self) -> Log {
        match self {
            Self::Log(log) => *log,
            Self::Snapshot(snapshot) => snapshot.into_log(),
        }
    }
}

/// Reads a log or a memory snapshot, possibly compressed.
pub fn read(
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
        let why = Sentence::about(&error);
        Failure::new("snapshot", words::bad_snapshot(path.display(), why))
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
pub fn page(topic: &str, lang: Lang) -> Result<&'static str, Failure> {
    explain(topic, lang).ok_or_else(|| {
        let failure = Failure::new("explain", words::no_page(topic));
        match nearest(topic) {
            Some(name) => failure.hint(words::nearest_page(name)),
            None => failure.hint(words::pages(topics().join(", "))),
        }
    })
}

/// The document for programs, with the sentences of the advice in `lang`.
pub fn document(diagnosis: &Diagnosis, lang: Lang) -> Value {
    let mut document = serde_json::to_value(diagnosis).expect("a diagnosis is plain data");
    for (index, advice) in diagnosis.advice.iter().enumerate() {
        document["advice"][index]["text"] = advice.id.say(lang).into();
    }
    for (index, claim) in diagnosis.claims.iter().enumerate() {
        document["claims"][index]["text"] = claim.say(lang).into();
    }
    for (index, step) in diagnosis.steps.iter().enumerate() {
        document["steps"][index]["text"] = step_text(lang, diagnosis, step).into();
    }
    if let Some(question) = diagnosis.do_next.question {
        document["do_next"]["question"] = question.say(lang).into();
    }
    document
}

/// The sizes of a model from its `config.json`, for logs that do not name it.
fn decoder(path: &Path) -> Result<Decoder, Failure> {
    let path = if path.is_dir() { path.join("config.json") } else { path.to_owned() };
    let text = config_file::text_of(&path)?;
    let json: serde_json::Value = serde_json::from_str(&text)
        .map_err(|error| Failure::new("model", words::bad_model(path.display(), error)))?;
    // Multimodal models have the sizes of their language model one level deeper.
    let json = json.get("text_config").filter(|inner| inner.is_object()).unwrap_or(&json);
    let number = |names: &[&str]| names.iter().find_map(|name| json.get(name)?.as_u64());
    let missing = |name: &str| Failure::new("model", words::model_lacks(path.display(), name));
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
