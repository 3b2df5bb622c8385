//! One run: find, keep, scan, encode, publish.

use std::{
    fs,
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
    encode::{Encoder, Outputs, TokenWidth, WORKERS_LIMIT},
    error::{file_name, wide_file_name},
    source::{FoundSources, TextSource, total_bytes},
    split::Rule,
    symbols::Symbols,
    walk::{DocumentPart, LastLine, Tally, Walk},
};
use crate::{
    data::{Meta, Split},
    tokenizer::{END_OF_TEXT, Json, TOKENIZER_FILE, Tokenizer, TokenizerError},
};

const META: &str = "meta.pkl";

/// Every file that a dataset may have, the tokens for training first.
const NAMES: [&str; 6] = [
    file_name(Split::Train),
    wide_file_name(Split::Train),
    file_name(Split::Val),
    wide_file_name(Split::Val),
    META,
    TOKENIZER_FILE,
];

/// [`super::prepare`] with any standard input.
pub(super) fn prepare_from(
    options: &Options,
    stdin: &mut dyn Read,
    progress: &mut dyn FnMut(Progress),
    stop: &dyn Fn() -> bool,
) -> Result<Summary, PrepareError> {
    let start = Instant::now();
    let FoundSources { mut sources, skipped } =
        FoundSources::find(&options.inputs, options.format)?;
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
    let shard = sources.iter().find(|source| source.format == Format::Shard);
    if let (Some(shard), Vocabulary::Chars) = (shard, options.vocabulary) {
        return Err(PrepareError::ShardInChars { path: shard.name.clone() });
    }
    let json = match &options.tokenizer {
        Some(path) if options.vocabulary == Vocabulary::Json => Some(JsonFile::open(path)?),
        _ => None,
    };
    let mut kept = Vec::new(); // removed at the end
    for source in sources.iter_mut().filter(|source| source.bytes.is_none()) {
        // Parquet is not read in order.
        if is_scanned || source.format == Format::Parquet {
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
    let mut preparation = Preparation {
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
    let scan = if is_scanned { Some(preparation.scan()?) } else { None };

    let (tokenizer, vocab_size, meta) = match (options.vocabulary, &scan, &json) {
        (Vocabulary::Chars, Some(scan), _) => {
            let symbols = scan.symbols.sorted()?;
            let meta = Meta::pickled(&symbols);
            let n = symbols.len() as u32; // at most 2^16
            let symbols = symbols.iter().map(char::to_string).collect();
            (Tokenizer::from_symbols(symbols), n, Some(meta))
        }
        (Vocabulary::Json, _, Some(file)) => {
            let n = file.json.vocab_size();
            (Tokenizer::Json(file.json.clone()), n, Some(Meta::pickled_size(n)))
        }
        _ => (Tokenizer::Gpt2, END_OF_TEXT + 1, None),
    };
    let end_of_text_id = match (&json, end_of_text) {
        (_, EndOfText::None) => None,
        (Some(file), _) => Some(file.end_of_text(options.end_of_text_token.as_deref())?),
        (None, _) if options.vocabulary == Vocabulary::Gpt2 => Some(END_OF_TEXT),
        (None, _) => None,
    };
    let width = TokenWidth::of(vocab_size);
    let need = match (&meta, &scan, preparation.total_bytes) {
        (Some(meta), Some(scan), _) if json.is_none() => {
            Some(DiskNeed::of_characters(scan.characters, meta.len() as u64))
        }
        // Nobody knows how much text a compressed file holds.
        (_, _, bytes) if sources.iter().all(TextSource::is_plain) => bytes.map(DiskNeed::of_gpt2),
        _ => None,
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
        width,
        train: Draft::create(&folder, width.file_name(Split::Train))?,
        val: Draft::create(&folder, width.file_name(Split::Val))?,
    };
    let workers = match options.threads {
        Some(threads) => threads.get(),
        None => thread::available_parallelism().map_or(1, NonZeroUsize::get),
    };
    let written = preparation.encode(
        &Encoding { tokenizer: &tokenizer, end_of_text_id, end_of_text, workers },
        &mut rule,
        &mut outputs,
    )?;
    written.check(&rule, scan.as_ref(), val_fraction)?;

    let [train_tokens, val_tokens] =
        [&outputs.train, &outputs.val].map(|draft| draft.bytes() / width.bytes());
    let path = |name: &str| folder.path().join(name);
    let summary = Summary {
        vocabulary: options.vocabulary,
        vocab_size,
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
            Vocabulary::Json => written.tally.cuts,
        },
        skipped,
        seconds: 0.0,
        train_path: path(width.file_name(Split::Train)),
        val_path: path(width.file_name(Split::Val)),
        meta_path: meta.as_ref().map(|_| path(META)),
    };
    let tables =
        Tables { meta: meta.as_deref(), tokenizer: json.as_ref().map(|file| &*file.bytes) };
    drop(kept); // only the dataset is published
    publish(&mut folder, outputs, &tables, stop)?;
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
    for name in NAMES {
        let path = folder.join(name);
        if !overwrite && path.exists() {
            return Err(PrepareError::Exists { path });
        }
    }
    Ok(())
}

/// Copies input that can be read only once to a temporary file.
fn keep(
    source: &TextSource,
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

/// What a dataset has next to its tokens.
struct Tables<'a> {
    meta: Option<&'a [u8]>,
    tokenizer: Option<&'a [u8]>,
}

/// Brings the files to the disk and makes them the dataset.
fn publish(
    folder: &mut Folder,
    outputs: Outputs,
    tables: &Tables<'_>,
    stop: &dyn Fn() -> bool,
) -> Result<(), PrepareError> {
    outputs.train.finish()?;
    outputs.val.finish()?;
    for (name, bytes) in [(META, tables.meta), (TOKENIZER_FILE, tables.tokenizer)] {
        if let Some(bytes) = bytes {
            let mut draft = Draft::create(folder, name)?;
            draft.write(bytes)?;
            draft.finish()?;
        }
    }
    if stop() {
        return Err(PrepareError::Stopped);
    }
    folder.publish()
}

/// A `tokenizer.json`.
struct JsonFile<'a> {
    path: &'a Path,
    bytes: Vec<u8>,
    json: Json,
}

impl<'a> JsonFile<'a> {
    fn open(path: &'a Path) -> Result<Self, PrepareError> {
        let bytes = fs::read(path).map_err(|source| PrepareError::reading(path, source))?;
        let json = Json::open(path).map_err(|source| PrepareError::Encode { source })?;
        Ok(Self { path, bytes, json })
    }

    /// The id of the end of a text: of the token that is named, or else of the usual one.
    fn end_of_text(&self, named: Option<&str>) -> Result<u32, PrepareError> {
        let found = match named {
            Some(token) => self.json.id_of(token),
            None => self.json.end_of_text(self.path.parent().unwrap_or(Path::new(""))),
        };
        match (found, named) {
            (Some(id), _) => Ok(id),
            (None, Some(token)) => {
                let (path, token) = (self.path.to_owned(), token.to_owned());
                Err(PrepareError::Encode { source: TokenizerError::NoToken { path, token } })
            }
            (None, None) => Err(PrepareError::NoEndOfText { path: self.path.to_owned() }),
        }
    }
}

/// What both readings share.
struct Preparation<'a> {
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
    end_of_text_id: Option<u32>,
    end_of_text: EndOfText,
    workers: usize,
}

impl Preparation<'_> {
    fn scan(&mut self) -> Result<Scan, PrepareError> {
        let mut scan = Scan { symbols: Symbols::new(), characters: 0 };
        let total_bytes = self.total_bytes;
        let progress = &mut *self.progress;
        self.walk.run(self.stdin, &mut |part, &Tally { bytes, documents, .. }| {
            if let DocumentPart::Text(text) = part {
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
        let mark = |at| encoding.end_of_text_id.filter(|_| encoding.end_of_text == at);
        written.tally = thread::scope(|scope| {
            let mut encoder = Encoder::start(scope, encoding.tokenizer, workers, outputs);
            let mut split = Split::Train;
            let tally = self.walk.run(self.stdin, &mut |part, tally| {
                match part {
                    DocumentPart::Begin => {
                        if let Rule::Documents(documents) = rule {
                            split = documents.next();
                            written.val_documents += u64::from(split == Split::Val);
                        }
                        if let Some(id) = mark(EndOfText::Before) {
                            encoder.ids(&[id], split)?;
                        }
                    }
                    DocumentPart::Text(text) => {
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
                    DocumentPart::End => {
                        if let Some(id) = mark(EndOfText::After) {
                            encoder.ids(&[id], split)?;
                        }
                    }
                    DocumentPart::Tokens { ids, is_first, split: named } => {
                        if let (true, Rule::Documents(documents)) = (is_first, &mut *rule) {
                            let drawn = documents.next();
                            split = named.unwrap_or(drawn);
                            written.val_documents += u64::from(split == Split::Val);
                        }
                        encoder.ids(ids, split)?;
                        written.ids[usize::from(split == Split::Val)] += ids.len() as u64;
                        let (bytes, documents, tokens) =
                            (tally.bytes, tally.documents, encoder.tokens());
                        let pass = Pass::Encode;
                        progress(Progress { pass, bytes, total_bytes, documents, tokens });
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
    /// Tokens of shards, in both splits.
    ids: [u64; 2],
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
        let split = match (self.train_characters + self.ids[0], self.val_characters + self.ids[1]) {
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
