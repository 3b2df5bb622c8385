//! `fitgpt prepare`: from text to a dataset.

use std::{
    fs,
    num::{NonZeroU32, NonZeroUsize},
    path::{Path, PathBuf},
    process,
    time::{Duration, Instant},
};

use clap::{Arg, ArgAction, ArgMatches, Command, builder::PossibleValue};
use fitgpt_commands::Failure;
use fitgpt_data::tokenizer::{EndOfTextOrigin, EndOfTextToken};
use fitgpt_files::os;
use fitgpt_prepare::{
    EndOfText, Format, Input, Invalid, Options, OutputFormat, Pass, PrepareError, PrepareSummary,
    Progress, Vocabulary, prepare,
};
use fitgpt_program::units::Bytes;
use fitgpt_run::stop::StopFlag;

use super::{Outcome, OutputStyle, named};
use crate::{
    terminal,
    words::{Say as _, grouped, hub as hub_words, lang, prepare as words},
};

/// How often the progress line is updated.
const REFRESH: Duration = Duration::from_millis(200);

/// The size of llm.c's shards.
const SHARD_TOKENS: NonZeroU32 = NonZeroU32::new(100_000_000).unwrap();

/// How many skipped files are listed.
const SHOWN_SKIPPED: usize = 10;

pub(super) fn command() -> Command {
    let flag = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
    };
    let value = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).help(help)
    };
    Command::new("prepare")
        .about("Text, JSONL, Parquet or token shards to train.bin, val.bin and meta.pkl")
        .arg(
            Arg::new("INPUT")
                .action(ArgAction::Append)
                .num_args(1..)
                .required(true)
                .help("Files (also .gz and .zst), folders, patterns; `-` is stdin; or a name such as openwebtext")
                .long_help(
                    "Files (also .gz and .zst), folders, patterns; `-` is stdin; or the name of a\n\
                     dataset of the Hugging Face hub: fineweb, fineweb-edu, openwebtext, tinystories,\n\
                     shakespeare, shakespeare_char, climbmix, fineweb10B-gpt2. It is downloaded to\n\
                     the cache of Hugging Face's tools at a pinned commit; HF_TOKEN, HF_HOME,\n\
                     HF_ENDPOINT and HF_HUB_OFFLINE have their usual meaning",
                ),
        )
        .arg(value("sample", "NAME", "A part of a dataset by name, such as sample-10BT"))
        .arg(
            value("files", "N", "Only the first N files of a dataset by name")
                .value_parser(clap::value_parser!(NonZeroUsize)),
        )
        .arg(value(
            "out",
            "FOLDER",
            "The folder of the dataset [default: data/ and the input's name]",
        ))
        .arg(flag("chars", "One token per character, with a meta.pkl [default: GPT-2's BPE]"))
        .arg(
            value(
                "tokenizer",
                "FILE.json",
                "Use a tokenizer.json, which is copied to the dataset",
            )
            .conflicts_with("chars"),
        )
        .arg(
            value("eot_token", "TOKEN", "The end-of-text token of --tokenizer [default: that of its model]")
                .requires("tokenizer"),
        )
        .arg(
            value("format", "FORMAT", "Format of the input files [default: by their extension]")
                .value_parser([
                    PossibleValue::new("text"),
                    PossibleValue::new("jsonl"),
                    PossibleValue::new("parquet"),
                    PossibleValue::new("shards").hide(true), // sets the format of the output, not of the input
                ])
                .long_help(
                    "Format of the input files: text, jsonl or parquet [default: by their extension];\n\
                     `shards` is the same as `--output shards`",
                ),
        )
        .arg(
            value("field", "NAME", "The field of JSONL or column of Parquet [default: text]")
                .visible_alias("column"),
        )
        .arg(
            value("eot", "POSITION", "Where documents get an end-of-text token")
                .value_parser(["after", "before", "none"]),
        )
        .arg(
            value("val_fraction", "SHARE", "The fraction that is held out for evaluation")
                .value_parser(clap::value_parser!(f64)),
        )
        .arg(
            value("seed", "N", "Seed for the choice of held-out documents")
                .value_parser(clap::value_parser!(u64)),
        )
        .arg(
            value("threads", "N", "Number of threads [default: all]")
                .value_parser(clap::value_parser!(NonZeroUsize)),
        )
        .arg(
            value("output", "FORMAT", "bin: train.bin and val.bin; shards: llm.c's files")
                .value_parser(["bin", "shards"]),
        )
        .arg(
            value("shard_tokens", "N", "Tokens per shard [default: 100000000]")
                .value_parser(clap::value_parser!(NonZeroU32)),
        )
        .arg(flag("lossy", "Replace bytes that are not UTF-8 instead of refusing them"))
        .arg(flag("overwrite", "Replace an existing dataset"))
        .arg(flag("json", "Print one JSON document instead of text"))
        .after_help(
            "Examples:\n  fitgpt prepare input.txt --chars --out data/shakespeare_char\n  \
             fitgpt prepare books/ --out data/books\n  \
             fitgpt prepare openwebtext\n  \
             fitgpt prepare fineweb --sample sample-10BT --files 3\n  \
             fitgpt prepare 'fineweb/*.parquet' --out data/fineweb\n  \
             fitgpt prepare docs.jsonl --output shards --out data/docs\n  \
             cat docs.jsonl | fitgpt prepare - --format jsonl --field body --out data/docs",
        )
}

pub(super) fn run(matches: &ArgMatches, style: OutputStyle) -> Result<Outcome, Failure> {
    let stop = StopFlag::on_signals().map_err(|error| Failure::signals(&error))?;
    let mut options = options(matches)?;
    if !named::fetch(&mut options, matches, &|| stop.is_asked_for())? {
        return Err(Failure::stopped());
    }
    options.disk_free_bytes = os::disk_free(&options.folder).map(Bytes::get);
    if options.inputs.iter().any(is_pipe) {
        let watched = stop.when_ignored(move || {
            super::fail(&Failure::stopped(), style);
            process::exit(2); // as safe as a kill: the folder's drafts are not a dataset
        });
        watched.map_err(|error| Failure::signals(&error))?;
    }
    let mut shown: Option<Instant> = None;
    let mut begun: Option<(Pass, Instant, u64)> = None;
    let is_watched = terminal::is_watched();
    let mut progress = |at: Progress| {
        if is_watched && shown.is_none_or(|shown| shown.elapsed() > REFRESH) {
            shown = Some(Instant::now());
            let (_, start, first) = match begun {
                Some(begun) if begun.0 == at.pass => begun,
                _ => *begun.insert((at.pass, Instant::now(), at.bytes)),
            };
            terminal::progress(&with_eta(line(&at), &at, start.elapsed(), first));
        }
    };
    let made = prepare(&options, &mut progress, &|| stop.is_asked_for());
    if is_watched {
        terminal::clear_progress();
    }
    // What was written is kept: the same command continues from there.
    if let Err(error @ PrepareError::Paused) = &made {
        terminal::note(&error.say(lang()));
        return Ok(Outcome::Stopped);
    }
    let summary = made?;
    match style {
        OutputStyle::Json => {
            // A path that is not Unicode has no JSON.
            serde_json::to_string(&summary)
                .map_err(|error| Failure::new("prepare", error.to_string()))?;
            terminal::json(&summary);
        }
        OutputStyle::Text => terminal::out(&text(&summary)),
    }
    Ok(Outcome::Yes)
}

/// Whether an input can keep its reader waiting.
fn is_pipe(input: &Input) -> bool {
    match input {
        Input::Stdin => true,
        Input::Path(path) => {
            fs::metadata(path).is_ok_and(|facts| !facts.is_file() && !facts.is_dir())
        }
        Input::Fetched { .. } | Input::Joined { .. } => false,
    }
}

fn options(matches: &ArgMatches) -> Result<Options, Failure> {
    let inputs = matches.get_many::<String>("INPUT").into_iter().flatten();
    let inputs = inputs.map(|input| match input.as_str() {
        "-" => Input::Stdin,
        path => Input::Path(PathBuf::from(path)),
    });
    let word = |name| matches.get_one::<String>(name).map(String::as_str);
    let mut options = Options::new(inputs.collect());
    if let Some(folder) = word("out") {
        options.folder = PathBuf::from(folder);
    }
    options.format = match word("format") {
        Some("jsonl") => Some(Format::Jsonl),
        Some("parquet") => Some(Format::Parquet),
        Some("text") => Some(Format::Text),
        _ => None,
    };
    let is_shards = word("output") == Some("shards") || word("format") == Some("shards");
    if is_shards && word("output") == Some("bin") {
        return Err(Failure::new("usage", words::shards_and_bin()));
    }
    if !is_shards && matches.value_source("shard_tokens").is_some() {
        return Err(Failure::new("usage", words::needs_shards()));
    }
    if is_shards {
        let tokens = matches.get_one("shard_tokens").copied().unwrap_or(SHARD_TOKENS);
        options.output = OutputFormat::Shards { tokens };
    }
    if let Some(field) = word("field") {
        field.clone_into(&mut options.field);
    }
    if matches.get_flag("chars") {
        options.vocabulary = Vocabulary::Chars;
    }
    if let Some(path) = word("tokenizer") {
        options.vocabulary = Vocabulary::Json;
        options.tokenizer = Some(PathBuf::from(path));
    }
    options.end_of_text_token = word("eot_token").map(str::to_owned);
    options.end_of_text = word("eot").map(|place| match place {
        "before" => EndOfText::Before,
        "none" => EndOfText::None,
        _ => EndOfText::After,
    });
    options.val_fraction = matches.get_one("val_fraction").copied();
    if let Some(seed) = matches.get_one("seed") {
        options.seed = *seed;
    }
    if matches.get_flag("lossy") {
        options.invalid = Invalid::Replace;
    }
    options.overwrite = matches.get_flag("overwrite");
    options.threads = matches.get_one("threads").copied();
    Ok(options)
}

fn line(at: &Progress) -> String {
    let pass = words::pass(at.pass);
    let megabytes = |bytes: u64| format!("{:.1}", bytes as f64 / 1e6);
    let (documents, tokens) = (grouped(at.documents), grouped(at.tokens));
    match at.total_bytes.filter(|total| *total > 0) {
        Some(total) => {
            words::progress_of(pass, megabytes(at.bytes), megabytes(total), documents, tokens)
        }
        None => words::progress(pass, megabytes(at.bytes), documents, tokens),
    }
}

/// The line with the time that is left at the speed since `first` bytes were read.
fn with_eta(line: String, at: &Progress, elapsed: Duration, first: u64) -> String {
    let done = at.bytes.saturating_sub(first);
    match at.total_bytes {
        Some(total) if done > 0 && elapsed > REFRESH => {
            let left = total.saturating_sub(at.bytes) as f64;
            let seconds = left / done as f64 * elapsed.as_secs_f64();
            hub_words::with_eta(line, hub_words::clock(seconds as u64))
        }
        _ => line,
    }
}

fn text(summary: &PrepareSummary) -> String {
    let folder = summary.train_path.parent().unwrap_or(Path::new(".")).display();
    let (documents, characters) = (summary.documents, summary.characters);
    let vocab = grouped(summary.vocab_size.into());
    let rate = format!("{:.2}", summary.bytes_per_token());
    let skipped =
        summary.skipped.iter().take(SHOWN_SKIPPED).map(|skipped| {
            words::skipped(skipped.path.display(), words::skip_reason(skipped.reason))
        });
    let more = summary.skipped.len().saturating_sub(SHOWN_SKIPPED);
    let more = if more > 0 { words::more_skipped(more) } else { String::new() };
    [
        skipped.collect(),
        more,
        words::read(grouped(documents), grouped(characters), vocab),
        words::split(grouped(summary.train_tokens), grouped(summary.val_tokens)),
        summary.train_shards.map_or_else(String::new, words::shards),
        match summary.resumed_tokens {
            0 => String::new(),
            tokens => words::resumed(grouped(tokens)),
        },
        // For GPT-2's tokens there is only one, which needs no line.
        match &summary.end_of_text {
            Some(EndOfTextToken { token, id, origin }) if *origin != EndOfTextOrigin::Gpt2 => {
                words::end_of_text(token, id, words::end_of_text_origin(*origin))
            }
            _ => String::new(),
        },
        words::rate(rate, format!("{:.1}", summary.seconds)),
        os::process_memory(std::process::id()).map_or_else(String::new, |memory| {
            let megabytes = |bytes: u64| bytes.div_ceil(1_000_000);
            words::memory(megabytes(memory.peak.get()), megabytes(summary.memory_limit_bytes))
        }),
        words::train_on_it(folder),
    ]
    .concat()
}
