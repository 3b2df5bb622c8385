//! `fitgpt bench --json`.

use serde_json::Value;

use crate::program::TestFolder;

#[test]
fn bench_measures_every_program_of_a_job_and_the_machine() {
    let place = TestFolder::new();
    let ran = place.run(&["bench", "--job=shakespeare_char_cpu", "--runs=1", "--json"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let answer: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert!(answer["machine"]["peak_flops_per_s"].as_f64().unwrap() > 1e9);
    let programs = answer["measured"]["programs"].as_array().unwrap();
    let names: Vec<_> = programs.iter().map(|p| p["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["train", "update", "evaluate", "prefill", "decode"]);
    for program in programs {
        assert!(program["ms"].as_f64().unwrap() > 0.0, "{program}");
        let ops = program["ops"].as_array().unwrap();
        let flops: u64 = ops.iter().map(|op| op["flops"].as_u64().unwrap()).sum();
        assert_eq!(flops, program["flops"].as_u64().unwrap(), "the ops' work is the program's");
    }
    // 12 sequences of 64 tokens per micro-batch; the whole block as a prompt; one token.
    let tokens: Vec<_> = programs.iter().map(|p| p["tokens"].as_u64().unwrap()).collect();
    assert_eq!((tokens[0], tokens[3], tokens[4]), (768, 64, 1));
}

#[test]
fn a_job_that_does_not_fit_is_not_started() {
    let place = TestFolder::new();
    let ran = place.run(&["bench", "--budget=100MB"]);
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(ran.stderr.contains("this machine has"), "{}", ran.stderr);
}

#[test]
fn an_estimate_counts_the_ops_that_are_measured_and_runs_none() {
    let place = TestFolder::new();
    let ran = place.run(&["bench", "--device=cuda", "--estimate", "--json"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let answer: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(answer["job"], "gpt2");
    assert_eq!(answer["card"]["name"], "GeForce RTX 4070");
    assert_eq!(answer["card"]["bytes_per_s"], 504e9);
    let estimated = &answer["estimated"];
    assert_eq!(estimated["precision"], "bfloat16");
    let programs = estimated["programs"].as_array().unwrap();
    let names: Vec<_> = programs.iter().map(|p| p["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["train", "update", "evaluate", "prefill", "decode"]);
    let of = |program: &Value, op: &str| {
        let ops = program["ops"].as_array().unwrap();
        ops.iter().find(|bound| bound["op"] == op).unwrap().clone()
    };
    // 124M: the four weights of 12 layers, 12 × 1024 tokens, once forward and twice backward.
    let products = [
        "linear",
        "linear_gelu",
        "linear_residual",
        "linear_backward_input",
        "linear_backward_gelu",
        "linear_backward_weight",
    ];
    let flops: u64 =
        products.iter().map(|op| of(&programs[0], op)["flops"].as_u64().unwrap()).sum();
    assert_eq!(flops, 6 * 12 * 1024 * 12 * 12 * 768 * 768);
    let adamw = of(&programs[1], "adamw");
    assert_eq!(adamw["limit"], "bytes");
    assert!(adamw["ms"].as_f64().unwrap() > 124e6 * 32.0 / 504e6, "{adamw}");

    // Both engines have the time that `plan` estimates.
    for (engine, key) in [("fitgpt", "time"), ("torch", "torch_time")] {
        let plan = place.run(&["plan", "--engine", engine, "--gpu", "RTX 4070", "--json"]);
        let plan: Value = serde_json::from_str(&plan.stdout).unwrap();
        assert!(plan["time"]["run_s"].is_array(), "{plan}");
        assert_eq!(answer[key], plan["time"], "{engine}");
    }

    let unknown = place.run(&["bench", "--estimate", "--gpu", "GTX 1080"]);
    assert_eq!(unknown.code, Some(2), "{}", unknown.stderr);
    assert!(unknown.stderr.contains("GeForce RTX 4090"), "{}", unknown.stderr);
    let small = place.run(&["bench", "--estimate", "--batch_size=64"]);
    assert_eq!(small.code, Some(1), "{}", small.stderr);
}
