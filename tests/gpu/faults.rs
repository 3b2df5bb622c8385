//! Devices that fail in the middle of a run, and devices that have too little memory.
//!
//! A device that has failed stays so for its process. So each trial is a child: this very
//! binary, asked for the one test below that is otherwise left out.

use std::{
    path::Path,
    process::{Command, ExitCode},
};

use fitgpt_gpu::{Device, Kind, Trial, adapters};

use crate::{LOSS_TOLERANCE, SMALL, fitgpt, losses, train};

/// The rate of learning falls until a step that all runs name.
const DECAY: &str = "--lr_decay_iters=10";
const FOLDER: &str = "FITGPT_TEST_FOLDER";
const TRIAL: &str = "FITGPT_TEST_TRIAL";

/// Trains to a checkpoint, and resumes on a device that fails after some steps.
#[test]
#[ignore = "a child of the test below"]
fn child() {
    let trial = match std::env::var(TRIAL).unwrap().as_str() {
        "panics" => Trial::Panics,
        "lost" => Trial::IsLost,
        "hangs" => Trial::Hangs,
        other => panic!("{other}"),
    };
    let out_dir = format!("--out_dir={}/out", std::env::var(FOLDER).unwrap());
    let run = |more: &[&str]| {
        let all = ["fitgpt", "train", "--device=vulkan", &out_dir].into_iter();
        fitgpt::cli::run(all.chain(more.iter().copied()).map(Into::into))
    };
    assert_eq!(run(&[&SMALL[..], &["--max_iters=4", DECAY]].concat()), ExitCode::SUCCESS);

    let adapter = adapters().into_iter().find(|adapter| adapter.kind == Kind::Software).unwrap();
    // A step asks the device for some 150 things; to resume is to write 84 tensors.
    Device::open(&adapter).unwrap().put_on_trial(trial, 600);
    let resume = ["--init_from=resume", "--max_iters=1000", "--dtype=float32", "--seed=7"];
    assert_eq!(run(&resume), ExitCode::from(2));
}

#[test]
fn a_device_that_panics_is_lost_or_hangs_ends_the_run_and_its_checkpoint_resumes() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    train(folder, &["--max_iters=10", "--device=cpu", "--out_dir=whole", DECAY]);
    let whole = losses(folder, "whole");
    for (trial, said) in [
        ("panics", "a test made it panic"),
        ("lost", "a test took it away"),
        ("hangs", "it has not answered for 2 s"),
    ] {
        let place = folder.join(trial);
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "faults::child", "--ignored", "--nocapture"]);
        let output = child.env(FOLDER, &place).env(TRIAL, trial).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{stderr}");
        assert!(stderr.contains("failed: ") && stderr.contains(said), "{stderr}");
        assert!(stderr.contains("`--init_from=resume`"), "{stderr}");

        // The steps since the checkpoint are made again, elsewhere.
        assert_ended_as(&place.join("out"), "failed");
        let resume = ["--init_from=resume", "--device=cpu", "--max_iters=10", "--out_dir=out"];
        train(&place, &[&resume[..], &[DECAY]].concat());
        assert_ended_as(&place.join("out"), "done");
        let (here, there) = (losses(&place, "out"), &whole);
        let (here, there) = (here.last().unwrap(), there.last().unwrap());
        assert!((here - there).abs() < LOSS_TOLERANCE, "{here} and {there}");
    }
}

fn assert_ended_as(out_dir: &Path, reason: &str) {
    let text = std::fs::read_to_string(out_dir.join("events.jsonl")).unwrap();
    let last: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert_eq!((&last["event"], &last["reason"]), (&"end".into(), &reason.into()));
}

#[test]
fn an_arena_that_the_device_does_not_have_is_refused_with_what_fits() {
    let folder = tempfile::tempdir().unwrap();
    // A million tokens in 64 layers: some 260 GiB, and no tensor larger than one allocation.
    let large = ["--n_layer=64", "--n_embd=64", "--block_size=1024", "--batch_size=1024"];
    let mut all = vec!["train", "--device=vulkan", "--memory_budget=9000GiB"];
    all.extend(SMALL.iter().filter(|key| **key != "--json"));
    all.extend(large);
    let output = fitgpt(folder.path(), &all);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("refused the arena of ") && said.contains(" are free"), "{said}");
    assert!(said.contains("hint: `--batch_size="), "{said}");
}
