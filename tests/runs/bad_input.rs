//! Bad input of every kind: exit code 2, a message that names the thing, and nothing lost.

use std::{
    fs,
    process::{Output, Stdio},
};

use fitgpt_config::{KEYS, Key, ValueKind, ValueRange};
use serde_json::Value;

use crate::program::{Ran, TINY, TestFolder, events, steps_logged, wait_until};

/// Checks that it failed with exit code 2 and a message with all of `names`.
#[track_caller]
fn refused(ran: &Ran, names: &[&str]) {
    assert_eq!(ran.code, Some(2), "{}\n{}", ran.stdout, ran.stderr);
    assert!(
        ran.stderr.starts_with("error: ") || ran.stderr.contains("\nerror: "),
        "{}",
        ran.stderr
    );
    assert!(!ran.stderr.contains("panicked"), "{}", ran.stderr);
    for name in names {
        assert!(ran.stderr.contains(name), "no `{name}` in {}", ran.stderr);
    }
}

fn train(place: &TestFolder, more: &[&str]) -> Ran {
    place.run(&[&["train", "--max_iters=3", "--out_dir=out"], TINY, more].concat())
}

/// Values of a key that no config accepts, as overrides; empty if any text is accepted.
fn nonsense(key: &Key) -> Vec<&'static str> {
    let mut values = match key.kind {
        ValueKind::Int => vec!["many", "1.5", "-1", "99999999999999999999"],
        ValueKind::Float => vec!["fast", "-1", "nan"],
        ValueKind::Bool => vec!["maybe", "2"],
        ValueKind::Choice(_) | ValueKind::ChoiceOrNone(_) | ValueKind::BoolOr(_) => {
            vec!["nonsense", "7"]
        }
        ValueKind::Device(_) => vec!["toaster", "cuda:x"],
        ValueKind::Size => vec!["much", "-3GB", "12 potatoes"],
        ValueKind::Text => vec![],
    };
    match key.range {
        ValueRange::BelowOne => values.push("1.0"),
        ValueRange::Share => values.push("0"),
        ValueRange::NotEmpty => values.push(""),
        _ => {}
    }
    values
}

#[test]
fn an_invalid_value_of_any_key_is_refused_with_its_name() {
    let place = TestFolder::new();
    for key in KEYS {
        for value in nonsense(key) {
            let ran = place.run(&["train", "--out_dir=out", &format!("--{}={value}", key.name)]);
            refused(&ran, &[key.name]);
        }
        // In a file, a text can also have the wrong type.
        let wrong = if key.kind == ValueKind::Text { "3" } else { "b'bytes'" };
        fs::write(place.path("c.py"), format!("\n{} = {wrong}\n", key.name)).unwrap();
        let ran = place.run(&["train", "c.py", "--out_dir=out"]);
        refused(&ran, &["c.py:2"]);
        assert!(!place.path("out").exists(), "{}", key.name);
    }
}

#[test]
fn broken_token_files_are_named_before_the_run_starts() {
    for file in ["train.bin", "val.bin"] {
        let place = TestFolder::new();
        let path = place.path("data/tiny").join(file);
        let whole = fs::read(&path).unwrap();
        // A shard of llm.c whose header announces more than follows.
        let mut shard = vec![0u8; 1024];
        for (word, value) in [(0, 20_240_520u32), (1, 1), (2, 5000)] {
            shard[4 * word..4 * word + 4].copy_from_slice(&value.to_le_bytes());
        }
        let shard = [&shard[..], &whole[..6000]].concat();
        let cases: [(&str, Vec<u8>, &[&str]); 4] = [
            ("odd", whole[..1001].to_vec(), &["inside a token", "1001"]),
            ("empty", Vec::new(), &["no tokens"]),
            ("short", whole[..48].to_vec(), &["24", "25"]),
            ("truncated", shard, &["5000", "3000"]),
        ];
        for (what, bytes, names) in cases {
            fs::write(&path, bytes).unwrap();
            let ran = train(&place, &[]);
            refused(&ran, &[&[file][..], names].concat());
            assert!(!place.path("out/events.jsonl").exists(), "{what}");
        }
        fs::remove_file(&path).unwrap();
        refused(&train(&place, &[]), &[file]);
    }
}

#[test]
fn a_token_outside_the_vocabulary_is_reported_with_its_position() {
    let place = TestFolder::new();
    for file in ["train.bin", "val.bin"] {
        let path = place.path("data/tiny").join(file);
        let whole = fs::read(&path).unwrap();
        fs::write(&path, [61u8, 0].repeat(2000)).unwrap();
        refused(&train(&place, &["--eval_interval=1"]), &[file, "token 61", "61"]);
        fs::write(&path, whole).unwrap();
    }
}

#[test]
fn a_pickle_with_code_is_refused_and_not_executed() {
    let place = TestFolder::new();
    let meta = place.path("data/tiny/meta.pkl");
    let call: &[u8] = b"cos\nsystem\n(S'touch pwned'\ntR.";
    let truncated: &[u8] = b"\x80\x04\x95\x20\x00\x00";
    let other: &[u8] = b"(lp0\nI1\na.";
    for bytes in [call, truncated, other, b"", &[0xffu8; 64]] {
        fs::write(&meta, bytes).unwrap();
        refused(&train(&place, &["--vocab_size=0"]), &["meta.pkl"]);
        assert!(!place.path("pwned").exists());
        // A plan reads it too.
        let ran = place.run(&["plan", "--dataset=tiny"]);
        refused(&ran, &["meta.pkl"]);
        assert!(!place.path("pwned").exists());
    }
}

#[test]
fn a_foreign_or_mixed_checkpoint_is_refused_and_not_changed() {
    let place = TestFolder::new();
    place.train(&["--max_iters=2", "--eval_interval=2", "--out_dir=out"]);
    place.train(&["--max_iters=3", "--eval_interval=2", "--out_dir=other"]);
    // With a step left to train: a finished run is not read.
    let resume = ["train", "--init_from=resume", "--out_dir=out", "--max_iters=3"];
    let out = |name: &str| place.path("out").join(name);
    let names = ["config.json", "model.safetensors", "state.safetensors"];
    let whole = names.map(|name| fs::read(out(name)).unwrap());
    let theirs = names.map(|name| fs::read(place.path("other").join(name)).unwrap());
    for (index, name) in names.into_iter().enumerate() {
        let flipped = {
            let mut bytes = whole[index].clone();
            let last = bytes.len() - 9;
            bytes[last] ^= 0x40;
            bytes
        };
        let cases: [(&str, &[u8]); 5] = [
            ("empty", b""),
            ("foreign", b"PK\x03\x04 a zip of torch.save"),
            ("truncated", &whole[index][..whole[index].len() - 5]),
            ("flipped", &flipped),
            ("of another save", &theirs[index]),
        ];
        for (what, bytes) in cases {
            fs::write(out(name), bytes).unwrap();
            let ran = place.run(&resume);
            // A flipped bit in a config may give another valid config; only then may it continue.
            if name == "config.json" && what == "flipped" {
                assert!(!ran.stderr.contains("panicked"), "{}", ran.stderr);
            } else {
                refused(&ran, &["out/"]);
                assert_eq!(fs::read(out(name)).unwrap(), bytes, "{name} {what} was changed");
            }
            for (name, bytes) in names.iter().zip(&whole) {
                fs::write(out(name), bytes).unwrap();
            }
        }
        fs::remove_file(out(name)).unwrap();
        refused(&place.run(&resume), &[name]);
        fs::write(out(name), &whole[index]).unwrap();
    }
    assert_eq!(place.run(&resume).code, Some(0), "and whole it still resumes");
}

#[test]
fn a_checkpoint_of_another_shape_is_refused_by_key() {
    let place = TestFolder::new();
    place.train(&["--max_iters=1", "--eval_interval=2", "--out_dir=out"]);
    let before = fs::read(place.path("out/state.safetensors")).unwrap();
    for (key, value) in [
        ("n_layer", "3"),
        ("n_head", "4"),
        ("n_embd", "64"),
        ("block_size", "12"),
        ("vocab_size", "64"),
        ("bias", "True"),
    ] {
        let key_value = format!("--{key}={value}");
        let ran = place.run(&["train", "--init_from=resume", "--out_dir=out", &key_value]);
        refused(&ran, &[key]);
    }
    assert_eq!(fs::read(place.path("out/state.safetensors")).unwrap(), before);
}

#[test]
fn an_out_dir_that_cannot_be_written_is_named_before_the_first_step() {
    let place = TestFolder::new();
    fs::write(place.path("file"), "").unwrap();
    let mut folders = vec!["file", "file/below"];
    if cfg!(target_os = "linux") {
        folders.push("/proc/fitgpt-out"); // even root can make nothing there
    }
    for folder in folders {
        let out_dir = format!("--out_dir={folder}");
        let ran = place.run(&[&["train", &out_dir], TINY].concat());
        refused(&ran, &[folder]);
        assert!(!ran.stdout.contains("iter 0"), "{}", ran.stdout);
    }
}

#[test]
fn a_second_run_in_one_folder_is_refused_and_the_first_continues() {
    let place = TestFolder::new();
    let long = [&["train", "--max_iters=1000000", "--out_dir=out"], TINY].concat();
    let mut first =
        place.command(&long).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_until("it has made steps", || steps_logged(&place.path("out")) > 3);
    refused(&train(&place, &[]), &["`out` is in use", &first.id().to_string()]);
    let now = steps_logged(&place.path("out"));
    wait_until("it goes on", || steps_logged(&place.path("out")) > now + 3);
    assert!(first.try_wait().unwrap().is_none());
    first.kill().unwrap();
    first.wait().unwrap();
}

#[test]
fn a_loss_that_turns_nan_ends_the_run_and_keeps_the_last_good_checkpoint() {
    let place = TestFolder::new();
    let common = ["--eval_interval=1000", "--dropout=0.1"];
    place.train(&[&common[..], &["--max_iters=12", "--out_dir=whole"]].concat());
    place.train(&[&common[..], &["--max_iters=5", "--out_dir=out"]].concat());
    let names = ["config.json", "model.safetensors", "state.safetensors"];
    let files = || names.map(|name| fs::read(place.path("out").join(name)).unwrap());
    let before = files();

    let resume = ["train", "--init_from=resume", "--out_dir=out", "--max_iters=12"];
    let wild = ["--learning_rate=1e30", "--decay_lr=False"];
    let ran = place.run(&[&resume[..], &wild].concat());
    refused(&ran, &["step 7 ended with a loss of ", "checkpoint is from step 6", "learning_rate"]);
    assert!(ran.stderr.contains("NaN") || ran.stderr.contains("inf"), "{}", ran.stderr);
    assert_eq!(files(), before);
    let last = fs::read_to_string(place.path("out/events.jsonl")).unwrap();
    let last: Value = serde_json::from_str(last.lines().last().unwrap()).unwrap();
    assert_eq!((&last["event"], &last["reason"]), (&"end".into(), &"diverged".into()));

    // With the old learning rate it continues as if nothing had happened.
    assert_eq!(place.run(&resume).code, Some(0));
    let losses = |name: &str| {
        let steps = events(&place.path(name), "step");
        steps.iter().map(|step| step["loss"].as_f64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(losses("out"), losses("whole"));
}

/// Runs with a limit on the size of files, in blocks of 512 bytes.
#[cfg(unix)]
fn with_small_files(place: &TestFolder, args: &[&str], blocks: u32) -> Output {
    let program = place.command(args);
    let mut command = std::process::Command::new("/bin/sh");
    command.current_dir(program.get_current_dir().unwrap()).env("LC_ALL", "C");
    let script = format!("ulimit -f {blocks} && exec \"$@\"");
    command.args(["-c", &script, "sh"]).arg(program.get_program()).args(program.get_args());
    command.output().unwrap()
}

#[cfg(unix)]
#[test]
fn a_disk_that_fills_up_in_a_save_costs_no_checkpoint() {
    let place = TestFolder::new();
    let common = ["--eval_interval=4", "--dropout=0.1"];
    place.train(&[&common[..], &["--max_iters=14", "--out_dir=whole"]].concat());
    place.train(&[&common[..], &["--max_iters=5", "--out_dir=out"]].concat());
    let state = fs::metadata(place.path("out/state.safetensors")).unwrap().len();
    let model = fs::metadata(place.path("out/model.safetensors")).unwrap().len();
    let resume = ["train", "--init_from=resume", "--out_dir=out", "--max_iters=14"];
    // Too little for the state, and too little for the weights; the log is far below either.
    for bytes in [state - 600, model / 2] {
        assert!(bytes > 50_000, "the limit must be larger than the log");
        let output = with_small_files(&place, &resume, (bytes / 512) as u32);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains("error: cannot write `out/"), "{stderr}");
        let last = fs::read_to_string(place.path("out/events.jsonl")).unwrap();
        let last: Value = serde_json::from_str(last.lines().last().unwrap()).unwrap();
        assert_eq!((&last["event"], &last["reason"]), (&"end".into(), &"failed".into()));
    }
    let ran = place.run(&resume);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let losses = |name: &str| {
        let steps = events(&place.path(name), "step");
        steps.iter().map(|step| step["loss"].as_f64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(losses("out"), losses("whole"));
    let left = fs::read_dir(place.path("out")).unwrap();
    let left: Vec<_> = left.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    assert!(left.iter().all(|name| !name.starts_with(".sav")), "{left:?}");
}
