//! One function for each reader: any input must give a value or an error, never a panic.
//!
//! [`TARGETS`] lists them all with their seeds. Readers of files get a folder in memory. Each thread
//! uses one folder for all inputs, because creating one takes longer than most readers.

mod seeds;

use std::{
    cell::OnceCell,
    fs::{self, File},
    io::{self, Read},
    path::Path,
};

use fitgpt_checkpoint::{Checkpoint, Weights, describe, events};
use fitgpt_config::{MachineFacts, Written};
use fitgpt_data::{
    Tokens,
    tokenizer::{Json, TokenIds, Tokenizer},
};
use fitgpt_doctor::{Context, Snapshot, diagnose, parse::Log};
use fitgpt_files::{
    disk::Disk,
    formats::{compression, parquet::TextColumn},
};
use fitgpt_pickle::Pickle;
use fitgpt_serve::{Guard, Request, Response, Service};

/// A config in nanoGPT's Python.
pub fn config(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let mut written = Written::new();
    if written.read_python("config.py", &text, &MachineFacts::default()).is_ok() {
        let _ = written.resolve();
    }
}

/// A pickle, such as `meta.pkl`.
pub fn pickle(bytes: &[u8]) {
    let _ = Pickle::read(bytes);
}

/// A safetensors file next to a valid `config.json`.
pub fn weights(bytes: &[u8]) {
    with_folder(|folder| {
        fs::write(folder.join("config.json"), MODEL).unwrap();
        fs::write(folder.join("model.safetensors"), bytes).unwrap();
        let _ = Weights::open(folder);
    });
}

/// nanoGPT's `ckpt.pt`; the same bytes as a `pytorch_model.bin` next to a valid `config.json`.
pub fn saved(bytes: &[u8]) {
    with_folder(|folder| {
        fs::write(folder.join("ckpt.pt"), bytes).unwrap();
        let _ = Checkpoint::open(folder);
        let _ = Weights::open(folder);
        fs::rename(folder.join("ckpt.pt"), folder.join("pytorch_model.bin")).unwrap();
        fs::write(folder.join("config.json"), MODEL).unwrap();
        let _ = Weights::open(folder);
    });
}

/// A `config.json`.
pub fn model_config(bytes: &[u8]) {
    with_folder(|folder| {
        fs::write(folder.join("config.json"), bytes).unwrap();
        let _ = describe(folder);
    });
}

/// An `events.jsonl`.
pub fn events(bytes: &[u8]) {
    with_folder(|folder| {
        let path = folder.join("events.jsonl");
        fs::write(&path, bytes).unwrap();
        let _ = events::run_id(&Disk::real(), &path);
        let _ = events::each(&path, |_| {});
        let _ = events::EventLog::resume(&Disk::real(), &path, 3);
    });
}

/// An out-of-memory log.
pub fn log(bytes: &[u8]) {
    let _ = Log::read(bytes);
}

/// The diagnosis of a log or of a snapshot. It plans fixes, which takes longer than reading.
pub fn diagnosis(bytes: &[u8]) {
    let log = match Snapshot::read(bytes) {
        Ok(snapshot) => snapshot.into_log(),
        Err(_) => Log::read(bytes),
    };
    let _ = diagnose(&log, &Context::new());
}

/// A token file.
pub fn tokens(bytes: &[u8]) {
    with_folder(|folder| {
        let path = folder.join("train.bin");
        fs::write(&path, bytes).unwrap();
        if let Ok(tokens) = Tokens::open(path) {
            let mut some = vec![0; tokens.len().min(64) as usize];
            let _ = tokens.read(tokens.len() - some.len() as u64, &mut some);
        }
    });
}

/// A Parquet file with a column `text`.
pub fn parquet(bytes: &[u8]) {
    with_folder(|folder| {
        let path = folder.join("some.parquet");
        fs::write(&path, bytes).unwrap();
        let Ok(mut texts) = TextColumn::open(File::open(&path).unwrap(), "text") else { return };
        // Limited, because a dictionary can repeat a text at the cost of a few bits.
        for _ in 0..100_000 {
            if !matches!(texts.next_text(), Ok(Some(_))) {
                break;
            }
        }
    });
}

/// A text that may be compressed.
pub fn compressed(bytes: &[u8]) {
    if let Ok(plain) = compression::plain(bytes) {
        let _ = io::copy(&mut plain.take(64 << 20), &mut io::sink());
    }
}

/// A memory snapshot of PyTorch.
pub fn snapshot(bytes: &[u8]) {
    if let Ok(snapshot) = Snapshot::read(bytes) {
        let _ = snapshot.into_log();
    }
}

/// A `tokenizer.json`; the tokens of a document must be the same with and without the tables of a
/// byte-level file.
pub fn tokenizer(bytes: &[u8]) {
    with_folder(|folder| {
        let path = folder.join("tokenizer.json");
        fs::write(&path, bytes).unwrap();
        if let Ok(tokenizer) = Json::open(&path) {
            let _ = tokenizer.vocab_size();
            let _ = tokenizer.end_of_text(folder);
        }
        if let Ok(json) = Json::open_for_documents(&path) {
            let tokenizer = Tokenizer::Json(json);
            let text = "It's 12345\u{a0} words,\r\n\n  \u{e9}e\u{301} \u{65e5}\u{672c}! ".repeat(3);
            if let (Ok(one), Ok(other)) =
                (tokenizer.encoder().encode(&text), tokenizer.encode_document(&text))
            {
                match one {
                    TokenIds::Wide(ids) => assert_eq!(ids, other),
                    TokenIds::Narrow(_) => unreachable!("ids of a file have 32 bits"),
                }
            }
        }
    });
}

/// What a client sends to the page's server over one connection. Whatever it is, each answer is HTTP.
pub fn http(bytes: &[u8]) {
    let guard = Guard { port: PORT, is_open: false, token: None };
    let written = fitgpt_serve::answers(bytes, &guard, &Echo);
    assert!(written.is_empty() || written.starts_with(b"HTTP/1.1 "));
}

/// The port that requests name.
const PORT: u16 = 4848;

/// Reads all that a request has.
struct Echo;

impl Service for Echo {
    fn answer(&self, request: &mut Request<'_>) -> Response {
        let name = request.parameter("name");
        match request.json(1 << 20) {
            Ok(body) => Response::json(&serde_json::json!({ "name": name, "body": body })),
            Err(refusal) => refusal.into(),
        }
    }
}

/// A reader under test.
#[derive(Clone, Copy)]
pub struct FuzzTarget {
    /// The name of its binary and of its folders.
    pub name: &'static str,
    /// Calls the reader; must return for any bytes.
    pub read: fn(&[u8]),
    /// Inputs that it accepts or almost accepts.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Whether an input takes milliseconds, because it is planned.
    pub is_slow: bool,
}

impl FuzzTarget {
    const fn new(name: &'static str, read: fn(&[u8]), seeds: fn() -> Vec<Vec<u8>>) -> Self {
        Self { name, read, seeds, is_slow: false }
    }
}

/// Every reader of foreign files.
pub const TARGETS: &[FuzzTarget] = &[
    FuzzTarget::new("config", config, seeds::config),
    FuzzTarget::new("pickle", pickle, seeds::pickle),
    FuzzTarget::new("weights", weights, seeds::weights),
    FuzzTarget::new("saved", saved, seeds::saved),
    FuzzTarget::new("model_config", model_config, seeds::model_config),
    FuzzTarget::new("events", events, seeds::events),
    FuzzTarget::new("log", log, seeds::log),
    FuzzTarget { is_slow: true, ..FuzzTarget::new("diagnosis", diagnosis, seeds::diagnosis) },
    FuzzTarget::new("tokens", tokens, seeds::tokens),
    FuzzTarget::new("parquet", parquet, seeds::parquet),
    FuzzTarget::new("compressed", compressed, seeds::compressed),
    FuzzTarget::new("snapshot", snapshot, seeds::snapshot),
    FuzzTarget::new("tokenizer", tokenizer, seeds::tokenizer),
    FuzzTarget::new("http", http, seeds::http),
];

/// A small GPT-2.
pub const MODEL: &str = r#"{"model_type": "gpt2", "n_positions": 6, "n_embd": 4, "n_head": 2,
    "n_layer": 1, "vocab_size": 11}"#;

thread_local! {
    static FOLDER: OnceCell<tempfile::TempDir> = const { OnceCell::new() };
}

/// Calls `work` with an empty folder, in memory if the system has `/dev/shm`.
fn with_folder(work: impl FnOnce(&Path)) {
    FOLDER.with(|folder| {
        let folder = folder.get_or_init(|| {
            let memory = Path::new("/dev/shm");
            let parent = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
            tempfile::tempdir_in(parent).unwrap()
        });
        for file in fs::read_dir(folder).unwrap() {
            fs::remove_file(file.unwrap().path()).unwrap();
        }
        work(folder.path());
    });
}
