//! One run: find, keep, scan, encode, publish.

use std::{
    io::{self, Read},
    num::NonZeroUsize,
    path::Path,
    thread,
    time::Instant,
};

use super::{
    DiskNeed, EndOfText, Format, Options, Pass, PrepareError, Progress, Summary, Vocabulary,
    default_val_fraction,
    draft::{Draft, Folder},
    encode::{Encoder, Outputs, WORKERS_LIMIT},
    error::file_name,
    source::{Source, total_bytes},
    split::Rule,
    symbols::Symbols,
    walk::{LastLine, Part, Tally, Walk},
};
use crate::{
    data::{Meta, Split},
    tokenizer::{END_OF_TEXT, Tokenizer},
};

const META: &str = "meta.pkl";

/// [`super::prepare`], with `stdin` as its standard input.
pub(super) fn prepare_from(
    options: &Options,
    stdin: &mut dyn Read,
    progress: &mut dyn FnMut(Progress),
    stop: &dyn Fn() -> bool,
) -> Result<Summary, PrepareError> {
    let start = Instant::now();
    let mut sources = Source::find(&options.inputs, options.format)?;
    let n_texts = sources.iter().filter(|source| source.format == Format::Text).count();
    let is_one_text = n_texts == 1 && sources.len() == 1;
    let val_fraction = options.val_fraction.unwrap_or_else(|| {
        if is_one_text { 0.1 } else { default_val_fraction(total_bytes(&sources)) }
    });
    if !(val_fraction > 0.0 && val_fraction < 1.0) {
        return Err(PrepareError::ValFraction { val_fraction });
    }
    let mut folder = new_dataset(&options.folder, options.overwrite)?;

    let is_scanned = is_one_text || options.vocabulary == Vocabulary::Chars;
    let mut kept = Vec::new(); // removed at the end
    if is_scanned {
        for source in sources.iter_mut().filter(|source| source.bytes.is_none()) {
            let name = format!("input.{}", kept.len());
            let draft = keep(source, &folder, &name, stdin, progress, stop)?;
            source.read_from(&draft);
            kept.push(draft);
        }
    }

    let usual = if is_one_text { EndOfText::None } else { EndOfText::After };
    let end_of_text = options.end_of_text.unwrap_or(usual);
    let is_line_ended =
        options.vocabulary == Vocabulary::Chars && !is_one_text && end_of_text != EndOfText::None;
    let mut run = Run {
        walk: Walk {
            sources: &sources,
            field: &options.field,
            invalid: options.invalid,
            last_line: if is_line_ended { LastLine::Ended } else { LastLine::AsItIs },
            stop,
        },
        total_bytes: total_bytes(&sources),
        stdin,
        progress,
    };
    let scan = if is_scanned { Some(run.scan()?) } else { None };

    let (tokenizer, meta) = match (options.vocabulary, &scan) {
        (Vocabulary::Chars, Some(scan)) => {
            let symbols = scan.symbols.sorted()?;
            let meta = Meta::pickled(&symbols);
            (Tokenizer::from_symbols(symbols.iter().map(char::to_string).collect()), Some(meta))
        }
        _ => (Tokenizer::Gpt2, None),
    };
    let need = match (&meta, &scan, run.total_bytes) {
        (Some(meta), Some(scan), _) => {
            Some(DiskNeed::of_characters(scan.characters, meta.len() as u64))
        }
        (_, _, bytes) => bytes.map(DiskNeed::of_gpt2),
    };
    let kept_bytes = kept.iter().map(Draft::bytes).sum(); // of what was free
    if let Some(need) = need {
        need.check(options.disk_free_bytes.map(|free| free.saturating_sub(kept_bytes)))?;
    }

    let n_documents = (n_texts == sources.len()).then_some(n_texts as u64);
    let mut rule = match &scan {
        Some(scan) if is_one_text => Rule::position(scan.characters, val_fraction),
        _ => Rule::documents(options.seed, val_fraction, n_documents),
    };
    let mut outputs = Outputs {
        train: Draft::create(&folder, file_name(Split::Train))?,
        val: Draft::create(&folder, file_name(Split::Val))?,
    };
    let workers = match options.threads {
        Some(threads) => threads.get(),
        None => thread::available_parallelism().map_or(1, NonZeroUsize::get),
    };
    let written = run.encode(
        &Encoding { tokenizer: &tokenizer, vocabulary: options.vocabulary, end_of_text, workers },
        &mut rule,
        &mut outputs,
    )?;
    written.check(&rule, scan.as_ref(), val_fraction)?;

    let (train_tokens, val_tokens) = (outputs.train.bytes() / 2, outputs.val.bytes() / 2);
    let path = |name: &str| folder.path().join(name);
    let summary = Summary {
        vocabulary: options.vocabulary,
        vocab_size: match &tokenizer {
            Tokenizer::Chars(chars) => chars.symbols().len() as u32,
            _ => END_OF_TEXT + 1,
        },
        documents: written.tally.documents,
        val_documents: (!is_one_text).then_some(written.val_documents),
        val_fraction,
        input_bytes: written.tally.bytes,
        text_bytes: written.text_bytes,
        characters: written.characters(),
        train_tokens,
        val_tokens,
        forced_cuts: match options.vocabulary {
            Vocabulary::Chars => 0, // a character is a token wherever it is cut
            Vocabulary::Gpt2 => written.tally.forced_cuts,
        },
        seconds: 0.0,
        train_path: path(file_name(Split::Train)),
        val_path: path(file_name(Split::Val)),
        meta_path: meta.as_ref().map(|_| path(META)),
    };
    drop(kept); // only the dataset is published
    publish(&mut folder, outputs, meta.as_deref(), stop)?;
    Ok(Summary { seconds: start.elapsed().as_secs_f64(), ..summary })
}

/// The folder of a dataset, in which there is none or one that may go.
fn new_dataset(path: &Path, overwrite: bool) -> Result<Folder, PrepareError> {
    // Before the folder is created or touched, and again under its lock.
    check_free(path, overwrite)?;
    let folder = Folder::make(path)?;
    check_free(path, overwrite)?;
    Ok(folder)
}

fn check_free(folder: &Path, overwrite: bool) -> Result<(), PrepareError> {
    for name in [file_name(Split::Train), file_name(Split::Val), META] {
        let path = folder.join(name);
        if !overwrite && path.exists() {
            return Err(PrepareError::Exists { path });
        }
    }
    Ok(())
}

/// Copies an input that can be read only once to a file.
fn keep(
    source: &Source,
    folder: &Folder,
    name: &str,
    stdin: &mut dyn Read,
    progress: &mut dyn FnMut(Progress),
    stop: &dyn Fn() -> bool,
) -> Result<Draft, PrepareError> {
    let mut draft = Draft::create(folder, name)?;
    let mut opened = source.open(stdin)?;
    let mut chunk = vec![0; 256 << 10];
    loop {
        if stop() {
            return Err(PrepareError::Stopped);
        }
        match opened.read(&mut chunk) {
            Ok(0) => break,
            Ok(read) => draft.write(&chunk[..read])?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(PrepareError::reading(&source.name, error)),
        }
        let (bytes, total_bytes) = (draft.bytes(), source.bytes);
        progress(Progress { pass: Pass::Keep, bytes, total_bytes, documents: 0, tokens: 0 });
    }
    draft.flush()?;
    Ok(draft)
}

/// Brings the files to the disk and makes them the dataset.
fn publish(
    folder: &mut Folder,
    outputs: Outputs,
    meta: Option<&[u8]>,
    stop: &dyn Fn() -> bool,
) -> Result<(), PrepareError> {
    outputs.train.finish()?;
    outputs.val.finish()?;
    if let Some(bytes) = meta {
        let mut draft = Draft::create(folder, META)?;
        draft.write(bytes)?;
        draft.finish()?;
    }
    if stop() {
        return Err(PrepareError::Stopped);
    }
    folder.publish()
}

/// What both readings share.
struct Run<'a> {
    walk: Walk<'a>,
    total_bytes: Option<u64>,
    stdin: &'a mut dyn Read,
    progress: &'a mut dyn FnMut(Progress),
}

/// What the first reading found.
#[derive(Debug)]
struct Scan {
    symbols: Symbols,
    characters: u64,
}

/// How text is encoded.
struct Encoding<'a> {
    tokenizer: &'a Tokenizer,
    vocabulary: Vocabulary,
    end_of_text: EndOfText,
    workers: usize,
}

impl Run<'_> {
    fn scan(&mut self) -> Result<Scan, PrepareError> {
        let mut scan = Scan { symbols: Symbols::new(), characters: 0 };
        let total_bytes = self.total_bytes;
        let progress = &mut *self.progress;
        self.walk.run(self.stdin, &mut |part, &Tally { bytes, documents, .. }| {
            if let Part::Text(text) = part {
                scan.symbols.add(text);
                scan.characters += text.chars().count() as u64;
                progress(Progress { pass: Pass::Scan, bytes, total_bytes, documents, tokens: 0 });
            }
            Ok(())
        })?;
        Ok(scan)
    }

    fn encode(
        &mut self,
        encoding: &Encoding<'_>,
        rule: &mut Rule,
        outputs: &mut Outputs,
    ) -> Result<Written, PrepareError> {
        let mut written = Written::default();
        let (total_bytes, progress) = (self.total_bytes, &mut *self.progress);
        let workers = encoding.workers.min(WORKERS_LIMIT);
        let marks = |at| encoding.vocabulary == Vocabulary::Gpt2 && encoding.end_of_text == at;
        written.tally = thread::scope(|scope| {
            let mut encoder = Encoder::start(scope, encoding.tokenizer, workers, outputs);
            let mut split = Split::Train;
            let tally = self.walk.run(self.stdin, &mut |part, tally| {
                match part {
                    Part::Begin => {
                        if let Rule::Documents(documents) = rule {
                            split = documents.next();
                            written.val_documents += u64::from(split == Split::Val);
                        }
                        if marks(EndOfText::Before) {
                            encoder.end_of_text(split)?;
                        }
                    }
                    Part::Text(text) => {
                        let (head, tail) = match rule {
                            Rule::Position { train_characters } if split == Split::Train => {
                                split_at(text, *train_characters - written.train_characters)
                            }
                            _ => (text, ""),
                        };
                        if !head.is_empty() {
                            encoder.text(head, split)?;
                            written.add(head, split);
                        }
                        if !tail.is_empty() {
                            split = Split::Val;
                            encoder.text(tail, split)?;
                            written.add(tail, split);
                        }
                        let (bytes, documents, tokens) =
                            (tally.bytes, tally.documents, encoder.tokens());
                        let pass = Pass::Encode;
                        progress(Progress { pass, bytes, total_bytes, documents, tokens });
                    }
                    Part::End => {
                        if marks(EndOfText::After) {
                            encoder.end_of_text(split)?;
                        }
                    }
                }
                Ok(())
            })?;
            encoder.finish()?;
            Ok::<_, PrepareError>(tally)
        })?;
        Ok(written)
    }
}

/// A text before and after some number of its characters.
fn split_at(text: &str, characters: u64) -> (&str, &str) {
    match usize::try_from(characters).ok().and_then(|n| text.char_indices().nth(n)) {
        Some((at, _)) => text.split_at(at),
        None => (text, ""),
    }
}

/// What the second reading encoded.
#[derive(Debug, Default)]
struct Written {
    tally: Tally,
    text_bytes: u64,
    train_characters: u64,
    val_characters: u64,
    val_documents: u64,
}

impl Written {
    fn add(&mut self, text: &str, split: Split) {
        self.text_bytes += text.len() as u64;
        let characters = text.chars().count() as u64;
        match split {
            Split::Train => self.train_characters += characters,
            Split::Val => self.val_characters += characters,
        }
    }

    fn characters(&self) -> u64 {
        self.train_characters + self.val_characters
    }

    /// Both readings saw the same, and there is text in both splits.
    fn check(
        &self,
        rule: &Rule,
        scan: Option<&Scan>,
        val_fraction: f64,
    ) -> Result<(), PrepareError> {
        if scan.is_some_and(|scan| scan.characters != self.characters()) {
            return Err(PrepareError::Changed);
        }
        let split = match (self.train_characters, self.val_characters) {
            (0, 0) => return Err(PrepareError::Empty),
            (0, _) => Split::Train,
            (_, 0) => Split::Val,
            _ => return Ok(()),
        };
        Err(match rule {
            Rule::Documents(documents) => documents.empty(split, self.characters()),
            Rule::Position { .. } => {
                let (documents, characters) = (self.tally.documents, self.characters());
                let computed = None;
                PrepareError::EmptySplit { split, documents, characters, val_fraction, computed }
            }
        })
    }
}
