//! The plan is the allocation: resident memory and hard limits, with the 124M model.

use std::{
    fs,
    io::Read,
    os::unix::process::CommandExt as _,
    process::{Command, Stdio},
    time::Duration,
};

use crate::program::TestFolder;

/// 124M, batch 4, block 1024, float32: one step and one evaluation.
const GPT2: &[&str] = &[
    "--dataset=tiny",
    "--n_layer=12",
    "--n_head=12",
    "--n_embd=768",
    "--vocab_size=50304",
    "--batch_size=4",
    "--gradient_accumulation_steps=1",
    "--block_size=1024",
    "--dtype=float32",
    "--device=cpu",
    "--max_iters=0",
    "--eval_interval=1",
    "--eval_iters=1",
    "--compile=False",
];

fn planned_bytes(place: &TestFolder, more: &[&str]) -> u64 {
    let ran = place.run(&[&["plan", "--json", "--budget=20GB"], GPT2, more].concat());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    ran.json()["arena_bytes"].as_u64().unwrap()
}

/// Peak resident bytes of a process that runs to its end.
fn peak_resident_bytes(mut command: Command) -> u64 {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    // `VmHWM` only grows, so the last reading before the end is the peak: at the end memory is only
    // freed.
    while child.try_wait().unwrap().is_none() {
        let text = fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kilobytes = line.and_then(|l| l.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        peak = kilobytes.map_or(peak, |k| k * 1024);
        std::thread::sleep(Duration::from_millis(10));
    }
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert!(child.wait().unwrap().success(), "{stderr}");
    peak
}

/// Limits the address space of a command to `bytes`.
fn limited(place: &TestFolder, args: &[&str], bytes: u64) -> Command {
    let program = place.command(args);
    let mut command = Command::new("/bin/sh");
    command.current_dir(program.get_current_dir().unwrap());
    // `ulimit -v` counts in KiB.
    let script = format!("ulimit -v {} && exec \"$@\"", bytes / 1024);
    command.arg("-c").arg(script).arg0("sh").arg("sh").arg(program.get_program());
    command.args(program.get_args());
    command
}

#[test]
fn resident_memory_stays_within_five_percent_of_the_plan() {
    let place = TestFolder::new();
    let planned = planned_bytes(&place, &[]);
    assert!(planned <= 4_600_000_000, "{planned}");
    let train = [&["train", "--json", "--out_dir=out", "--budget=20GB"], GPT2].concat();
    let peak = peak_resident_bytes(place.command(&train));
    let share = peak as f64 / planned as f64;
    assert!((0.95..1.05).contains(&share), "{peak} resident, {planned} planned: {share}");
}

#[test]
fn a_limit_just_above_the_plan_is_enough_and_one_below_is_refused_first() {
    let place = TestFolder::new();
    // Recomputing and short, so that a second run of the 124M model costs little time.
    let recompute = ["--grad_checkpoint=True", "--batch_size=1", "--block_size=256"];
    let planned = planned_bytes(&place, &recompute);
    let train = [&["train", "--json", "--out_dir=out"], GPT2, &recompute[..]].concat();
    let allowance = fitgpt_run::budget::HOST_OVERHEAD.range()[1].get();
    // The budget keeps one part in 64 of what it finds for the system.
    let enough = (planned + allowance) * 64 / 63 + allowance;
    let output = limited(&place, &train, enough).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");

    let train = [&train[..], &["--out_dir=other"]].concat();
    let output = limited(&place, &train, planned).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["fits"], false);
}
