//! Samples that a run draws while it trains: written to its log, planned, and without an effect on
//! the training.

use std::{fs, process::Stdio};

use crate::program::{TINY, TestFolder, events, steps_logged, wait_until};

/// Losses, norms, evaluations, weights and optimizer states of a run.
fn bits(place: &TestFolder, out_dir: &str) -> (Vec<String>, Vec<u8>, Vec<u8>) {
    let folder = place.path(out_dir);
    let steps = events(&folder, "step");
    let steps = steps.iter().map(|e| format!("{} {} {}", e["step"], e["loss"], e["grad_norm"]));
    let evaluations = events(&folder, "evaluation").into_iter().map(|e| e.to_string());
    // After the header, which has the config and with it the interval.
    let tensors = |name: &str| {
        let bytes = fs::read(folder.join(name)).unwrap();
        let header = u64::from_le_bytes(bytes[..8].try_into().unwrap());
        bytes[8 + header as usize..].to_vec()
    };
    let lines = steps.chain(evaluations).collect();
    (lines, tensors("model.safetensors"), tensors("state.safetensors"))
}

/// Step and text of every sample.
fn samples(place: &TestFolder, out_dir: &str) -> Vec<(u64, String)> {
    let all = events(&place.path(out_dir), "sample").into_iter();
    all.map(|e| (e["step"].as_u64().unwrap(), e["text"].as_str().unwrap().to_owned())).collect()
}

const RUN: &[&str] = &["--max_iters=12", "--eval_interval=5", "--max_new_tokens=40"];

#[test]
fn samples_are_written_and_change_no_bit_of_the_training() {
    let place = TestFolder::new();
    let llama = ["--family=llama", "--n_kv_head=1", "--dtype=bfloat16"];
    for (name, more) in [
        ("plain", &["--dropout=0.1"][..]),
        ("lanes", &["--gradient_accumulation_steps=4", "--lanes=2"]),
        ("half", &["--dtype=float16", "--grad_checkpoint=True"]),
        ("llama", &llama),
    ] {
        let (without, with) = (format!("{name}-0"), format!("{name}-4"));
        place.train(&[RUN, more, &[&format!("--out_dir={without}")]].concat());
        let ran = place
            .train(&[RUN, more, &["--sample_interval=4", &format!("--out_dir={with}")]].concat());
        assert_eq!(bits(&place, &without), bits(&place, &with), "{name}");
        assert!(samples(&place, &without).is_empty());
        let found = samples(&place, &with);
        let steps: Vec<_> = found.iter().map(|(step, _)| *step).collect();
        assert_eq!(steps, [4, 8, 12], "{name}");
        assert!(ran.stdout.contains("step 8: sample: "), "{}", ran.stdout);
        // 40 tokens, past the block of 24: the cache was refilled.
        assert_eq!(found[0].1.split_whitespace().count(), 40, "{}", found[0].1);
        assert_ne!(found[0].1, found[1].1);
    }
}

#[test]
fn a_resumed_run_draws_the_same_samples_and_may_change_the_interval() {
    let place = TestFolder::new();
    let run = |out: &str, max_iters: u32, interval: u32| {
        let more = [
            format!("--out_dir={out}"),
            format!("--max_iters={max_iters}"),
            format!("--sample_interval={interval}"),
        ];
        let more: Vec<_> = more.iter().map(String::as_str).collect();
        place.train(&[&RUN[1..], &more].concat());
    };
    run("whole", 40, 3);
    run("plain", 40, 0);

    // Killed some time after the save at step 5, and resumed with its samples.
    let args = ["--out_dir=parts", "--max_iters=40", "--sample_interval=3"];
    let mut command = place.command(&[&["train"], TINY, &RUN[1..], &args].concat());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_until("a few steps are made", || steps_logged(&place.path("parts")) > 8);
    child.kill().unwrap();
    child.wait().unwrap();
    let resume = |out: &str, more: &[&str]| {
        let out = format!("--out_dir={out}");
        let args = ["train", "--init_from=resume", "--max_iters=40", &out];
        let ran = place.run(&[&args[..], more].concat());
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    };
    resume("parts", &[]);
    assert_eq!(samples(&place, "parts"), samples(&place, "whole"));

    // Samples are turned off, and on again.
    run("less", 5, 3);
    resume("less", &["--sample_interval=0"]);
    run("more", 5, 0);
    resume("more", &["--sample_interval=3"]);
    for out in ["whole", "parts", "less", "more"] {
        assert_eq!(bits(&place, out), bits(&place, "plain"), "{out}");
    }
    assert_eq!(samples(&place, "less"), samples(&place, "whole")[..1]);
    assert_eq!(samples(&place, "more"), samples(&place, "whole")[1..]);
}

#[test]
fn the_plan_has_the_caches_of_a_sample_and_nothing_else() {
    let place = TestFolder::new();
    let plan = |more: &[&str]| {
        let args = ["plan", "--vocab_size=50304", "--device=cpu", "--threads=2", "--json"];
        place.run(&[&args[..], more].concat()).json()
    };
    let caches = 2 * 12 * 1024 * 768 * 4; // keys and values, layers, positions, channels, float32
    for ranks in [&[][..], &["--ranks=4"]] {
        let without = plan(ranks);
        let with = plan(&[ranks, &["--sample_interval=100"]].concat());
        let arena = |plan: &serde_json::Value| plan["arena_bytes"].as_u64().unwrap();
        assert_eq!(arena(&with) - arena(&without), caches);
        assert_eq!(with["peak_phase"], without["peak_phase"]);
        let phase = |plan: &serde_json::Value| {
            let mut phases = plan["phases"].as_array().unwrap().clone().into_iter();
            phases.find(|phase| phase["name"] == "sample_in_training")
        };
        assert!(phase(&without).is_none());
        assert!(phase(&with).unwrap()["peak_bytes"].as_u64() < with["peak_bytes"].as_u64());
    }
}

#[test]
fn a_prompt_outside_the_vocabulary_is_an_error_before_the_first_step() {
    let place = TestFolder::new();
    let args = ["--out_dir=out", "--sample_interval=2", "--start=not ids"];
    let ran = place.run(&[&["train"], TINY, &args].concat());
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
    assert_eq!(steps_logged(&place.path("out")), 0);
}
