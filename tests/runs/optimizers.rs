//! Whole runs with optimizers other than AdamW: threads, kills, resumes, plans.

use std::{fs, process::Stdio};

use serde_json::json;

use crate::program::{TINY, TestFolder, events, steps_logged, wait_until};

const OTHERS: [&str; 3] = ["--optimizer=adamw8bit", "--optimizer=muon", "--optimizer=lion"];

/// The losses of all steps, and the bytes of weights and optimizer states.
fn outcome(place: &TestFolder, out_dir: &str) -> (Vec<f64>, [Vec<u8>; 2]) {
    let folder = place.path(out_dir);
    let losses = events(&folder, "step").iter().map(|e| e["loss"].as_f64().unwrap()).collect();
    let values = ["model.safetensors", "state.safetensors"].map(|file| {
        // The header holds the id of the save; the values follow it.
        let bytes = fs::read(folder.join(file)).unwrap();
        let header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        bytes[8 + header..].to_vec()
    });
    (losses, values)
}

#[test]
fn every_optimizer_learns_and_the_number_of_threads_changes_no_bit() {
    let place = TestFolder::new();
    for optimizer in OTHERS {
        for threads in ["1", "2"] {
            let own = [format!("--threads={threads}"), format!("--out_dir={optimizer}-{threads}")];
            let common = ["--max_iters=30", "--eval_interval=15", optimizer];
            place.train(&[&common[..], &own.each_ref().map(String::as_str)].concat());
        }
        let one = outcome(&place, &format!("{optimizer}-1"));
        let first = one.0[0];
        let last = one.0[25..].iter().sum::<f64>() / (one.0.len() - 25) as f64;
        assert!(last < first - 0.3, "{optimizer}: from {first} to {last}");
        assert!(one == outcome(&place, &format!("{optimizer}-2")), "{optimizer}");
    }
}

#[test]
fn a_run_of_every_optimizer_that_is_killed_resumes_bit_for_bit() {
    for optimizer in OTHERS {
        let place = TestFolder::new();
        let common = ["--max_iters=60", "--eval_interval=10", "--eval_iters=1", optimizer];
        place.train(&[&common[..], &["--out_dir=whole"]].concat());

        let args = [&["train"], TINY, &common[..], &["--out_dir=killed"]].concat();
        let mut command = place.command(&args);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let out_dir = place.path("killed");
        wait_until("it has saved and gone on", || {
            out_dir.join("state.safetensors").exists() && steps_logged(&out_dir) > 12
        });
        child.kill().unwrap();
        child.wait().unwrap();

        let ran = place.run(&["train", "--init_from=resume", "--out_dir=killed"]);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        assert!(outcome(&place, "killed") == outcome(&place, "whole"), "{optimizer}");
    }
}

#[test]
fn a_checkpoint_is_not_resumed_with_another_optimizer() {
    let place = TestFolder::new();
    place.train(&["--max_iters=2", "--out_dir=adamw"]);
    let resume = ["train", "--init_from=resume", "--out_dir=adamw", "--max_iters=4"];
    let ran = place.run(&[&resume[..], &["--optimizer=muon"]].concat());
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("`optimizer = adamw`"), "{}", ran.stderr);
    assert!(ran.stderr.contains("muon"), "{}", ran.stderr);
}

#[test]
fn a_plan_shows_what_an_optimizer_keeps() {
    let place = TestFolder::new();
    let bytes = |optimizer: &str| {
        let args = ["plan", "--json", "--budget=20GB", "--n_embd=256", optimizer];
        let ran = place.run(&[&args[..1], TINY, &args[1..]].concat());
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        let phases = ran.json()["phases"].clone();
        let update = phases.as_array().unwrap().iter().find(|p| p["name"] == "update").unwrap();
        update["classes"]["optimizer"].as_f64().unwrap()
    };
    let adamw = bytes("--optimizer=adamw");
    // Two bytes instead of eight, and two scales per 256 elements; small parameters keep float32.
    let share = bytes("--optimizer=adamw8bit") / adamw;
    assert!((0.25..0.27).contains(&share), "{share}");
    // One moment instead of two.
    let share = bytes("--optimizer=lion") / adamw;
    assert!((share - 0.5).abs() < 1e-9, "{share}");
    // The same, except for tables and norms.
    let share = bytes("--optimizer=muon") / adamw;
    assert!((0.5..0.52).contains(&share), "{share}");
}

#[test]
fn lion_has_rates_of_its_own_and_a_rate_of_adamw_gets_a_note() {
    let place = TestFolder::new();
    let config = |extra: &[&str]| {
        let args = [&["plan", "--json", "--budget=20GB"], extra].concat();
        let ran = place.run(&args);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        let config = ran.json()["config"].clone();
        json!(["learning_rate", "min_lr", "weight_decay", "beta2"].map(|key| config[key].clone()))
    };
    assert_eq!(config(&[]), json!([6e-4, 6e-5, 0.1, 0.95]));
    assert_eq!(config(&["--optimizer=lion"]), json!([6e-5, 6e-6, 1.0, 0.99]));
    assert_eq!(config(&["--optimizer=lion", "--beta2=0.98"]), json!([6e-5, 6e-6, 1.0, 0.98]));

    let note = |rate: &str| {
        let ran = place.run(&["plan", "--budget=20GB", "--optimizer=lion", rate]);
        [&ran.stdout, &ran.stderr].iter().any(|text| text.contains("is a rate for AdamW"))
    };
    assert!(note("--learning_rate=6e-4"));
    assert!(!note("--learning_rate=1e-4"));
}

#[test]
fn pytorchs_plan_supports_only_nanogpts_optimizer() {
    let place = TestFolder::new();
    let ran = place.run(&["plan", "--engine=torch", "--gpu=RTX 4070", "--optimizer=muon"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("muon"), "{}", ran.stderr);
}
