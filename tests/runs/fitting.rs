//! `--fit`: a smaller budget, the same training; and the options that a refusal names.

use std::{fs, process::Stdio};

use serde_json::Value;

use crate::program::{Ran, TINY, TestFolder, events, steps_logged, wait_until};

/// A batch that is worth splitting.
const LARGE: &[&str] =
    &["--batch_size=32", "--dropout=0.1", "--max_iters=20", "--eval_interval=10"];

/// The overhead that a plan must have in addition to its arena to fit.
fn overhead() -> u64 {
    fitgpt_run::budget::HOST_OVERHEAD.range()[1].get()
}

fn arena(place: &TestFolder, more: &[&str]) -> u64 {
    let ran = place.run(&[&["plan", "--json", "--budget=20GB"], TINY, LARGE, more].concat());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    ran.json()["arena_bytes"].as_u64().unwrap()
}

/// A budget that `share` of the plan as written would fit.
fn budget(place: &TestFolder, share: f64) -> String {
    let whole = arena(place, &[]) as f64;
    format!("--budget={}", (whole * share) as u64 + overhead())
}

fn train(place: &TestFolder, more: &[&str]) -> Ran {
    place.train(&[LARGE, more].concat())
}

/// A number of every event of a kind.
fn numbers(place: &TestFolder, out_dir: &str, kind: &str, field: &str) -> Vec<f64> {
    let events = events(&place.path(out_dir), kind);
    events.iter().map(|event| event[field].as_f64().unwrap()).collect()
}

#[test]
fn a_budget_that_forces_fit_gives_the_same_losses_and_lists_the_changes() {
    let place = TestFolder::new();
    train(&place, &["--out_dir=whole"]);
    let budget = budget(&place, 0.4);
    let ran = train(&place, &["--out_dir=fitted", &budget, "--fit"]);
    // An eighth of a micro-batch and all in one float32 sum: other orders, the same terms.
    for (kind, field, count) in [("step", "loss", 21), ("evaluation", "val_loss", 3)] {
        let (whole, fitted) =
            (numbers(&place, "whole", kind, field), numbers(&place, "fitted", kind, field));
        assert_eq!((whole.len(), fitted.len()), (count, count));
        for (step, (whole, fitted)) in whole.iter().zip(&fitted).enumerate() {
            assert!((whole - fitted).abs() < 1e-4, "{field} {step}: {whole} and {fitted}");
        }
    }
    let output = &ran.stdout;
    assert!(output.contains("--fit: as written it needs "), "{output}");
    assert!(output.contains("  batch_size: 32 → "), "{output}");
    assert!(output.contains("  gradient_accumulation_steps: 1 → "), "{output}");
    assert!(output.contains("still trains on 32 sequences"), "{output}");

    // The log has the final plan, and it is within the budget.
    let plan = &events(&place.path("fitted"), "plan")[0]["plan"];
    let batch = |key: &str| plan["config"][key].as_u64().unwrap();
    assert_eq!(batch("batch_size") * batch("gradient_accumulation_steps"), 32);
    assert_eq!(plan["fit"]["changes"]["batch_size"], batch("batch_size"));
    let limit: u64 = budget.strip_prefix("--budget=").unwrap().parse().unwrap();
    assert!(plan["arena_bytes"].as_u64().unwrap() + overhead() <= limit);
}

#[test]
fn a_config_that_fits_is_not_changed() {
    let place = TestFolder::new();
    train(&place, &["--out_dir=plain"]);
    let ran = train(&place, &["--out_dir=fit", "--fit"]);
    assert!(ran.stdout.contains("--fit: it fits as it is, nothing is changed"), "{}", ran.stdout);
    assert_eq!(numbers(&place, "plain", "step", "loss"), numbers(&place, "fit", "step", "loss"));
    let json = train(&place, &["--out_dir=json", "--fit", "--json"]).json();
    assert_eq!(json["fit"], Value::Null);
}

#[test]
fn without_an_option_that_keeps_the_training_nothing_is_changed_and_the_exit_code_is_one() {
    let place = TestFolder::new();
    let ran = place.run(&[&["train", "--fit", "--budget=1MB", "--out_dir=out"], TINY].concat());
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(ran.stderr.contains("hint: no option that keeps the training fits"), "{}", ran.stderr);
    assert!(!place.path("out").exists());
    // A smaller model would fit: it is suggested and not used.
    let small = format!("--budget={}", overhead() + 300_000);
    let ran = place.run(&[&["train", "--fit", &small, "--out_dir=out"], TINY].concat());
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(ran.stderr.contains("but changes the training run"), "{}", ran.stderr);
    assert!(!place.path("out").exists());
}

#[test]
fn every_hint_of_a_refusal_is_a_plan_that_fits() {
    let place = TestFolder::new();
    let budget = budget(&place, 0.7);
    for command in ["plan", "train"] {
        let args = [&[command, &budget, "--out_dir=out"], TINY, LARGE].concat();
        let ran = place.run(&args);
        assert_eq!(ran.code, Some(1), "{}", ran.stderr);
        let mut fitting = 0;
        for line in ran.stderr.lines().filter_map(|line| line.strip_prefix("hint: `--")) {
            let changes = format!("--{}", line.split('`').next().unwrap());
            let changes: Vec<_> = changes.split(' ').collect();
            let ran = place.run(&[&["plan", &budget], TINY, LARGE, &changes].concat());
            assert_eq!(ran.code, Some(0), "{changes:?}: {}", ran.stderr);
            fitting += 1;
        }
        assert!(fitting >= 2, "{}", ran.stderr);
        assert!(ran.stderr.contains("hint: `fitgpt train … --fit` does this for you"));
    }
}

#[test]
fn a_fitted_run_that_is_resumed_with_the_same_arguments_continues_bit_for_bit() {
    let place = TestFolder::new();
    fs::write(place.path("mine.py"), "batch_size = 32\ngradient_accumulation_steps = 1\n").unwrap();
    let budget = budget(&place, 0.4);
    let common = [&["--dropout=0.1", "--eval_interval=6", "--fit"][..], &[&budget]].concat();
    let run = |more: &[&str]| {
        // The file comes last, so that its batch overrides the tiny model's.
        let ran = place.run(&[&["train"], TINY, &common, more, &["mine.py"]].concat());
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        ran
    };
    run(&["--out_dir=whole", "--max_iters=20"]);
    run(&["--out_dir=parts", "--max_iters=8"]);
    run(&["--out_dir=parts", "--max_iters=20", "--init_from=resume"]);
    assert_eq!(numbers(&place, "whole", "step", "loss"), numbers(&place, "parts", "step", "loss"));
}

#[test]
fn a_resume_on_a_smaller_budget_recomputes_and_changes_no_bit() {
    let place = TestFolder::new();
    train(&place, &["--out_dir=whole"]);
    train(&place, &["--out_dir=parts", "--max_iters=8"]);
    let recomputed = arena(&place, &["--grad_checkpoint=True"]);
    assert!(recomputed < arena(&place, &[]));
    let budget = format!("--budget={}", recomputed + overhead());
    let resume = ["train", "--init_from=resume", "--out_dir=parts", "--max_iters=20"];
    let ran = place.run(&[&resume[..], &["--fit", &budget]].concat());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stdout.contains("grad_checkpoint: False → 'auto'"), "{}", ran.stdout);
    assert!(ran.stdout.contains("continues bit for bit"), "{}", ran.stdout);
    assert_eq!(numbers(&place, "whole", "step", "loss"), numbers(&place, "parts", "step", "loss"));

    // A smaller budget would change rounding: it is refused, and the checkpoint is unchanged.
    let before = fs::read(place.path("parts/state.safetensors")).unwrap();
    let less = format!("--budget={}", recomputed / 2 + overhead());
    let ran = place.run(&[&resume[..], &["--fit", "--max_iters=30", &less]].concat());
    assert_eq!(ran.code, Some(1), "{}", ran.stdout);
    assert!(ran.stderr.contains("affects rounding"), "{}", ran.stderr);
    assert_eq!(fs::read(place.path("parts/state.safetensors")).unwrap(), before);
}

#[test]
fn the_curve_of_a_resumed_run_is_the_whole_one() {
    let place = TestFolder::new();
    place.train(&["--out_dir=out", "--max_iters=6", "--eval_interval=3"]);
    let resume = ["train", "--init_from=resume", "--out_dir=out", "--max_iters=9"];
    let ran = place.run(&[&resume[..], &["--svg", "loss.svg"]].concat());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let svg = fs::read_to_string(place.path("loss.svg")).unwrap();
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"), "{svg}");
    assert!(svg.contains("loss of 10 steps"), "{svg}");
    // Evaluations at 0, 3, 6 and 9, of two splits, and the three signs of the legend.
    assert_eq!(svg.matches("<circle ").count(), 4 * 2 + 3, "{svg}");
    let ran = place.run(&[&resume[..], &["--svg", "no/such/folder/loss.svg"]].concat());
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("no/such/folder/loss.svg"), "{}", ran.stderr);
}

#[test]
fn a_run_of_days_states_its_duration_before_its_first_step() {
    let place = TestFolder::new();
    let days = ["--max_iters=2000000000", "--out_dir=out"];
    let mut child = place
        .command(&[&["train"], TINY, &days[..]].concat())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_until("it has made a step", || steps_logged(&place.path("out")) > 0);
    child.kill().unwrap();
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("floating-point operations: about "), "{stderr}");
    assert!(stderr.contains(" GFLOP/s each"), "{stderr}");
    // A short run has no such line.
    let ran = place.train(&["--max_iters=3", "--out_dir=short"]);
    assert!(!ran.stderr.contains("floating-point"), "{}", ran.stderr);
}

#[test]
fn without_a_file_the_commands_of_fit_run_what_was_planned() {
    let place = TestFolder::new();
    let keys = ["--budget=1500MB", "--n_layer=1", "--device=cpu", "--vocab_size=50304"];
    let found = place.run(&[&["fit", "--json"], &keys[..]].concat());
    assert_eq!(found.code, Some(0), "{}", found.stderr);
    let found = found.json();
    let options = found["options"].as_array().unwrap();
    assert!(options.len() > 1, "{found}");
    for option in options {
        let command = option["command"].as_str().unwrap();
        let args = command.strip_prefix("fitgpt train ").unwrap();
        // `train` without a file would read the built-in stories; `plan` shows what it reads.
        assert!(args.starts_with("config/nanogpt.py "), "{command}");
        let args: Vec<_> = ["plan", "--json"].into_iter().chain(args.split(' ')).collect();
        assert_eq!(place.run(&args).json()["arena_bytes"], option["arena_bytes"], "{command}");
    }
    let printed = place.run(&[&["fit"], &keys[..]].concat()).stdout;
    let recommended = &options[found["recommended"].as_u64().unwrap() as usize]["command"];
    let last = printed.lines().last().unwrap();
    assert_eq!(last, format!("next: {}", recommended.as_str().unwrap()));
}
