//! `prepare` as a process: killed at random times, and within the memory that it states.
//!
//! `scripts/prepare-kills` and `scripts/prepare-memory` do the same with more kills and gigabytes.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    io::Write as _,
    process::Stdio,
    thread,
    time::{Duration, Instant},
};

use crate::program::TestFolder;

/// Pseudorandom numbers, the same on every machine.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        self.0 >> 33
    }
}

/// Lines of JSONL, at least `bytes` bytes of them.
fn lines(numbers: &mut Numbers, bytes: usize) -> String {
    const WORDS: [&str; 12] = [
        "town",
        "a ",
        "the",
        " of",
        "12",
        "naïve",
        ", and",
        ".\\n",
        "日本",
        "tion",
        "<|endoftext|>",
        "x",
    ];
    let mut lines = String::with_capacity(bytes + 4096);
    while lines.len() < bytes {
        lines.push_str("{\"text\": \"");
        for _ in 0..numbers.next() % 400 {
            let number = numbers.next() as usize;
            lines.push_str(WORDS[number % WORDS.len()]);
            let _ = write!(lines, " {}", number % 3_000);
        }
        lines.push_str("\"}\n");
    }
    lines
}

/// The files of a dataset.
fn files(place: &TestFolder, folder: &str) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(place.path(folder)).unwrap().map(|entry| entry.unwrap().path());
    let name = |path: &std::path::Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    let files = entries.filter(|path| name(path) != ".lock");
    files.map(|path| (name(&path), fs::read(path).unwrap())).collect()
}

/// Whether a preparation has recorded its progress in the folder.
fn is_noted(place: &TestFolder, folder: &str) -> bool {
    let entries = fs::read_dir(place.path(folder)).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| entry.path().join("journal.json").is_file())
}

#[test]
fn a_repeatedly_killed_prepare_loses_nothing_and_repeats_nothing() {
    let place = TestFolder::new();
    let mut numbers = Numbers(7);
    let text = lines(&mut numbers, 20_000_000);
    fs::write(place.path("a.txt"), &text).unwrap();
    let gzip = fs::File::create(place.path("b.jsonl.gz")).unwrap();
    let mut gzip = flate2::write::GzEncoder::new(gzip, flate2::Compression::fast());
    gzip.write_all(text.as_bytes()).unwrap();
    gzip.finish().unwrap();
    let cases: [&[&str]; 3] = [
        &["b.jsonl.gz", "--threads=1"],
        &["b.jsonl.gz", "a.txt", "--output=shards", "--shard_tokens=100003"],
        &["a.txt", "--chars"],
    ];
    let mut n_continued = 0;
    for (index, case) in cases.into_iter().enumerate() {
        let out = |name: &str| format!("--out={name}-{index}");
        let whole = out("whole");
        let started = Instant::now();
        let ran = place.run(&[&["prepare", &whole, "--json"], case].concat());
        let whole_time = started.elapsed();
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        let killed = out("killed");
        let arguments = [&["prepare", &killed, "--json"], case].concat();
        let mut is_done = false;
        for kill in 0..4 {
            let mut command = place.command(&arguments);
            let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            // The last kill comes after progress was recorded.
            while kill == 3 && !is_noted(&place, &killed[6..]) {
                if child.try_wait().unwrap().is_some() {
                    break;
                }
                thread::sleep(Duration::from_millis(1));
            }
            if kill != 3 {
                thread::sleep(whole_time.mul_f64((numbers.next() % 1000) as f64 / 3000.0));
            }
            is_done |= child.try_wait().unwrap().is_some();
            child.kill().unwrap();
            is_done |= child.wait().unwrap().success();
        }
        let ran = place.run(&arguments);
        if is_done || ran.code != Some(0) {
            // It was published before the last kill.
            assert!(ran.stdout.contains("--overwrite"), "{}", ran.stdout);
        } else {
            n_continued += usize::from(ran.json()["resumed_tokens"].as_u64().unwrap() > 0);
        }
        let (expected, found) = (files(&place, &whole[6..]), files(&place, &killed[6..]));
        assert!(expected.keys().eq(found.keys()), "{:?}", found.keys());
        assert!(expected == found, "{case:?}");
    }
    assert!(n_continued > 0, "no kill came after the first note");
}

#[cfg(target_os = "linux")]
#[test]
fn the_memory_of_prepare_is_what_it_states_for_any_amount_of_text() {
    let place = TestFolder::new();
    let chunk = lines(&mut Numbers(3), 4_000_000);
    for (n_chunks, threads) in [(1, "--threads=1"), (30, "--threads=1"), (10, "--threads=4")] {
        let arguments =
            ["prepare", "-", "--format=jsonl", "--val_fraction=0.01", "--json", threads];
        let mut command = place.command(&arguments);
        command.args(["--overwrite", "--out=out"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        for _ in 0..n_chunks {
            stdin.write_all(chunk.as_bytes()).unwrap();
        }
        let status = format!("/proc/{}/status", child.id());
        let peak = || {
            let text = fs::read_to_string(&status).ok()?;
            let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
            line.trim().strip_suffix(" kB")?.parse::<u64>().ok()
        };
        // Before its input ends, so that the process still exists.
        let mut most = peak().unwrap();
        drop(stdin);
        while child.try_wait().unwrap().is_none() {
            most = most.max(peak().unwrap_or(0));
            thread::sleep(Duration::from_millis(2));
        }
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        let summary: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(summary["text_bytes"].as_u64().unwrap() > n_chunks * 3_500_000);
        let limit = summary["memory_limit_bytes"].as_u64().unwrap();
        assert!(limit < 110_000_000, "{limit}");
        assert!(most * 1024 <= limit, "{most} KiB, {limit} bytes stated, {n_chunks} chunks");
        assert!(most > 1000, "{most} KiB were seen");
    }
}

#[test]
fn flags_that_contradict_each_other_are_refused() {
    let place = TestFolder::new();
    fs::write(place.path("a.txt"), "some words and more words\n".repeat(100)).unwrap();
    let refused = |more: &[&str], expected: &str| {
        let ran = place.run(&[&["prepare", "a.txt", "--out=out"], more].concat());
        assert_eq!(ran.code, Some(2), "{}", ran.stdout);
        assert!(ran.stderr.contains(expected), "{}", ran.stderr);
    };
    refused(&["--format=shards", "--output=bin"], "contradict each other");
    refused(&["--shard_tokens=5"], "`--shard_tokens` needs `--output shards`");
    for flags in [["--format=shards", "--out=one"], ["--output=shards", "--out=two"]] {
        let ran = place.run(&[&["prepare", "a.txt", "--shard_tokens=200"], &flags[..]].concat());
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    }
    assert_eq!(files(&place, "one"), files(&place, "two"));
    assert!(place.path("one/train_000002.bin").exists());
}

#[test]
fn a_cut_that_may_change_tokens_is_reported() {
    let place = TestFolder::new();
    let said = |text: String| {
        fs::write(place.path("text.txt"), text).unwrap();
        let ran = place.run(&["prepare", "text.txt", "--out=data", "--overwrite"]);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        ran.stdout.contains("tokens there may differ from those of the whole")
    };
    assert!(said("a".repeat(600_000)));
    assert!(!said("a word ".repeat(100_000)));
}
