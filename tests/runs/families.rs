//! Families other than GPT-2 through the command line, from folders that `transformers` wrote.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Stdio,
};

use serde_json::{Value, json};

use crate::program::{Ran, TestFolder, events, steps_logged, wait_until};

/// Every command that takes a config.
const COMMANDS: [&str; 4] = ["plan", "fit", "train", "sample"];

/// A copy of a folder of `tests/golden/families`, as `name` in the place.
fn folder(place: &TestFolder, family: &str, name: &str) -> PathBuf {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/families").join(family);
    let copy = place.path(name);
    fs::create_dir_all(&copy).unwrap();
    for file in ["config.json", "model.safetensors"] {
        fs::copy(golden.join(file), copy.join(file)).unwrap();
    }
    copy
}

/// Changes `config.json` of a folder.
fn change(folder: &Path, change: impl FnOnce(&mut Value)) {
    let path = folder.join("config.json");
    let mut config: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    change(&mut config);
    fs::write(path, config.to_string()).unwrap();
}

fn train(place: &TestFolder, more: &[&str]) -> Ran {
    let common = ["train", "--dataset=tiny", "--batch_size=4", "--gradient_accumulation_steps=1"];
    let rest = ["--eval_iters=2", "--device=cpu", "--warmup_iters=2", "--learning_rate=0.001"];
    place.run(&[&common[..], &rest, more].concat())
}

fn losses(out_dir: &Path) -> Vec<f64> {
    events(out_dir, "step").iter().map(|event| event["loss"].as_f64().unwrap()).collect()
}

#[test]
fn a_llama_folder_plans_trains_is_killed_resumes_bit_for_bit_and_samples() {
    let place = TestFolder::new();
    // A name without a slash is a folder too.
    folder(&place, "llama_ragged", "theirs");
    let run = ["--init_from=theirs", "--block_size=32", "--eval_interval=5", "--max_iters=60"];

    let plan = place.run(&[
        "plan",
        "--init_from=theirs",
        "--block_size=32",
        "--batch_size=4",
        "--gradient_accumulation_steps=1",
        "--device=cpu",
        "--json",
    ]);
    assert_eq!(plan.code, Some(0), "{}", plan.stderr);
    let plan = plan.json();
    assert_eq!(plan["config"]["model"]["family"], "llama");
    assert_eq!((&plan["config"]["n_kv_head"], &plan["config"]["n_head"]), (&1.into(), &7.into()));

    let whole = train(&place, &[&run[..], &["--out_dir=whole"]].concat());
    assert_eq!(whole.code, Some(0), "{}", whole.stderr);
    let planned = &events(&place.path("whole"), "plan")[0]["plan"]["arena_bytes"];
    assert_eq!(planned, &plan["arena_bytes"], "what was planned is what was allocated");
    let losses_whole = losses(&place.path("whole"));
    assert_eq!(losses_whole.len(), 61);
    assert!(losses_whole[60] < losses_whole[0] - 0.3, "it learns: {losses_whole:?}");

    let args = [
        &[
            "train",
            "--dataset=tiny",
            "--batch_size=4",
            "--gradient_accumulation_steps=1",
            "--eval_iters=2",
            "--device=cpu",
            "--warmup_iters=2",
            "--learning_rate=0.001",
        ],
        &run[..],
        &["--out_dir=killed"],
    ]
    .concat();
    let mut command = place.command(&args);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let killed = place.path("killed");
    wait_until("it has saved", || steps_logged(&killed) > 7 || child.try_wait().unwrap().is_some());
    child.kill().unwrap();
    child.wait().unwrap();
    let ran = place.run(&["train", "--init_from=resume", "--out_dir=killed"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(losses(&killed), losses_whole);
    let values = |name: &str| {
        let bytes = fs::read(place.path(name).join("model.safetensors")).unwrap();
        let header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        bytes[8 + header..].to_vec()
    };
    assert!(values("killed") == values("whole"), "the weights differ");

    let config: Value =
        serde_json::from_str(&fs::read_to_string(killed.join("config.json")).unwrap()).unwrap();
    assert_eq!(config["eos_token_id"], 2, "ids of special tokens stay");
    assert_eq!(config["model_type"], "llama");
    let sample = |more: &[&str]| {
        let common = ["sample", "--out_dir=killed", "--start=1 2 3", "--temperature=0", "--json"];
        let ran = place.run(&[&common[..], more].concat());
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        ran.json()["samples"][0]["tokens"].clone()
    };
    // Sampling with the cache equals recomputing everything, and continues past the block.
    let cached = sample(&["--num_samples=2", "--max_new_tokens=20"]);
    assert_eq!(cached.as_array().unwrap().len(), 23);
    assert_eq!(sample(&["--num_samples=1", "--max_new_tokens=20", "--exact"]), cached);
    assert_eq!(sample(&["--num_samples=1", "--max_new_tokens=50"]).as_array().unwrap().len(), 53);
}

#[test]
fn every_family_trains_from_scratch_and_resumes() {
    let place = TestFolder::new();
    for family in ["llama", "mistral", "qwen2", "qwen3"] {
        let (of, out) = (format!("--family={family}"), format!("--out_dir={family}"));
        let shape = [
            "--vocab_size=61",
            "--n_layer=2",
            "--n_head=4",
            "--n_kv_head=2",
            "--n_embd=32",
            "--block_size=24",
            "--max_iters=6",
            "--eval_interval=3",
        ];
        let ran = train(&place, &[&shape[..], &[&of, &out]].concat());
        assert_eq!(ran.code, Some(0), "{family}: {}", ran.stderr);
        let ran = place.run(&["train", "--init_from=resume", &out, "--max_iters=8"]);
        assert_eq!(ran.code, Some(0), "{family}: {}", ran.stderr);
        assert_eq!(losses(&place.path(family)).len(), 9, "{family}");
    }
}

#[test]
fn unsupported_features_are_refused_by_name_in_every_command() {
    let place = TestFolder::new();
    let cases: [(&str, &str, Value); 6] = [
        ("yarn", "rope_type", json!({ "rope_type": "yarn", "factor": 4.0, "rope_theta": 1e4 })),
        ("moe", "num_experts", json!(8)),
        ("gelu", "hidden_act", json!("gelu")),
        ("windowed", "sliding_window", json!(8)),
        ("type", "model_type", json!("gemma2")),
        ("shape", "num_key_value_heads", json!(5)),
    ];
    for (name, key, value) in cases {
        let family = if name == "windowed" { "mistral" } else { "llama_tied" };
        let written = if name == "yarn" { "rope_parameters" } else { key };
        change(&folder(&place, family, name), |config| config[written] = value);
        let init = format!("--init_from={name}");
        for command in COMMANDS {
            let ran = place.run(&[
                command,
                &init,
                "--dataset=tiny",
                "--block_size=16",
                "--max_new_tokens=15",
                "--start=1",
                "--out_dir=out",
            ]);
            assert_eq!(ran.code, Some(2), "{command} {name}: {}{}", ran.stdout, ran.stderr);
            assert!(ran.stderr.contains(key), "{command} {name}: {}", ran.stderr);
        }
        // A window shorter than the block is refused because of `block_size`.
        if name != "windowed" {
            let log = place.path("log.txt");
            fs::write(&log, "torch.cuda.OutOfMemoryError: CUDA out of memory.\n").unwrap();
            let ran = place.run(&["doctor", "log.txt", &init]);
            assert_eq!(ran.code, Some(2), "doctor {name}: {}", ran.stdout);
            assert!(ran.stderr.contains(key), "doctor {name}: {}", ran.stderr);
        }
    }
    assert!(!place.path("out").exists());
}

#[test]
fn a_name_selects_exactly_its_model_or_none() {
    let place = TestFolder::new();
    let hub = place.path("hf");
    let plan = |name: &str, more: &[&str]| {
        let init = format!("--init_from={name}");
        let args = [&["plan", "--json", "--budget=1TB", "--batch_size=1", &init], more].concat();
        let output = place.command(&args).env("HF_HOME", &hub).env_remove("HF_HUB_CACHE").output();
        let output = output.unwrap();
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        (output.status.code(), answer)
    };
    let (code, answer) = plan("meta-llama/Llama-3.2-1B", &[]);
    assert_eq!(code, Some(0), "{answer}");
    assert_eq!(answer["phases"][0]["classes"]["parameters"], 4_u64 * 1_235_814_400);
    assert_eq!(answer["config"]["model"]["family"], "llama");
    // The model in the cache has precedence over the table.
    let snapshot = hub.join("hub/models--org--qwen/snapshots/abc");
    fs::create_dir_all(&snapshot).unwrap();
    let theirs = folder(&place, "qwen3", "theirs");
    fs::copy(theirs.join("config.json"), snapshot.join("config.json")).unwrap();
    let (code, answer) = plan("org/qwen", &[]);
    assert_eq!(code, Some(0), "{answer}");
    let config = &answer["config"];
    assert_eq!((&config["family"], &config["head_dim"]), (&json!("qwen3"), &json!(16)));
    assert_eq!(config["block_size"], 22, "all positions there are");
    for name in ["gtp2", "somebody/Llama-3.2-1B-mine", "tiiuae/falcon-7b", "./nowhere"] {
        let (code, answer) = plan(name, &[]);
        assert_eq!(code, Some(2), "{name}: {answer}");
        assert!(answer["error"]["message"].as_str().unwrap().contains(name), "{answer}");
    }
    let (code, answer) = plan("org/qwen", &["--engine=torch"]);
    assert_eq!(code, Some(2), "{answer}");
    assert!(answer["error"]["message"].as_str().unwrap().contains("qwen3"), "{answer}");
}

#[test]
fn wide_tokens_train_and_a_tokenizer_stays_with_its_folder() {
    let place = TestFolder::new();
    let theirs = folder(&place, "llama_tied", "theirs");
    fs::write(theirs.join("tokenizer.json"), TOKENIZER).unwrap();
    let data = place.path("data/wide");
    fs::create_dir_all(&data).unwrap();
    for name in ["train.u32.bin", "val.u32.bin"] {
        let tokens = (0..3000_u32).flat_map(|i| (i * i % 61).to_le_bytes());
        fs::write(data.join(name), tokens.collect::<Vec<_>>()).unwrap();
    }
    let begin = [
        "--init_from=theirs",
        "--dataset=wide",
        "--block_size=16",
        "--max_iters=4",
        "--eval_interval=2",
        "--always_save_checkpoint=False",
        "--out_dir=out",
    ];
    let ran = train(&place, &begin);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    for dir in ["theirs", "out", "out/best"] {
        let args = [format!("--init_from={dir}"), "--start=a b a".to_owned()];
        let common = ["sample", "--num_samples=1", "--max_new_tokens=4", "--top_k=2", "--json"];
        let ran = place.run(&[&common[..], &args.each_ref().map(String::as_str)].concat());
        assert_eq!(ran.code, Some(0), "{dir}: {}{}", ran.stdout, ran.stderr);
        let sample = &ran.json()["samples"][0];
        assert!(sample["text"].as_str().unwrap().starts_with("a b a"), "{dir}: {sample}");
        assert_eq!(sample["tokens"].as_array().unwrap()[..3], [json!(0), json!(1), json!(0)]);
    }
    fs::write(theirs.join("tokenizer.json"), "{}").unwrap();
    let ran = place.run(&["sample", "--init_from=theirs", "--num_samples=1"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("tokenizer.json"), "{}", ran.stderr);
}

/// Words, a space apart.
const TOKENIZER: &str = r#"{"version": "1.0", "added_tokens": [], "normalizer": null,
    "pre_tokenizer": {"type": "Whitespace"}, "post_processor": null, "decoder": null,
    "model": {"type": "WordLevel", "vocab": {"a": 0, "b": 1, "?": 2}, "unk_token": "?"}}"#;
