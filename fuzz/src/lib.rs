//! One function for each reader: any bytes end in a value or an error, never in a panic.
//!
//! [`TARGETS`] lists them all with their seeds. A reader of files gets a folder in memory, the same
//! one for every input of a thread: making a folder takes longer than most readers.

mod seeds;

use std::{
    cell::OnceCell,
    fs::{self, File},
    io::{self, Read},
    path::Path,
};

use fitgpt::{
    checkpoint::{Checkpoint, Weights, describe},
    data::Tokens,
    formats::{compression, parquet::TextColumn},
    run::events,
    tokenizer::Json,
};
use fitgpt_doctor::{Context, Snapshot, diagnose, parse::Reader};
use fitgpt_pickle::Pickle;
use fitgpt_plan::config::{MachineFacts, Written};

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

/// A safetensors file next to a good `config.json`.
pub fn weights(bytes: &[u8]) {
    with_folder(|folder| {
        fs::write(folder.join("config.json"), MODEL).unwrap();
        fs::write(folder.join("model.safetensors"), bytes).unwrap();
        let _ = Weights::open(folder);
    });
}

/// nanoGPT's `ckpt.pt`, and with a good `config.json` a `pytorch_model.bin`.
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
        let _ = events::run_id(&path);
        let _ = events::each(&path, |_| {});
        let _ = events::EventLog::resume(&path, 3);
    });
}

/// An out-of-memory log.
pub fn log(bytes: &[u8]) {
    let mut reader = Reader::default();
    reader.push(bytes);
    let _ = diagnose(&reader.finish(), &Context::new());
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
        // A dictionary repeats a text for a few bits.
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
        let _ = diagnose(&snapshot.into_log(), &Context::new());
    }
}

/// A `tokenizer.json`.
pub fn tokenizer(bytes: &[u8]) {
    with_folder(|folder| {
        let path = folder.join("tokenizer.json");
        fs::write(&path, bytes).unwrap();
        if let Ok(tokenizer) = Json::open(&path) {
            let _ = tokenizer.vocab_size();
            let _ = tokenizer.end_of_text(folder);
        }
    });
}

/// A reader under test.
#[derive(Clone, Copy)]
pub struct Target {
    /// The name of its binary and of its folders.
    pub name: &'static str,
    /// Must return for any bytes.
    pub read: fn(&[u8]),
    /// Inputs that it accepts, or nearly.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// Every reader of foreign files.
pub const TARGETS: &[Target] = &[
    Target { name: "config", read: config, seeds: seeds::config },
    Target { name: "pickle", read: pickle, seeds: seeds::pickle },
    Target { name: "weights", read: weights, seeds: seeds::weights },
    Target { name: "saved", read: saved, seeds: seeds::saved },
    Target { name: "model_config", read: model_config, seeds: seeds::model_config },
    Target { name: "events", read: events, seeds: seeds::events },
    Target { name: "log", read: log, seeds: seeds::log },
    Target { name: "tokens", read: tokens, seeds: seeds::tokens },
    Target { name: "parquet", read: parquet, seeds: seeds::parquet },
    Target { name: "compressed", read: compressed, seeds: seeds::compressed },
    Target { name: "snapshot", read: snapshot, seeds: seeds::snapshot },
    Target { name: "tokenizer", read: tokenizer, seeds: seeds::tokenizer },
];

/// A small GPT-2.
pub const MODEL: &str = r#"{"model_type": "gpt2", "n_positions": 6, "n_embd": 4, "n_head": 2,
    "n_layer": 1, "vocab_size": 11}"#;

thread_local! {
    static FOLDER: OnceCell<tempfile::TempDir> = const { OnceCell::new() };
}

/// Files go to memory if the system has a folder for that.
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
