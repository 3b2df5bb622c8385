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
    words::prepare as said,
};

/// How often the progress line is written over.
const REFRESH: Duration = Duration::from_millis(200);

pub(super) fn command() -> Command {
    let flag = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
    };
    let value = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).help(help)
    };
    Command::new("prepare")
        .about("Text files, folders, JSONL or stdin to train.bin, val.bin and meta.pkl")
        .arg(
            Arg::new("INPUT")
                .action(ArgAction::Append)
                .num_args(1..)
                .required(true)
                .help("Files and folders; `-` is stdin"),
        )
        .arg(value("out", "FOLDER", "Where the dataset goes; data/ under the input's name else"))
        .arg(flag("chars", "One token a character, with a meta.pkl; GPT-2's byte pairs else"))
        .arg(
            value("format", "FORMAT", "How text lies in the files; by their extension else")
                .value_parser(["text", "jsonl"]),
        )
        .arg(value("field", "NAME", "Where the text of a JSONL line is [default: text]"))
        .arg(
            value("eot", "WHERE", "Where GPT-2's end-of-text token stands")
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
        _ => Format::Text,
    });
    if let Some(field) = word("field") {
        field.clone_into(&mut options.field);
    }
    if matches.get_flag("chars") {
        options.vocabulary = Vocabulary::Chars;
    }
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
    let pass = said::pass(at.pass);
    let megabytes = |bytes: u64| format!("{:.1}", bytes as f64 / 1e6);
    let (documents, tokens) = (plan::grouped(at.documents), plan::grouped(at.tokens));
    match at.total_bytes.filter(|total| *total > 0) {
        Some(total) => {
            said::progress_of(pass, megabytes(at.bytes), megabytes(total), documents, tokens)
        }
        None => said::progress(pass, megabytes(at.bytes), documents, tokens),
    }
}

fn text(summary: &Summary) -> String {
    let folder = summary.train_path.parent().unwrap_or(Path::new(".")).display();
    let (documents, characters) = (summary.documents, summary.characters);
    let vocab = plan::grouped(summary.vocab_size.into());
    let rate = format!("{:.2}", summary.bytes_per_token());
    [
        said::read(plan::grouped(documents), plan::grouped(characters), vocab),
        said::split(plan::grouped(summary.train_tokens), plan::grouped(summary.val_tokens)),
        said::rate(rate, format!("{:.1}", summary.seconds)),
        said::train_on_it(folder),
    ]
    .concat()
}
