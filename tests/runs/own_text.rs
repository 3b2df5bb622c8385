//! The README's commands for somebody's own text give words of that text, not noise.

use std::{collections::BTreeSet, fs, path::Path, process::Command};

use crate::program::TestFolder;

/// The lines of the README's block, without comments.
fn block() -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = fs::read_to_string(root.join("README.md")).unwrap();
    let mut blocks = readme.split("```").skip(1).step_by(2);
    let block = blocks.find(|block| block.contains("--out data/mine")).unwrap();
    let lines = block.lines().skip(1).map(|line| line.split("  #").next().unwrap().trim_end());
    lines.map(str::to_owned).collect()
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

#[test]
fn a_newcomers_own_text_becomes_words() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let place = TestFolder::new();
    fs::create_dir(place.path("docs")).unwrap();
    let mut text = String::new();
    for entry in fs::read_dir(root.join("docs")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "md") {
            fs::copy(&path, place.path("docs").join(path.file_name().unwrap())).unwrap();
            text += &fs::read_to_string(&path).unwrap();
        }
    }
    let program = Path::new(env!("CARGO_BIN_EXE_fitgpt")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let mut lines = block();
    assert_eq!(lines.len(), 3);
    // More than one sample: 70 words would decide by chance.
    lines[2] += " --num_samples=8";
    let mut sampled = String::new();
    for line in lines {
        let mut shell = Command::new("sh");
        shell.args(["-c", &line]).current_dir(place.path("")).env("PATH", &path);
        let output = shell.env("LC_ALL", "C").output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{line}\n{errors}");
        sampled = String::from_utf8(output.stdout).unwrap();
    }
    let known: BTreeSet<_> = words(&text).collect();
    let all = words(&sampled).count();
    let found = words(&sampled).filter(|word| known.contains(word)).count();
    assert!(all > 300, "{sampled}");
    assert!(found * 100 >= all * 80, "{found} of {all} words occur in the text:\n{sampled}");
}
