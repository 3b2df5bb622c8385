//! `devices` and its watch, on real processes; cards through a fake of NVIDIA's library.

use std::{
    io::{BufRead as _, BufReader, Lines},
    process::{Child, ChildStdout, Stdio},
};

use serde_json::Value;

use crate::program::{TINY, TestFolder, events, steps_logged, wait_until};

/// A process that runs until it is dropped.
struct Running(Child);

impl Running {
    fn training(place: &TestFolder) -> Self {
        let args = [&["train"], TINY, &["--max_iters=1000000", "--eval_interval=1000000"]].concat();
        let mut command = place.command(&[&args[..], &["--out_dir=out"]].concat());
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        wait_until("it has made steps", || steps_logged(&place.path("out")) > 3);
        Self(child)
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn devices_names_the_limits_and_the_budget_is_below_the_lowest() {
    let place = TestFolder::new();
    let ran = place.run(&["devices", "--json"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let report = ran.json();
    let host = &report["host"];
    let least = &host["least"];
    let limits = host["limits"].as_array().unwrap();
    let bytes = limits.iter().map(|limit| limit["bytes"].as_u64().unwrap()).min().unwrap();
    let deciding = limits.iter().find(|limit| limit["limit"] == *least).unwrap();
    assert_eq!(deciding["bytes"], bytes);
    assert_eq!(host["budget_bytes"], bytes - bytes / 64);
    assert!(report["cpu"]["threads"].as_u64().unwrap() > 0);
    assert_eq!(report["backends"], serde_json::json!(["cpu"]));

    let ran = place.run(&["devices", "--budget=3GiB", "--threads=3"]);
    assert!(ran.stdout.contains("3072 MiB, as configured"), "{}", ran.stdout);
    assert!(ran.stdout.contains("threads: 3"), "{}", ran.stdout);
    assert!(ran.stdout.contains("CPU only"), "{}", ran.stdout);
}

#[test]
fn a_self_test_compares_every_op_in_three_types_and_times_training() {
    let place = TestFolder::new();
    let ran = place.run(&["devices", "--selftest", "--device=cpu", "--json"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let report = ran.json();
    assert_eq!(report["passed"], true);
    let ops = report["selftest"]["ops"].as_array().unwrap();
    assert!(ops.len() > 25, "{} ops", ops.len());
    for name in ["attention_backward", "cross_entropy_backward", "linear_gelu", "adamw"] {
        let op = ops.iter().find(|op| op["op"] == name).unwrap();
        assert!(op["tensors"].as_u64().unwrap() > 0 && op["failures"] == serde_json::json!([]));
        assert!(op["worst"].as_f64().unwrap() < 1.0, "{op}");
        assert!(op["time"]["ms"].as_f64().unwrap() > 0.0, "{op}");
    }
    let attention = ops.iter().find(|op| op["op"] == "attention").unwrap();
    assert_eq!(attention["types"].as_array().unwrap().len(), 3);
}

/// Starts a watch and reads its first two lines.
fn begun(place: &TestFolder, args: &[&str]) -> (Child, Vec<String>, Lines<BufReader<ChildStdout>>) {
    let mut watch = place.command(args).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let first = lines.by_ref().take(2).map(Result::unwrap).collect();
    (watch, first, lines)
}

#[test]
fn a_watched_run_stays_within_its_plan_and_the_watch_ends_with_it() {
    let place = TestFolder::new();
    let training = Running::training(&place);
    let pid = training.pid();
    let args = ["devices", "--watch", &pid, "--every=0.02"];
    let keys = ["--batch_size=2", "--n_layer=1", "--n_head=2", "--n_embd=64"];
    let (mut for_programs, mut samples, objects) =
        begun(&place, &[&args[..], &["--json"]].concat());
    let (mut for_people, mut lines, more) = begun(&place, &[&args[..], &keys].concat());
    drop(training);
    samples.extend(objects.map(Result::unwrap));
    lines.extend(more.map(Result::unwrap));
    assert_eq!(for_programs.wait().unwrap().code(), Some(0));
    assert_eq!(for_people.wait().unwrap().code(), Some(0));

    let mut samples: Vec<Value> =
        samples.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let summary = samples.pop().unwrap()["summary"].clone();
    assert_eq!(summary["samples"], samples.len());
    assert!(summary["peak_bytes"].as_u64() >= samples[0]["process"]["resident_bytes"].as_u64());
    // The plan of a run is found if the system lists open files.
    if cfg!(target_os = "linux") {
        let arena = &events(&place.path("out"), "plan")[0]["plan"]["arena_bytes"];
        assert_eq!(samples[0]["process"]["pid"].to_string(), pid);
        assert_eq!(&samples[0]["plan"]["arena_bytes"], arena);
        // The whole arena was touched before the first step.
        assert!(samples[0]["process"]["resident_bytes"].as_u64() > arena.as_u64());
        assert_eq!(summary["is_within_plan"], true, "{summary}");
    }

    let [samples @ .., peak, plan, difference] = &lines[..] else { panic!("{lines:?}") };
    for line in samples {
        assert!(line.contains(&format!(" s  {pid} fitgpt  █")), "{line}");
        assert!(line.contains(" resident  plan ┃ "), "{line}");
    }
    assert!(peak.starts_with(&format!("{} samples in ", samples.len())), "{peak}");
    assert!(plan.starts_with("plan: arena "), "{plan}");
    assert!(difference.starts_with("difference: "), "{difference}");
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_a_watch_with_exit_code_zero() {
    let place = TestFolder::new();
    let (mut watch, _, lines) = begun(&place, &["devices", "--watch", "--every=0.02", "--json"]);
    let pid = rustix::process::Pid::from_child(&watch);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let last = lines.map(Result::unwrap).last().unwrap();
    assert!(last.starts_with("{\"summary\":"), "{last}");
    assert_eq!(watch.wait().unwrap().code(), Some(0));
}

#[test]
fn a_missing_process_is_named() {
    let place = TestFolder::new();
    let ran = place.run(&["devices", "--watch", "4294967294"]);
    assert_eq!(ran.code, Some(2));
    assert_eq!(
        ran.stderr,
        "error: there is no process 4294967294\n\n\
         hint: `fitgpt devices --watch` without a process shows the memory of this machine\n"
    );
    let ran = place.run(&["devices", "--watch", "4294967294", "--json"]);
    assert_eq!((ran.code, &ran.json()["error"]["kind"]), (Some(2), &"process".into()));
    for wrong in [&["--watch", "me"][..], &["--watch", "--every=0"], &["--every=1"]] {
        let ran = place.run(&[&["devices"], wrong].concat());
        assert_eq!(ran.code, Some(2), "{wrong:?}");
    }
}

/// A process with this name that sleeps until it is dropped.
#[cfg(target_os = "linux")]
fn process_named(place: &TestFolder, name: &str) -> Running {
    let program = place.path(name);
    std::fs::copy("/bin/sleep", &program).unwrap();
    Running(std::process::Command::new(program).arg("600").spawn().unwrap())
}

#[cfg(target_os = "linux")]
#[test]
fn a_python_process_is_compared_with_pytorchs_plan_and_never_with_an_arena() {
    let place = TestFolder::new();
    let python = process_named(&place, "python3");
    let (pid, card) = (python.pid(), "--gpu=RTX 4070");
    let watch = ["devices", "--watch", &pid, "--for=0.01", card, "--batch_size=4"];
    let ran = place.run(&watch);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(!ran.stdout.contains("arena") && !ran.stdout.contains("within"), "{}", ran.stdout);
    let json = place.run(&[&watch[..], &["--json"]].concat()).stdout;
    let summary: Value = serde_json::from_str(json.lines().last().unwrap()).unwrap();
    let plan = &summary["summary"]["plan"];
    assert_eq!((&plan["engine"], &plan["memory"]), (&"torch".into(), &"card".into()));
}

/// Compiles the stand-in into `place` and returns the folder for the loader's search path.
#[cfg(target_os = "linux")]
fn stand_in(place: &TestFolder) -> std::path::PathBuf {
    let folder = place.path("driver");
    std::fs::create_dir(&folder).unwrap();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/stand_ins/nvml.rs");
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let made = std::process::Command::new(rustc)
        .args(["--edition=2024", "--crate-type=cdylib", source, "-o"])
        .arg(folder.join("libnvidia-ml.so.1"))
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    folder
}

#[cfg(target_os = "linux")]
#[test]
fn a_card_is_queried_through_its_driver() {
    const GIB: u64 = 1 << 30;
    let place = TestFolder::new();
    let folder = stand_in(&place);
    let training = Running::training(&place);
    let run = |args: &[&str]| {
        let mut command = place.command(args);
        command.env("LD_LIBRARY_PATH", &folder).env("STAND_IN_PID", training.pid());
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };

    let report = serde_json::from_str::<Value>(&run(&["devices", "--json"])).unwrap();
    assert_eq!(report["driver"], serde_json::json!({ "driver": "550.54.14", "cuda": "12.4" }));
    assert_eq!(report["no_driver"], Value::Null);
    let card = &report["cards"][0];
    assert_eq!(card["name"], "NVIDIA GeForce RTX 4070");
    assert_eq!(card["compute_capability"], "8.9");
    assert_eq!(card["has_bf16"], true);
    assert_eq!(card["memory"]["total_bytes"], 12 * GIB);
    assert_eq!(card["memory"]["free_bytes"], 12 * GIB - GIB / 4 - 3 * GIB);
    // Largest first; a process that computes and draws is listed once, by its file's name.
    let holders = card["processes"].as_array().unwrap();
    assert_eq!(holders.len(), 2, "{card}");
    assert_eq!((&holders[0]["name"], &holders[0]["bytes"]), (&"fitgpt".into(), &(2 * GIB).into()));
    assert_eq!((&holders[1]["name"], &holders[1]["bytes"]), (&"python3".into(), &GIB.into()));

    let text = run(&["devices"]);
    assert!(text.contains("driver 550.54.14, CUDA 12.4"), "{text}");
    assert!(text.contains("4711 python3 1024 MiB"), "{text}");

    // This build cannot use the card, which is printed unless `--device=cpu` was given.
    let train = [&["train"], TINY, &["--max_iters=1", "--out_dir=another"]].concat();
    for (device, is_reported) in [("--device=auto", true), ("--device=cpu", false)] {
        let mut command = place.command(&[&train[..], &[device]].concat());
        let output = command.env("LD_LIBRARY_PATH", &folder).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(stderr.contains("NVIDIA GeForce RTX 4070 is present"), is_reported, "{stderr}");
        assert_eq!(
            stderr.contains("`cargo build --release --features gpu`"),
            is_reported,
            "{stderr}"
        );
    }

    // PyTorch's plan is compared with the card memory of the process.
    let pid = training.pid();
    let watch = ["devices", "--watch", &pid, "--every=0.1", "--for=0.05", "--engine=torch"];
    let keys = ["--gpu=RTX 4070", "--batch_size=1", "--gradient_accumulation_steps=1"];
    let text = run(&[&watch[..], &keys].concat());
    assert!(text.contains("this process 2048 MiB  others: 4711 python3 1024 MiB"), "{text}");
    assert!(text.contains("peak 2048 MiB"), "{text}");
    // PyTorch has no arena and does not run within a plan.
    assert!(text.contains("PyTorch plan: tensors "), "{text}");
    assert!(!text.contains("arena") && !text.contains("within the plan"), "{text}");
}
