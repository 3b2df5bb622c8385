//! Lanes in a single process, and a launcher of several processes in a build without MPI. Runs of
//! several processes are in `tests/ranks`.

use crate::program::{TINY, TestFolder, events};

/// Losses, norms and weights of a run.
fn bits(place: &TestFolder, out_dir: &str) -> (Vec<String>, Vec<u8>) {
    let steps = events(&place.path(out_dir), "step");
    let steps = steps.iter().map(|e| format!("{} {} {}", e["step"], e["loss"], e["grad_norm"]));
    let weights = std::fs::read(place.path(out_dir).join("model.safetensors")).unwrap();
    (steps.collect(), weights)
}

const STEP: &[&str] = &["--batch_size=1", "--gradient_accumulation_steps=6", "--eval_interval=3"];

#[test]
fn one_lane_is_the_default_and_several_change_the_order_of_sums() {
    let place = TestFolder::new();
    for (out_dir, more) in [
        ("unwritten", &[][..]),
        ("one", &["--lanes=1"][..]),
        ("three", &["--lanes=3"][..]),
        ("three_again", &["--lanes=3", "--threads=1"][..]),
    ] {
        let out = format!("--out_dir={out_dir}");
        place.train(&[STEP, more, &["--max_iters=4", &out]].concat());
    }
    assert_eq!(bits(&place, "unwritten"), bits(&place, "one"));
    assert_eq!(bits(&place, "three"), bits(&place, "three_again"));
    assert_ne!(bits(&place, "one").1, bits(&place, "three").1);
}

#[test]
fn a_resumed_run_keeps_its_lanes_even_if_the_config_differs() {
    let place = TestFolder::new();
    let lanes = "--lanes=3";
    place.train(&[STEP, &[lanes, "--max_iters=7", "--out_dir=whole"]].concat());
    place.train(&[STEP, &[lanes, "--max_iters=3", "--out_dir=parts"]].concat());
    let resume = ["train", "--init_from=resume", "--out_dir=parts", "--max_iters=7"];
    let ran = place.run(&[&resume[..], &["--lanes=2"]].concat());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stderr.contains("`lanes` 3, which is kept"), "{}", ran.stderr);
    assert_eq!(bits(&place, "whole").0, bits(&place, "parts").0);
}

#[test]
fn lanes_that_do_not_divide_are_refused_with_a_command_that_works() {
    let place = TestFolder::new();
    let ran = place.run(&[&["train"], TINY, STEP, &["--lanes=4", "--out_dir=out"]].concat());
    assert_eq!(ran.code, Some(2));
    let works = ran.stderr.split('`').find(|text| text.starts_with("--")).expect("a line");
    let works: Vec<_> = works.split(' ').collect();
    place.train(&[STEP, &works[..], &["--max_iters=1", "--out_dir=out"]].concat());
}

/// The output of `plan --json`.
fn plan(place: &TestFolder, more: &[&str]) -> serde_json::Value {
    let base = ["plan", "--vocab_size=50304", "--device=cpu", "--threads=2", "--json"];
    place.run(&[&base[..], more].concat()).json()
}

#[test]
fn four_ranks_have_a_quarter_of_the_moments_each_and_more_lanes_need_one_more_gradient() {
    let place = TestFolder::new();
    let class = |plan: &serde_json::Value, name: &str| -> u64 {
        let update = plan["phases"].as_array().unwrap().iter().find(|p| p["name"] == "update");
        update.unwrap()["classes"][name].as_u64().unwrap()
    };
    let (whole, quarter) = (plan(&place, &[]), plan(&place, &["--ranks=4"]));
    let ratio = class(&quarter, "optimizer") as f64 / class(&whole, "optimizer") as f64;
    assert!((ratio - 0.25).abs() < 0.001, "{ratio}");
    assert_eq!(class(&quarter, "gradients"), class(&whole, "gradients"));
    assert!(quarter["ranks"]["buffer_bytes"].as_u64().unwrap() > 0);

    let turns = plan(&place, &["--lanes=2"]);
    assert_eq!(class(&turns, "gradients"), 2 * class(&whole, "gradients"));
    let turns = plan(&place, &["--ranks=4", "--lanes=8"]);
    let ratio = class(&turns, "gradients") as f64 / class(&whole, "gradients") as f64;
    assert!((ratio - 1.25).abs() < 0.001, "{ratio}");
}

#[test]
fn a_network_adds_bytes_and_time() {
    let place = TestFolder::new();
    let more = ["--device=auto", "--ranks=4", "--gpu=4090", "--network=10Gb"];
    let network = plan(&place, &more)["ranks"]["network"].clone();
    // Three quarters of 498 MB of gradients and of as many weights.
    let sent = network["sent_bytes"].as_f64().unwrap();
    assert!((sent / 0.747e9 - 1.0).abs() < 0.01, "{network}");
    let transfer_s = network["transfer_s"].as_f64().unwrap();
    assert!((transfer_s - 8.0 * sent / 1e10).abs() < 0.01, "{network}");
    // Gradients travel during the backward pass, weights after the update.
    let exposed = |at: usize| network["exposed_s"][at].as_f64().unwrap();
    assert!(exposed(0) > transfer_s / 2.0 && exposed(1) < transfer_s, "{network}");
    assert!(network["efficiency"][0].as_f64().unwrap() < 1.0);
    let refused = place.run(&["plan", "--network=10Gb"]);
    assert_eq!(refused.code, Some(2));
}

#[cfg(not(feature = "mpi"))]
#[test]
fn a_build_without_mpi_refuses_to_be_one_of_several_processes() {
    let place = TestFolder::new();
    for variable in ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"] {
        let args = [&["train"], TINY, &["--max_iters=1", "--out_dir=out"]].concat();
        let output = place.command(&args).env(variable, "2").output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains("--features mpi") && !place.path("out").exists(), "{stderr}");
    }
    let args = [&["train"], TINY, &["--max_iters=1", "--out_dir=out"]].concat();
    let output = place.command(&args).env("OMPI_COMM_WORLD_SIZE", "1").output().unwrap();
    assert_eq!(output.status.code(), Some(0));
}
