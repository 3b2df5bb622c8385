//! Four languages: text is translated, and JSON is the same in all of them.

use std::{fs, process::Output};

use unicode_width::UnicodeWidthStr as _;

use crate::program::TestFolder;

const OTHERS: [&str; 3] = ["zh", "ja", "de"];

/// A log with its config from `examples/`, in the folder of a test.
fn example(place: &TestFolder, name: &str) {
    for file in [format!("{name}.log"), format!("{name}.py")] {
        let from = format!("{}/examples/{file}", env!("CARGO_MANIFEST_DIR"));
        if let Ok(text) = fs::read(from) {
            fs::write(place.path(&file), text).unwrap();
        }
    }
}

/// Whether a text is in Chinese or Japanese characters, or in German words.
fn is_in(lang: &str, text: &str) -> bool {
    let has = |from: char, to: char| text.chars().any(|c| (from..=to).contains(&c));
    match lang {
        "zh" => has('\u{4e00}', '\u{9fff}') && !has('\u{3040}', '\u{30ff}'),
        "ja" => has('\u{3040}', '\u{30ff}'),
        "de" => {
            let german = ["der", "die", "das", "nicht", "passt", "heißt", "Fehler:", "nimmt"];
            text.split_whitespace().any(|word| german.contains(&word))
        }
        other => panic!("{other}"),
    }
}

/// Commands that people read, with an exit code each.
const COMMANDS: &[(&[&str], i32)] = &[
    (&["doctor", "estimate-loss-batch-64.log", "--config", "estimate-loss-batch-64.py"], 0),
    (&["doctor", "host-killed.log"], 0),
    (&["doctor", "shared-memory.log"], 0),
    (&["doctor", "rank-backward-rocm.log"], 0),
    (&["doctor", "calm.log"], 1),
    (&["doctor", "--explain", "stale-logits"], 0),
    (&["doctor", "--explain", "eval_iters"], 0),
    (&["fit", "--budget=4GB"], 0),
    (&["fit", "--engine=torch", "--gpu=RTX 4070", "--batch_size=64"], 0),
    (&["fit", "--budget=100MB"], 1),
    (&["plan", "--batch_size=much"], 2),
    (&["plan", "c.py"], 2),
    (&["plan", "--gpu=RTX 9999"], 2),
    (&["plan", "no/such.py"], 2),
    (&["sample", "--out_dir=nothing"], 2),
    (&["prepare", "no-such-file.txt"], 2),
    (&["patch", "no-such-folder"], 2),
];

fn place() -> TestFolder {
    let place = TestFolder::new();
    for name in
        ["estimate-loss-batch-64", "host-killed", "shared-memory", "rank-backward-rocm", "calm"]
    {
        example(&place, name);
    }
    fs::write(place.path("c.py"), "batch_size = [4]\n").unwrap();
    place
}

#[test]
fn text_is_in_the_chosen_language_with_the_same_exit_code() {
    let place = place();
    for (args, code) in COMMANDS {
        let english = place.run(&[args, &["--lang=en"][..]].concat());
        assert_eq!(english.code, Some(*code), "{args:?}: {}", english.stderr);
        for lang in OTHERS {
            let ran = place.run(&[args, &["--lang", lang][..]].concat());
            let text = format!("{}{}", ran.stdout, ran.stderr);
            assert_eq!(ran.code, english.code, "{args:?} in {lang}: {text}");
            assert!(is_in(lang, &text), "{args:?} in {lang}: {text}");
            assert_ne!(text, format!("{}{}", english.stdout, english.stderr), "{args:?} in {lang}");
        }
    }
}

#[test]
fn an_unmatched_size_is_blamed_on_the_run_only_if_the_run_is_known() {
    let place = TestFolder::new();
    let log = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.37 GiB. GPU 0 has \
        a total capacity of 11.69 GiB of which 1.02 GiB is free. Including non-PyTorch memory, \
        this process has 10.60 GiB memory in use. Of the allocated memory 9.80 GiB is allocated \
        by PyTorch, and 61.24 MiB is reserved by PyTorch but unallocated.\n";
    fs::write(place.path("odd.log"), log).unwrap();
    fs::write(place.path("run.py"), "batch_size = 12\n").unwrap();
    for (lang, unknown, known) in [
        ("en", "does not show the model", "no tensor of this run"),
        ("zh", "哪个模型", "这次运行中没有"),
        ("ja", "どのモデルか", "この実行に"),
        ("de", "welches Modell", "kein Tensor dieses Laufs"),
    ] {
        let bare = place.run(&["doctor", "odd.log", "--lang", lang]).stdout;
        assert!(bare.contains(unknown) && !bare.contains(known), "{lang}: {bare}");
        let with_config =
            place.run(&["doctor", "odd.log", "--config=run.py", "--lang", lang]).stdout;
        assert!(
            with_config.contains(known) && !with_config.contains(unknown),
            "{lang}: {with_config}"
        );
    }
}

#[test]
fn json_has_the_same_bytes_in_every_language() {
    let place = place();
    for (args, code) in COMMANDS.iter().filter(|(args, _)| !args.contains(&"--explain")) {
        let english = place.run(&[args, &["--json", "--lang=en"][..]].concat());
        assert_eq!(english.code, Some(*code), "{args:?}: {}", english.stderr);
        for lang in OTHERS {
            let ran = place.run(&[args, &["--json", "--lang", lang][..]].concat());
            assert_eq!((ran.code, &ran.stdout), (english.code, &english.stdout), "{args:?}");
        }
        let mut command = place.command(&[args, &["--json"][..]].concat());
        let Output { stdout, .. } = command.env("LC_ALL", "ja_JP.UTF-8").output().unwrap();
        assert_eq!(String::from_utf8(stdout).unwrap(), english.stdout, "{args:?}");
    }
}

#[test]
fn the_columns_of_fit_are_aligned_in_every_language() {
    let place = TestFolder::new();
    for lang in ["en", "zh", "ja", "de"] {
        let ran = place.run(&["fit", "--budget=4GB", "--lang", lang]);
        // Rows of the table have two sizes, of the peak and of what is saved.
        let rows = ran.stdout.lines().filter(|line| line.matches(" MiB").count() == 2);
        let rows: Vec<_> = rows.filter(|line| line.contains(" %")).collect();
        assert!(rows.len() >= 3, "{lang}: {}", ran.stdout);
        let ends = |row: &str| -> Vec<usize> {
            let marks = row.match_indices(" MiB").chain(row.match_indices(" %"));
            marks.map(|(at, mark)| row[..at + mark.len()].width()).collect()
        };
        for row in &rows {
            assert_eq!(ends(row), ends(rows[0]), "{lang}: {}", ran.stdout);
        }
    }
}

#[test]
fn the_locale_chooses_the_language_unless_a_flag_does() {
    let place = TestFolder::new();
    let stderr = |set: &[(&str, &str)]| {
        let mut command = place.command(&["plan", "--gpu=RTX 9999"]);
        command.env_remove("LC_ALL").env_remove("LC_MESSAGES").env_remove("LANG");
        command.envs(set.iter().copied());
        String::from_utf8(command.output().unwrap().stderr).unwrap()
    };
    assert!(is_in("ja", &stderr(&[("LANG", "ja_JP.UTF-8")])));
    assert!(is_in("zh", &stderr(&[("LANG", "C"), ("LC_MESSAGES", "zh_CN.UTF-8")])));
    assert!(stderr(&[("LANG", "ja_JP.UTF-8"), ("LC_ALL", "C")]).starts_with("error: unknown card"));
    assert!(stderr(&[("LANG", "fr_FR.UTF-8")]).starts_with("error: unknown card"));
    assert!(stderr(&[]).starts_with("error: unknown card"));
}

#[test]
fn the_doctor_asks_for_missing_facts() {
    let place = TestFolder::new();
    fs::write(place.path("short.log"), "my run went OOM again\n").unwrap();
    for (lang, asked) in [
        ("en", "to narrow it down"),
        ("zh", "为进一步判断"),
        ("ja", "さらに絞り込むには"),
        ("de", "um es einzugrenzen"),
    ] {
        let ran = place.run(&["doctor", "short.log", "--lang", lang]);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        for text in [asked, "_record_memory_history()", "fitgpt doctor oom.pickle"] {
            assert!(ran.stdout.contains(text), "{lang}: {}", ran.stdout);
        }
    }
}

#[test]
fn the_doctor_reads_sizes_from_a_models_config_json() {
    let place = TestFolder::new();
    let json = r#"{"hidden_size": 4096, "num_hidden_layers": 32, "vocab_size": 32000, "num_attention_heads": 32,
        "num_key_value_heads": 32, "intermediate_size": 11008, "hidden_act": "silu", "tie_word_embeddings": false}"#;
    fs::write(place.path("config.json"), json).unwrap();
    let log = "trainer.train()\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 86.00 MiB. GPU 0 has a \
        total capacity of 79.15 GiB of which 40.00 MiB is free. Including non-PyTorch memory, this process has 79.00 GiB \
        memory in use. Of the allocated memory 77.42 GiB is allocated by PyTorch, and 1.09 GiB is reserved by PyTorch \
        but unallocated.\n";
    fs::write(place.path("run.log"), log).unwrap();
    let without = place.run(&["doctor", "run.log", "--lang=en"]).stdout;
    assert!(!without.contains("static-state-too-large"), "{without}");
    let with = place.run(&["doctor", "run.log", "--model", "config.json", "--lang=en"]).stdout;
    assert!(with.contains("static-state-too-large") && with.contains("6.74B"), "{with}");
    fs::write(place.path("bad.json"), "{\"hidden_size\": 1}").unwrap();
    let bad = place.run(&["doctor", "run.log", "--model=bad.json", "--lang=en"]);
    assert_eq!(bad.code, Some(2), "{}", bad.stdout);
}

#[test]
fn escapes_of_a_log_never_reach_the_terminal() {
    let place = TestFolder::new();
    let log = "Traceback (most recent call last):\n  File \"/x/transformers/trainer.py\", line 1, in evaluation_loop\n    \
        preds_host = nested_concat(preds_host, \u{1b}]0;title\u{7}logits) # \u{9b}31m\nRuntimeError: CUDA out of memory. Tried to \
        allocate \u{1b}[31m2.00 GiB\u{1b}[0m (GPU 0; 11.17 GiB total capacity; 9.00 GiB already allocated; 1.00 GiB free)\n";
    fs::write(place.path("odd.log"), log).unwrap();
    let ran = place.run(&["doctor", "odd.log", "--lang=en"]);
    assert!(ran.stdout.contains("evaluation-gathers-predictions"), "{}", ran.stdout);
    assert!(ran.stdout.chars().all(|c| c == '\n' || !c.is_control()), "{:?}", ran.stdout);
}

#[test]
fn the_doctor_reads_compressed_logs_and_ends_with_the_next_step() {
    use std::io::Write as _;
    let place = TestFolder::new();
    example(&place, "host-killed");
    let text = fs::read(place.path("host-killed.log")).unwrap();
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    packed.write_all(&text).unwrap();
    let packed = packed.finish().unwrap();
    fs::write(place.path("log.gz"), &packed).unwrap();
    let plain = place.run(&["doctor", "host-killed.log", "--json"]);
    let unpacked = place.run(&["doctor", "log.gz", "--json"]);
    assert_eq!((unpacked.code, unpacked.stdout), (plain.code, plain.stdout));
    // A truncated file cannot be read.
    fs::write(place.path("cut.gz"), &packed[..packed.len() / 2]).unwrap();
    assert_eq!(place.run(&["doctor", "cut.gz"]).code, Some(2));
    // Nothing failed, and no config was given: both end in a step.
    fs::write(place.path("calm.log"), "step 1\n").unwrap();
    let calm = place.run(&["doctor", "calm.log", "--lang=en"]);
    assert!(
        calm.stdout.contains("next: ") && calm.stdout.contains("fitgpt plan"),
        "{}",
        calm.stdout
    );
    fs::write(
        place.path("gpt.log"),
        "python train.py --batch_size=32\nCUDA out of memory. Tried to allocate 6.14 GiB.\n",
    )
    .unwrap();
    let bare = place.run(&["doctor", "gpt.log", "--lang=en"]);
    assert!(bare.stdout.contains("--config "), "{}", bare.stdout);
}
