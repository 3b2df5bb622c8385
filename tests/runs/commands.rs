//! Everything that a user reads, as snapshots: exit code, stdout and stderr of some forty commands in
//! four languages, errors included. They show each change of a sentence, a table or a JSON key.
//!
//! `cargo insta review`, or `INSTA_UPDATE=always cargo test --test runs commands`, accepts a change.

use std::{fmt::Write as _, fs, path::Path};

use crate::program::{TINY, TestFolder};

/// The fields after the name are `fitgpt`'s arguments.
type Commands = &'static [(&'static str, &'static [&'static str])];

/// Reports and errors that are the same on every machine.
const REPORTS: Commands = &[
    ("plan_torch", &["plan", "nano.py", "--engine=torch", "--gpu=RTX 4070"]),
    ("plan_torch_eager", &["plan", "nano.py", "--engine=torch", "--gpu=3060", "--compile=False"]),
    ("plan_card", &["plan", "nano.py", "--engine=fitgpt", "--gpu=4070"]),
    ("plan_both", &["plan", "nano.py", "--engine=both", "--gpu=4090"]),
    (
        "plan_does_not_fit",
        &["plan", "nano.py", "--engine=torch", "--gpu=RTX 4070", "--batch_size=64"],
    ),
    ("plan_ranks", &["plan", "nano.py", "--gpu=4090", "--ranks=4", "--network=10Gb"]),
    ("plan_llama", &["plan", "llama.py", "--gpu=4060", "--dtype=bfloat16"]),
    ("plan_json", &["plan", "nano.py", "--engine=torch", "--gpu=4070", "--json"]),
    ("plan_both_json", &["plan", "nano.py", "--engine=both", "--gpu=4090", "--json"]),
    ("plan_unknown_card", &["plan", "--gpu=RTX 9999"]),
    ("plan_missing_config", &["plan", "no/such.py"]),
    ("plan_broken_config", &["plan", "broken.py"]),
    ("plan_broken_config_json", &["plan", "broken.py", "--json"]),
    ("plan_bad_value", &["plan", "--batch_size=much"]),
    ("plan_bad_rule", &["plan", "--n_head=5", "--n_embd=64"]),
    ("fit_torch", &["fit", "nano.py", "--engine=torch", "--gpu=RTX 4070", "--batch_size=64"]),
    (
        "fit_torch_json",
        &["fit", "nano.py", "--engine=torch", "--gpu=4070", "--batch_size=64", "--json"],
    ),
    ("fit_card", &["fit", "nano.py", "--engine=fitgpt", "--gpu=4060", "--batch_size=48"]),
    ("fit_nothing_fits", &["fit", "--budget=100MB", "--gpu=4070"]),
    ("doctor_evaluation", &["doctor", "evaluation.log", "--config=evaluation.py"]),
    ("doctor_evaluation_json", &["doctor", "evaluation.log", "--config=evaluation.py", "--json"]),
    ("doctor_foreign", &["doctor", "foreign.log", "--config=foreign.py"]),
    ("doctor_resume", &["doctor", "resume.log", "--config=resume.py"]),
    ("doctor_host", &["doctor", "host.log"]),
    ("doctor_shared_memory", &["doctor", "shared.log"]),
    ("doctor_optimizer", &["doctor", "optimizer.log", "--config=optimizer.py"]),
    ("doctor_xl", &["doctor", "xl.log"]),
    ("doctor_nothing", &["doctor", "calm.log"]),
    ("doctor_page", &["doctor", "--explain", "stale-logits"]),
    ("doctor_unknown_page", &["doctor", "--explain", "no-such-page"]),
    ("prepare_missing", &["prepare", "no-such-file.txt"]),
    ("prepare_no_input", &["prepare"]),
    ("sample_missing", &["sample", "--out_dir=nothing"]),
    ("export_missing", &["export", "nothing", "--to=gguf", "--out=x.gguf"]),
    ("patch_diff", &["patch", "nano"]),
    ("patch_missing", &["patch", "nothing"]),
    ("train_missing_data", &["train", "nano.py", "--dataset=nothing", "--device=cpu"]),
    ("train_unknown_key", &["train", "--no_such_key=1"]),
    ("bench_unknown", &["bench", "nothing"]),
    ("serve_missing", &["serve", "nothing", "--port=0"]),
    ("unknown_command", &["tain"]),
    ("help", &["--help"]),
];

/// Runs and files. Their outputs have times, speeds and memory of the machine, so digits are not
/// compared. Each command finds what those before it have written.
const RUNS: Commands = &[
    ("prepare_text", &["prepare", "text.txt", "--chars", "--out=data/text"]),
    ("prepare_again", &["prepare", "text.txt", "--chars", "--out=data/text"]),
    ("train", &["train", "--max_iters=2", "--eval_interval=2", "--out_dir=out"]),
    ("train_again", &["train", "--max_iters=2", "--out_dir=out"]),
    ("train_resume", &["train", "--init_from=resume", "--max_iters=3", "--out_dir=out"]),
    ("train_too_large", &["train", "--max_iters=1", "--out_dir=small", "--budget=1MB"]),
    (
        "train_fitted",
        &[
            "train",
            "--max_iters=0",
            "--out_dir=fitted",
            "--batch_size=8192",
            "--budget=450MB",
            "--fit",
        ],
    ),
    ("train_json", &["train", "--max_iters=1", "--out_dir=json", "--json"]),
    ("export_gguf", &["export", "out", "--to=gguf", "--out=model.gguf"]),
    ("export_again", &["export", "out", "--to=gguf", "--out=model.gguf"]),
    ("export_nanogpt", &["export", "out", "--to=nanogpt", "--out=nanogpt", "--json"]),
];

/// A folder with configs, logs, a text and nanoGPT's files.
fn place() -> TestFolder {
    let place = TestFolder::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let copies = [
        ("config/nanogpt.py", "nano.py"),
        ("config/llama_stories.py", "llama.py"),
        ("examples/estimate-loss-batch-64.log", "evaluation.log"),
        ("examples/estimate-loss-batch-64.py", "evaluation.py"),
        ("examples/foreign-process.log", "foreign.log"),
        ("examples/foreign-process.py", "foreign.py"),
        ("examples/resume-8gb.log", "resume.log"),
        ("examples/resume-8gb.py", "resume.py"),
        ("examples/host-killed.log", "host.log"),
        ("examples/shared-memory.log", "shared.log"),
        ("examples/optimizer-step.log", "optimizer.log"),
        ("examples/optimizer-step.py", "optimizer.py"),
        ("examples/gpt2-xl-finetune.log", "xl.log"),
        ("examples/calm.log", "calm.log"),
    ];
    for (from, to) in copies {
        fs::copy(root.join(from), place.path(to)).unwrap();
    }
    fs::create_dir(place.path("nano")).unwrap();
    for file in ["model.py", "train.py"] {
        fs::copy(root.join("tests/patch/nano").join(file), place.path("nano").join(file)).unwrap();
    }
    fs::write(place.path("broken.py"), "batch_size = 4\nn_layer = (6\n").unwrap();
    fs::write(place.path("text.txt"), "One line of a small text.\n".repeat(400)).unwrap();
    place
}

/// Without what depends on the machine: numbers and their units, bars, curves.
fn without_numbers(text: &str) -> String {
    let mut masked = String::new();
    for line in text.lines() {
        let words: Vec<_> = line.split_whitespace().filter_map(masked_word).collect();
        let is_sample = words.len() > 20 && words.iter().all(|word| word == "#");
        // Classes at the peak are sorted by size.
        let is_class = words.len() >= 3 && line.starts_with("    ") && line.ends_with("iB");
        let line = match &words[..] {
            _ if is_sample => "#".to_owned(),
            _ if is_class => "class # unit".to_owned(),
            words => words.join(" "),
        };
        let _ = writeln!(masked, "{line}");
    }
    masked
}

/// A word with `#` for each number, `unit` for a unit and `op` for an op, which is the largest one on
/// this machine; nothing for a part of a bar or a curve.
fn masked_word(word: &str) -> Option<String> {
    const UNITS: &[&str] = &["ms", "s", "µs", "kB", "MB", "KiB", "MiB", "GiB"];
    if word.chars().count() > 1 && word.chars().all(|c| "█▓▒░▪▫▚·".contains(c)) {
        return Some("bar".to_owned());
    }
    if word.starts_with('┤') || word.chars().any(|c| ('\u{2800}'..='\u{28ff}').contains(&c)) {
        return None;
    }
    let plain = word.trim_matches([',', '`']);
    if UNITS.contains(&plain) {
        return Some(word.replace(plain, "unit"));
    }
    let is_op = plain.chars().all(|c| c.is_ascii_lowercase() || c == '_') && plain.contains('_');
    if is_op || plain == "attention" {
        return Some(word.replace(plain, "op"));
    }
    let mut out = String::new();
    for c in word.chars() {
        let is_inside = matches!(c, '.' | ',') && out.ends_with('#');
        if !(c.is_ascii_digit() || is_inside) {
            out.push(c);
        } else if !out.ends_with('#') {
            out.push('#');
        }
    }
    Some(out)
}

/// JSON on many lines, other text as it is.
fn indented(text: &str) -> String {
    let Ok(json) = serde_json::from_str::<serde_json::Value>(text) else { return text.to_owned() };
    serde_json::to_string_pretty(&json).unwrap() + "\n"
}

/// What a command prints in one language.
fn output(place: &TestFolder, args: &[&str], lang: &str, mask: fn(&str) -> String) -> String {
    let ran = place.run(&[args, &["--lang", lang]].concat());
    let code = ran.code.expect("it ends by itself");
    let folder = place.path("");
    let folder = folder.to_str().unwrap().trim_end_matches('/');
    let [stdout, stderr] = [&ran.stdout, &ran.stderr].map(|t| mask(&t.replace(folder, "FOLDER")));
    format!("exit code {code}\n--- stdout\n{stdout}--- stderr\n{stderr}")
}

const LANGS: [&str; 4] = ["en", "zh", "ja", "de"];

#[test]
fn reports_and_errors_are_what_they_were() {
    let place = place();
    for (name, args) in REPORTS {
        let english = output(&place, args, "en", indented);
        let mut whole = format!("===== en\n{english}");
        for lang in &LANGS[1..] {
            let text = output(&place, args, lang, indented);
            let text = if text == english { "as in en\n" } else { &text };
            let _ = write!(whole, "===== {lang}\n{text}");
        }
        insta::assert_snapshot!(*name, whole, &args.join(" "));
    }
}

#[test]
fn runs_and_files_say_what_they_said() {
    for lang in LANGS {
        let place = place();
        let mut whole = String::new();
        for (name, args) in RUNS {
            let config: &[&str] = if args[0] == "train" { TINY } else { &[] };
            let args = [&args[..1], config, &args[1..]].concat();
            let text = output(&place, &args, lang, without_numbers);
            let _ = write!(whole, "===== {name}\n{text}");
        }
        insta::assert_snapshot!(format!("runs_{lang}"), whole);
    }
}
