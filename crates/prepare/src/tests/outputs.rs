//! Datasets: tokens, splits, vocabularies and shards.

use super::*;

#[test]
fn a_text_in_characters_is_nanogpts_dataset() {
    let text = POEM.repeat(40);
    let folders = TestFolders::new(&[("poem.txt", text.as_bytes())]);
    let summary = run(&folders.chars(&["poem.txt"])).unwrap();
    let n = text.chars().count();
    let cut = (n as f64 * 0.9) as usize;
    let [train, val] = folders.texts();
    assert_eq!(train, text.chars().take(cut).collect::<String>());
    assert_eq!(val, text.chars().skip(cut).collect::<String>());
    let mut symbols = text.chars().collect::<Vec<_>>();
    symbols.sort_unstable();
    symbols.dedup();
    let tokenizer = Tokenizer::from_symbols(symbols.iter().map(char::to_string).collect());
    assert_eq!(folders.dataset().tokenizer(), tokenizer);
    assert_eq!(folders.names(), ["meta.pkl", "train.bin", "val.bin"]);
    let expected = PrepareSummary {
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
        train_path: folders.folder().join("train.bin"),
        val_path: folders.folder().join("val.bin"),
        meta_path: Some(folders.folder().join("meta.pkl")),
    };
    assert_eq!(summary, expected);
}

#[test]
fn a_text_in_gpt2s_tokens_is_cut_by_characters_and_has_no_end_of_text() {
    let text = POEM.repeat(20_000); // several pieces
    let folders = TestFolders::new(&[("poem.txt", text.as_bytes())]);
    let summary = run(&folders.options(&["poem.txt"])).unwrap();
    let n = text.chars().count();
    let at = text.char_indices().nth((n as f64 * 0.9) as usize).unwrap().0;
    let [train, val] = folders.tokens();
    assert!(train == gpt2(&text[..at]) && val == gpt2(&text[at..]));
    assert_eq!((summary.vocab_size, summary.forced_cuts), (50_257, 0));
    assert_eq!(folders.names(), ["train.bin", "val.bin"]);
    let expected = text.len() as f64 / (train.len() + val.len()) as f64;
    assert!((summary.bytes_per_token() - expected).abs() < 1e-9);
}

#[test]
fn end_of_text_is_before_or_after_documents_as_requested() {
    let lines = jsonl(200, |i| format!("{{\"text\": \"tale {i}\"}}"));
    for (end_of_text, before, after) in [
        (None, false, true),
        (Some(EndOfText::After), false, true),
        (Some(EndOfText::Before), true, false),
        (Some(EndOfText::None), false, false),
    ] {
        let folders = TestFolders::new(&[("tales.jsonl", lines.as_bytes())]);
        let options = Options { end_of_text, ..folders.options(&["tales.jsonl"]) };
        let summary = run(&options).unwrap();
        // Which tales were held out is read off the rule, and the rest is spelled out.
        let split::SplitRule::Documents(mut documents) =
            split::SplitRule::documents(1337, 0.1, None)
        else {
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
        assert_eq!(folders.tokens(), expected, "{end_of_text:?}");
        assert_eq!(summary.documents, 200);
        assert!(summary.val_documents.is_some_and(|n| (5..50).contains(&n)));
    }
    // In a text that is cut in two the document ends in the second file.
    let folders = TestFolders::new(&[("poem.txt", POEM.as_bytes())]);
    let after = Options { end_of_text: Some(EndOfText::After), ..folders.options(&["poem.txt"]) };
    run(&after).unwrap();
    let [train, val] = folders.tokens();
    assert!(!train.contains(&END_OF_TEXT) && val.ends_with(&[END_OF_TEXT]));
}

#[test]
fn documents_in_characters_end_with_a_line_and_keep_their_order() {
    let folders = TestFolders::new(&[("a.txt", b"one"), ("b.txt", b"two\n"), ("c.md", b"three")]);
    let all = |folders: &TestFolders| {
        let [train, val] = folders.texts();
        (train.len() + val.len(), format!("{train}|{val}"))
    };
    run(&folders.chars(&["."])).unwrap();
    let (len, text) = all(&folders);
    assert_eq!(len, 14);
    for line in ["one\n", "two\n", "three\n"] {
        assert!(text.contains(line), "{text:?}");
    }
    let bare = Options {
        end_of_text: Some(EndOfText::None),
        overwrite: true,
        ..folders.chars(&["c.md", "a.txt"])
    };
    run(&bare).unwrap();
    assert_eq!(all(&folders).0, 8);
}

#[test]
fn at_least_one_of_a_few_files_is_held_out() {
    let folders = TestFolders::new(&[("a.txt", b"one"), ("b.txt", b"two")]);
    let options = Options { val_fraction: Some(1e-6), ..folders.options(&["."]) };
    let summary = run(&options).unwrap();
    assert_eq!((summary.documents, summary.val_documents), (2, Some(1)));
}

#[test]
fn names_and_shares_have_sensible_defaults() {
    let folder = |input: &str| Options::new(vec![Input::Path(input.into())]).folder;
    assert_eq!(folder("texts/poems.v2.txt"), Path::new("data/poems.v2"));
    assert_eq!(folder("/"), Path::new("data/text"));
    assert_eq!(Options::new(vec![Input::Stdin]).folder, Path::new("data/text"));
    let folders = TestFolders::new(&[]);
    let with_dot = folders.0.path().join("my.books");
    fs::create_dir(&with_dot).unwrap();
    assert_eq!(folder(with_dot.to_str().unwrap()), Path::new("data/my.books"));
    let table = [(1_000_000, 0.1), (100_000_000, 0.01), (54_000_000_000, 0.0005)];
    for (bytes, share) in table {
        assert_eq!(default_val_fraction(Some(bytes)).to_bits(), f64::to_bits(share));
    }
    assert_eq!(default_val_fraction(None).to_bits(), 0.0005_f64.to_bits());
}

#[test]
fn a_tokenizer_of_any_model_writes_its_tokens_its_size_and_itself() {
    let lines = jsonl(50, |i| format!("{{\"text\": \"tale {i}\"}}"));
    let folders = TestFolders::new(&[("x.jsonl", lines.as_bytes())]);
    let folder = folders.0.path().join("in");
    let tokenizer = fitgpt_data::tokenizer::sample::bytes_tokenizer(&folder);
    let options = || Options {
        vocabulary: Vocabulary::Json,
        tokenizer: Some(folder.join("tokenizer.json")),
        overwrite: true,
        ..folders.options(&["x.jsonl"])
    };
    let error = run(&options()).unwrap_err();
    assert!(matches!(error, PrepareError::NoEndOfText { .. }), "{error}");
    let unknown = Options { end_of_text_token: Some("<e>".into()), ..options() };
    assert!(run(&unknown).unwrap_err().to_string().ends_with("has no token `<e>`"));
    let summary = run(&Options { end_of_text_token: Some("<s>".into()), ..options() }).unwrap();
    assert_eq!((summary.vocab_size, summary.vocabulary), (257, Vocabulary::Json));
    assert_eq!(
        folders.names(),
        [
            "generation_config.json",
            "meta.pkl",
            "tokenizer.json",
            "tokenizer_config.json",
            "train.bin",
            "val.bin"
        ]
    );
    assert_eq!(folders.dataset().vocab_size(), 257);
    let all = folders.tokens().concat();
    assert_eq!(all.iter().filter(|&&id| id == 256).count(), 50);
    let end = summary.end_of_text.unwrap();
    assert_eq!((&*end.token, end.id, end.origin), ("<s>", 256, EndOfTextOrigin::Option));
    let config = fs::read_to_string(folders.folder().join("tokenizer_config.json")).unwrap();
    assert!(config.contains(r#""eos_token": "<s>""#), "{config}");
    let generation = fs::read_to_string(folders.folder().join("generation_config.json")).unwrap();
    assert!(generation.contains(r#""eos_token_id": 256"#), "{generation}");
    assert!(tokenizer.decode(&all).contains("tale 17"));
    // GPT-2's tokens need neither table.
    run(&Options { overwrite: true, ..folders.options(&["x.jsonl"]) }).unwrap();
    assert_eq!(folders.names(), ["train.bin", "val.bin"]);
}

#[test]
fn a_vocabulary_of_more_than_sixteen_bits_writes_wide_tokens() {
    let lines = jsonl(50, |i| format!("{{\"text\": \"tale {i}\"}}"));
    let folders = TestFolders::new(&[("x.jsonl", lines.as_bytes())]);
    let folder = folders.0.path().join("in");
    fitgpt_data::tokenizer::sample::bytes_tokenizer(&folder);
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
        ..folders.options(&["x.jsonl"])
    };
    let summary = run(&options).unwrap();
    assert_eq!(summary.vocab_size, 70_001);
    let names = folders.names();
    assert!(names.ends_with(&["train.u32.bin", "val.u32.bin"].map(String::from)), "{names:?}");
    let all = folders.tokens().concat();
    assert_eq!(all.len() as u64, summary.train_tokens + summary.val_tokens);
    assert_eq!(all.iter().filter(|&&id| id == 70_000).count(), 50);
    let error = run(&folders.options(&["x.jsonl"])).unwrap_err();
    assert!(matches!(&error, PrepareError::Exists { path } if path.ends_with("train.u32.bin")));
}

/// The documents of both splits, sorted: tales end with the end of text.
fn tales(folders: &TestFolders) -> [Vec<Vec<u32>>; 2] {
    folders.tokens().map(|tokens| {
        let mut tales: Vec<_> = tokens.split(|&id| id == END_OF_TEXT).map(<[_]>::to_vec).collect();
        tales.sort();
        tales
    })
}

#[test]
fn the_split_of_a_document_does_not_depend_on_file_order_or_input_kind() {
    let [first, second] =
        [0, 300].map(|start| jsonl(300, |i| format!("{{\"text\": \"tale {}\"}}", start + i)));
    let files = [("a.jsonl", first.as_bytes()), ("b.jsonl", second.as_bytes())];
    let folders = TestFolders::new(&files);
    run(&folders.options(&["a.jsonl", "b.jsonl"])).unwrap();
    let expected = tales(&folders);
    let again = |names: &[&str]| Options { overwrite: true, ..folders.options(names) };
    run(&again(&["b.jsonl", "a.jsonl"])).unwrap();
    assert_eq!(tales(&folders), expected);
    // The default share is that of a file of the same length.
    let stdin = Options { format: Some(Format::Jsonl), ..again(&["-"]) };
    run_with(&stdin, [first.as_bytes(), b"\n", second.as_bytes()].concat().as_slice()).unwrap();
    assert_eq!(tales(&folders), expected);
}

#[test]
fn shards_have_the_tokens_of_the_single_file_and_are_replaced_together() {
    let lines = jsonl(60, |i| format!("{{\"text\": \"tale {i} {}\"}}", "word ".repeat(i as usize)));
    let folders = TestFolders::new(&[("a.jsonl", lines.as_bytes())]);
    run(&folders.options(&["a.jsonl"])).unwrap();
    let expected = folders.tokens();
    let shards = |tokens: u32| Options {
        output: OutputFormat::Shards { tokens: tokens.try_into().unwrap() },
        overwrite: true,
        ..folders.options(&["a.jsonl"])
    };
    for tokens in [100, 1_000, 1_000_000] {
        let summary = run(&shards(tokens)).unwrap();
        let n = expected[0].len().div_ceil(tokens as usize);
        assert_eq!(summary.train_shards, Some(n as u64));
        assert_eq!(folders.names().iter().filter(|name| name.starts_with("train_")).count(), n);
        assert_eq!(folders.tokens(), expected);
    }
    let again = Options { overwrite: false, ..shards(100) };
    assert!(matches!(run(&again), Err(PrepareError::Exists { .. })));
    // One file again, and no shard next to it.
    run(&Options { overwrite: true, ..folders.options(&["a.jsonl"]) }).unwrap();
    assert_eq!(folders.names(), ["train.bin", "val.bin"]);
    assert_eq!(folders.tokens(), expected);
}
