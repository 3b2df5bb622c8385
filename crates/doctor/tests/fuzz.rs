//! A fixed number of generated logs; `examples/fuzz.rs` tries more.

mod inputs;

use inputs::{Numbers, examine, log};

#[test]
fn generated_logs_end_in_a_diagnosis() {
    let folder = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples")).unwrap();
    let paths = folder.map(|file| file.unwrap().path());
    let mut paths: Vec<_> =
        paths.filter(|path| path.extension().is_some_and(|e| e == "log")).collect();
    paths.sort();
    let examples: Vec<_> = paths.iter().map(|path| std::fs::read(path).unwrap()).collect();
    assert!(!examples.is_empty());
    for number in 0..150 {
        let mut numbers = Numbers::new(number);
        let input = log(&mut numbers, &examples);
        let diagnosis = examine(&mut numbers, &input);
        assert!(serde_json::to_string(&diagnosis).is_ok(), "input {number}");
    }
}
