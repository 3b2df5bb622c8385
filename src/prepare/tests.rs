//! Whole runs: from files to a dataset that reads back.

use std::{
    cell::Cell,
    fs,
    io::{self, Read},
};

use super::{run::prepare_from, *};
use crate::{
    data::{Dataset, Split},
    tokenizer::{END_OF_TEXT, EndOfTextOrigin, Tokenizer},
};

/// A folder with inputs, and one for a dataset.
struct Place(tempfile::TempDir);

impl Place {
    fn new(files: &[(&str, &[u8])]) -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        fs::create_dir(place.0.path().join("in")).unwrap();
        for (name, bytes) in files {
            fs::write(place.0.path().join("in").join(name), bytes).unwrap();
        }
        place
    }

    fn folder(&self) -> PathBuf {
        self.0.path().join("out")
    }

    fn options(&self, names: &[&str]) -> Options {
        let input = |name: &&str| match *name {
            "-" => Input::Stdin,
            name => Input::Path(self.0.path().join("in").join(name)),
        };
        let inputs = names.iter().map(input).collect();
        Options { folder: self.folder(), ..Options::new(inputs) }
    }

    fn chars(&self, names: &[&str]) -> Options {
        Options { vocabulary: Vocabulary::Chars, ..self.options(names) }
    }

    /// The tokens of both files, read as a run of training would.
    fn tokens(&self) -> [Vec<u32>; 2] {
        let dataset = self.dataset();
        [Split::Train, Split::Val].map(|split| {
            let tokens = dataset.tokens(split);
            let mut read = vec![0; tokens.len() as usize];
            tokens.read(0, &mut read).unwrap();
            read
        })
    }

    fn texts(&self) -> [String; 2] {
        let tokenizer = self.dataset().tokenizer();
        self.tokens().map(|tokens| tokenizer.decode(&tokens))
    }

    fn dataset(&self) -> Dataset {
        Dataset::open(&self.folder().display().to_string(), self.0.path()).unwrap()
    }

    /// Every name in the folder of the dataset, hidden ones too, except its lock's.
    fn names(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.folder()) else { return Vec::new() };
        let name = |entry: io::Result<fs::DirEntry>| entry.unwrap().file_name();
        let mut names = entries.map(|e| name(e).to_string_lossy().into_owned()).collect::<Vec<_>>();
        names.retain(|name| name != ".lock");
        names.sort_unstable();
        names
    }
}

fn run(options: &Options) -> Result<Summary, PrepareError> {
    run_with(options, b"")
}

fn run_with(options: &Options, mut stdin: &[u8]) -> Result<Summary, PrepareError> {
    prepare_from(options, &mut stdin, &mut |_| {}, &|| false)
}

fn gpt2(text: &str) -> Vec<u32> {
    Tokenizer::Gpt2.encode_document(text).unwrap()
}

fn jsonl(n: u64, line: impl Fn(u64) -> String) -> String {
    (0..n).map(line).collect::<Vec<_>>().join("\n")
}

const POEM: &str = "Twas brillig, and the slithy toves\nDid gyre — and gimble… in the wabe;\n";

#[test]
fn a_text_in_characters_is_nanogpts_dataset() {
    let text = POEM.repeat(40);
    let place = Place::new(&[("poem.txt", text.as_bytes())]);
    let summary = run(&place.chars(&["poem.txt"])).unwrap();
    let n = text.chars().count();
    let cut = (n as f64 * 0.9) as usize;
    let [train, val] = place.texts();
    assert_eq!(train, text.chars().take(cut).collect::<String>());
    assert_eq!(val, text.chars().skip(cut).collect::<String>());
    let mut symbols = text.chars().collect::<Vec<_>>();
    symbols.sort_unstable();
    symbols.dedup();
    let tokenizer = Tokenizer::from_symbols(symbols.iter().map(char::to_string).collect());
    assert_eq!(place.dataset().tokenizer(), tokenizer);
    assert_eq!(place.names(), ["meta.pkl", "train.bin", "val.bin"]);
    let expected = Summary {
        vocabulary: Vocabulary::Chars,
        vocab_size: symbols.len() as u32,
        documents: 1,
        val_documents: None,
        val_fraction: 0.1,
        input_bytes: text.len() as u64,
        text_bytes: text.len() as u64,
        characters: n as u64,
        train_tokens: cut as u64,
        val_tokens: (n - cut) as u64,
        forced_cuts: 0,
        end_of_text: None,
        memory_limit_bytes: summary.memory_limit_bytes,
        skipped: Vec::new(),
        resumed_tokens: 0,
        train_shards: None,
        seconds: summary.seconds,
        train_path: place.folder().join("train.bin"),
        val_path: place.folder().join("val.bin"),
        meta_path: Some(place.folder().join("meta.pkl")),
    };
    assert_eq!(summary, expected);
}

#[test]
fn a_text_in_gpt2s_tokens_is_cut_by_characters_and_has_no_end_of_text() {
    let text = POEM.repeat(20_000); // several pieces
    let place = Place::new(&[("poem.txt", text.as_bytes())]);
    let summary = run(&place.options(&["poem.txt"])).unwrap();
    let n = text.chars().count();
    let at = text.char_indices().nth((n as f64 * 0.9) as usize).unwrap().0;
    let [train, val] = place.tokens();
    assert!(train == gpt2(&text[..at]) && val == gpt2(&text[at..]));
    assert_eq!((summary.vocab_size, summary.forced_cuts), (50_257, 0));
    assert_eq!(place.names(), ["train.bin", "val.bin"]);
    let expected = text.len() as f64 / (train.len() + val.len()) as f64;
    assert!((summary.bytes_per_token() - expected).abs() < 1e-9);
}

#[test]
fn end_of_text_is_before_or_after_documents_as_asked_for() {
    let lines = jsonl(200, |i| format!("{{\"text\": \"tale {i}\"}}"));
    for (end_of_text, before, after) in [
        (None, false, true),
        (Some(EndOfText::After), false, true),
        (Some(EndOfText::Before), true, false),
        (Some(EndOfText::None), false, false),
    ] {
        let place = Place::new(&[("tales.jsonl", lines.as_bytes())]);
        let options = Options { end_of_text, ..place.options(&["tales.jsonl"]) };
        let summary = run(&options).unwrap();
        // Which tales were held out is read off the rule, and the rest is spelled out.
        let split::Rule::Documents(mut documents) = split::Rule::documents(1337, 0.1, None) else {
            panic!("documents go by chance");
        };
        let mut expected = [Vec::new(), Vec::new()];
        for i in 0..200 {
            let tale = format!("tale {i}");
            let split = documents.split(split::hash_of(tale.as_bytes()));
            let tokens = &mut expected[usize::from(split == Split::Val)];
            tokens.extend(before.then_some(END_OF_TEXT));
            tokens.extend(gpt2(&tale));
            tokens.extend(after.then_some(END_OF_TEXT));
        }
        assert_eq!(place.tokens(), expected, "{end_of_text:?}");
        assert_eq!(summary.documents, 200);
        assert!(summary.val_documents.is_some_and(|n| (5..50).contains(&n)));
    }
    // In a text that is cut in two the document ends in the second file.
    let place = Place::new(&[("poem.txt", POEM.as_bytes())]);
    let after = Options { end_of_text: Some(EndOfText::After), ..place.options(&["poem.txt"]) };
    run(&after).unwrap();
    let [train, val] = place.tokens();
    assert!(!train.contains(&END_OF_TEXT) && val.ends_with(&[END_OF_TEXT]));
}

#[test]
fn documents_in_characters_end_with_a_line_and_keep_their_order() {
    let place = Place::new(&[("a.txt", b"one"), ("b.txt", b"two\n"), ("c.md", b"three")]);
    let all = |place: &Place| {
        let [train, val] = place.texts();
        (train.len() + val.len(), format!("{train}|{val}"))
    };
    run(&place.chars(&["."])).unwrap();
    let (len, text) = all(&place);
    assert_eq!(len, 14);
    for line in ["one\n", "two\n", "three\n"] {
        assert!(text.contains(line), "{text:?}");
    }
    let bare = Options {
        end_of_text: Some(EndOfText::None),
        overwrite: true,
        ..place.chars(&["c.md", "a.txt"])
    };
    run(&bare).unwrap();
    assert_eq!(all(&place).0, 8);
}

#[test]
fn few_files_always_leave_one_aside() {
    let place = Place::new(&[("a.txt", b"one"), ("b.txt", b"two")]);
    let options = Options { val_fraction: Some(1e-6), ..place.options(&["."]) };
    let summary = run(&options).unwrap();
    assert_eq!((summary.documents, summary.val_documents), (2, Some(1)));
}

#[test]
fn standard_input_gives_what_a_file_gives() {
    let text = POEM.repeat(5_000);
    let jsonl = jsonl(300, |i| format!("{{\"a\": {{\"b\": \"tale {i}\"}}}}"));
    let place = Place::new(&[("x.txt", text.as_bytes()), ("x.jsonl", jsonl.as_bytes())]);
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
                ..place.options(&[input])
            };
            let of_file = run(&options(name)).unwrap();
            let from_file = place.tokens();
            let of_stdin = run_with(&options("-"), bytes.as_bytes()).unwrap();
            assert!(place.tokens() == from_file, "{vocabulary:?} {format:?}");
            assert_eq!(Summary { seconds: of_file.seconds, ..of_stdin }, of_file);
            assert!(place.names().iter().all(|name| !name.starts_with('.')));
        }
    }
}

#[cfg(unix)]
#[test]
fn a_pipe_is_read_once() {
    let place = Place::new(&[]);
    let pipe = place.0.path().join("in/pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let writer = {
        let pipe = pipe.clone();
        std::thread::spawn(move || fs::write(pipe, POEM.repeat(100)).unwrap())
    };
    run(&place.chars(&["pipe"])).unwrap();
    writer.join().unwrap();
    assert_eq!(place.texts().concat(), POEM.repeat(100));
}

#[test]
fn a_dataset_is_replaced_only_with_overwrite() {
    let place = Place::new(&[("poem.txt", POEM.as_bytes())]);
    run(&place.chars(&["poem.txt"])).unwrap();
    let before = place.tokens();
    for name in ["train.bin", "val.bin", "meta.pkl"] {
        let error = run(&place.options(&["poem.txt"])).unwrap_err();
        assert!(matches!(&error, PrepareError::Exists { path } if path.ends_with(name)), "{error}");
        if name == "train.bin" {
            assert_eq!(place.tokens(), before);
        }
        fs::remove_file(place.folder().join(name)).unwrap();
    }
    run(&place.chars(&["poem.txt"])).unwrap();
    // GPT-2's tokens have no table, and an old one would be a lie about them.
    run(&Options { overwrite: true, ..place.options(&["poem.txt"]) }).unwrap();
    assert_eq!(place.names(), ["train.bin", "val.bin"]);
    assert_eq!(place.texts().concat(), POEM);
}

#[test]
fn whatever_goes_wrong_leaves_no_file_and_no_folder() {
    let long = POEM.repeat(10_000);
    let mut broken = long.clone().into_bytes();
    broken.push(0xff);
    let place = Place::new(&[
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
        (place.options(&["broken.txt"]), "is not UTF-8 text: byte 750000"),
        (place.chars(&["broken.txt", "one.txt"]), "is not UTF-8 text: byte 750000"),
        (place.options(&["long.txt", "broken.txt"]), "is not UTF-8 text: byte 750000"),
        (place.options(&["empty.txt"]), "the input has no text"),
        (place.chars(&["empty.txt", "empty.txt"]), "the input has no text"),
        (place.options(&["one.txt"]), "`train.bin` would be empty: a share of 0.1 of 1 document"),
        (place.options(&["one.jsonl"]), "`val.bin` would be empty: a share of 0.1 of 1 document"),
        (place.options(&["bad.jsonl"]), "line 2: the field `text` should be text, but is a number"),
        (with_share(1.0, place.options(&["long.txt"])), "must be between 0 and 1: 1"),
        (with_share(f64::NAN, place.options(&["long.txt"])), "must be between 0 and 1: NaN"),
        (with_free(1000, place.chars(&["long.txt"])), "the disk has 1000 bytes free"),
        (with_free(1000, place.options(&["long.txt"])), "about 375000 and at most 1500000 bytes"),
    ];
    for (options, expected) in table {
        let error = run(&options).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        assert!(!place.folder().exists(), "{error}");
    }
}

#[test]
fn a_copy_of_standard_input_needs_disk_space_too() {
    let place = Place::new(&[]);
    let text = "ab".repeat(1_000);
    let meta_bytes = crate::data::Meta::pickled(&['a', 'b']).len() as u64;
    let need = 2_000 + 4_000 + meta_bytes;
    let with_free = |free| Options { disk_free_bytes: Some(free), ..place.chars(&["-"]) };
    let error = run_with(&with_free(need - 1), text.as_bytes()).unwrap_err();
    assert!(matches!(error, PrepareError::TooLittleDisk { .. }), "{error}");
    run_with(&with_free(need), text.as_bytes()).unwrap();
}

#[test]
fn invalid_bytes_are_replaced_if_asked_for() {
    let place = Place::new(&[("a.txt", b"some text \xff with\xc3 holes")]);
    let options = Options { invalid: Invalid::Replace, ..place.chars(&["a.txt"]) };
    run(&options).unwrap();
    assert_eq!(place.texts().concat(), "some text \u{fffd} with\u{fffd} holes");
}

#[test]
fn a_run_stops_at_any_moment_and_leaves_nothing() {
    let text = POEM.repeat(5_000);
    let place = Place::new(&[("long.txt", text.as_bytes())]);
    // Encoding takes longer, so fewer moments of it are tried.
    for (options, every) in [(place.chars(&["-"]), 1), (place.options(&["-", "long.txt"]), 9)] {
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
            assert!(!place.folder().exists());
        }
        assert!(n_polls > 10, "a long run asks often, not {n_polls} times");
        fs::remove_dir_all(place.folder()).unwrap();
    }
}

#[test]
fn a_text_that_changes_between_its_readings_is_an_error() {
    let place = Place::new(&[("poem.txt", POEM.as_bytes())]);
    let path = place.0.path().join("in/poem.txt");
    for changed in ["a shorter text", "a text with a €", ""] {
        fs::write(&path, POEM).unwrap();
        let mut progress = |progress: Progress| {
            if progress.pass == Pass::Scan {
                fs::write(&path, changed).unwrap();
            }
        };
        let options = place.chars(&["poem.txt"]);
        let error = prepare_from(&options, &mut io::empty(), &mut progress, &|| false);
        assert!(matches!(error, Err(PrepareError::Changed)), "{changed:?}: {error:?}");
        assert!(!place.folder().exists());
    }
}

#[test]
fn progress_goes_up_to_all_there_is() {
    let text = POEM.repeat(20_000);
    let place = Place::new(&[("a.txt", text.as_bytes()), ("b.txt", text.as_bytes())]);
    let total_bytes = Some(2 * text.len() as u64);
    for options in [place.chars(&["."]), place.options(&["."])] {
        let mut heard = Vec::new();
        let summary =
            prepare_from(&options, &mut io::empty(), &mut |p| heard.push(p), &|| false).unwrap();
        let is_chars = options.vocabulary == Vocabulary::Chars;
        let passes = if is_chars { vec![Pass::Scan, Pass::Encode] } else { vec![Pass::Encode] };
        for pass in passes {
            let heard = heard.iter().filter(|p| p.pass == pass).collect::<Vec<_>>();
            assert!(heard.len() >= 10 && heard.is_sorted_by_key(|p| (p.bytes, p.tokens)));
            let last = heard.last().unwrap();
            assert_eq!((Some(last.bytes), last.total_bytes), (total_bytes, total_bytes));
            assert_eq!(last.documents, 1, "the second document is under way");
        }
        assert_eq!(Some(summary.input_bytes), total_bytes);
        fs::remove_dir_all(place.folder()).unwrap();
    }
}

#[test]
fn names_and_shares_have_sensible_defaults() {
    let folder = |input: &str| Options::new(vec![Input::Path(input.into())]).folder;
    assert_eq!(folder("texts/poems.v2.txt"), Path::new("data/poems.v2"));
    assert_eq!(folder("/"), Path::new("data/text"));
    assert_eq!(Options::new(vec![Input::Stdin]).folder, Path::new("data/text"));
    let place = Place::new(&[]);
    let with_dot = place.0.path().join("my.books");
    fs::create_dir(&with_dot).unwrap();
    assert_eq!(folder(with_dot.to_str().unwrap()), Path::new("data/my.books"));
    let table = [(1_000_000, 0.1), (100_000_000, 0.01), (54_000_000_000, 0.0005)];
    for (bytes, share) in table {
        assert_eq!(default_val_fraction(Some(bytes)).to_bits(), f64::to_bits(share));
    }
    assert_eq!(default_val_fraction(None).to_bits(), 0.0005_f64.to_bits());
}

#[test]
fn a_read_error_names_the_file() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::ErrorKind::TimedOut.into())
        }
    }
    let place = Place::new(&[]);
    for format in [Format::Text, Format::Jsonl] {
        let options = Options { format: Some(format), ..place.options(&["-"]) };
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
fn a_compressed_file_gives_what_the_plain_one_gives_also_on_standard_input() {
    let text = POEM.repeat(5_000);
    let lines = jsonl(300, |i| format!("{{\"text\": \"tale {i}\"}}"));
    let place = Place::new(&[
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
        run(&with(place.options(&names[..1]))).unwrap();
        let expected = place.tokens();
        for name in &names[1..] {
            run(&with(place.options(&[name]))).unwrap();
            assert!(place.tokens() == expected, "{name}");
            let bytes = fs::read(place.0.path().join("in").join(name)).unwrap();
            let stdin = Options { format: Some(format), ..with(place.options(&["-"])) };
            run_with(&stdin, &bytes).unwrap();
            assert!(place.tokens() == expected, "{name} on standard input");
        }
    }
    assert_eq!(
        Options::new(vec![Input::Path("x/books.jsonl.gz".into())]).folder,
        Path::new("data/books")
    );
}

#[test]
fn a_parquet_file_gives_what_its_rows_give_as_jsonl() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/formats");
    let texts = fs::read_to_string(folder.join("texts.jsonl")).unwrap();
    let lines = texts.lines().filter(|line| *line != "null");
    let lines = lines.map(|line| format!("{{\"text\": {line}}}")).collect::<Vec<_>>().join("\n");
    let parquet = fs::read(folder.join("zstd.parquet")).unwrap();
    let required = fs::read(folder.join("required.parquet")).unwrap();
    let place = Place::new(&[
        ("x.jsonl", lines.as_bytes()),
        ("x.parquet", &parquet),
        ("body.parquet", &required),
    ]);
    let with = |options| Options { val_fraction: Some(0.2), overwrite: true, ..options };
    let of_lines = run(&with(place.options(&["x.jsonl"]))).unwrap();
    let expected = place.tokens();
    let of_rows = run(&with(place.options(&["x.parquet"]))).unwrap();
    assert!(place.tokens() == expected);
    assert_eq!(of_rows.documents, of_lines.documents);
    assert_eq!(of_rows.input_bytes, parquet.len() as u64);
    let body = Options { field: "body".into(), ..with(place.options(&["body.parquet"])) };
    run(&body).unwrap();
    assert!(place.tokens() == expected);
    let stdin = Options { format: Some(Format::Parquet), ..with(place.options(&["-"])) };
    run_with(&stdin, &parquet).unwrap();
    assert!(place.tokens() == expected);
    let error = run(&with(place.options(&["body.parquet"]))).unwrap_err().to_string();
    assert!(
        error.ends_with("has no column `text`; its columns are `body`: `--column` names another"),
        "{error}"
    );
    let place = Place::new(&[("x.jsonl", b"{\"body\": \"a\", \"id\": 1}\n")]);
    let error = run(&place.options(&["x.jsonl"])).unwrap_err().to_string();
    assert!(
        error
            .ends_with("has no field `text`; its fields are `body`, `id`: `--field` names another"),
        "{error}"
    );
}

#[test]
fn shards_become_one_dataset_and_their_names_state_the_split() {
    let document = |i: u16| [END_OF_TEXT as u16, i, i + 1, i + 2];
    let tokens = |range: std::ops::Range<u16>| range.flat_map(document).collect::<Vec<_>>();
    let (first, second, val) = (tokens(0..20_000), tokens(20_000..20_100), tokens(30_000..30_010));
    let place = Place::new(&[
        ("f_train_000001.bin", &shard(&first)),
        ("f_train_000002.bin", &shard(&second)),
        ("f_val_000000.bin", &shard(&val)),
        ("notes.bin", b"something else"),
    ]);
    let summary = run(&place.options(&["."])).unwrap();
    let wide = |tokens: &[u16]| tokens.iter().map(|&id| u32::from(id)).collect::<Vec<_>>();
    assert!(place.tokens() == [wide(&[first, second.clone()].concat()), wide(&val)]);
    assert_eq!((summary.documents, summary.val_documents), (20_110, Some(10)));
    assert_eq!(summary.skipped.len(), 1);
    assert_eq!(summary.skipped[0].reason, SkipReason::NoShardHeader);
    // Without names the documents are drawn, and none is cut.
    let place = Place::new(&[("a.bin", &shard(&second))]);
    run(&Options { val_fraction: Some(0.3), ..place.options(&["a.bin"]) }).unwrap();
    let [train, val] = place.tokens();
    assert_eq!(train.len() + val.len(), second.len());
    assert!(!val.is_empty() && val.chunks(4).all(|document| document[0] == END_OF_TEXT));
    // Shards for training alone are shared, too.
    let place = Place::new(&[("f_train_000001.bin", &shard(&second))]);
    run(&Options { val_fraction: Some(0.3), ..place.options(&["f_train_000001.bin"]) }).unwrap();
    assert!(place.tokens() == [train, val]);
    let place = Place::new(&[("a.bin", &shard(&second))]);
    let error = run(&Options { overwrite: true, ..place.chars(&["a.bin"]) }).unwrap_err();
    assert!(matches!(error, PrepareError::ShardInOther { flag: "--chars", .. }), "{error}");
    let cut = Place::new(&[("a.bin", &shard(&second)[..1100])]);
    let error = run(&cut.options(&["a.bin"])).unwrap_err().to_string();
    assert!(error.contains("announces 400 tokens"), "{error}");
}

#[test]
fn a_tokenizer_of_any_model_writes_its_tokens_its_size_and_itself() {
    let lines = jsonl(50, |i| format!("{{\"text\": \"tale {i}\"}}"));
    let place = Place::new(&[("x.jsonl", lines.as_bytes())]);
    let folder = place.0.path().join("in");
    let tokenizer = crate::tokenizer::json_tests::bytes_tokenizer(&folder);
    let options = || Options {
        vocabulary: Vocabulary::Json,
        tokenizer: Some(folder.join("tokenizer.json")),
        overwrite: true,
        ..place.options(&["x.jsonl"])
    };
    let error = run(&options()).unwrap_err();
    assert!(matches!(error, PrepareError::NoEndOfText { .. }), "{error}");
    let unknown = Options { end_of_text_token: Some("<e>".into()), ..options() };
    assert!(run(&unknown).unwrap_err().to_string().ends_with("has no token `<e>`"));
    let summary = run(&Options { end_of_text_token: Some("<s>".into()), ..options() }).unwrap();
    assert_eq!((summary.vocab_size, summary.vocabulary), (257, Vocabulary::Json));
    assert_eq!(
        place.names(),
        [
            "generation_config.json",
            "meta.pkl",
            "tokenizer.json",
            "tokenizer_config.json",
            "train.bin",
            "val.bin"
        ]
    );
    assert_eq!(place.dataset().vocab_size(), 257);
    let all = place.tokens().concat();
    assert_eq!(all.iter().filter(|&&id| id == 256).count(), 50);
    let end = summary.end_of_text.unwrap();
    assert_eq!((&*end.token, end.id, end.origin), ("<s>", 256, EndOfTextOrigin::Option));
    let config = fs::read_to_string(place.folder().join("tokenizer_config.json")).unwrap();
    assert!(config.contains(r#""eos_token": "<s>""#), "{config}");
    let generation = fs::read_to_string(place.folder().join("generation_config.json")).unwrap();
    assert!(generation.contains(r#""eos_token_id": 256"#), "{generation}");
    assert!(tokenizer.decode(&all).contains("tale 17"));
    // GPT-2's tokens need neither table.
    run(&Options { overwrite: true, ..place.options(&["x.jsonl"]) }).unwrap();
    assert_eq!(place.names(), ["train.bin", "val.bin"]);
}

#[test]
fn a_vocabulary_of_more_than_sixteen_bits_writes_wide_tokens() {
    let lines = jsonl(50, |i| format!("{{\"text\": \"tale {i}\"}}"));
    let place = Place::new(&[("x.jsonl", lines.as_bytes())]);
    let folder = place.0.path().join("in");
    crate::tokenizer::json_tests::bytes_tokenizer(&folder);
    let path = folder.join("tokenizer.json");
    let mut json: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    json["added_tokens"][0]["id"] = 70_000.into();
    json["model"]["vocab"]["<s>"] = 70_000.into();
    json["post_processor"] = serde_json::Value::Null;
    fs::write(&path, json.to_string()).unwrap();
    let options = Options {
        vocabulary: Vocabulary::Json,
        tokenizer: Some(path),
        end_of_text_token: Some("<s>".into()),
        ..place.options(&["x.jsonl"])
    };
    let summary = run(&options).unwrap();
    assert_eq!(summary.vocab_size, 70_001);
    let names = place.names();
    assert!(names.ends_with(&["train.u32.bin", "val.u32.bin"].map(String::from)), "{names:?}");
    let all = place.tokens().concat();
    assert_eq!(all.len() as u64, summary.train_tokens + summary.val_tokens);
    assert_eq!(all.iter().filter(|&&id| id == 70_000).count(), 50);
    let error = run(&place.options(&["x.jsonl"])).unwrap_err();
    assert!(matches!(&error, PrepareError::Exists { path } if path.ends_with("train.u32.bin")));
}

/// The documents of both splits, sorted: tales end with the end of text.
fn tales(place: &Place) -> [Vec<Vec<u32>>; 2] {
    place.tokens().map(|tokens| {
        let mut tales: Vec<_> = tokens.split(|&id| id == END_OF_TEXT).map(<[_]>::to_vec).collect();
        tales.sort();
        tales
    })
}

#[test]
fn neither_the_order_of_files_nor_the_way_in_changes_a_documents_split() {
    let [first, second] =
        [0, 300].map(|start| jsonl(300, |i| format!("{{\"text\": \"tale {}\"}}", start + i)));
    let files = [("a.jsonl", first.as_bytes()), ("b.jsonl", second.as_bytes())];
    let place = Place::new(&files);
    run(&place.options(&["a.jsonl", "b.jsonl"])).unwrap();
    let expected = tales(&place);
    let again = |names: &[&str]| Options { overwrite: true, ..place.options(names) };
    run(&again(&["b.jsonl", "a.jsonl"])).unwrap();
    assert_eq!(tales(&place), expected);
    // The default share is that of a file of the same length.
    let stdin = Options { format: Some(Format::Jsonl), ..again(&["-"]) };
    run_with(&stdin, [first.as_bytes(), b"\n", second.as_bytes()].concat().as_slice()).unwrap();
    assert_eq!(tales(&place), expected);
}

#[test]
fn files_that_are_for_one_split_go_there_and_parquet_can_be_one_text() {
    let path = |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/formats").join(name);
    let place = Place::new(&[]);
    let fetched = |name, split| Input::Fetched { path: path(name), format: Format::Parquet, split };
    let options = Options {
        inputs: vec![
            fetched("plain.parquet", Some(Split::Train)),
            fetched("zstd.parquet", Some(Split::Val)),
        ],
        ..place.options(&["-"])
    };
    let summary = run(&options).unwrap();
    let [train, val] = place.tokens();
    assert_eq!(train, val);
    assert_eq!(summary.val_documents, Some(summary.documents / 2));
    let paths = vec![path("plain.parquet"), path("snappy.parquet")];
    let joined = Input::Joined { paths, column: "text".to_owned() };
    let options = Options { inputs: vec![joined], overwrite: true, ..place.chars(&["-"]) };
    let summary = run(&options).unwrap();
    assert_eq!((summary.documents, summary.val_documents), (1, None));
    let [train, val] = place.texts();
    let whole = train + &val;
    assert_eq!(whole[..whole.len() / 2], whole[whole.len() / 2..]);
}

/// The files of a dataset with their content.
fn content(place: &Place) -> Vec<(String, Vec<u8>)> {
    let content = |name: String| (name.clone(), fs::read(place.folder().join(name)).unwrap());
    place.names().into_iter().map(content).collect()
}

#[test]
fn a_preparation_that_stops_anywhere_is_continued_to_the_same_bytes() {
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
        let whole = Place::new(&files);
        let with = |place: &Place, note_every| Options {
            vocabulary,
            output,
            note_every,
            ..place.options(names)
        };
        let expected_summary = run(&with(&whole, Duration::from_mins(1))).unwrap();
        let expected = content(&whole);
        let mut most_resumed = 0;
        let place = Place::new(&files);
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
                let options = Options { overwrite: true, ..with(&place, Duration::ZERO) };
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
            assert!(content(&place) == expected, "{names:?} {output:?} {stops_after}");
            let Summary { documents, val_documents, characters, text_bytes, .. } = summary;
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
fn what_was_begun_with_other_options_or_other_files_is_not_continued() {
    let lines = jsonl(40, |i| format!("{{\"text\": \"tale {i}\"}}"));
    let place = Place::new(&[("a.jsonl", lines.as_bytes())]);
    let pause = |seed| {
        let asked = Cell::new(0);
        let options = Options { note_every: Duration::ZERO, seed, ..place.options(&["a.jsonl"]) };
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
    assert_eq!(run(&Options { seed: 2, ..place.options(&["a.jsonl"]) }).unwrap().resumed_tokens, 0);
}

#[test]
fn shards_hold_the_tokens_of_the_one_file_and_are_replaced_whole() {
    let lines = jsonl(60, |i| format!("{{\"text\": \"tale {i} {}\"}}", "word ".repeat(i as usize)));
    let place = Place::new(&[("a.jsonl", lines.as_bytes())]);
    run(&place.options(&["a.jsonl"])).unwrap();
    let expected = place.tokens();
    let shards = |tokens: u32| Options {
        output: OutputFormat::Shards { tokens: tokens.try_into().unwrap() },
        overwrite: true,
        ..place.options(&["a.jsonl"])
    };
    for tokens in [100, 1_000, 1_000_000] {
        let summary = run(&shards(tokens)).unwrap();
        let n = expected[0].len().div_ceil(tokens as usize);
        assert_eq!(summary.train_shards, Some(n as u64));
        assert_eq!(place.names().iter().filter(|name| name.starts_with("train_")).count(), n);
        assert_eq!(place.tokens(), expected);
    }
    let again = Options { overwrite: false, ..shards(100) };
    assert!(matches!(run(&again), Err(PrepareError::Exists { .. })));
    // One file again, and no shard next to it.
    run(&Options { overwrite: true, ..place.options(&["a.jsonl"]) }).unwrap();
    assert_eq!(place.names(), ["train.bin", "val.bin"]);
    assert_eq!(place.tokens(), expected);
}
