//! `fitgpt prepare`: from text to a dataset.

use std::{
    num::NonZeroUsize,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use clap::{Arg, ArgAction, ArgMatches, Command};
use fitgpt_plan::units::Bytes;

use super::{Answer, Failure, Reader, plan};
use crate::{
    os,
    prepare::{
        EndOfText, Format, Input, Invalid, Options, PrepareError, Progress, Summary, Vocabulary,
        prepare,
    },
    run::stop::Stop,
    terminal,
    words::prepare as words,
};

/// How often the progress line is written over.
const REFRESH: Duration = Duration::from_millis(200);

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
                .help("Files (also .gz and .zst), folders, patterns; `-` is stdin"),
        )
        .arg(value(
            "out",
            "FOLDER",
            "The folder of the dataset [default: data/ and the input's name]",
        ))
        .arg(flag("chars", "One token a character, with a meta.pkl [default: GPT-2's byte pairs]"))
        .arg(
            value(
                "tokenizer",
                "FILE.json",
                "The tokens of a tokenizer.json, copied to the dataset",
            )
            .conflicts_with("chars"),
        )
        .arg(
            value("eot_token", "TOKEN", "Its end-of-text token [default: as its model says]")
                .requires("tokenizer"),
        )
        .arg(
            value("format", "FORMAT", "How files hold text [default: by their extension]")
                .value_parser(["text", "jsonl", "parquet"]),
        )
        .arg(
            value("field", "NAME", "The field of JSONL or column of Parquet [default: text]")
                .visible_alias("column"),
        )
        .arg(
            value("eot", "POSITION", "The position of end-of-text tokens in documents")
                .value_parser(["after", "before", "none"]),
        )
        .arg(
            value("val_fraction", "SHARE", "The share that is kept aside for evaluation")
                .value_parser(clap::value_parser!(f64)),
        )
        .arg(
            value("seed", "N", "Which documents are kept aside depends on it")
                .value_parser(clap::value_parser!(u64)),
        )
        .arg(
            value("threads", "N", "Threads that encode [default: all]")
                .value_parser(clap::value_parser!(NonZeroUsize)),
        )
        .arg(flag("lossy", "Replace bytes that are not UTF-8 instead of refusing them"))
        .arg(flag("overwrite", "Replace a dataset that is there"))
        .arg(flag("json", "Print one JSON document instead of text"))
        .after_help(
            "Examples:\n  fitgpt prepare input.txt --chars --out data/shakespeare_char\n  \
             fitgpt prepare books/ --out data/books\n  \
             fitgpt prepare 'fineweb/*.parquet' --out data/fineweb\n  \
             cat docs.jsonl | fitgpt prepare - --format jsonl --field body --out data/docs",
        )
}

pub(super) fn run(matches: &ArgMatches, reader: Reader) -> Result<Answer, Failure> {
    let stop = Stop::on_signals().map_err(|error| Failure::signals(&error))?;
    let options = options(matches);
    let mut shown: Option<Instant> = None;
    let is_watched = terminal::is_watched();
    let mut progress = |at: Progress| {
        if is_watched && shown.is_none_or(|shown| shown.elapsed() > REFRESH) {
            shown = Some(Instant::now());
            terminal::progress(&line(&at));
        }
    };
    let made = prepare(&options, &mut progress, &|| stop.is_asked_for());
    if is_watched {
        terminal::clear_progress();
    }
    let summary = match made {
        Ok(summary) => summary,
        Err(PrepareError::Stopped) => return Ok(Answer::Stopped),
        Err(error) => return Err(error.into()),
    };
    match reader {
        Reader::Programs => {
            let json = serde_json::to_string(&summary);
            terminal::line(&json.map_err(|error| Failure::new("prepare", error))?);
        }
        Reader::People => terminal::out(&text(&summary)),
    }
    Ok(Answer::Yes)
}

fn options(matches: &ArgMatches) -> Options {
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
    options.format = word("format").map(|format| match format {
        "jsonl" => Format::Jsonl,
        "parquet" => Format::Parquet,
        _ => Format::Text,
    });
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
    options.disk_free_bytes = os::disk_free(&options.folder).map(Bytes::get);
    options
}

fn line(at: &Progress) -> String {
    let pass = words::pass(at.pass);
    let megabytes = |bytes: u64| format!("{:.1}", bytes as f64 / 1e6);
    let (documents, tokens) = (plan::grouped(at.documents), plan::grouped(at.tokens));
    match at.total_bytes.filter(|total| *total > 0) {
        Some(total) => {
            words::progress_of(pass, megabytes(at.bytes), megabytes(total), documents, tokens)
        }
        None => words::progress(pass, megabytes(at.bytes), documents, tokens),
    }
}

fn text(summary: &Summary) -> String {
    let folder = summary.train_path.parent().unwrap_or(Path::new(".")).display();
    let (documents, characters) = (summary.documents, summary.characters);
    let vocab = plan::grouped(summary.vocab_size.into());
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
        words::read(plan::grouped(documents), plan::grouped(characters), vocab),
        words::split(plan::grouped(summary.train_tokens), plan::grouped(summary.val_tokens)),
        words::rate(rate, format!("{:.1}", summary.seconds)),
        words::train_on_it(folder),
    ]
    .concat()
}
