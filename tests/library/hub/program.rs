//! The program with datasets and models by name.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use tempfile::TempDir;

use super::{
    fixture_file,
    server::{Faults, Server},
};

/// A folder to work in, a hub, and a cache.
struct HubFolder {
    folder: TempDir,
    server: Server,
}

impl HubFolder {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let stories = folder.path().join("root/datasets/roneneldan/TinyStories/data");
        fs::create_dir_all(&stories).unwrap();
        for (from, to) in [
            ("plain.parquet", "train-00000-of-00002-a.parquet"),
            ("zstd.parquet", "train-00001-of-00002-b.parquet"),
            ("snappy.parquet", "validation-00000-of-00001-c.parquet"),
        ] {
            fs::copy(fixture_file(from), stories.join(to)).unwrap();
        }
        let server = Server::start(&folder.path().join("root"), 0);
        Self { folder, server }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fitgpt"));
        command
            .args(args)
            .current_dir(self.folder.path())
            .env("LC_ALL", "C")
            .env("HF_ENDPOINT", self.server.endpoint())
            .env("HF_HOME", self.path("hf"))
            .env_remove("HF_TOKEN")
            .env_remove("HF_HUB_CACHE")
            .env_remove("HF_HUB_OFFLINE");
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn ok(output: &Output) -> serde_json::Value {
    assert!(output.status.success(), "{}", stderr(output));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_dataset_by_name_is_downloaded_prepared_and_then_prepared_offline() {
    let place = HubFolder::new();
    let output = place.run(&["prepare", "tinystories", "--json"]);
    let summary = ok(&output);
    assert!(place.path("data/tinystories/train.bin").exists());
    let printed = stderr(&output);
    assert!(printed.contains("roneneldan/TinyStories at f54c09fd2331; files: 3"), "{printed}");
    assert!(printed.contains("to download:") && printed.contains("dataset: about"), "{printed}");
    // The repository's validation file is the validation split.
    let documents = summary["documents"].as_u64().unwrap();
    assert_eq!(summary["val_documents"].as_u64().unwrap() * 3, documents);
    place.server.take_requests();
    let again = ["prepare", "tinystories", "--json", "--out", "data/again"];
    let offline = place.command(&again).env("HF_HUB_OFFLINE", "1").output().unwrap();
    assert_eq!(ok(&offline)["train_tokens"], summary["train_tokens"]);
    for file in ["train.bin", "val.bin"] {
        let [one, two] = ["data/tinystories", "data/again"]
            .map(|folder| fs::read(place.path(folder).join(file)).unwrap());
        assert!(one == two, "{file}");
    }
    ok(&place.run(&["prepare", "tinystories", "--json", "--out", "data/few", "--files", "1"]));
    assert!(place.server.take_requests().is_empty());
}

#[test]
fn a_path_wins_over_a_name_with_a_note() {
    let place = HubFolder::new();
    fs::write(place.path("tinystories"), "A different text. ".repeat(50)).unwrap();
    let output = place.run(&["prepare", "tinystories", "--json"]);
    assert_eq!(ok(&output)["documents"], 1);
    assert!(stderr(&output).contains("`tinystories` exists as a path"), "{}", stderr(&output));
    assert!(place.server.take_requests().is_empty());
}

#[test]
fn refusals_are_exit_code_2_with_advice() {
    let place = HubFolder::new();
    let refused = |args: &[&str], faults: Faults, expected: &[&str]| {
        place.server.set(faults);
        let output = place.run(args);
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        for text in expected {
            assert!(stderr(&output).contains(text), "{args:?}: {}", stderr(&output));
        }
        assert!(!place.path("data").exists(), "nothing is made");
    };
    let token = || Faults { token: Some("hf_right"), ..Faults::default() };
    refused(&["prepare", "tinystories"], token(), &["(401)", "HF_TOKEN"]);
    refused(
        &["prepare", "tinystories"],
        Faults { refuse: [(403, "x-error-message: gated\r\n")].into(), ..Faults::default() },
        &["(403): gated", "accept its terms"],
    );
    refused(&["prepare", "fineweb"], Faults::default(), &["HuggingFaceFW/fineweb", "(401)"]);
    refused(
        &["prepare", "fineweb", "--sample", "sample-1BT"],
        Faults::default(),
        &["`fineweb` has no sample `sample-1BT`; it has sample-10BT"],
    );
    refused(&["prepare", "finewebs"], Faults::default(), &["finewebs", "fineweb-edu, openwebtext"]);
    refused(
        &["prepare", "tinystories"],
        Faults { corrupt: 2, ..Faults::default() },
        &["was damaged in two downloads"],
    );
    let output =
        place.command(&["prepare", "climbmix"]).env("HF_HUB_OFFLINE", "1").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("not in the cache"), "{}", stderr(&output));
    let output = place.run(&["prepare", "x.txt", "--sample", "y"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_disk_that_is_too_small_is_refused_before_the_download() {
    let place = HubFolder::new();
    let folder = place.path("root/datasets/Skylion007/openwebtext/plain_text");
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join("train-00000-of-00080.parquet");
    fs::File::create(&file).unwrap().set_len(1 << 42).unwrap(); // sparse
    let hash = "a".repeat(64);
    fs::write(file.with_added_extension("sha"), format!("{} {hash} {hash}", 1_u64 << 42)).unwrap();
    let output = place.run(&["prepare", "openwebtext"]);
    assert_eq!(output.status.code(), Some(2));
    let printed = stderr(&output);
    assert!(printed.contains("to download: 4398.0 GB"), "{printed}");
    assert!(printed.contains("7696581394432 bytes are needed on the disk of"), "{printed}");
    assert!(printed.contains("--files N"), "{printed}");
    let is_content = |request: &super::server::Request| request.target.contains("resolve");
    assert!(!place.server.take_requests().iter().any(is_content));
}

#[test]
fn a_killed_download_is_resumed() {
    let place = HubFolder::new();
    let folder = place.path("root/datasets/kjj0/fineweb10B-gpt2");
    fs::create_dir_all(&folder).unwrap();
    for (name, tokens) in [("fineweb_val_000000.bin", 5_000), ("fineweb_train_000001.bin", 900_000)]
    {
        let mut bytes = [20_240_520_i32, 1, tokens].map(i32::to_le_bytes).concat();
        bytes.resize(1024, 0);
        bytes.extend((0..tokens).flat_map(|i| ((i * 7 % 50_257) as u16).to_le_bytes()));
        fs::write(folder.join(name), bytes).unwrap();
    }
    let pause = std::time::Duration::from_millis(20);
    place.server.set(Faults { pause, ..Faults::default() });
    let blobs = place.path("hf/hub/datasets--kjj0--fineweb10B-gpt2/blobs");
    let incomplete = || -> u64 {
        let entries = fs::read_dir(&blobs).into_iter().flatten().flatten();
        let incomplete = |path: &Path| path.extension().is_some_and(|e| e == "incomplete");
        let lengths = entries.filter(|entry| incomplete(&entry.path()));
        lengths.filter_map(|entry| Some(entry.metadata().ok()?.len())).max().unwrap_or(0)
    };
    let mut before = 200_000;
    for _ in 0..2 {
        let mut child = place.command(&["prepare", "fineweb10B-gpt2"]).spawn().unwrap();
        while incomplete() <= before {
            assert!(child.try_wait().unwrap().is_none(), "it ended before it was killed");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        before = incomplete() + 200_000;
    }
    place.server.take_requests();
    let summary = ok(&place.run(&["prepare", "fineweb10B-gpt2", "--json"]));
    assert_eq!(summary["train_tokens"], 900_000);
    assert_eq!(summary["val_tokens"], 5_000);
    let ranges = place.server.take_requests().into_iter().filter_map(|request| request.range);
    assert!(ranges.count() > 0, "it was resumed");
}

#[test]
fn a_model_is_downloaded_for_a_plan_and_for_its_weights() {
    let place = HubFolder::new();
    let model = place.path("root/models/owner/tiny");
    fs::create_dir_all(&model).unwrap();
    let config = r#"{"model_type": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 32,
        "n_positions": 64, "vocab_size": 100, "activation_function": "gelu_new",
        "layer_norm_epsilon": 1e-5, "tie_word_embeddings": true}"#;
    fs::write(model.join("config.json"), config).unwrap();
    let plan = ["plan", "--init_from=owner/tiny", "--block_size=64"];
    let output = place.run(&plan);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("--download"), "{}", stderr(&output));
    let plan: Vec<_> = plan.into_iter().chain(["--download"]).collect();
    let output = place.run(&plan);
    assert!(output.status.code().is_some_and(|code| code < 2), "{}", stderr(&output));
    let snapshots = place.path("hf/hub/models--owner--tiny/snapshots");
    assert!(snapshots.join(super::COMMIT).join("config.json").is_file());
    let output = place.run(&["sample", "--init_from=owner/tiny", "--download"]);
    assert_eq!(output.status.code(), Some(2));
    let printed = stderr(&output);
    assert!(printed.contains("`owner/tiny` has no `model.safetensors` (404)"), "{printed}");
}
