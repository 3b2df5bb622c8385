//! Inputs: files, standard input, compressed files, Parquet and shards.

use std::io::Read;

use super::*;

#[test]
fn standard_input_gives_the_same_dataset_as_a_file() {
    let text = POEM.repeat(5_000);
    let jsonl = jsonl(300, |i| format!("{{\"a\": {{\"b\": \"tale {i}\"}}}}"));
    let folders = TestFolders::new(&[("x.txt", text.as_bytes()), ("x.jsonl", jsonl.as_bytes())]);
    for vocabulary in [Vocabulary::Gpt2, Vocabulary::Chars] {
        for (format, name, bytes) in
            [(Format::Text, "x.txt", &text), (Format::Jsonl, "x.jsonl", &jsonl)]
        {
            let options = |input| Options {
                vocabulary,
                format: Some(format),
                field: "a.b".to_owned(),
                val_fraction: Some(0.2),
                overwrite: true,
                ..folders.options(&[input])
            };
            let of_file = run(&options(name)).unwrap();
            let from_file = folders.tokens();
            let of_stdin = run_with(&options("-"), bytes.as_bytes()).unwrap();
            assert!(folders.tokens() == from_file, "{vocabulary:?} {format:?}");
            assert_eq!(PrepareSummary { seconds: of_file.seconds, ..of_stdin }, of_file);
            assert!(folders.names().iter().all(|name| !name.starts_with('.')));
        }
    }
}

#[cfg(unix)]
#[test]
fn a_pipe_is_read_once() {
    let folders = TestFolders::new(&[]);
    let pipe = folders.0.path().join("in/pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let writer = {
        let pipe = pipe.clone();
        std::thread::spawn(move || fs::write(pipe, POEM.repeat(100)).unwrap())
    };
    run(&folders.chars(&["pipe"])).unwrap();
    writer.join().unwrap();
    assert_eq!(folders.texts().concat(), POEM.repeat(100));
}

#[test]
fn a_copy_of_standard_input_needs_disk_space_too() {
    let folders = TestFolders::new(&[]);
    let text = "ab".repeat(1_000);
    let meta_bytes = fitgpt_data::Meta::pickled(&['a', 'b']).len() as u64;
    let need = 2_000 + 4_000 + meta_bytes;
    let with_free = |free| Options { disk_free_bytes: Some(free), ..folders.chars(&["-"]) };
    let error = run_with(&with_free(need - 1), text.as_bytes()).unwrap_err();
    assert!(matches!(error, PrepareError::TooLittleDisk { .. }), "{error}");
    run_with(&with_free(need), text.as_bytes()).unwrap();
}

#[test]
fn invalid_bytes_are_replaced_if_requested() {
    let folders = TestFolders::new(&[("a.txt", b"some text \xff with\xc3 holes")]);
    let options = Options { invalid: Invalid::Replace, ..folders.chars(&["a.txt"]) };
    run(&options).unwrap();
    assert_eq!(folders.texts().concat(), "some text \u{fffd} with\u{fffd} holes");
}

#[test]
fn a_text_that_changes_between_its_readings_is_an_error() {
    let folders = TestFolders::new(&[("poem.txt", POEM.as_bytes())]);
    let path = folders.0.path().join("in/poem.txt");
    for changed in ["a shorter text", "a text with a €", ""] {
        fs::write(&path, POEM).unwrap();
        let mut progress = |progress: Progress| {
            if progress.pass == Pass::Scan {
                fs::write(&path, changed).unwrap();
            }
        };
        let options = folders.chars(&["poem.txt"]);
        let error = prepare_from(&options, &mut io::empty(), &mut progress, &|| false);
        assert!(matches!(error, Err(PrepareError::Changed)), "{changed:?}: {error:?}");
        assert!(!folders.folder().exists());
    }
}

#[test]
fn a_read_error_names_the_file() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::ErrorKind::TimedOut.into())
        }
    }
    let folders = TestFolders::new(&[]);
    for format in [Format::Text, Format::Jsonl] {
        let options = Options { format: Some(format), ..folders.options(&["-"]) };
        let error = prepare_from(&options, &mut Broken, &mut |_| {}, &|| false).unwrap_err();
        assert_eq!(error.to_string(), "cannot read `<stdin>`: timed out");
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    io::Write::write_all(&mut encoder, bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
}

/// A shard as llm.c writes it.
fn shard(tokens: &[u16]) -> Vec<u8> {
    let mut bytes = [20_240_520, 1, tokens.len() as i32].map(i32::to_le_bytes).concat();
    bytes.resize(1024, 0);
    bytes.extend(tokens.iter().flat_map(|token| token.to_le_bytes()));
    bytes
}

#[test]
fn a_compressed_file_gives_the_same_dataset_also_on_standard_input() {
    let text = POEM.repeat(5_000);
    let lines = jsonl(300, |i| format!("{{\"text\": \"tale {i}\"}}"));
    let folders = TestFolders::new(&[
        ("x.txt", text.as_bytes()),
        ("y.txt.gz", &gzip(text.as_bytes())),
        ("z.txt.zst", &zstd(text.as_bytes())),
        ("x.jsonl", lines.as_bytes()),
        ("y.jsonl.gz", &gzip(lines.as_bytes())),
        ("z.jsonl.zst", &zstd(lines.as_bytes())),
    ]);
    for (format, names) in [
        (Format::Text, ["x.txt", "y.txt.gz", "z.txt.zst"]),
        (Format::Jsonl, ["x.jsonl", "y.jsonl.gz", "z.jsonl.zst"]),
    ] {
        let with = |options| Options { val_fraction: Some(0.2), overwrite: true, ..options };
        run(&with(folders.options(&names[..1]))).unwrap();
        let expected = folders.tokens();
        for name in &names[1..] {
            run(&with(folders.options(&[name]))).unwrap();
            assert!(folders.tokens() == expected, "{name}");
            let bytes = fs::read(folders.0.path().join("in").join(name)).unwrap();
            let stdin = Options { format: Some(format), ..with(folders.options(&["-"])) };
            run_with(&stdin, &bytes).unwrap();
            assert!(folders.tokens() == expected, "{name} on standard input");
        }
    }
    assert_eq!(
        Options::new(vec![Input::Path("x/books.jsonl.gz".into())]).folder,
        Path::new("data/books")
    );
}

#[test]
fn a_parquet_file_gives_the_same_dataset_as_its_rows_in_jsonl() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/formats");
    let texts = fs::read_to_string(folder.join("texts.jsonl")).unwrap();
    let lines = texts.lines().filter(|line| *line != "null");
    let lines = lines.map(|line| format!("{{\"text\": {line}}}")).collect::<Vec<_>>().join("\n");
    let parquet = fs::read(folder.join("zstd.parquet")).unwrap();
    let required = fs::read(folder.join("required.parquet")).unwrap();
    let folders = TestFolders::new(&[
        ("x.jsonl", lines.as_bytes()),
        ("x.parquet", &parquet),
        ("body.parquet", &required),
    ]);
    let with = |options| Options { val_fraction: Some(0.2), overwrite: true, ..options };
    let of_lines = run(&with(folders.options(&["x.jsonl"]))).unwrap();
    let expected = folders.tokens();
    let of_rows = run(&with(folders.options(&["x.parquet"]))).unwrap();
    assert!(folders.tokens() == expected);
    assert_eq!(of_rows.documents, of_lines.documents);
    assert_eq!(of_rows.input_bytes, parquet.len() as u64);
    let body = Options { field: "body".into(), ..with(folders.options(&["body.parquet"])) };
    run(&body).unwrap();
    assert!(folders.tokens() == expected);
    let stdin = Options { format: Some(Format::Parquet), ..with(folders.options(&["-"])) };
    run_with(&stdin, &parquet).unwrap();
    assert!(folders.tokens() == expected);
    let error = run(&with(folders.options(&["body.parquet"]))).unwrap_err().to_string();
    assert!(
        error.ends_with("has no column `text`; choose one of `body` with `--column`"),
        "{error}"
    );
    let folders = TestFolders::new(&[("x.jsonl", b"{\"body\": \"a\", \"id\": 1}\n")]);
    let error = run(&folders.options(&["x.jsonl"])).unwrap_err().to_string();
    assert!(
        error.ends_with("has no field `text`; choose one of `body`, `id` with `--field`"),
        "{error}"
    );
}

#[test]
fn shards_become_one_dataset_and_their_names_state_the_split() {
    let document = |i: u16| [END_OF_TEXT as u16, i, i + 1, i + 2];
    let tokens = |range: std::ops::Range<u16>| range.flat_map(document).collect::<Vec<_>>();
    let (first, second, val) = (tokens(0..20_000), tokens(20_000..20_100), tokens(30_000..30_010));
    let folders = TestFolders::new(&[
        ("f_train_000001.bin", &shard(&first)),
        ("f_train_000002.bin", &shard(&second)),
        ("f_val_000000.bin", &shard(&val)),
        ("notes.bin", b"something else"),
    ]);
    let summary = run(&folders.options(&["."])).unwrap();
    let wide = |tokens: &[u16]| tokens.iter().map(|&id| u32::from(id)).collect::<Vec<_>>();
    assert!(folders.tokens() == [wide(&[first, second.clone()].concat()), wide(&val)]);
    assert_eq!((summary.documents, summary.val_documents), (20_110, Some(10)));
    assert_eq!(summary.skipped.len(), 1);
    assert_eq!(summary.skipped[0].reason, SkipReason::NoShardHeader);
    // Without names the documents are drawn, and none is cut.
    let folders = TestFolders::new(&[("a.bin", &shard(&second))]);
    run(&Options { val_fraction: Some(0.3), ..folders.options(&["a.bin"]) }).unwrap();
    let [train, val] = folders.tokens();
    assert_eq!(train.len() + val.len(), second.len());
    assert!(!val.is_empty() && val.chunks(4).all(|document| document[0] == END_OF_TEXT));
    // Shards for training alone are shared, too.
    let folders = TestFolders::new(&[("f_train_000001.bin", &shard(&second))]);
    run(&Options { val_fraction: Some(0.3), ..folders.options(&["f_train_000001.bin"]) }).unwrap();
    assert!(folders.tokens() == [train, val]);
    let folders = TestFolders::new(&[("a.bin", &shard(&second))]);
    let error = run(&Options { overwrite: true, ..folders.chars(&["a.bin"]) }).unwrap_err();
    assert!(matches!(error, PrepareError::ShardInOther { flag: "--chars", .. }), "{error}");
    let cut = TestFolders::new(&[("a.bin", &shard(&second)[..1100])]);
    let error = run(&cut.options(&["a.bin"])).unwrap_err().to_string();
    assert!(error.contains("announces 400 tokens"), "{error}");
}

#[test]
fn files_with_a_fixed_split_go_there_and_parquet_can_be_one_text() {
    let path =
        |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/formats").join(name);
    let folders = TestFolders::new(&[]);
    let fetched = |name, split| Input::Fetched { path: path(name), format: Format::Parquet, split };
    let options = Options {
        inputs: vec![
            fetched("plain.parquet", Some(Split::Train)),
            fetched("zstd.parquet", Some(Split::Val)),
        ],
        ..folders.options(&["-"])
    };
    let summary = run(&options).unwrap();
    let [train, val] = folders.tokens();
    assert_eq!(train, val);
    assert_eq!(summary.val_documents, Some(summary.documents / 2));
    let paths = vec![path("plain.parquet"), path("snappy.parquet")];
    let joined = Input::Joined { paths, column: "text".to_owned() };
    let options = Options { inputs: vec![joined], overwrite: true, ..folders.chars(&["-"]) };
    let summary = run(&options).unwrap();
    assert_eq!((summary.documents, summary.val_documents), (1, None));
    let [train, val] = folders.texts();
    let whole = train + &val;
    assert_eq!(whole[..whole.len() / 2], whole[whole.len() / 2..]);
}
