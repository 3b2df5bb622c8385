//! A new run touches only folders that are its own, and only as long as they are.

use std::{fs, path::Path};

use serde_json::Value;

use crate::program::{Ran, TINY, TestFolder, steps_logged, wait_until};

#[track_caller]
fn refused(ran: &Ran, names: &[&str]) {
    assert_eq!(ran.code, Some(2), "{}\n{}", ran.stdout, ran.stderr);
    for name in names {
        assert!(ran.stderr.contains(name), "no `{name}` in {}", ran.stderr);
    }
}

/// Every file below a folder with its content, except locks.
fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if !path.ends_with(".lock") {
                all.push((path.display().to_string(), fs::read(&path).unwrap()));
            }
        }
    }
    all.sort();
    all
}

#[track_caller]
fn assert_same(now: &[(String, Vec<u8>)], before: &[(String, Vec<u8>)]) {
    let names = |files: &[(String, Vec<u8>)]| {
        files.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(now), names(before));
    assert!(now == before, "a file has another content");
}

#[test]
fn a_run_without_its_model_is_not_replaced() {
    let place = TestFolder::new();
    let args = ["--eval_interval=5", "--always_save_checkpoint=False", "--out_dir=out"];
    place.train(&[&args[..], &["--max_iters=10"]].concat());
    let out = place.path("out");
    let again = [&["train"], TINY, &["--max_iters=1", "--out_dir=out"]].concat();
    let names = ["model.safetensors", "state.safetensors", "config.json", "manifest.json"];
    for name in names {
        fs::rename(out.join(name), place.path(name)).unwrap();
        let before = files(&out);
        refused(&place.run(&again), &["out", "--out_dir"]);
        assert_same(&files(&out), &before);
    }
    // Only `best/` and `checkpoints/` are left.
    for name in ["events.jsonl", "tokenizer.json", "tokenizer_config.json", "README.md"] {
        let _ = fs::remove_file(out.join(name));
    }
    let before = files(&out);
    assert!(before.iter().any(|(name, _)| name.contains("checkpoints/step-")), "{before:?}");
    refused(&place.run(&again), &["`out` has a checkpoint", "--overwrite"]);
    assert_same(&files(&out), &before);
}

#[test]
fn files_of_others_are_not_replaced_even_with_overwrite() {
    let place = TestFolder::new();
    let out = place.path("out");
    for name in [
        "config.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "generation_config.json",
        "manifest.json",
        "events.jsonl",
        "state.safetensors",
    ] {
        fs::create_dir_all(&out).unwrap();
        fs::write(out.join("model-00001-of-00002.safetensors"), "theirs").unwrap();
        fs::write(out.join(name), "{\"their\": 1}").unwrap();
        let before = files(&out);
        for flag in [&[][..], &["--overwrite"]] {
            let args = [&["train"], TINY, &["--max_iters=1", "--out_dir=out"], flag].concat();
            refused(&place.run(&args), &[name, "`out`", "--out_dir"]);
            assert_same(&files(&out), &before);
        }
        fs::remove_dir_all(&out).unwrap();
    }
    // Nothing that a run would write: it may begin.
    fs::create_dir(&out).unwrap();
    fs::write(out.join("notes.txt"), "mine").unwrap();
    place.train(&["--max_iters=1", "--out_dir=out"]);
    assert_eq!(fs::read(out.join("notes.txt")).unwrap(), b"mine");
}

#[test]
fn a_run_that_was_killed_before_its_first_save_is_begun_anew() {
    let place = TestFolder::new();
    let args = [&["train", "--max_iters=100000"], TINY, &["--out_dir=out"]].concat();
    let mut child = place.command(&args).stdout(std::process::Stdio::null()).spawn().unwrap();
    wait_until("it has made steps", || steps_logged(&place.path("out")) > 3);
    child.kill().unwrap();
    child.wait().unwrap();
    let manifest = fs::read(place.path("out/manifest.json")).unwrap();
    let manifest: Value = serde_json::from_slice(&manifest).unwrap();
    assert_eq!(manifest["files"].as_object().unwrap().len(), 0, "{manifest}");
    place.train(&["--max_iters=1", "--out_dir=out"]);
    assert!(place.path("out/model.safetensors").exists());
}

#[test]
fn a_replaced_run_is_back_if_the_new_one_fails_before_its_first_save() {
    let place = TestFolder::new();
    let common = ["--max_iters=6", "--eval_interval=3", "--always_save_checkpoint=False"];
    place.train(&[&common[..], &["--out_dir=out"]].concat());
    let out = place.path("out");
    let before = files(&out);
    // Every token is outside of the vocabulary.
    let bad = place.path("data/bad");
    fs::create_dir(&bad).unwrap();
    for name in ["train.bin", "val.bin"] {
        fs::write(bad.join(name), [0xFF_u8, 0x7F].repeat(2000)).unwrap();
    }
    let overwrite = [&["train"], TINY, &["--out_dir=out", "--overwrite"]].concat();
    let ran = place.run(&[&overwrite[..], &["--dataset=bad", "--max_iters=2"]].concat());
    refused(&ran, &["token", "`out` is as it was"]);
    assert_same(&files(&out), &before);
    // Diverges before its first save.
    let wild = ["--learning_rate=1e38", "--decay_lr=False", "--warmup_iters=0"];
    let ran = place.run(&[&overwrite[..], &wild, &["--max_iters=9", "--eval_interval=9"]].concat());
    refused(&ran, &["`out` is as it was"]);
    assert_same(&files(&out), &before);
    // An evaluation saves nothing.
    let ran = place.run(&[&overwrite[..], &["--eval_only=True"]].concat());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_same(&files(&out), &before);
}

#[test]
fn a_kill_before_the_first_save_leaves_the_run_that_was_to_be_replaced() {
    let place = TestFolder::new();
    place.train(&["--max_iters=6", "--eval_interval=3", "--out_dir=out"]);
    let out = place.path("out");
    let before = files(&out);
    let long = ["--max_iters=100000", "--eval_interval=100000", "--out_dir=out", "--overwrite"];
    let args = [&["train"], TINY, &long].concat();
    let mut child = place.command(&args).stdout(std::process::Stdio::null()).spawn().unwrap();
    wait_until("it has made steps", || steps_logged(&out) > 8);
    child.kill().unwrap();
    child.wait().unwrap();
    // Readers find the old run; a new one is refused; a resume continues it.
    let ran = place.run(&["sample", "--out_dir=out", "--max_new_tokens=2", "--num_samples=1"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let fresh = [&["train"], TINY, &["--max_iters=1", "--out_dir=out"]].concat();
    refused(&place.run(&fresh), &["`out` has a checkpoint"]);
    let ran = place.run(&["train", "--init_from=resume", "--out_dir=out", "--max_iters=6"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let weights = |files: &[(String, Vec<u8>)]| {
        let found = files.iter().find(|(name, _)| name.ends_with("out/model.safetensors"));
        found.unwrap().1.clone()
    };
    assert!(weights(&files(&out)) == weights(&before), "the old run was continued at its end");
}

/// Starts a long run in `out` and waits for its first save.
#[cfg(unix)]
fn long_run(place: &TestFolder) -> std::process::Child {
    let long = ["--max_iters=1000000", "--eval_interval=20", "--out_dir=out", "--eval_iters=1"];
    let mut command = place.command(&[&["train"], TINY, &long].concat());
    let child = command
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    wait_until("it has saved", || {
        place.path("out/model.safetensors").exists() && steps_logged(&place.path("out")) > 25
    });
    child
}

#[cfg(unix)]
#[test]
fn a_run_whose_folder_is_moved_saves_next_to_it_and_touches_nothing_else() {
    for kind in ["moved", "replaced", "deleted"] {
        let place = TestFolder::new();
        let child = long_run(&place);
        let out = place.path("out");
        fs::rename(&out, place.path("out.old")).unwrap();
        match kind {
            "replaced" => _ = place.train(&["--max_iters=4", "--eval_interval=2", "--out_dir=out"]),
            "deleted" => {
                // Not emptied first, because the run is writing there.
                while fs::remove_dir_all(place.path("out.old")).is_err() {}
            }
            _ => {}
        }
        let theirs = if kind == "replaced" { files(&out) } else { Vec::new() };
        let ended = child.wait_with_output().unwrap();
        let error = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(2), "{kind}: {error}");
        assert!(error.contains("no longer the folder of this run"), "{kind}: {error}");
        assert!(error.contains("--init_from=resume --out_dir=out-"), "{kind}: {error}");
        match kind {
            "replaced" => assert_same(&files(&out), &theirs),
            _ => assert!(!out.exists(), "{kind}"),
        }
        let names = fs::read_dir(place.path(".")).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let saved: Vec<_> = names.filter(|name| name.starts_with("out-")).collect();
        assert_eq!(saved.len(), 1, "{kind}: {saved:?}");
        assert!(steps_logged(&place.path(&saved[0])) > 25, "{kind}");
        let resume = format!("--out_dir={}", saved[0]);
        let ran = place.run(&["train", "--init_from=resume", &resume, "--max_iters=0"]);
        assert_eq!(ran.code, Some(0), "{kind}: {}", ran.stderr);
    }
}

#[test]
fn an_export_never_writes_over_what_it_reads() {
    let place = TestFolder::new();
    place.train(&["--max_iters=1", "--eval_interval=100", "--out_dir=run"]);
    place.train(&["--max_iters=1", "--eval_interval=100", "--out_dir=other"]);
    let before = (files(&place.path("run")), files(&place.path("other")));
    for out in
        ["model.safetensors", "config.json", "state.safetensors", "events.jsonl", "README.md"]
    {
        for folder in ["run", "./run", "other"] {
            let out = format!("{folder}/{out}");
            for format in ["gguf", "nanogpt"] {
                let args = ["export", "run", "--to", format, "--out", &out, "--overwrite"];
                let ran = place.run(&args);
                if out == "other/README.md" {
                    continue; // an ordinary file, and `--overwrite` was given
                }
                refused(&ran, &[&out, "not replaced", "another path"]);
            }
        }
    }
    assert_same(&files(&place.path("run")), &before.0);
    // A file next to the model is replaced as anywhere else.
    let args = ["export", "run", "--to", "gguf", "--out", "run/m.gguf"];
    assert_eq!(place.run(&args).code, Some(0));
    refused(&place.run(&args), &["--overwrite"]);
    assert_eq!(place.run(&[&args[..], &["--overwrite"]].concat()).code, Some(0));
    // nanoGPT's file is an input, too.
    let args = ["export", "run", "--to", "nanogpt", "--out", "ckpt.pt"];
    assert_eq!(place.run(&args).code, Some(0));
    let args = ["export", "ckpt.pt", "--to", "gguf", "--out", "./ckpt.pt", "--overwrite"];
    refused(&place.run(&args), &["not replaced"]);
}

#[test]
fn an_export_to_a_folder_replaces_only_an_earlier_one() {
    let place = TestFolder::new();
    place.train(&["--max_iters=1", "--eval_interval=100", "--out_dir=run"]);
    let export =
        |out: &str| place.run(&["export", "run", "--to", "hf", "--out", out, "--overwrite"]);
    assert_eq!(export("hf").code, Some(0));
    assert_eq!(export("hf").code, Some(0));
    fs::create_dir(place.path("theirs")).unwrap();
    fs::write(place.path("theirs/config.json"), "{\"model_type\": \"gpt2\"}").unwrap();
    fs::write(place.path("theirs/pytorch_model.bin"), "theirs").unwrap();
    let before = files(&place.path("theirs"));
    refused(&export("theirs"), &["theirs/config.json", "not written by fitgpt"]);
    assert_same(&files(&place.path("theirs")), &before);
    // A run that has begun is a run, and a folder is not copied onto itself.
    fs::create_dir(place.path("begun")).unwrap();
    let manifest = fs::read_to_string(place.path("run/manifest.json")).unwrap();
    fs::write(place.path("begun/manifest.json"), manifest).unwrap();
    refused(&export("begun"), &["begun", "training run"]);
    let onto = ["export", "hf", "--to", "hf", "--out", "./hf", "--overwrite"];
    refused(&place.run(&onto), &["read by this command"]);
}

#[cfg(unix)]
#[test]
fn devices_pipes_inputs_and_other_files_are_not_replaced_by_any_output() {
    let place = TestFolder::new();
    place.train(&["--max_iters=1", "--eval_interval=100", "--out_dir=run"]);
    fs::write(place.path("c.py"), "batch_size = 2\n").unwrap();
    fs::write(place.path("notes.txt"), "mine").unwrap();
    let made = std::process::Command::new("mkfifo").arg(place.path("pipe")).status().unwrap();
    assert!(made.success());
    let before = fs::read(place.path("run/model.safetensors")).unwrap();
    for out in ["pipe", "/dev/null", "run"] {
        let exports = [["gguf", out], ["nanogpt", out], ["hf", out]];
        for [format, out] in exports {
            let ran = place.run(&["export", "run", "--to", format, "--out", out, "--overwrite"]);
            refused(&ran, &[out]);
        }
    }
    let tiny = |command: &[&str]| place.run(&[command, TINY].concat());
    for out in ["pipe", "/dev/null", "run", "c.py", "run/model.safetensors", "notes.txt"] {
        refused(&tiny(&["plan", "c.py", "--svg", out]), &[out]);
        refused(&tiny(&["plan", "c.py", "--html", out]), &[out]);
        refused(&tiny(&["train", "c.py", "--out_dir=new", "--svg", out]), &[out]);
        refused(&tiny(&["fit", "c.py", "--budget=20GB", "--write", out]), &[out]);
    }
    // A file that the run itself would write.
    fs::create_dir_all(place.path("new")).unwrap();
    let ran = tiny(&["train", "--out_dir=new", "--max_iters=1", "--svg=new/model.safetensors"]);
    refused(&ran, &["new/model.safetensors"]);
    assert!(!place.path("new/model.safetensors").exists());
    assert_eq!(fs::read(place.path("notes.txt")).unwrap(), b"mine");
    assert_eq!(fs::read(place.path("c.py")).unwrap(), b"batch_size = 2\n");
    assert!(fs::read(place.path("run/model.safetensors")).unwrap() == before);
    // What it has written itself is replaced.
    for _ in 0..2 {
        let ran = tiny(&["fit", "c.py", "--budget=20GB", "--write=fitted.py"]);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    }
    // The output of the program itself is no file that could be lost.
    let ran = tiny(&["fit", "c.py", "--budget=20GB", "--write=/dev/stdout"]);
    assert!(ran.code != Some(2), "{}", ran.stderr);
}
