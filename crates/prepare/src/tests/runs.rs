//! Whole runs: errors, progress, interruptions and continuations.

use std::cell::Cell;

use super::*;

#[test]
fn a_dataset_is_replaced_only_with_overwrite() {
    let folders = TestFolders::new(&[("poem.txt", POEM.as_bytes())]);
    run(&folders.chars(&["poem.txt"])).unwrap();
    let before = folders.tokens();
    for name in ["train.bin", "val.bin", "meta.pkl"] {
        let error = run(&folders.options(&["poem.txt"])).unwrap_err();
        assert!(matches!(&error, PrepareError::Exists { path } if path.ends_with(name)), "{error}");
        if name == "train.bin" {
            assert_eq!(folders.tokens(), before);
        }
        fs::remove_file(folders.folder().join(name)).unwrap();
    }
    run(&folders.chars(&["poem.txt"])).unwrap();
    // GPT-2's tokens have no table, and an old one would be a lie about them.
    run(&Options { overwrite: true, ..folders.options(&["poem.txt"]) }).unwrap();
    assert_eq!(folders.names(), ["train.bin", "val.bin"]);
    assert_eq!(folders.texts().concat(), POEM);
}

#[test]
fn a_refused_run_completes_an_interrupted_publication() {
    let folders = TestFolders::new(&[("poem.txt", POEM.as_bytes())]);
    run(&folders.chars(&["poem.txt"])).unwrap();
    let (names, tokens) = (folders.names(), folders.tokens());
    // The state after a kill: the new dataset is published, of the old one `train.bin` is gone.
    let staged = folders.folder().join(".prepared-0123456789abcdef");
    fs::create_dir(&staged).unwrap();
    for name in &names {
        fs::rename(folders.folder().join(name), staged.join(name)).unwrap();
    }
    fs::write(folders.folder().join("val.bin"), b"old").unwrap();

    let error = run(&folders.chars(&["poem.txt"])).unwrap_err();
    assert!(matches!(&error, PrepareError::Exists { .. }), "{error}");
    assert_eq!((folders.names(), folders.tokens()), (names, tokens));
}

#[test]
fn a_failed_run_leaves_no_file_and_no_folder() {
    let long = POEM.repeat(10_000);
    let mut broken = long.clone().into_bytes();
    broken.push(0xff);
    let folders = TestFolders::new(&[
        ("long.txt", long.as_bytes()),
        ("broken.txt", &broken),
        ("empty.txt", b""),
        ("one.txt", b"x"),
        ("bad.jsonl", b"{\"text\": \"x\"}\n{\"text\": 1}\n"),
        ("one.jsonl", b"{\"text\": \"x\"}\n"),
    ]);
    let with_free = |free, options| Options { disk_free_bytes: Some(free), ..options };
    let with_share = |share, options| Options { val_fraction: Some(share), ..options };
    let table: [(Options, &str); 12] = [
        (folders.options(&["broken.txt"]), "is not valid UTF-8 at byte 750000"),
        (folders.chars(&["broken.txt", "one.txt"]), "is not valid UTF-8 at byte 750000"),
        (folders.options(&["long.txt", "broken.txt"]), "is not valid UTF-8 at byte 750000"),
        (folders.options(&["empty.txt"]), "the input has no text"),
        (folders.chars(&["empty.txt", "empty.txt"]), "the input has no text"),
        (
            folders.options(&["one.txt"]),
            "`train.bin` would be empty: `--val_fraction=0.1` splits 1 document",
        ),
        (
            folders.options(&["one.jsonl"]),
            "`val.bin` would be empty: `--val_fraction=0.1` splits 1 document",
        ),
        (
            folders.options(&["bad.jsonl"]),
            "line 2: the field `text` should be text, but is a number",
        ),
        (with_share(1.0, folders.options(&["long.txt"])), "must be between 0 and 1: 1"),
        (with_share(f64::NAN, folders.options(&["long.txt"])), "must be between 0 and 1: NaN"),
        (with_free(1000, folders.chars(&["long.txt"])), "the disk has 1000 bytes free"),
        (with_free(1000, folders.options(&["long.txt"])), "about 375000 and at most 1500000 bytes"),
    ];
    for (options, expected) in table {
        let error = run(&options).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        assert!(!folders.folder().exists(), "{error}");
    }
}

#[test]
fn a_run_stops_at_any_moment_and_leaves_nothing() {
    let text = POEM.repeat(5_000);
    let folders = TestFolders::new(&[("long.txt", text.as_bytes())]);
    // Encoding takes longer, so fewer moments of it are tried.
    for (options, every) in [(folders.chars(&["-"]), 1), (folders.options(&["-", "long.txt"]), 9)] {
        let mut n_polls = 0;
        for stop_at in (0..).step_by(every) {
            let polls = Cell::new(0);
            let stop = || {
                polls.set(polls.get() + 1);
                polls.get() > stop_at
            };
            let stopped = prepare_from(&options, &mut text.as_bytes(), &mut |_| {}, &stop);
            n_polls = polls.get();
            if stopped.is_ok() {
                break;
            }
            assert!(matches!(stopped, Err(PrepareError::Stopped)), "{stopped:?}");
            assert!(!folders.folder().exists());
        }
        assert!(n_polls > 10, "a long run asks often, not {n_polls} times");
        fs::remove_dir_all(folders.folder()).unwrap();
    }
}

#[test]
fn progress_ends_at_the_total() {
    let text = POEM.repeat(20_000);
    let folders = TestFolders::new(&[("a.txt", text.as_bytes()), ("b.txt", text.as_bytes())]);
    let total_bytes = Some(2 * text.len() as u64);
    for options in [folders.chars(&["."]), folders.options(&["."])] {
        let mut reports = Vec::new();
        let summary =
            prepare_from(&options, &mut io::empty(), &mut |p| reports.push(p), &|| false).unwrap();
        let is_chars = options.vocabulary == Vocabulary::Chars;
        let passes = if is_chars { vec![Pass::Scan, Pass::Encode] } else { vec![Pass::Encode] };
        for pass in passes {
            let reports = reports.iter().filter(|p| p.pass == pass).collect::<Vec<_>>();
            assert!(reports.len() >= 10 && reports.is_sorted_by_key(|p| (p.bytes, p.tokens)));
            let last = reports.last().unwrap();
            assert_eq!((Some(last.bytes), last.total_bytes), (total_bytes, total_bytes));
            assert_eq!(last.documents, 1, "the second document is under way");
        }
        assert_eq!(Some(summary.input_bytes), total_bytes);
        fs::remove_dir_all(folders.folder()).unwrap();
    }
}

/// The files of a dataset with their content.
fn content(folders: &TestFolders) -> Vec<(String, Vec<u8>)> {
    let content = |name: String| (name.clone(), fs::read(folders.folder().join(name)).unwrap());
    folders.names().into_iter().map(content).collect()
}

#[test]
fn a_run_that_stops_anywhere_is_continued_to_the_same_bytes() {
    let lines =
        jsonl(40, |i| format!("{{\"text\": \"tale {i} {}\"}}", "word ".repeat(i as usize * 30)));
    let more = jsonl(30, |i| format!("{{\"text\": \"{}\"}}", "more ".repeat(i as usize)));
    let (poem, small) = (POEM.repeat(20_000), POEM.repeat(50));
    let files = [
        ("a.jsonl", lines.as_bytes()),
        ("b.jsonl", more.as_bytes()),
        ("poem.txt", poem.as_bytes()),
        ("small.txt", small.as_bytes()),
    ];
    let shards = OutputFormat::Shards { tokens: 700.try_into().unwrap() };
    let cases: [(&[&str], Vocabulary, OutputFormat); 4] = [
        (&["a.jsonl", "b.jsonl"], Vocabulary::Gpt2, OutputFormat::Bin),
        (&["a.jsonl", "b.jsonl"], Vocabulary::Gpt2, shards),
        (&["poem.txt"], Vocabulary::Chars, OutputFormat::Bin),
        (&["small.txt", "a.jsonl"], Vocabulary::Gpt2, shards),
    ];
    for (names, vocabulary, output) in cases {
        let whole = TestFolders::new(&files);
        let with = |folders: &TestFolders, note_every| Options {
            vocabulary,
            output,
            note_every,
            ..folders.options(names)
        };
        let expected_summary = run(&with(&whole, Duration::from_mins(1))).unwrap();
        let expected = content(&whole);
        let mut most_resumed = 0;
        let folders = TestFolders::new(&files);
        let stops: &[u64] = match vocabulary {
            Vocabulary::Chars => &[20], // in the first reading, then in the second
            _ => &[0, 3, 20, 50, 90, 150],
        };
        for &stops_after in stops {
            // It stops again and again, each time a little later, and then not.
            let mut summary = None;
            for round in 1.. {
                let asked = Cell::new(0);
                let stop = || {
                    asked.set(asked.get() + 1);
                    round < 6 && asked.get() > stops_after * round
                };
                let options = Options { overwrite: true, ..with(&folders, Duration::ZERO) };
                match prepare_from(&options, &mut io::empty(), &mut |_| {}, &stop) {
                    Err(PrepareError::Stopped | PrepareError::Paused) => {}
                    other => {
                        summary = Some(other.unwrap());
                        break;
                    }
                }
            }
            let summary = summary.unwrap();
            most_resumed = most_resumed.max(summary.resumed_tokens);
            assert!(content(&folders) == expected, "{names:?} {output:?} {stops_after}");
            let PrepareSummary { documents, val_documents, characters, text_bytes, .. } = summary;
            assert_eq!(documents, expected_summary.documents);
            assert_eq!(val_documents, expected_summary.val_documents);
            assert_eq!(
                (characters, text_bytes),
                (expected_summary.characters, expected_summary.text_bytes)
            );
        }
        assert!(most_resumed > 0, "{names:?} {output:?}: nothing was continued");
    }
}

#[test]
fn a_run_with_other_options_or_files_is_not_continued() {
    let lines = jsonl(40, |i| format!("{{\"text\": \"tale {i}\"}}"));
    let folders = TestFolders::new(&[("a.jsonl", lines.as_bytes())]);
    let pause = |seed| {
        let asked = Cell::new(0);
        let options = Options { note_every: Duration::ZERO, seed, ..folders.options(&["a.jsonl"]) };
        let stop = || {
            asked.set(asked.get() + 1);
            asked.get() > 3
        };
        let paused = prepare_from(
            &options,
            &mut io::empty(),
            &mut |_| {
                asked.set(100);
            },
            &stop,
        );
        assert!(matches!(paused, Err(PrepareError::Paused)), "{paused:?}");
    };
    pause(1);
    assert_eq!(
        run(&Options { seed: 2, ..folders.options(&["a.jsonl"]) }).unwrap().resumed_tokens,
        0
    );
}
