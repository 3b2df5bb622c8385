//! Devices that fail during a run, and devices with too little memory.
//!
//! A failed device stays failed for its process. So each fault is injected in a child process: this
//! binary again, running only the ignored test below.

use std::{
    path::Path,
    process::{Command, ExitCode},
};

use fitgpt_gpu::{AdapterKind, GpuDevice, InjectedFault, adapters};

use crate::{LOSS_TOLERANCE, SMALL, fitgpt, losses, train};

/// All runs decay the learning rate over the same number of steps.
const DECAY: &str = "--lr_decay_iters=10";
const FOLDER: &str = "FITGPT_TEST_FOLDER";
const FAULT: &str = "FITGPT_TEST_FAULT";

/// Trains to a checkpoint, then resumes on a device that fails after some steps.
#[test]
#[ignore = "run in a child process by the test below"]
fn child() {
    let fault = match std::env::var(FAULT).unwrap().as_str() {
        "panics" => InjectedFault::Panics,
        "lost" => InjectedFault::IsLost,
        "hangs" => InjectedFault::Hangs,
        other => panic!("{other}"),
    };
    let out_dir = format!("--out_dir={}/out", std::env::var(FOLDER).unwrap());
    let run = |more: &[&str]| {
        let all = ["fitgpt", "train", "--device=vulkan", &out_dir].into_iter();
        fitgpt_cli::run(all.chain(more.iter().copied()).map(Into::into))
    };
    assert_eq!(run(&[&SMALL[..], &["--max_iters=4", DECAY]].concat()), ExitCode::SUCCESS);

    let adapter =
        adapters().into_iter().find(|adapter| adapter.kind == AdapterKind::Software).unwrap();
    // A step makes about 150 calls to the device; resuming writes 84 tensors.
    GpuDevice::open(&adapter).unwrap().inject_fault(fault, 600);
    let resume = ["--init_from=resume", "--max_iters=1000", "--dtype=float32", "--seed=7"];
    assert_eq!(run(&resume), ExitCode::from(2));
}

#[test]
fn a_device_that_panics_is_lost_or_hangs_ends_the_run_and_its_checkpoint_resumes() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    train(folder, &["--max_iters=10", "--device=cpu", "--out_dir=whole", DECAY]);
    let whole = losses(folder, "whole");
    for (fault, message) in [
        ("panics", "a test injected a panic"),
        ("lost", "a test injected a lost device"),
        ("hangs", "it has not answered for 5 s"),
    ] {
        let place = folder.join(fault);
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "faults::child", "--ignored", "--nocapture"]);
        let output = child.env(FOLDER, &place).env(FAULT, fault).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{stderr}");
        assert!(stderr.contains("failed: ") && stderr.contains(message), "{stderr}");
        assert!(stderr.contains("`--init_from=resume`"), "{stderr}");

        // The steps since the checkpoint run again, on another device.
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
fn an_arena_larger_than_the_device_is_refused_with_an_option_that_fits() {
    let folder = tempfile::tempdir().unwrap();
    // A million tokens in 64 layers: about 260 GiB, and no tensor larger than one allocation.
    let large = ["--n_layer=64", "--n_embd=64", "--block_size=1024", "--batch_size=1024"];
    let mut all = vec!["train", "--device=vulkan", "--memory_budget=9000GiB"];
    all.extend(SMALL.iter().filter(|key| **key != "--json"));
    all.extend(large);
    let output = fitgpt(folder.path(), &all);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("refused the arena of ") && stderr.contains(" is free"), "{stderr}");
    assert!(stderr.contains("hint: `--batch_size="), "{stderr}");
}
