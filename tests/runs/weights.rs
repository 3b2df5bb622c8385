//! `init_from` a folder of weights, by its path and by GPT-2's name.

use std::fs;

use crate::program::{Ran, TestFolder, events};

/// A trained run with biases, as in GPT-2, from whose folder others start.
fn trained() -> TestFolder {
    let place = TestFolder::new();
    place.train(&[
        "--max_iters=12",
        "--eval_interval=12",
        "--bias=True",
        "--gelu=tanh",
        "--out_dir=first",
    ]);
    // Like a folder of another program: without optimizer state.
    let theirs = place.path("models/theirs");
    fs::create_dir_all(&theirs).unwrap();
    for name in ["config.json", "model.safetensors"] {
        fs::copy(place.path("first").join(name), theirs.join(name)).unwrap();
    }
    place
}

/// `train` with a config file whose sizes differ from those of the weights.
fn begin(place: &TestFolder, more: &[&str]) -> Ran {
    fs::write(place.path("sizes.py"), "n_layer = 3\nn_head = 1\nn_embd = 48\n").unwrap();
    let other = ["train", "sizes.py", "--dataset=tiny", "--batch_size=4"];
    // The first run began from the preset, which has this key.
    let rest = [
        "--gradient_accumulation_steps=1",
        "--eval_iters=2",
        "--eval_batch_size=8",
        "--device=cpu",
    ];
    place.run(&[&other[..], &rest, more].concat())
}

fn first_val_loss(place: &TestFolder, out_dir: &str) -> f64 {
    events(&place.path(out_dir), "evaluation")[0]["val_loss"].as_f64().unwrap()
}

#[test]
fn a_run_starts_from_the_weights_of_a_folder_and_takes_their_sizes() {
    let place = trained();
    // Evaluate the first run's last weights, in a copy because that writes events.
    fs::create_dir(place.path("copy")).unwrap();
    for name in ["config.json", "model.safetensors", "state.safetensors"] {
        fs::copy(place.path("first").join(name), place.path("copy").join(name)).unwrap();
    }
    let ran = place.run(&["train", "--init_from=resume", "--out_dir=copy", "--eval_only=True"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);

    let ran = begin(
        &place,
        &["--init_from=models/theirs", "--block_size=24", "--out_dir=second", "--max_iters=3"],
    );
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let expected =
        "starts from the weights in models/theirs: 2 layers, 2 heads, 32 channels, 61 tokens";
    assert!(ran.stdout.contains(expected), "{}", ran.stdout);
    let (before, after) = (first_val_loss(&place, "copy"), first_val_loss(&place, "second"));
    assert!((before - after).abs() < 1e-12, "{before} and {after}");
    let config = fs::read_to_string(place.path("second/config.json")).unwrap();
    let config: serde_json::Value = serde_json::from_str(&config).unwrap();
    assert_eq!(
        (&config["n_layer"], &config["activation_function"]),
        (&2.into(), &"gelu_new".into())
    );
    assert_eq!(config["fitgpt"]["bias"], true);

    // And they can be sampled from as they are.
    let args = ["sample", "--init_from=models/theirs", "--start=1 2 3", "--max_new_tokens=5"];
    let ran = place.run(&[&args[..], &["--dataset=tiny", "--num_samples=2", "--json"]].concat());
    assert_eq!(ran.code, Some(0), "{}", ran.stdout);
    assert_eq!(ran.json()["samples"].as_array().unwrap().len(), 2);

    // The new run has its own moments and position, and resumes like any other.
    let ran = place.run(&["train", "--init_from=resume", "--out_dir=second", "--max_iters=5"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let steps = events(&place.path("second"), "step");
    assert_eq!(steps.iter().map(|s| s["step"].as_u64().unwrap()).max(), Some(5));
    assert_eq!(steps.len(), 6);
}

#[test]
fn fewer_positions_are_cropped_and_more_are_refused() {
    let place = trained();
    let from = ["--init_from=./models/theirs", "--max_iters=1", "--out_dir=out"];
    let ran = begin(&place, &[&from[..], &["--block_size=16", "--dropout=0.1"]].concat());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stdout.contains("the first 16 of 24 positions"), "{}", ran.stdout);
    let ran = begin(&place, &[&from[..], &["--block_size=48"]].concat());
    assert_eq!(ran.code, Some(2), "{}", ran.stdout);
    assert!(ran.stderr.contains("block_size = 48") && ran.stderr.contains("24"), "{}", ran.stderr);
}

#[test]
fn missing_weights_are_reported_with_the_folders_tried_and_how_to_get_them() {
    let place = trained();
    let ran = begin(&place, &["--init_from=models/none", "--out_dir=out"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("`models/none`"), "{}", ran.stderr);

    let hub = place.path("hf");
    let named = |name: &str| {
        let init = format!("--init_from={name}");
        let args = ["train", "--dataset=tiny", "--block_size=24", "--out_dir=out", &init];
        let output = place.command(&args).env("HF_HOME", &hub).env_remove("HF_HUB_CACHE").output();
        let output = output.unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, stderr) = named("gpt2-medium");
    assert_eq!(code, Some(2));
    for part in ["hf/hub/models--gpt2-medium/snapshots", "`--download`", "--init_from="] {
        assert!(stderr.contains(part), "no `{part}` in {stderr}");
    }
    // Found in the cache, but another model than its name says.
    let snapshot = hub.join("hub/models--gpt2/snapshots/abc");
    fs::create_dir_all(&snapshot).unwrap();
    for name in ["config.json", "model.safetensors"] {
        fs::copy(place.path("models/theirs").join(name), snapshot.join(name)).unwrap();
    }
    let (code, stderr) = named("gpt2");
    assert_eq!(code, Some(2));
    assert!(stderr.contains("snapshots/abc") && stderr.contains("n_layer = 2"), "{stderr}");
    assert!(!place.path("out").exists());
}

#[test]
fn weights_of_another_kind_of_model_are_refused_by_key() {
    let place = trained();
    let config = place.path("models/theirs/config.json");
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, text.replace("\"gpt2\"", "\"bert\"")).unwrap();
    let ran = begin(&place, &["--init_from=models/theirs", "--out_dir=out"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("model_type") && ran.stderr.contains("bert"), "{}", ran.stderr);
    // The vocabulary comes from the weights, so tokens beyond it are an error, not a crash.
    let ran =
        begin(&place, &["--init_from=first/", "--out_dir=out", "--max_iters=1", "--block_size=24"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    fs::write(place.path("data/tiny/train.bin"), [70u8, 0].repeat(2000)).unwrap();
    let ran =
        begin(&place, &["--init_from=first/", "--out_dir=new", "--max_iters=1", "--block_size=24"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("70") && ran.stderr.contains("61"), "{}", ran.stderr);
}
