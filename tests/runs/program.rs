//! Runs the built `fitgpt` in a temporary folder.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

/// A folder with a dataset of random tokens, removed at the end.
pub(crate) struct TestFolder {
    folder: tempfile::TempDir,
}

/// What a run printed and how it ended.
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// A model that trains in a fraction of a second.
pub(crate) const TINY: &[&str] = &[
    "--dataset=tiny",
    "--vocab_size=61",
    "--n_layer=2",
    "--n_head=2",
    "--n_embd=32",
    "--block_size=24",
    "--batch_size=4",
    "--gradient_accumulation_steps=1",
    "--eval_iters=2",
    "--warmup_iters=2",
    "--learning_rate=0.001",
    "--log_interval=1",
    "--device=cpu",
    "--compile=False",
];

impl TestFolder {
    /// A new folder with `data/tiny`: 61 symbols, without `meta.pkl`.
    pub(crate) fn new() -> Self {
        let place = Self { folder: tempfile::tempdir().unwrap() };
        let data = place.path("data/tiny");
        fs::create_dir_all(&data).unwrap();
        for (name, count, seed) in [("train.bin", 20_000u32, 1u32), ("val.bin", 4_000, 2)] {
            let mut state = seed;
            let tokens = (0..count).flat_map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                // Three of four are among the first eight, so that there is something to learn.
                let symbols = if state >> 30 == 0 { 61 } else { 8 };
                ((state >> 14) as u16 % symbols).to_le_bytes()
            });
            fs::write(data.join(name), tokens.collect::<Vec<u8>>()).unwrap();
        }
        place
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The program with these arguments, in this folder.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fitgpt"));
        command.env("LC_ALL", "C");
        command.current_dir(self.folder.path()).args(args);
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        let Output { status, stdout, stderr } = self.command(args).output().unwrap();
        Ran {
            code: status.code(),
            stdout: String::from_utf8(stdout).unwrap(),
            stderr: String::from_utf8(stderr).unwrap(),
        }
    }

    /// `train` of the tiny model with more arguments; it must succeed.
    pub(crate) fn train(&self, more: &[&str]) -> Ran {
        let ran = self.run(&[&["train"], TINY, more].concat());
        assert_eq!(ran.code, Some(0), "{}\n{}", ran.stdout, ran.stderr);
        ran
    }
}

impl Ran {
    /// The losses of nanoGPT's `iter` lines, as printed.
    pub(crate) fn losses(&self) -> BTreeMap<u64, String> {
        losses(&self.stdout)
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("{e}: {}", self.stdout))
    }
}

/// Waits for something that another process does.
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < Duration::from_mins(2), "waited in vain until {what}");
        thread::sleep(Duration::from_micros(200));
    }
}

/// How many steps a run has logged so far.
pub(crate) fn steps_logged(out_dir: &Path) -> usize {
    let text = fs::read_to_string(out_dir.join("events.jsonl")).unwrap_or_default();
    text.matches("{\"event\":\"step\"").count()
}

/// The losses of nanoGPT's `iter` lines; the last line of a step counts.
pub(crate) fn losses(log: &str) -> BTreeMap<u64, String> {
    let lines = log.lines().filter_map(|line| line.strip_prefix("iter "));
    let read = lines.map(|line| {
        let (step, rest) = line.split_once(": loss ").unwrap();
        (step.parse().unwrap(), rest.split(',').next().unwrap().to_owned())
    });
    read.collect()
}

/// The events of a run, by kind.
pub(crate) fn events(out_dir: &Path, kind: &str) -> Vec<Value> {
    let text = fs::read_to_string(out_dir.join("events.jsonl")).unwrap();
    let all = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    all.filter(|event| event["event"] == kind).collect()
}
