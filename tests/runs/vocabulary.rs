//! What tokens mean is part of a checkpoint.

use std::fs;

use serde_json::Value;

use crate::program::{Ran, TINY, TestFolder};

/// A dataset of the same tokens whose `meta.pkl` has these symbols.
fn dataset(place: &TestFolder, name: &str, symbols: &str) {
    let folder = place.path("data").join(name);
    fs::create_dir_all(&folder).unwrap();
    for file in ["train.bin", "val.bin"] {
        fs::copy(place.path("data/tiny").join(file), folder.join(file)).unwrap();
    }
    let symbols: Vec<char> = symbols.chars().collect();
    fs::write(folder.join("meta.pkl"), fitgpt_data::Meta::pickled(&symbols)).unwrap();
}

/// 61 symbols, from the one at `first` on.
fn symbols(first: u32) -> String {
    (first..first + 61).map(|code| char::from_u32(code).unwrap()).collect()
}

fn resume(place: &TestFolder, more: &[&str]) -> Ran {
    place
        .run(&[&["train", "--init_from=resume", "--out_dir=out", "--num_samples=1"], more].concat())
}

/// The step of the checkpoint, and the first symbol that it decodes to.
fn saved(place: &TestFolder) -> (u64, String) {
    let json = |name: &str| -> Value {
        serde_json::from_slice(&fs::read(place.path("out").join(name)).unwrap()).unwrap()
    };
    let symbol = json("config.json")["fitgpt"]["tokenizer"]["itos"][0].clone();
    (json("manifest.json")["step"].as_u64().unwrap(), symbol.as_str().unwrap_or("").to_owned())
}

#[test]
fn a_run_is_not_resumed_on_tokens_that_mean_something_else_unless_it_is_told_to() {
    let place = TestFolder::new();
    dataset(&place, "latin", &symbols(0x41));
    dataset(&place, "cyrillic", &symbols(0x410));
    // The text has got one more character, and every number after it means another one.
    dataset(&place, "shifted", &symbols(0x42));
    place.train(&["--dataset=latin", "--out_dir=out", "--max_iters=2"]);
    for other in ["cyrillic", "shifted", "tiny"] {
        let ran = resume(&place, &[&format!("--dataset={other}"), "--max_iters=4"]);
        assert_eq!(ran.code, Some(2), "{other}: {}", ran.stdout);
        for part in [other, "`out`", "61 symbols (fingerprint", "--new_vocabulary=True"] {
            assert!(ran.stderr.contains(part), "{part}: {}", ran.stderr);
        }
        assert_eq!(saved(&place), (3, "A".into()));
    }
    // The same symbols in another folder, as a copy of the data has them.
    dataset(&place, "copy", &symbols(0x41));
    let ran = resume(&place, &["--dataset=copy", "--max_iters=3"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);

    let told = ["--dataset=cyrillic", "--max_iters=5", "--new_vocabulary=True"];
    let ran = resume(&place, &told);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stderr.contains("takes over the tokens"), "{}", ran.stderr);
    assert_eq!(saved(&place), (6, "А".into()));
    // That was for once: the run continues on its new data, and not on the old one.
    assert_eq!(resume(&place, &["--max_iters=6"]).code, Some(0));
    assert_eq!(resume(&place, &["--dataset=latin", "--max_iters=7"]).code, Some(2));
    assert_eq!(saved(&place), (7, "А".into()));
}

#[test]
fn a_table_that_changes_under_a_run_is_noticed_although_the_tokens_are_the_same() {
    let place = TestFolder::new();
    dataset(&place, "mine", &symbols(0x41));
    place.train(&["--dataset=mine", "--out_dir=out", "--max_iters=2"]);
    dataset(&place, "mine", &symbols(0x61));
    let ran = resume(&place, &["--max_iters=4"]);
    assert_eq!(ran.code, Some(2), "{}", ran.stdout);
    fs::remove_file(place.path("data/mine/meta.pkl")).unwrap();
    let ran = resume(&place, &["--max_iters=4"]);
    assert_eq!(ran.code, Some(2), "{}", ran.stdout);
    assert!(ran.stderr.contains("GPT-2's tokens"), "{}", ran.stderr);
}

#[test]
fn a_tokenizer_file_is_part_of_the_vocabulary() {
    let place = TestFolder::new();
    let folder = place.path("data/mine");
    dataset(&place, "mine", "");
    fs::write(folder.join("meta.pkl"), fitgpt_data::Meta::pickled_size(61)).unwrap();
    let tokenizer = |more: &str| {
        let text = format!(
            r#"{{"version": "1.0", "added_tokens": [], "model": {{"type": "WordLevel",
                "vocab": {{"[UNK]": 0, "a": 1{more}}}, "unk_token": "[UNK]"}}}}"#
        );
        fs::write(folder.join("tokenizer.json"), text).unwrap();
    };
    tokenizer("");
    place.train(&["--dataset=mine", "--out_dir=out", "--max_iters=2"]);
    assert_eq!(resume(&place, &["--max_iters=3"]).code, Some(0));
    tokenizer(r#", "b": 2"#);
    let before = fs::read(place.path("out/tokenizer.json")).unwrap();
    let ran = resume(&place, &["--max_iters=4"]);
    assert_eq!(ran.code, Some(2), "{}", ran.stdout);
    assert!(ran.stderr.contains("tokenizer.json"), "{}", ran.stderr);
    assert_eq!(fs::read(place.path("out/tokenizer.json")).unwrap(), before);
    assert_eq!(resume(&place, &["--max_iters=4", "--new_vocabulary=True"]).code, Some(0));
    assert_ne!(fs::read(place.path("out/tokenizer.json")).unwrap(), before);
}

#[test]
fn a_new_run_from_weights_of_other_tokens_is_noted() {
    let place = TestFolder::new();
    dataset(&place, "latin", &symbols(0x41));
    dataset(&place, "cyrillic", &symbols(0x410));
    place.train(&["--dataset=latin", "--out_dir=out", "--max_iters=2"]);
    for (data, is_noted) in [("latin", false), ("cyrillic", true)] {
        let [dataset, out_dir] = [format!("--dataset={data}"), format!("--out_dir=new-{data}")];
        let start = ["--init_from=out", "--max_iters=1", &dataset, &out_dir];
        let ran = place.run(&[&["train"], &TINY[1..], &start].concat());
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        let noted = ran.stderr.contains("mean something else");
        assert_eq!(noted, is_noted, "{data}: {}", ran.stderr);
    }
}
