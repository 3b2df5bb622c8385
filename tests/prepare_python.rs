//! Python reads a prepared dataset as nanoGPT would.

use std::{fs, path::Path, process::Command};

use fitgpt::prepare::{Input, Options, Vocabulary, prepare};

#[test]
#[ignore = "needs python3"]
fn python_reads_the_text_back() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text.txt");
    fs::write(&text, "Ça alors — naïve 日本語 😀\r\n\tand plain words.\n".repeat(10_000)).unwrap();
    let options = Options {
        folder: folder.path().join("dataset"),
        vocabulary: Vocabulary::Chars,
        ..Options::new(vec![Input::Path(text.clone())])
    };
    prepare(&options, &mut |_| {}, &|| false).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/read_dataset.py");
    let is_read = |text: &Path| {
        let run = Command::new("python3").arg(&script).arg(&options.folder).arg(text).status();
        run.unwrap().success()
    };
    assert!(is_read(&text));
    // The script can say no.
    let other = folder.path().join("other.txt");
    fs::write(&other, "another text").unwrap();
    assert!(!is_read(&other));
}
