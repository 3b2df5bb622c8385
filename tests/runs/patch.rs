//! `fitgpt patch` on a folder: the diff, the files, and what it refuses.

use std::fs;

use crate::program::TestFolder;

const TRAIN: &str = include_str!("../patch/nano/train.py");
const MODEL: &str = include_str!("../patch/nano/model.py");

/// A temporary folder with nanoGPT's files in `nano`.
fn nano() -> TestFolder {
    let place = TestFolder::new();
    fs::create_dir(place.path("nano")).unwrap();
    fs::write(place.path("nano/train.py"), TRAIN).unwrap();
    fs::write(place.path("nano/model.py"), MODEL).unwrap();
    place
}

#[test]
fn a_diff_is_printed_and_nothing_changed() {
    let place = nano();
    let ran = place.run(&["patch", "nano"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stdout.starts_with("--- a/train.py\n+++ b/train.py\n@@ -"), "{}", ran.stdout);
    assert!(ran.stdout.contains("\n--- a/model.py\n+++ b/model.py\n@@ -"), "{}", ran.stdout);
    assert_eq!(ran.stderr.matches("patched: ").count(), 8, "{}", ran.stderr);
    assert!(ran.stderr.contains("next: fitgpt patch nano --apply  ("), "{}", ran.stderr);
    assert_eq!(fs::read_to_string(place.path("nano/train.py")).unwrap(), TRAIN);
    assert!(!place.path("nano/train.py.orig").exists());
}

#[test]
fn applied_patches_keep_a_copy_and_are_recognised_the_next_time() {
    let place = nano();
    let ran = place.run(&["patch", "nano", "--apply", "--only", "gradscaler", "--json"]);
    let answer = ran.json();
    assert_eq!((ran.code, &answer["applied"]), (Some(0), &serde_json::json!(["gradscaler"])));
    assert_eq!(answer["copies"].as_array().unwrap().len(), 1, "model.py has not changed");
    assert_eq!(fs::read_to_string(place.path("nano/train.py.orig")).unwrap(), TRAIN);
    let train = fs::read_to_string(place.path("nano/train.py")).unwrap();
    assert!(train.contains("torch.amp.GradScaler('cuda', enabled=(dtype == 'float16'))"));

    let again = place.run(&["patch", "nano", "--apply", "--only", "gradscaler"]);
    assert_eq!((again.code, again.stdout.as_str()), (Some(0), ""));
    assert_eq!(
        again.stderr,
        "already there: gradscaler\nnext: cd nano && python train.py CONFIG.py\n"
    );
    assert!(!place.path("nano/train.py.orig.1").exists(), "nothing changed, so nothing is copied");
}

#[test]
fn an_applied_patch_prints_the_keys_that_turn_it_on() {
    let place = nano();
    let only = ["--only", "chunked-loss", "checkpoint-blocks"];
    let ran = place.run(&[&["patch", "nano"], &only[..]].concat());
    let apply = "next: fitgpt patch nano --apply --only chunked-loss checkpoint-blocks  (";
    assert!(ran.stderr.contains(apply), "{}", ran.stderr);
    let ran = place.run(&[&["patch", "nano", "--apply"], &only[..]].concat());
    let train =
        "next: cd nano && python train.py CONFIG.py --loss_chunk_rows=512 --grad_checkpoint=True\n";
    assert!(ran.stderr.contains(train), "{}", ran.stderr);
}

#[test]
fn a_missing_site_is_named_and_the_exit_code_is_one() {
    let place = nano();
    fs::write(place.path("nano/model.py"), MODEL.replace("x = block(x)", "x = f(block, x)"))
        .unwrap();
    let ran = place.run(&["patch", "nano", "--only", "checkpoint-blocks"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""));
    let expected = "not found: checkpoint-blocks looked in model.py for `x = block(x)`";
    assert!(ran.stderr.starts_with(expected), "{}", ran.stderr);
}

#[test]
fn a_folder_without_nanogpt_is_refused() {
    let place = nano();
    let ran = place.run(&["patch", "elsewhere"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.starts_with("error: cannot read `elsewhere"), "{}", ran.stderr);
    let ran = place.run(&["patch", "nano", "--only", "chunks"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.starts_with("error: there is no patch `chunks`\n"), "{}", ran.stderr);
    fs::write(place.path("nano/train.py"), "print('hello\n").unwrap();
    let ran = place.run(&["patch", "nano", "--json"]);
    assert_eq!((ran.code, &ran.json()["error"]["kind"]), (Some(2), &"python".into()));
}
