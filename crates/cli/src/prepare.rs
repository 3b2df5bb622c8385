//! `fitgpt prepare`: from text to a dataset.

use std::{
    num::{NonZeroU32, NonZeroUsize},
    path::{Path, PathBuf},
    process,
    time::{Duration, Instant},
};

use clap::{Arg, ArgAction, ArgMatches, Command, builder::PossibleValue};
use fitgpt_commands::{
    Failure,
    download::DatasetChoice,
    prepare::{PrepareEnd, PrepareRequest},
};
use fitgpt_data::tokenizer::{EndOfTextOrigin, EndOfTextToken};
use fitgpt_files::os;
use fitgpt_prepare::{
    EndOfText, Format, Input, Invalid, Options, OutputFormat, Pass, PrepareSummary, Progress,
    Vocabulary,
};
use fitgpt_run::stop::StopFlag;

use super::{Outcome, OutputStyle, named::DownloadLine};
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
        .about("Turns text, JSONL, Parquet or token shards into train.bin, val.bin and meta.pkl")
        .arg(
            Arg::new("INPUT")
                .action(ArgAction::Append)
                .num_args(1..)
                .required(true)
                .help("Read files (also .gz and .zst), folders, patterns; `-` is stdin; or a name such as openwebtext")
                .long_help(
                    "Read files (also .gz and .zst), folders, patterns; `-` is stdin; or the name of a\n\
                     dataset of the Hugging Face hub: fineweb, fineweb-edu, openwebtext, tinystories,\n\
                     shakespeare, shakespeare_char, climbmix, fineweb10B-gpt2. It is downloaded to\n\
                     the cache of Hugging Face's tools at a pinned commit; HF_TOKEN, HF_HOME,\n\
                     HF_ENDPOINT and HF_HUB_OFFLINE have their usual meaning",
                ),
        )
        .arg(value("sample", "NAME", "Take this part of a dataset by name, such as sample-10BT"))
        .arg(
            value("files", "N", "Take only the first N files of a dataset by name")
                .value_parser(clap::value_parser!(NonZeroUsize)),
        )
        .arg(value(
            "out",
            "FOLDER",
            "Write the dataset to this folder [default: data/ and the input's name]",
        ))
        .arg(flag("chars", "Make one token of each character, with a meta.pkl [default: GPT-2's BPE]"))
        .arg(
            value(
                "tokenizer",
                "FILE.json",
                "Use a tokenizer.json, which is copied to the dataset",
            )
            .conflicts_with("chars"),
        )
        .arg(
            value("eot_token", "TOKEN", "End documents with this token of --tokenizer [default: that of its model]")
                .requires("tokenizer"),
        )
        .arg(
            value("format", "FORMAT", "Read the input as this format [default: by its extension]")
                .value_parser([
                    PossibleValue::new("text"),
                    PossibleValue::new("jsonl"),
                    PossibleValue::new("parquet"),
                    PossibleValue::new("shards").hide(true), // sets the format of the output, not of the input
                ])
                .long_help(
                    "Read the input as text, jsonl or parquet [default: by its extension];\n\
                     `shards` is the same as `--output shards`",
                ),
        )
        .arg(
            value("field", "NAME", "Read this field of JSONL or column of Parquet [default: text]")
                .visible_alias("column"),
        )
        .arg(
            value("eot", "POSITION", "Write the end-of-text token after or before a document, or not at all")
                .value_parser(["after", "before", "none"]),
        )
        .arg(
            value("val_fraction", "SHARE", "Hold out this fraction for evaluation")
                .value_parser(clap::value_parser!(f64)),
        )
        .arg(
            value("seed", "N", "Choose the held-out documents with this seed")
                .value_parser(clap::value_parser!(u64)),
        )
        .arg(
            value("threads", "N", "Run on N threads [default: all]")
                .value_parser(clap::value_parser!(NonZeroUsize)),
        )
        .arg(
            value("output", "FORMAT", "Write train.bin and val.bin (bin), or llm.c's files (shards)")
                .value_parser(["bin", "shards"]),
        )
        .arg(
            value("shard_tokens", "N", "Put N tokens in a shard [default: 100000000]")
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
    let is_stopped = || stop.is_asked_for();
    let mut request = PrepareRequest { options: options(matches)?, choice: choice(matches) };
    let mut line = DownloadLine::new(&request.options.folder);
    request.fetch(&mut |event| line.show(&event), &is_stopped)?;
    if request.may_wait() {
        let watched = stop.when_ignored(move || {
            super::fail(&Failure::stopped(), style);
            process::exit(2); // as safe as a kill: the folder's drafts are not a dataset
        });
        watched.map_err(|error| Failure::signals(&error))?;
    }
    let mut line = ProgressLine::new();
    let ended = request.prepare(&mut |at| line.show(&at), &is_stopped);
    line.clear();
    match (ended?, style) {
        (PrepareEnd::Paused(how), _) => {
            terminal::note(&how.say(lang()));
            return Ok(Outcome::Stopped);
        }
        (PrepareEnd::Done(summary), OutputStyle::Json) => {
            // A path that is not Unicode has no JSON.
            serde_json::to_string(&*summary)
                .map_err(|error| Failure::new("prepare", error.to_string()))?;
            terminal::json(&*summary);
        }
        (PrepareEnd::Done(summary), OutputStyle::Text) => terminal::out(&text(&summary)),
    }
    Ok(Outcome::Yes)
}

/// What applies to a dataset that is given by name.
fn choice(matches: &ArgMatches) -> DatasetChoice<'_> {
    DatasetChoice {
        sample: matches.get_one::<String>("sample").map(String::as_str),
        n_files: matches.get_one("files").copied().map(NonZeroUsize::get),
        has_field: matches.contains_id("field"),
        has_tokenizer: matches.contains_id("tokenizer"),
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

/// The progress line on a terminal.
struct ProgressLine {
    is_watched: bool,
    shown: Option<Instant>,
    /// The current pass, when it began, and the bytes that it began with.
    begun: Option<(Pass, Instant, u64)>,
}

impl ProgressLine {
    fn new() -> Self {
        Self { is_watched: terminal::is_watched(), shown: None, begun: None }
    }

    fn show(&mut self, at: &Progress) {
        if !self.is_watched || self.shown.is_some_and(|shown| shown.elapsed() <= REFRESH) {
            return;
        }
        self.shown = Some(Instant::now());
        let (_, start, first) = match self.begun {
            Some(begun) if begun.0 == at.pass => begun,
            _ => *self.begun.insert((at.pass, Instant::now(), at.bytes)),
        };
        terminal::progress(&with_eta(line(at), at, start.elapsed(), first));
    }

    fn clear(&self) {
        if self.is_watched {
            terminal::clear_progress();
        }
    }
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
        match summary.forced_cuts {
            0 => String::new(),
            cuts => words::forced_cuts(grouped(cuts)),
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
