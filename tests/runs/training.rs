//! Whole runs of a tiny model through the command line: the same training under any split and
//! any number of threads, kills and resumes.

use std::{fs, path::Path, process::Stdio, thread, time::Duration};

use crate::program::{TINY, TestFolder, events, losses, steps_logged, wait_until};

/// The exact losses of a run's steps.
fn exact(out_dir: &Path) -> Vec<f64> {
    events(out_dir, "step").iter().map(|event| event["loss"].as_f64().unwrap()).collect()
}

/// Largest difference of two runs at any step.
fn apart(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}

#[test]
fn any_split_of_the_effective_batch_is_the_same_training() {
    for dropout in ["0.0", "0.1"] {
        let place = TestFolder::new();
        let run = |batch: u32, accumulation: u32| {
            let out_dir = format!("{batch}x{accumulation}");
            place.train(&[
                "--max_iters=50",
                "--eval_interval=1000",
                &format!("--dropout={dropout}"),
                &format!("--batch_size={batch}"),
                &format!("--gradient_accumulation_steps={accumulation}"),
                &format!("--out_dir={out_dir}"),
            ]);
            exact(&place.path(&out_dir))
        };
        let whole = run(16, 1);
        assert_eq!(whole.len(), 51);
        for (batch, accumulation) in [(8, 2), (4, 4)] {
            let apart = apart(&whole, &run(batch, accumulation));
            assert!(apart < 1e-4, "{batch} × {accumulation}, dropout {dropout}: {apart}");
        }
    }
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    let place = TestFolder::new();
    let common = ["--max_iters=20", "--eval_interval=10", "--dropout=0.1"];
    for threads in ["1", "2", "3"] {
        let own = [format!("--threads={threads}"), format!("--out_dir=t{threads}")];
        place.train(&[&common[..], &own.each_ref().map(String::as_str)].concat());
    }
    let one = exact(&place.path("t1"));
    let weights = |name: &str| fs::read(place.path(name).join("model.safetensors")).unwrap();
    // The header holds the id of the save; the values follow it.
    let values = |name: &str| {
        let bytes = weights(name);
        let header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        bytes[8 + header..].to_vec()
    };
    for other in ["t2", "t3"] {
        assert_eq!(exact(&place.path(other)), one);
        assert!(values(other) == values("t1"), "weights of {other} differ");
    }
}

#[test]
fn a_resumed_run_continues_bit_for_bit() {
    let place = TestFolder::new();
    let common = ["--eval_interval=8", "--dropout=0.1", "--gradient_accumulation_steps=2"];
    place.train(&[&common[..], &["--max_iters=40", "--out_dir=whole"]].concat());
    place.train(&[&common[..], &["--max_iters=17", "--out_dir=parts"]].concat());
    // The shape comes from the checkpoint; only what changes is written.
    let ran = place.run(&["train", "--init_from=resume", "--out_dir=parts", "--max_iters=40"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(ran.losses().keys().next(), Some(&18));
    assert_eq!(exact(&place.path("whole")), exact(&place.path("parts")));
    let evaluations = |name: &str| {
        let list = events(&place.path(name), "evaluation");
        list.iter().map(|e| (e["step"].clone(), e["val_loss"].clone())).collect::<Vec<_>>()
    };
    assert_eq!(evaluations("whole"), evaluations("parts"));
}

#[test]
fn a_run_keeps_the_factors_of_its_products() {
    let place = TestFolder::new();
    let half = ["--dtype=bfloat16", "--eval_interval=8"];
    let factors = ["--matmul_dtype=bfloat16"];
    place.train(&[&half[..], &factors, &["--max_iters=24", "--out_dir=whole"]].concat());
    place.train(&[&half[..], &factors, &["--max_iters=15", "--out_dir=parts"]].concat());
    place.train(
        &[&half[..], &["--matmul_dtype=float32", "--max_iters=15", "--out_dir=float"]].concat(),
    );
    assert!(exact(&place.path("parts")) != exact(&place.path("float")));

    // Where the CPU lacks the instruction, the factors of `parts` are emulated, and it says so.
    let resume = ["train", "--init_from=resume", "--max_iters=24"];
    let ran = place.run(&[&resume[..], &["--out_dir=parts"]].concat());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(!ran.stderr.contains("other bits"), "{}", ran.stderr);
    assert_eq!(exact(&place.path("whole")), exact(&place.path("parts")));
    let ran = place.run(&[&resume[..], &factors, &["--out_dir=float"]].concat());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let note =
        "was trained with `matmul_dtype` float32; with bfloat16, the run continues with other bits";
    assert!(ran.stderr.contains(note), "{}", ran.stderr);
}

#[test]
fn a_run_killed_at_many_points_ends_like_an_uninterrupted_one() {
    let place = TestFolder::new();
    // A save at every second step: many kills fall into one.
    let common = ["--max_iters=200", "--eval_interval=2", "--eval_iters=1"];
    let whole = place.train(&[&common[..], &["--out_dir=whole"]].concat()).losses();

    let out_dir = place.path("killed");
    let names = || {
        let list = fs::read_dir(&out_dir).into_iter().flatten();
        list.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect::<Vec<_>>()
    };
    let mut log = String::new();
    let mut mode = "--init_from=scratch";
    for kill in 0..12 {
        let args = [&["train"], TINY, &common[..], &["--out_dir=killed", mode]].concat();
        let mut command = place.command(&args);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let logged = steps_logged(&out_dir);
        wait_until("it has made steps", || steps_logged(&out_dir) > logged + 3);
        if kill % 3 > 0 {
            // During a save: at its start, or near the rename that commits it.
            let sign = [".saving-", ".saved-"][kill % 3 - 1];
            wait_until("it saves", || {
                names().iter().any(|name| name.starts_with(sign))
                    || child.try_wait().unwrap().is_some()
            });
            thread::sleep(Duration::from_micros(150 * kill as u64));
        }
        child.kill().unwrap();
        let output = child.wait_with_output().unwrap();
        log.push_str(&String::from_utf8_lossy(&output.stdout));
        // A torn last line is ignored.
        log.truncate(log.rfind('\n').map_or(0, |end| end + 1));
        if names().iter().any(|name| name == "state.safetensors" || name.starts_with(".saved-")) {
            mode = "--init_from=resume";
        }
    }
    assert_eq!(mode, "--init_from=resume", "no kill came after a save");
    let last = place.train(&[&common[..], &["--out_dir=killed", mode]].concat());
    log.push_str(&last.stdout);
    assert_eq!(losses(&log), whole);
    assert_eq!(exact(&place.path("killed")), exact(&place.path("whole")));
}

#[cfg(unix)]
#[test]
fn ctrl_c_saves_and_the_run_continues_from_there() {
    let place = TestFolder::new();
    let common = ["--max_iters=400", "--eval_interval=1000"];
    let whole = place.train(&[&common[..], &["--out_dir=whole"]].concat()).losses();

    let args = [&["train"], TINY, &common[..], &["--out_dir=stopped"]].concat();
    let child = place.command(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("it has made steps", || steps_logged(&place.path("stopped")) > 5);
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
    let mut log = String::from_utf8(output.stdout).unwrap();
    assert!(log.contains("stopped; `fitgpt train --init_from=resume"), "{log}");

    let rest = place.run(&["train", "--init_from=resume", "--out_dir=stopped"]);
    assert_eq!(rest.code, Some(0), "{}", rest.stderr);
    log.push_str(&rest.stdout);
    assert_eq!(losses(&log), whole);
}

#[test]
fn evaluating_in_smaller_groups_covers_the_same_sequences() {
    let place = TestFolder::new();
    let common = ["--max_iters=1", "--eval_interval=1"];
    for (name, batch, iters) in [("a", "8", "3"), ("b", "4", "6"), ("c", "24", "1")] {
        let own = [
            format!("--eval_batch_size={batch}"),
            format!("--eval_iters={iters}"),
            format!("--out_dir={name}"),
        ];
        place.train(&[&common[..], &own.each_ref().map(String::as_str)].concat());
    }
    let first =
        |name: &str| events(&place.path(name), "evaluation")[0]["val_loss"].as_f64().unwrap();
    // The same 24 losses, summed in the same order; each alone is the same in any batch.
    assert!((first("a") - first("b")).abs() < 1e-6);
    assert!((first("a") - first("c")).abs() < 1e-6);
}

#[test]
fn the_best_weights_are_kept_if_the_config_asks_and_sampled_first() {
    let place = TestFolder::new();
    place.train(&[
        "--max_iters=20",
        "--eval_interval=10",
        "--always_save_checkpoint=False",
        "--out_dir=out",
    ]);
    assert!(place.path("out/best/model.safetensors").exists());
    assert!(place.path("out/best/config.json").exists());
    assert!(!place.path("out/best/state.safetensors").exists());
    // If the last weights are gone, the best ones are still there to sample from.
    fs::remove_file(place.path("out/model.safetensors")).unwrap();
    let ran =
        place.run(&["sample", "--out_dir=out", "--num_samples=2", "--max_new_tokens=5", "--json"]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    assert_eq!(ran.json()["samples"].as_array().unwrap().len(), 2);
}

#[test]
fn eval_only_measures_and_saves_nothing() {
    let place = TestFolder::new();
    let ran = place.train(&["--eval_only=True", "--out_dir=out"]);
    assert!(ran.stdout.contains("step 0: train loss"), "{}", ran.stdout);
    assert!(ran.losses().is_empty());
    assert!(!place.path("out/model.safetensors").exists());
}
