//! What somebody meets on the first day: a text instead of a config, another encoding, a finished run.

use std::fs;

use crate::program::{TINY, TestFolder, events};

#[test]
fn a_text_instead_of_a_config_names_prepare() {
    let place = TestFolder::new();
    fs::write(place.path("story.txt"), "Once upon a time there was a fox.\n").unwrap();
    let ran = place.run(&["train", "story.txt"]);
    assert_eq!(ran.code, Some(2), "{}", ran.stdout);
    assert!(ran.stderr.contains("`story.txt` is not a config"), "{}", ran.stderr);
    assert!(ran.stderr.contains("`fitgpt prepare story.txt`"), "{}", ran.stderr);
}

#[test]
fn a_text_in_another_encoding_names_it_and_iconv_and_a_mark_is_dropped() {
    let place = TestFolder::new();
    let gbk = b"\xcc\xec\xb8\xdf\xd4\xc6\xb5\xad\xa3\xac\xc8\xcb\xc3\xc7\xd4\xda\xbb\xa8\xd4\xb0\
        \xc0\xef\xb6\xc1\xca\xe9\xa1\xa3";
    let utf16: Vec<u8> = "Once upon a time".encode_utf16().flat_map(u16::to_le_bytes).collect();
    for (name, bytes, encoding) in
        [("gbk.txt", gbk.as_slice(), "GBK"), ("wide.txt", &utf16, "UTF-16LE")]
    {
        fs::write(place.path(name), bytes.repeat(20)).unwrap();
        let ran = place.run(&["prepare", name, "--chars"]);
        assert_eq!(ran.code, Some(2), "{}", ran.stdout);
        let stem = name.strip_suffix(".txt").unwrap();
        let iconv = format!("iconv -f {encoding} -t UTF-8 {name} > {stem}.utf8.txt");
        assert!(ran.stderr.contains(&iconv) && !ran.stderr.contains("--lossy"), "{}", ran.stderr);
    }
    // One stray byte says nothing about the encoding.
    fs::write(place.path("stray.txt"), b"once \xff upon a time").unwrap();
    let ran = place.run(&["prepare", "stray.txt", "--chars"]);
    assert!(ran.stderr.contains("--lossy") && !ran.stderr.contains("iconv"), "{}", ran.stderr);

    fs::write(place.path("marked.txt"), "\u{feff}abcabcabcabc").unwrap();
    let ran = place.run(&["prepare", "marked.txt", "--chars", "--json"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(ran.json()["vocab_size"], 3, "{}", ran.stdout);
}

#[test]
fn a_run_is_evaluated_at_its_end_and_says_so_if_it_is_finished() {
    let place = TestFolder::new();
    place.train(&["--max_iters=5", "--eval_interval=100", "--out_dir=out"]);
    let steps = |folder: &str| -> Vec<_> {
        let evaluations = events(&place.path(folder), "evaluation");
        evaluations.iter().map(|event| event["step"].as_u64().unwrap()).collect()
    };
    assert_eq!(steps("out"), [0, 6]);
    let card = fs::read_to_string(place.path("out/README.md")).unwrap();
    assert!(card.contains("| loss at step 6 |"), "{card}");
    // The evaluation before the last update is the one at the end.
    place.train(&["--max_iters=4", "--eval_interval=4", "--out_dir=even"]);
    assert_eq!(steps("even"), [0, 4]);

    let before = fs::read(place.path("out/events.jsonl")).unwrap();
    let resume = ["train", "--init_from=resume", "--out_dir=out"];
    let ran = place.run(&resume);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let said =
        "already at step 6, past `max_iters = 5`: nothing is left to train; `--max_iters=12`";
    assert!(ran.stderr.contains(said), "{}", ran.stderr);
    assert_eq!(fs::read(place.path("out/events.jsonl")).unwrap(), before);
    let ran = place.run(&[&resume[..], &["--max_iters=12"]].concat());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(steps("out"), [0, 13]);
}

#[test]
fn an_evaluation_at_the_end_counts_for_the_best_weights_of_a_run_that_continues() {
    let place = TestFolder::new();
    let more = ["--always_save_checkpoint=False", "--eval_interval=4", "--out_dir=out"];
    place.train(&[&more[..], &["--max_iters=30"]].concat());
    let best = |events: &[serde_json::Value]| {
        events.iter().map(|e| e["val_loss"].as_f64().unwrap()).fold(f64::INFINITY, f64::min)
    };
    let first = best(&events(&place.path("out"), "evaluation"));
    // Weights that get worse must not replace better ones.
    let args = ["train", "--init_from=resume", "--out_dir=out", "--max_iters=31"];
    let ran = place.run(&[&args[..], &["--learning_rate=0.5", "--decay_lr=False"]].concat());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let card = fs::read_to_string(place.path("out/README.md")).unwrap();
    let line = card.lines().find(|line| line.contains("best validation loss")).unwrap();
    assert!(line.contains(&format!("{first:.4}")), "{line}, best {first}");
}

#[test]
fn an_export_makes_the_folder_of_its_file() {
    let place = TestFolder::new();
    place.train(&["--max_iters=1", "--out_dir=out"]);
    let ran = place.run(&["export", "out", "--to", "nanogpt", "--out", "new/folder/ckpt.pt"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(place.path("new/folder/ckpt.pt").is_file());
}

#[test]
fn a_resume_in_nanogpts_folder_says_that_its_file_is_as_it_was() {
    let place = TestFolder::new();
    place.train(&["--max_iters=1", "--out_dir=out"]);
    let export = ["export", "out", "--to", "nanogpt", "--out"];
    assert_eq!(place.run(&[&export[..], &["theirs/ckpt.pt"]].concat()).code, Some(0));
    let ran = place.run(&["train", "--init_from=resume", "--out_dir=theirs", "--max_iters=3"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let command = "fitgpt export theirs --to nanogpt --out theirs/ckpt.pt --overwrite";
    assert!(ran.stdout.contains(command), "{}", ran.stdout);
    let ran = place.run(&command.split(' ').skip(1).collect::<Vec<_>>());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
}

#[test]
fn every_card_is_listed_and_an_unknown_one_gets_a_budget() {
    let place = TestFolder::new();
    let ran = place.run(&["plan", "--gpu", "list"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stdout.lines().count() > 180 && ran.stdout.contains("GeForce RTX 4070 "));
    for unknown in ["Intel Arc A770", "RTX 9999"] {
        let ran = place.run(&["plan", "--gpu", unknown]);
        assert_eq!(ran.code, Some(2));
        assert!(ran.stderr.contains("`--budget 12GB`"), "{}", ran.stderr);
        assert!(ran.stderr.contains("`--gpu list`"), "{}", ran.stderr);
        assert!(!ran.stderr.contains("A100"), "{}", ran.stderr);
    }
    let tiny = [&["plan"], TINY, &["--device=auto", "--gpu=RTX 4075"]].concat();
    let ran = place.run(&tiny);
    assert!(ran.stderr.contains("`GeForce RTX 4070`"), "{}", ran.stderr);
}
