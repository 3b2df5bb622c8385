//! No command, signal or file loses a user's run.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::program::{Ran, TINY, TestFolder, events, steps_logged, wait_until};

const FILES: [&str; 4] = ["config.json", "model.safetensors", "state.safetensors", "manifest.json"];

/// The content of a checkpoint.
fn checkpoint(folder: &Path) -> [Vec<u8>; 4] {
    FILES.map(|name| fs::read(folder.join(name)).unwrap())
}

#[track_caller]
fn refused(ran: &Ran, names: &[&str]) {
    assert_eq!(ran.code, Some(2), "{}\n{}", ran.stdout, ran.stderr);
    for name in names {
        assert!(ran.stderr.contains(name), "no `{name}` in {}", ran.stderr);
    }
}

fn last_event(out_dir: &Path) -> Value {
    let text = fs::read_to_string(out_dir.join("events.jsonl")).unwrap();
    serde_json::from_str(text.lines().last().unwrap()).unwrap()
}

#[test]
fn a_new_run_replaces_an_old_one_only_with_overwrite() {
    let place = TestFolder::new();
    let args = ["--max_iters=4", "--eval_interval=2", "--out_dir=out"];
    place.train(&args);
    let out = place.path("out");
    let (before, log) = (checkpoint(&out), fs::read(out.join("events.jsonl")).unwrap());
    let again = place.run(&[&["train"], TINY, &args].concat());
    refused(&again, &["`out`", "--init_from=resume --out_dir=out", "--out_dir`", "--overwrite"]);
    assert_eq!(checkpoint(&out), before);
    assert_eq!(fs::read(out.join("events.jsonl")).unwrap(), log);

    fs::create_dir(out.join("best")).unwrap();
    fs::write(out.join("best/notes.txt"), "mine").unwrap();
    fs::write(out.join("README.md"), "my model").unwrap();
    place.train(&[&args[..], &["--overwrite", "--seed=7", "--max_iters=2"]].concat());
    assert_ne!(checkpoint(&out), before);
    assert_eq!(fs::read(out.join("best/notes.txt")).unwrap(), b"mine");
    assert_eq!(fs::read(out.join("README.md")).unwrap(), b"my model");
    assert!(!out.join("checkpoints/step-00000004").exists(), "checkpoints of the old run");

    // A run that was killed before its first save leaves a log and nothing to lose.
    fs::create_dir(place.path("killed")).unwrap();
    fs::write(place.path("killed/events.jsonl"), "").unwrap();
    place.train(&["--max_iters=1", "--out_dir=killed"]);
}

#[test]
fn weights_of_another_program_are_not_replaced_even_with_overwrite() {
    let place = TestFolder::new();
    for folder in ["out", "out/best"] {
        fs::create_dir_all(place.path(folder)).unwrap();
        fs::write(place.path(folder).join("config.json"), r#"{"model_type": "gpt2"}"#).unwrap();
        fs::write(place.path(folder).join("model.safetensors"), "theirs").unwrap();
        let ran = place
            .run(&[&["train"], TINY, &["--max_iters=1", "--out_dir=out", "--overwrite"]].concat());
        refused(&ran, &["model.safetensors", "not written by fitgpt"]);
        let theirs = place.path(folder).join("model.safetensors");
        assert_eq!(fs::read(&theirs).unwrap(), b"theirs");
        fs::remove_file(theirs).unwrap();
    }
}

#[test]
fn a_log_of_one_run_is_not_joined_to_the_checkpoint_of_another() {
    let place = TestFolder::new();
    for out_dir in ["--out_dir=a", "--out_dir=b"] {
        place.train(&["--max_iters=2", out_dir]);
    }
    let run_id = events(&place.path("a"), "plan")[0]["run_id"].clone();
    let manifest: Value =
        serde_json::from_slice(&fs::read(place.path("a/manifest.json")).unwrap()).unwrap();
    assert_eq!(manifest["run_id"], run_id);
    fs::copy(place.path("b/events.jsonl"), place.path("a/events.jsonl")).unwrap();
    let resume = ["train", "--init_from=resume", "--out_dir=a", "--max_iters=4"];
    refused(&place.run(&resume), &["a/events.jsonl", run_id.as_str().unwrap()]);
    // The hint works.
    fs::remove_file(place.path("a/events.jsonl")).unwrap();
    assert_eq!(place.run(&resume).code, Some(0));
    assert_eq!(events(&place.path("a"), "plan")[0]["run_id"], run_id);
}

#[cfg(unix)]
#[test]
fn links_in_the_folder_of_a_run_are_never_followed() {
    use std::os::unix::fs::symlink;
    let place = TestFolder::new();
    let theirs = place.path("theirs");
    fs::create_dir(&theirs).unwrap();
    let names = ["model.safetensors", "config.json", "notes.txt"];
    for name in names {
        fs::write(theirs.join(name), "precious").unwrap();
    }
    let args =
        [&["train"], TINY, &["--max_iters=2", "--eval_interval=1", "--out_dir=out"]].concat();
    let id = "00000001-0123456789ab";
    for link in [".saving", ".saved", ".placing"].map(|name| format!("{name}-{id}")) {
        let _ = fs::remove_dir_all(place.path("out"));
        fs::create_dir(place.path("out")).unwrap();
        symlink(&theirs, place.path("out").join(&link)).unwrap();
        let ran = place.run(&args);
        assert_eq!(ran.code, Some(0), "{link}: {}", ran.stderr);
        for name in names {
            assert_eq!(fs::read(theirs.join(name)).unwrap(), b"precious", "{link} {name}");
        }
    }
    for (link, target) in
        [(".lock", "notes.txt"), ("events.jsonl", "notes.txt"), ("checkpoints", ".")]
    {
        let _ = fs::remove_dir_all(place.path("out"));
        fs::create_dir(place.path("out")).unwrap();
        symlink(theirs.join(target), place.path("out").join(link)).unwrap();
        refused(&place.run(&args), &[link]);
        for name in names {
            assert_eq!(fs::read(theirs.join(name)).unwrap(), b"precious", "{link} {name}");
        }
    }
}

#[test]
fn weights_that_are_not_finite_never_replace_good_ones() {
    let place = TestFolder::new();
    let common = ["--eval_interval=1", "--decay_lr=False"];
    place.train(&[&common[..], &["--max_iters=3", "--out_dir=out"]].concat());
    let out = place.path("out");
    let before = checkpoint(&out);
    let resume = ["train", "--init_from=resume", "--out_dir=out", "--max_iters=6"];
    let ran = place.run(&[&resume[..], &["--learning_rate=1e38"]].concat());
    refused(&ran, &["checkpoint is from step 4", "learning_rate", "--init_from=resume"]);
    assert_eq!(checkpoint(&out), before);
    assert_eq!(last_event(&out)["reason"], "diverged");
    // The hint works: the last good state continues with the old rate.
    assert_eq!(place.run(&resume).code, Some(0));
}

#[test]
fn the_last_checkpoints_and_the_best_are_kept_and_each_can_be_resumed() {
    let place = TestFolder::new();
    let common = ["--eval_interval=2", "--max_iters=12", "--eval_iters=2"];
    place.train(&[&common[..], &["--keep_checkpoints=3", "--out_dir=out"]].concat());
    let kept = fs::read_dir(place.path("out/checkpoints")).unwrap();
    let mut kept: Vec<_> = kept.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    kept.sort();
    // Saved at 2, 4, …, 12 and 13; the best evaluation may be any of them.
    assert!(kept.ends_with(&["step-00000010".into(), "step-00000012".into()]), "{kept:?}");
    assert!(kept.len() <= 3, "{kept:?}");
    for name in &kept {
        let folder = format!("--out_dir=out/checkpoints/{name}");
        let ran = place.run(&["train", "--init_from=resume", &folder, "--max_iters=12"]);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    }
    let values = |folder: &str| {
        let bytes = fs::read(place.path(folder).join("model.safetensors")).unwrap();
        let header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        bytes[8 + header..].to_vec()
    };
    assert!(values("out") == values("out/checkpoints/step-00000010"), "resumed to the same bits");
}

#[test]
fn a_changed_config_or_dataset_is_noticed() {
    let place = TestFolder::new();
    place.train(&["--max_iters=2", "--out_dir=out"]);
    let resume = ["train", "--init_from=resume", "--out_dir=out", "--max_iters=3"];
    let path = place.path("out/config.json");
    let whole = fs::read_to_string(&path).unwrap();
    assert!(whole.contains("\"n_head\": 2"), "{whole}");
    fs::write(&path, whole.replace("\"n_head\": 2", "\"n_head\": 1")).unwrap();
    refused(&place.run(&["sample", "--out_dir=out", "--max_new_tokens=2"]), &["config.json"]);
    refused(&place.run(&resume), &["config.json"]);
    fs::write(&path, whole).unwrap();

    let train = place.path("data/tiny/train.bin");
    let mut tokens = fs::read(&train).unwrap();
    tokens[100] ^= 1;
    fs::write(&train, tokens).unwrap();
    let ran = place.run(&resume);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stderr.contains("the dataset has changed"), "{}", ran.stderr);
}

/// Starts a long run in `out` and waits for its first steps.
#[cfg(unix)]
fn long_run(place: &TestFolder, wrap: &[&str]) -> std::process::Child {
    let program =
        place.command(&[&["train", "--max_iters=100000"], TINY, &["--out_dir=out"]].concat());
    let mut command = if let [shell, rest @ ..] = wrap {
        let mut command = Command::new(shell);
        command.args(rest).arg(program.get_program()).args(program.get_args());
        command.current_dir(program.get_current_dir().unwrap());
        command
    } else {
        program
    };
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_until("it has made steps", || steps_logged(&place.path("out")) > 3);
    child
}

#[cfg(unix)]
fn send(child: &std::process::Child, signal: rustix::process::Signal) {
    rustix::process::kill_process(rustix::process::Pid::from_child(child), signal).unwrap();
}

#[cfg(unix)]
#[test]
fn every_signal_that_ends_a_run_saves_first() {
    use rustix::process::Signal;
    // These tests themselves may run under `nohup`, which ignores a hangup.
    let wrap: &[&str] =
        if cfg!(target_os = "linux") { &["/usr/bin/env", "--default-signal=HUP"] } else { &[] };
    for signal in [Signal::TERM, Signal::HUP, Signal::USR1, Signal::XCPU] {
        let place = TestFolder::new();
        let mut child = long_run(&place, wrap);
        send(&child, signal);
        assert_eq!(child.wait().unwrap().code(), Some(130), "{signal:?}");
        assert_eq!(last_event(&place.path("out"))["reason"], "interrupted");
        let ran = place.run(&["train", "--init_from=resume", "--out_dir=out", "--max_iters=0"]);
        assert_eq!(ran.code, Some(0), "{signal:?}: {}", ran.stderr);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_hangup_that_was_ignored_at_the_start_stays_ignored() {
    let place = TestFolder::new();
    let mut child = long_run(&place, &["/bin/sh", "-c", "trap '' HUP; exec \"$@\"", "sh"]);
    send(&child, rustix::process::Signal::HUP);
    let now = steps_logged(&place.path("out"));
    wait_until("it goes on", || steps_logged(&place.path("out")) > now + 20);
    assert!(child.try_wait().unwrap().is_none());
    send(&child, rustix::process::Signal::TERM);
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[cfg(unix)]
#[test]
fn a_second_ctrl_c_never_reports_a_save_that_did_not_happen() {
    for _ in 0..3 {
        let place = TestFolder::new();
        let mut child = long_run(&place, &[]);
        send(&child, rustix::process::Signal::INT);
        let _ = rustix::process::kill_process(
            rustix::process::Pid::from_child(&child),
            rustix::process::Signal::INT,
        );
        match child.wait().unwrap().code() {
            Some(130) => assert!(place.path("out/manifest.json").exists()),
            code => assert_eq!(code, Some(2)),
        }
    }
}

#[cfg(unix)]
#[test]
fn a_stopped_command_that_saves_nothing_exits_with_2() {
    let place = TestFolder::new();
    place.train(&["--max_iters=1", "--out_dir=out"]);
    fs::write(place.path("long.txt"), "The cat sat on the mat. ".repeat(4_000_000)).unwrap();
    let commands: [&[&str]; 2] = [
        &["sample", "--out_dir=out", "--num_samples=1", "--max_new_tokens=100000000"],
        &["prepare", "long.txt", "--out=data/long"],
    ];
    for args in commands {
        let printed = place.path("printed.txt");
        let file = fs::File::create(&printed).unwrap();
        let child = place.command(args).stdout(file).stderr(Stdio::piped()).spawn().unwrap();
        if args[0] == "sample" {
            wait_until("it generates", || fs::metadata(&printed).unwrap().len() > 0);
        } else {
            wait_until("it writes", || place.path("data/long").exists());
        }
        send(&child, rustix::process::Signal::INT);
        let ended = child.wait_with_output().unwrap();
        let error = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(2), "{args:?}: {error}");
        assert!(error.contains("error: stopped"), "{args:?}: {error}");
    }
    assert!(!place.path("data/long/train.bin").exists());
}

#[cfg(unix)]
#[test]
fn one_signal_ends_a_preparation_that_waits_for_a_silent_pipe() {
    let place = TestFolder::new();
    let made = Command::new("mkfifo").arg(place.path("pipe")).status().unwrap();
    assert!(made.success());
    for (input, out) in [("-", "--out=data/stdin"), ("pipe", "--out=data/pipe")] {
        let mut command = place.command(&["prepare", input, out]);
        let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let silent = child.stdin.take();
        let folder = place.path(out.trim_start_matches("--out="));
        wait_until("it has its lock", || folder.join(".lock").exists());
        send(&child, rustix::process::Signal::TERM);
        wait_until("it ends", || child.try_wait().unwrap().is_some());
        let ended = child.wait_with_output().unwrap();
        let error = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(2), "{input}: {error}");
        assert!(error.contains("error: stopped"), "{input}: {error}");
        drop(silent);
    }
}

#[test]
fn training_continues_without_output_after_its_pipe_is_closed() {
    let place = TestFolder::new();
    let args = [&["train", "--max_iters=30"], TINY, &["--out_dir=out"]].concat();
    let mut child =
        place.command(&args).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(last_event(&place.path("out"))["reason"], "done");
    assert!(place.path("out/manifest.json").exists());
}

#[cfg(target_os = "linux")]
#[test]
fn output_that_cannot_be_written_is_an_error() {
    let place = TestFolder::new();
    let full = || fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let status = place.command(&["plan", "--json"]).stdout(full()).status().unwrap();
    assert_eq!(status.code(), Some(2));
    // A run is finished first.
    let args = [&["train", "--max_iters=3"], TINY, &["--out_dir=out"]].concat();
    let status = place.command(&args).stdout(full()).stderr(Stdio::null()).status().unwrap();
    assert_eq!(status.code(), Some(2));
    assert_eq!(last_event(&place.path("out"))["reason"], "done");
}

#[cfg(unix)]
#[test]
fn files_without_an_end_are_refused_at_once() {
    let place = TestFolder::new();
    place.train(&["--max_iters=1", "--out_dir=out"]);
    let pipe = place.path("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let pipe = pipe.to_str().unwrap();
    for endless in ["/dev/zero", pipe] {
        let started = Instant::now();
        refused(&place.run(&["plan", endless]), &[endless]);
        let start = format!("--start=FILE:{endless}");
        refused(&place.run(&["sample", "--out_dir=out", &start]), &[endless]);
        assert!(started.elapsed() < Duration::from_secs(10), "{endless}");
    }
    // A pipe as a log is a shell's `<(command)`.
    refused(&place.run(&["doctor", "/dev/zero"]), &["/dev/zero", "device"]);
    for name in ["config.json", "events.jsonl", "model.safetensors", "manifest.json"] {
        let path = place.path("out").join(name);
        let whole = fs::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        let resume = ["train", "--init_from=resume", "--out_dir=out", "--max_iters=3"];
        refused(&place.run(&resume), &[name]);
        fs::remove_file(&path).unwrap();
        fs::write(&path, whole).unwrap();
    }
    let train = place.path("data/tiny/train.bin");
    fs::remove_file(&train).unwrap();
    std::os::unix::fs::symlink(pipe, &train).unwrap();
    refused(&place.run(&[&["train"], TINY, &["--out_dir=new"]].concat()), &["train.bin"]);
}

#[cfg(unix)]
#[test]
fn a_pipe_without_a_writer_hangs_no_command() {
    let place = TestFolder::new();
    fs::write(place.path("a.txt"), "some words\n".repeat(200)).unwrap();
    for folder in ["tokenizer", "nanogpt"] {
        fs::create_dir(place.path(folder)).unwrap();
    }
    let pipes = ["tokenizer.json", "nanogpt/train.py", "nanogpt/model.py", "data/tiny/meta.pkl"];
    for pipe in pipes {
        let made = Command::new("mkfifo").arg(place.path(pipe)).status().unwrap();
        assert!(made.success());
    }
    let train = [&["train"], TINY, &["--out_dir=out"]].concat();
    let commands: [(&[&str], &str); 3] = [
        (&["prepare", "a.txt", "--tokenizer", "tokenizer.json", "--out=data/a"], "tokenizer.json"),
        (&["patch", "nanogpt", "--apply"], "nanogpt"),
        (&train, "meta.pkl"),
    ];
    for (args, name) in commands {
        let mut child = place.command(args).stderr(Stdio::piped()).spawn().unwrap();
        let started = Instant::now();
        while child.try_wait().unwrap().is_none() {
            if started.elapsed() > Duration::from_secs(30) {
                child.kill().unwrap();
                panic!("{args:?} hangs");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let ended = child.wait_with_output().unwrap();
        let error = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(2), "{args:?}: {error}");
        assert!(error.contains(name), "{error}");
    }
}

#[cfg(unix)]
#[test]
fn a_saved_run_has_not_failed_if_nothing_is_left_to_sample_from() {
    let place = TestFolder::new();
    fs::write(place.path("prompt.txt"), "1 2 3").unwrap();
    let args = [&["train", "--max_iters=100000"], TINY, &["--out_dir=out"]].concat();
    let args = [&args[..], &["--start=FILE:prompt.txt", "--eval_interval=100000"]].concat();
    let mut command = place.command(&args);
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("it has made steps", || steps_logged(&place.path("out")) > 3);
    send(&child, rustix::process::Signal::TERM);
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(130));
    fs::remove_file(place.path("prompt.txt")).unwrap();
    let step = events(&place.path("out"), "step").len();
    let max_iters = format!("--max_iters={}", step + 2);
    let ran = place.run(&["train", "--init_from=resume", "--out_dir=out", &max_iters]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stderr.contains("no sample"), "{}", ran.stderr);
}

#[test]
fn a_file_of_tokens_is_not_read_as_text() {
    let place = TestFolder::new();
    for name in ["data/tiny/train.bin", "data/tiny/val.bin"] {
        let ran = place.run(&["prepare", name, "--out=data/again"]);
        refused(&ran, &[name, "tokens", "--dataset="]);
        assert!(!ran.stderr.contains("iconv"), "{}", ran.stderr);
    }
}

#[test]
fn limits_are_refused_in_milliseconds() {
    let place = TestFolder::new();
    let threads = [&["train", "--threads=2147483647", "--out_dir=out"], TINY].concat();
    refused(&place.run(&threads), &["threads", "1024"]);

    place.train(&["--max_iters=1", "--out_dir=out"]);
    fs::remove_file(place.path("out/manifest.json")).unwrap();
    let path = place.path("out/config.json");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("\"n_layer\": 2", "\"n_layer\": 65535")).unwrap();
    let started = Instant::now();
    refused(&place.run(&["sample", "--out_dir=out"]), &["65535", "n_layer", "1024"]);
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
}

#[test]
fn the_largest_sizes_are_planned_in_seconds() {
    let place = TestFolder::new();
    for sizes in [
        &["--n_layer=1024"][..],
        &["--n_embd=1048576", "--n_head=65536"],
        &["--vocab_size=16777216"],
        &["--block_size=16777216"],
        &["--batch_size=1048576"],
    ] {
        let started = Instant::now();
        let ran = place.run(&[&["plan", "--json", "--budget=64GB"], sizes].concat());
        assert_eq!(ran.code, Some(1), "{sizes:?}: {}", ran.stderr);
        // The slowest takes less than a second alone; two of them once took minutes.
        assert!(started.elapsed() < Duration::from_secs(20), "{sizes:?}: {:?}", started.elapsed());
    }
}

#[test]
fn products_of_large_sizes_are_planned_or_refused_in_seconds() {
    let place = TestFolder::new();
    // Nine million chunks; more FLOPs, and more sequences, than 64 bits can count.
    let chunks = "n_layer=2 n_head=64 batch_size=65536 vocab_size=1000000 loss_chunk_rows=7 \
                  dtype=float32 compile=False";
    let flops = "n_layer=1024 batch_size=720720 eval_batch_size=720720";
    let wide = "n_layer=1024 n_embd=1048576 n_head=65536 vocab_size=16777216";
    let sequences = "batch_size=720720 gradient_accumulation_steps=89429 lanes=720";
    for keys in [chunks, flops, wide, sequences] {
        let keys: Vec<_> = keys.split_whitespace().map(|key| format!("--{key}")).collect();
        let keys: Vec<_> = keys.iter().map(String::as_str).collect();
        for (command, engine) in
            [("plan", "torch"), ("plan", "fitgpt"), ("fit", "torch"), ("fit", "fitgpt")]
        {
            let started = Instant::now();
            let args = [command, "--engine", engine, "--gpu=RTX 4090"];
            let ran = place.run(&[&args[..], &keys].concat());
            let is_answer = matches!(ran.code, Some(0..=2));
            assert!(is_answer, "{command} {engine} {keys:?}: {:?} {}", ran.code, ran.stderr);
            let elapsed = started.elapsed();
            assert!(elapsed < Duration::from_secs(20), "{command} {engine} {keys:?}: {elapsed:?}");
        }
    }
}

#[test]
fn a_config_that_imports_its_keys_is_refused_by_name() {
    let place = TestFolder::new();
    fs::write(place.path("base.py"), "n_layer = 48\n").unwrap();
    fs::write(place.path("c.py"), "from base import *\nbatch_size = 4\n").unwrap();
    refused(&place.run(&["plan", "c.py"]), &["c.py:1", "from base import *"]);
}

#[test]
fn text_from_files_cannot_control_the_terminal() {
    let place = TestFolder::new();
    let escape = "\x1b[31mred\x07";
    fs::write(place.path("bad\x1b[2J.py"), "batch_size = [1]\n").unwrap();
    let out_dir = format!("--out_dir={escape}");
    for args in [
        vec!["plan", "--dataset", escape, "--n_head=7"],
        vec!["train", "--dataset", escape],
        vec!["plan", "bad\x1b[2J.py"],
        vec!["plan", escape],
        vec!["sample", &out_dir],
        vec!["plan", "--no_such_key", escape],
        vec!["plan", &format!("--{escape}=1")],
    ] {
        let ran = place.run(&args);
        assert_eq!(ran.code, Some(2), "{args:?} {}", ran.stderr);
        for text in [&ran.stdout, &ran.stderr] {
            assert!(!text.contains(['\x1b', '\x07']), "{args:?} {text:?}");
        }
    }
    let ran = place.run(&["train", "--dataset", escape]);
    assert!(ran.stderr.contains("\\x1b[31mred\\x07"), "{}", ran.stderr);
}

#[test]
fn a_refusal_suggests_no_empty_command() {
    let place = TestFolder::new();
    let tight = [&["plan", "--json", "--budget=20GB"], TINY].concat();
    let arena = place.run(&tight).json()["arena_bytes"].as_u64().unwrap();
    // Between the low and the high end of the overhead.
    let budget = format!("--budget={}", arena + (60 << 20));
    let ran = place.run(&[&["plan", &budget], TINY].concat());
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(!ran.stderr.contains("``"), "{}", ran.stderr);
}

#[cfg(target_os = "linux")]
#[test]
fn the_limit_of_the_data_segment_is_in_the_budget() {
    let place = TestFolder::new();
    let program = place.command(&[&["train", "--json", "--out_dir=out"], TINY].concat());
    let mut command = Command::new("/bin/sh");
    command.current_dir(program.get_current_dir().unwrap());
    command.args(["-c", "ulimit -d 65536 && exec \"$@\"", "sh"]);
    let output = command.arg(program.get_program()).args(program.get_args()).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(report["device"]["usable_bytes"].as_u64().unwrap() < 64 << 20, "{report}");
}

#[test]
fn the_tokens_of_a_batch_are_in_the_plan() {
    let place = TestFolder::new();
    let workspace = |batch: &str| {
        let args = [&["plan", "--json", "--budget=20GB"], TINY, &[batch, "--device=cpu"]].concat();
        place.run(&args).json()["overhead"]["workspace_bytes"][1].as_u64().unwrap()
    };
    // Two numbers of 4 bytes per token.
    assert_eq!(workspace("--batch_size=4"), 8 * 4 * 24);
    assert_eq!(workspace("--batch_size=4096"), 8 * 4096 * 24);
}

#[test]
fn two_preparations_of_one_folder_never_mix() {
    let place = TestFolder::new();
    for (name, word) in [("a", "alpha "), ("b", "beta ")] {
        fs::write(place.path(&format!("{name}.txt")), word.repeat(60_000)).unwrap();
    }
    let prepare = |name: &str, out: &str| {
        let args = ["prepare", &format!("{name}.txt"), "--chars", "--overwrite", "--out", out];
        let mut command = place.command(&args);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    for name in ["a", "b"] {
        assert!(prepare(name, name).wait().unwrap().success());
    }
    let files = ["train.bin", "val.bin", "meta.pkl"];
    let dataset = |folder: &str| files.map(|name| fs::read(place.path(folder).join(name)).ok());
    let whole = ["a", "b"].map(dataset);
    for round in 0..6 {
        let mut both = ["a", "b"].map(|name| prepare(name, "both"));
        let codes = both.each_mut().map(|child| child.wait().unwrap().code());
        assert!(codes.contains(&Some(0)), "{codes:?}");
        assert!(whole.contains(&dataset("both")), "round {round}: a mix, {codes:?}");
    }
    // The next run removes everything that a killed one left.
    for millis in [5, 15, 30, 60] {
        let mut child = prepare("a", "both");
        std::thread::sleep(Duration::from_millis(millis));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    assert!(prepare("b", "both").wait().unwrap().success());
    assert_eq!(dataset("both"), whole[1]);
    let left = fs::read_dir(place.path("both")).unwrap();
    let mut left: Vec<_> = left.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    left.sort();
    assert_eq!(left, [".lock", "meta.pkl", "train.bin", "val.bin"]);
}
