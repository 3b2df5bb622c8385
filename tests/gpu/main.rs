//! Whole runs of the program on software Vulkan, compared with the same runs on the CPU.

mod faults;
mod waits;

use std::{
    path::Path,
    process::{Command, Output},
};

/// A small model on the built-in stories: every kind of op, in a few seconds.
const SMALL: [&str; 14] = [
    "--n_layer=2",
    "--n_head=2",
    "--n_embd=32",
    "--block_size=32",
    "--batch_size=4",
    "--gradient_accumulation_steps=2",
    "--dropout=0.1",
    "--eval_interval=5",
    "--eval_iters=2",
    "--warmup_iters=0",
    "--learning_rate=1e-3",
    "--dtype=float32",
    "--seed=7",
    "--json",
];

/// Losses near 8 come from about forty float32 ops whose sums run in another order, each off by a
/// few spacings (5e-7 there); ten steps of an optimizer that divides by roots add to that.
const LOSS_TOLERANCE: f64 = 2e-4;

fn fitgpt(folder: &Path, arguments: &[&str]) -> Output {
    std::fs::create_dir_all(folder).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_fitgpt"));
    command.env("LC_ALL", "C").current_dir(folder).args(arguments).output().unwrap()
}

fn train(folder: &Path, arguments: &[&str]) {
    let mut all = vec!["train"];
    all.extend(SMALL);
    all.extend(arguments);
    let output = fitgpt(folder, &all);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Losses of steps and evaluations, in order.
fn losses(folder: &Path, out_dir: &str) -> Vec<f64> {
    let text = std::fs::read_to_string(folder.join(out_dir).join("events.jsonl")).unwrap();
    let events = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    events
        .filter_map(|event| match event["event"].as_str() {
            Some("step") => event["loss"].as_f64(),
            Some("evaluation") => event["val_loss"].as_f64(),
            _ => None,
        })
        .collect()
}

fn assert_close(one: &[f64], other: &[f64]) {
    assert_eq!(one.len(), other.len());
    assert!(one.len() > 10, "{one:?}");
    for (a, b) in one.iter().zip(other) {
        assert!((a - b).abs() < LOSS_TOLERANCE, "{one:?} and {other:?}");
    }
}

#[test]
fn a_self_test_passes_and_names_its_device() {
    let folder = tempfile::tempdir().unwrap();
    let output = fitgpt(folder.path(), &["devices", "--selftest", "--device=vulkan", "--lang=en"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{text}");
    for part in ["Vulkan", "driver", "attention_backward", "float16", "none wrong", "timed"] {
        assert!(text.contains(part), "`{part}` is not in\n{text}");
    }
}

#[test]
fn ten_steps_an_evaluation_and_a_sample_match_the_cpu() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    train(folder, &["--max_iters=10", "--device=cpu", "--out_dir=cpu"]);
    train(folder, &["--max_iters=10", "--device=vulkan", "--out_dir=gpu"]);
    assert_close(&losses(folder, "cpu"), &losses(folder, "gpu"));

    // The most likely tokens after the same prompt, with the same weights.
    let sample = |device: &str| {
        let device = format!("--device={device}");
        let command = ["sample", "--out_dir=cpu", "--json", "--top_k=1", "--num_samples=2"];
        let more = ["--max_new_tokens=20", "--start=Once", "--dtype=float32", &device];
        let output = fitgpt(folder, &[&command[..], &more].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        answer["samples"].clone()
    };
    assert_eq!(sample("cpu"), sample("vulkan"));
}

#[test]
fn ten_steps_of_a_qwen_match_the_cpu() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // Heads wider than width / heads, and two query heads for each key head.
    let family = ["--family=qwen3", "--n_kv_head=1", "--head_dim=24", "--max_iters=10"];
    for (device, out_dir) in [("cpu", "--out_dir=cpu"), ("vulkan", "--out_dir=gpu")] {
        train(folder, &[&family[..], &[&format!("--device={device}"), out_dir]].concat());
    }
    assert_close(&losses(folder, "cpu"), &losses(folder, "gpu"));
}

#[test]
fn a_run_moves_from_the_cpu_to_the_gpu_and_back() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // All runs decay the learning rate over the same number of steps.
    let decay = "--lr_decay_iters=15";
    train(folder, &["--max_iters=15", "--device=cpu", "--out_dir=stayed", decay]);
    train(folder, &["--max_iters=5", "--device=cpu", "--out_dir=moved", decay]);
    for (device, end) in [("--device=vulkan", "--max_iters=10"), ("--device=cpu", "--max_iters=15")]
    {
        train(folder, &["--init_from=resume", "--out_dir=moved", device, end, decay]);
    }
    let (stayed, moved) = (losses(folder, "stayed"), losses(folder, "moved"));
    let (stayed, moved) = (stayed.last().unwrap(), moved.last().unwrap());
    assert!((stayed - moved).abs() < LOSS_TOLERANCE, "{stayed} and {moved}");
}

#[test]
fn a_run_in_float16_learns_as_the_cpu_does() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for device in ["cpu", "vulkan"] {
        let (out_dir, device) = (format!("--out_dir={device}"), format!("--device={device}"));
        train(folder, &["--max_iters=10", "--dtype=float16", &device, &out_dir]);
    }
    let (cpu, gpu) = (losses(folder, "cpu"), losses(folder, "vulkan"));
    assert_eq!(cpu.len(), gpu.len());
    // Activations are rounded to 2^-11 of themselves, possibly in different directions if sums
    // differ in their last bits.
    let apart = cpu.iter().zip(&gpu).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!(apart < 2e-2, "{cpu:?} and {gpu:?}");
}

#[test]
fn a_missing_device_is_reported_with_a_command_that_works() {
    let folder = tempfile::tempdir().unwrap();
    for device in ["gpu:7", "cuda:7", "metal", "vulkan:7"] {
        let output = fitgpt(folder.path(), &["train", &format!("--device={device}")]);
        assert_eq!(output.status.code(), Some(2));
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(stderr.contains(&format!("`device = '{device}'` is not available")), "{stderr}");
        assert!(stderr.contains("--device=cpu") && stderr.contains("--device=vulkan"), "{stderr}");
    }
}

#[test]
fn devices_lists_memory_limits_and_types() {
    let folder = tempfile::tempdir().unwrap();
    let output = fitgpt(folder.path(), &["devices", "--json"]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["backends"], serde_json::json!(["cpu", "gpu"]));
    assert!(report["vulkan"].as_str().unwrap().starts_with("1."), "{report}");
    let gpus = report["gpus"].as_array().unwrap();
    let software = gpus.iter().find(|gpu| gpu["is_software"] == true).unwrap();
    let number = |key: &str| software[key].as_u64().unwrap();
    assert!(number("free_bytes") <= number("total_bytes"), "{software}");
    assert_eq!(number("budget_bytes"), number("free_bytes") - number("free_bytes") / 64);
    assert!(number("max_binding_bytes") <= number("max_allocation_bytes"), "{software}");
    assert_eq!(software["types"], serde_json::json!(["float32", "float16"]));
    assert!(!software["driver"].as_str().unwrap().is_empty());
    let text = fitgpt(folder.path(), &["devices"]).stdout;
    let text = String::from_utf8_lossy(&text);
    assert!(text.contains("types: float32, float16"), "{text}");
    assert!(text.contains("minus one part in 64"), "{text}");
}

#[test]
fn a_plan_names_the_measured_pools_and_auto_ignores_software_drivers() {
    let folder = tempfile::tempdir().unwrap();
    let plan = |device: &str| {
        let output = fitgpt(folder.path(), &[&["plan", device][..], &SMALL].concat());
        serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap()
    };
    let here = plan("--device=vulkan");
    let pools = here["pools"].as_array().unwrap();
    let sum: u64 = pools.iter().map(|pool| pool["bytes"].as_u64().unwrap()).sum();
    assert!(sum > 0, "{here}");
    assert_eq!(here["overhead"]["workspace_bytes"], serde_json::json!([sum, sum]));
    let devices = fitgpt(folder.path(), &["devices", "--json"]).stdout;
    let devices: serde_json::Value = serde_json::from_slice(&devices).unwrap();
    let is_software = |gpu: &serde_json::Value| gpu["is_software"] == true;
    if devices["gpus"].as_array().unwrap().iter().all(is_software) {
        assert_eq!(plan("--device=auto")["pools"], serde_json::Value::Null);
    }
}

#[test]
fn bfloat16_is_refused_with_float16_as_a_hint_if_the_device_lacks_it() {
    let folder = tempfile::tempdir().unwrap();
    let command = ["train", "--device=vulkan", "--dtype=bfloat16"];
    let output = fitgpt(folder.path(), &command);
    assert_eq!(output.status.code(), Some(2));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        stderr.contains("does not support bfloat16") && stderr.contains("--dtype=float16"),
        "{stderr}"
    );
}
