//! nanoGPT's `ckpt.pt`: continued, begun from, sampled and written.
//!
//! `tests/nanogpt/check.py` wrote the fixture with PyTorch, and does the same with PyTorch at both
//! ends.

use std::{fs, path::Path};

use crate::program::{TestFolder, events};

/// As in `check.py`.
const TOLERANCE: f64 = 2e-6;

/// A place with the fixture's data and its checkpoint in `out_dir`.
fn continued(out_dir: &str) -> TestFolder {
    let place = TestFolder::new();
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/nanogpt/fixture");
    let data = place.path("data/fixture");
    fs::create_dir_all(&data).unwrap();
    for name in ["train.bin", "val.bin", "meta.pkl"] {
        fs::copy(fixture.join(name), data.join(name)).unwrap();
    }
    fs::create_dir(place.path(out_dir)).unwrap();
    fs::copy(fixture.join("ckpt.pt"), place.path(out_dir).join("ckpt.pt")).unwrap();
    place
}

fn losses(place: &TestFolder, out_dir: &str) -> Vec<f64> {
    let steps = events(&place.path(out_dir), "step");
    steps.iter().map(|step| step["loss"].as_f64().unwrap()).collect()
}

#[test]
fn the_next_ten_losses_of_a_nanogpt_run_match_pytorch() {
    let place = continued("out");
    let ran = place.run(&["train", "--init_from=resume", "--out_dir=out", "--max_iters=14"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let expected = "continues nanoGPT's run at step 5, with the moments of 5 updates";
    assert!(ran.stdout.contains(expected), "{}", ran.stdout);
    let theirs: Vec<f64> =
        serde_json::from_str(include_str!("../nanogpt/fixture/losses.json")).unwrap();
    let ours = losses(&place, "out");
    assert_eq!(ours.len(), theirs.len());
    for (step, (ours, theirs)) in (5..).zip(ours.iter().zip(&theirs)) {
        let difference = (ours - theirs).abs() / theirs;
        assert!(difference <= TOLERANCE, "step {step}: {ours} and PyTorch's {theirs}");
    }
    // From now on our checkpoint in the folder is continued.
    let ran = place.run(&["train", "--init_from=resume", "--out_dir=out", "--max_iters=16"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(!ran.stdout.contains("nanoGPT's run"), "{}", ran.stdout);
    assert_eq!(losses(&place, "out").len(), 12);
}

#[test]
fn a_nanogpt_run_is_not_replaced_by_mistake() {
    let place = continued("out");
    let before = fs::read(place.path("out/ckpt.pt")).unwrap();
    let train = ["train", "--dataset=fixture", "--out_dir=out", "--n_layer=1", "--n_head=1"];
    let rest = ["--n_embd=8", "--block_size=8", "--batch_size=1", "--max_iters=1", "--json"];
    let args = [&train[..], &rest, &["--eval_iters=1", "--device=cpu"]].concat();
    let ran = place.run(&args);
    assert_eq!(ran.code, Some(2), "{}", ran.stdout);
    assert!(ran.stdout.contains("has a checkpoint"), "{}", ran.stdout);
    let ran = place.run(&[&args[..], &["--overwrite"]].concat());
    assert_eq!(ran.code, Some(0), "{}", ran.stdout);
    assert_eq!(fs::read(place.path("out/ckpt.pt")).unwrap(), before);
}

/// What resume, sample and export do in a folder, and what they say.
fn refuses_to_choose(place: &TestFolder, steps: [&str; 2]) {
    let commands: [&[&str]; 4] = [
        &["train", "--init_from=resume", "--out_dir=out", "--max_iters=30"],
        &["sample", "--out_dir=out", "--max_new_tokens=2"],
        &["export", "out", "--to", "hf", "--out", "exported"],
        &["train", "--init_from=out", "--dataset=fixture", "--out_dir=new", "--max_iters=1"],
    ];
    for args in commands {
        let ran = place.run(args);
        assert_eq!(ran.code, Some(2), "{args:?}: {}", ran.stdout);
        for part in [&steps[..], &["--resume_from=fitgpt", "--resume_from=nanogpt"]].concat() {
            assert!(ran.stderr.contains(part), "{part}: {}", ran.stderr);
        }
    }
}

#[test]
fn of_two_checkpoints_in_a_folder_none_is_taken_silently() {
    let place = continued("out");
    let resume = ["train", "--init_from=resume", "--out_dir=out"];
    let started = place.run(&[&resume[..], &["--max_iters=8"]].concat());
    assert_eq!(started.code, Some(0), "{}", started.stderr);
    // An export of the run itself is not behind it.
    let before = fs::read(place.path("out/ckpt.pt")).unwrap();
    let export = ["export", "out", "--to", "nanogpt", "--out", "out/ckpt.pt", "--overwrite"];
    assert_eq!(place.run(&export).code, Some(0));
    assert_eq!(place.run(&[&resume[..], &["--max_iters=9"]].concat()).code, Some(0));
    assert_eq!(place.run(&[&resume[..], &["--max_iters=10"]].concat()).code, Some(0));

    // nanoGPT trains on in the folder: here, its file comes from another run.
    let other = continued("other");
    let theirs = ["train", "--init_from=resume", "--out_dir=other", "--max_iters=12"];
    assert_eq!(other.run(&theirs).code, Some(0));
    fs::remove_file(other.path("other/ckpt.pt")).unwrap();
    let export = ["export", "other", "--to", "nanogpt", "--out", "later.pt"];
    assert_eq!(other.run(&export).code, Some(0));
    fs::copy(other.path("later.pt"), place.path("out/ckpt.pt")).unwrap();
    refuses_to_choose(&place, ["at step 11", "`ckpt.pt` at step 13"]);
    for origin in ["fitgpt", "nanogpt"] {
        let from = format!("--resume_from={origin}");
        let ran = place.run(&["sample", "--out_dir=out", "--max_new_tokens=2", &from]);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        let ran = place.run(&["export", "out", "--to", "hf", "--out", origin, &from]);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    }
    // Ours goes on, and knows the file from now on.
    let ran = place.run(&[&resume[..], &["--max_iters=11", "--resume_from=fitgpt"]].concat());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(losses(&place, "out").len(), 7);
    assert_eq!(place.run(&[&resume[..], &["--max_iters=12"]].concat()).code, Some(0));
    // A file that is not readable is not taken for an old one.
    fs::write(place.path("out/ckpt.pt"), &before[..2000]).unwrap();
    refuses_to_choose(&place, ["at step 13", "unknown step"]);
}

#[test]
fn the_checkpoint_that_was_not_chosen_stays() {
    let place = continued("out");
    let resume = ["train", "--init_from=resume", "--out_dir=out"];
    let missing = place.run(&[&resume[..], &["--resume_from=fitgpt"]].concat());
    assert_eq!(missing.code, Some(2), "there is none of ours: {}", missing.stdout);
    assert_eq!(place.run(&[&resume[..], &["--max_iters=12"]].concat()).code, Some(0));
    let mut changed = continued("again");
    let theirs = ["train", "--init_from=resume", "--out_dir=again", "--max_iters=6", "--seed=2"];
    assert_eq!(changed.run(&theirs).code, Some(0));
    let export = ["export", "again", "--to", "nanogpt", "--out", "theirs.pt"];
    assert_eq!(changed.run(&export).code, Some(0));
    fs::copy(changed.path("theirs.pt"), place.path("out/ckpt.pt")).unwrap();
    let ran = place.run(&[&resume[..], &["--max_iters=8", "--resume_from=nanogpt"]].concat());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stdout.contains("continues nanoGPT's run at step 7"), "{}", ran.stdout);
    // Our later one is among the kept ones, and its log is not joined to the new steps.
    let ours = place.path("out/checkpoints/step-00000013/model.safetensors");
    assert!(ours.is_file());
    let steps = events(&place.path("out"), "step");
    assert_eq!(steps.last().unwrap()["step"], 8);
    assert_eq!(steps.len(), 4);
    // It stays there as long as it is later, however few checkpoints are kept.
    let few = ["--max_iters=10", "--keep_checkpoints=1", "--eval_interval=1", "--eval_iters=1"];
    assert_eq!(place.run(&[&resume[..], &few].concat()).code, Some(0));
    assert!(ours.is_file());
    changed = continued("out");
    let ran = changed.run(&["sample", "--out_dir=out", "--resume_from=fitgpt"]);
    assert_eq!(ran.code, Some(2), "{}", ran.stdout);
}

#[test]
fn a_run_starts_from_a_nanogpt_file_and_samples_with_its_datasets_symbols() {
    let place = continued("theirs");
    let sample = ["--num_samples=1", "--max_new_tokens=6", "--top_k=1", "--start=%", "--json"];
    let mut texts = Vec::new();
    for weights in ["--out_dir=theirs", "--init_from=theirs/ckpt.pt", "--init_from=theirs"] {
        let ran = place.run(&[&["sample", weights, "--device=cpu"], &sample[..]].concat());
        assert_eq!(ran.code, Some(0), "{weights}: {}", ran.stdout);
        texts.push(ran.json()["samples"][0]["text"].as_str().unwrap().to_owned());
    }
    assert!(texts[0].starts_with('%') && texts[0].chars().count() == 7, "{texts:?}");
    assert!(texts[0] == texts[1] && texts[1] == texts[2], "{texts:?}");

    let train = ["train", "--init_from=theirs/ckpt.pt", "--dataset=fixture", "--out_dir=mine"];
    let rest = ["--batch_size=2", "--gradient_accumulation_steps=1", "--max_iters=2"];
    let ran = place.run(&[&train[..], &rest, &["--eval_iters=1", "--device=cpu"]].concat());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let expected =
        "starts from the weights in theirs/ckpt.pt: 1 layers, 2 heads, 8 channels, 31 tokens";
    assert!(ran.stdout.contains(expected), "{}", ran.stdout);
    assert_eq!(losses(&place, "mine").len(), 3);

    let ran = place.run(&["plan", "--init_from=theirs/ckpt.pt", "--device=cpu", "--json"]);
    assert_eq!(ran.json()["config"]["n_embd"], 8, "{}", ran.stdout);
}

#[test]
fn an_exported_run_continues_with_the_same_bits() {
    for more in [&["--bias=True"][..], &["--bias=False", "--dropout=0.1"]] {
        let place = TestFolder::new();
        let args = [&["--max_iters=5", "--eval_interval=100", "--out_dir=ours"], more].concat();
        place.train(&args);
        fs::create_dir(place.path("theirs")).unwrap();
        let export = ["export", "ours", "--to", "nanogpt", "--out", "theirs/ckpt.pt"];
        let ran = place.run(&export);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        for out_dir in ["ours", "theirs"] {
            let out_dir = format!("--out_dir={out_dir}");
            let ran = place.run(&["train", "--init_from=resume", &out_dir, "--max_iters=9"]);
            assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        }
        assert_eq!(losses(&place, "ours")[6..], losses(&place, "theirs"));
        // An existing file is not replaced without `--overwrite`.
        let ran = place.run(&export);
        assert_eq!(ran.code, Some(2), "{}", ran.stdout);
        assert!(ran.stderr.contains("--overwrite"), "{}", ran.stderr);
        let ran = place.run(&[&export[..], &["--overwrite"]].concat());
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    }
}

#[test]
fn a_folder_for_transformers_has_the_weights_and_no_state() {
    let place = TestFolder::new();
    place.train(&["--max_iters=2", "--eval_interval=100", "--out_dir=ours"]);
    let ran = place.run(&["export", "ours", "--to", "hf", "--out", "hf"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let names = |folder: &str| {
        let entries = fs::read_dir(place.path(folder)).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    for name in ["config.json", "model.safetensors"] {
        assert!(names("hf").contains(&name.to_owned()), "{:?}", names("hf"));
    }
    let mut left = names("hf");
    left.retain(|name| name.starts_with('.') || name.contains("state"));
    assert_eq!(left, [""; 0]);
    let values = |folder: &str| {
        let bytes = fs::read(place.path(folder).join("model.safetensors")).unwrap();
        let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
        let mut all: Vec<_> =
            file.iter().map(|(name, view)| (name.to_owned(), view.data().to_vec())).collect();
        all.sort();
        all
    };
    assert_eq!(values("hf"), values("ours"));
    // A run's own folder would no longer resume.
    for out in ["ours", "./ours"] {
        let ran = place.run(&["export", "hf", "--to", "hf", "--out", out, "--overwrite"]);
        assert_eq!(ran.code, Some(2), "{}", ran.stdout);
    }
    // A file of nanoGPT from weights alone begins at iteration 0.
    let ran = place.run(&["export", "hf", "--to", "nanogpt", "--out", "hf.pt", "--json"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stdout);
    let ran = place.run(&["export", "hf.pt", "--to", "hf", "--out", "back"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(values("back"), values("ours"));
}

#[test]
fn an_export_that_fails_leaves_nothing_and_removes_nothing() {
    let place = TestFolder::new();
    place.train(&["--max_iters=1", "--eval_interval=100", "--out_dir=ours"]);
    // Drafts once had this name.
    fs::write(place.path("ours.part"), "precious").unwrap();
    let names = || {
        let entries = fs::read_dir(place.path(".")).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let before = names();
    // A folder cannot be copied as a tokenizer, nor replaced by a file.
    fs::create_dir(place.path("ours/tokenizer.json")).unwrap();
    let ran = place.run(&["export", "ours", "--to", "hf", "--out", "hf"]);
    assert_eq!(ran.code, Some(2), "{}", ran.stdout);
    assert_eq!(names(), before);
    for format in ["gguf", "nanogpt"] {
        let ran = place.run(&["export", "ours", "--to", format, "--out", "ours", "--overwrite"]);
        assert_eq!(ran.code, Some(2), "{}", ran.stdout);
        assert_eq!(names(), before);
    }
    assert_eq!(fs::read_to_string(place.path("ours.part")).unwrap(), "precious");
}

#[test]
fn an_export_that_nanogpt_cannot_represent_is_refused_by_name() {
    let place = TestFolder::new();
    let cases = [
        ("--optimizer=muon", "`muon`"),
        ("--optimizer=adamw8bit", "`adamw8bit`"),
        ("--family=llama", "`llama`"),
    ];
    for (flag, expected) in cases {
        let out = flag.trim_start_matches('-').replace('=', "-");
        place.train(&["--max_iters=1", "--eval_interval=100", flag, &format!("--out_dir={out}")]);
        let ran = place.run(&["export", &out, "--to", "nanogpt", "--out", "x.pt"]);
        assert_eq!(ran.code, Some(2), "{flag}: {}", ran.stdout);
        assert!(ran.stderr.contains(expected), "{flag}: {}", ran.stderr);
        let mut names =
            fs::read_dir(place.path(".")).unwrap().map(|entry| entry.unwrap().file_name());
        assert!(!names.any(|name| name.to_string_lossy().contains("x.pt")));
    }
}

#[test]
fn a_damaged_nanogpt_file_is_an_error_with_its_name() {
    let place = continued("out");
    let whole = fs::read(place.path("out/ckpt.pt")).unwrap();
    for damaged in [&whole[..whole.len() / 2], b"not a zip", b"", &whole[..whole.len() - 1]] {
        fs::write(place.path("out/ckpt.pt"), damaged).unwrap();
        for args in
            [&["train", "--init_from=resume", "--out_dir=out"][..], &["sample", "--out_dir=out"]]
        {
            let ran = place.run(args);
            assert_eq!(ran.code, Some(2), "{}", ran.stdout);
            assert!(ran.stderr.contains("cannot read `out/ckpt.pt`"), "{}", ran.stderr);
        }
    }
}
