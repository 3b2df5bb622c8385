//! A preparation from start to end: find the input, copy what can be read only once, scan, encode,
//! publish.

use std::{
    fmt::Write as _,
    fs,
    io::{self, Read},
    num::NonZeroUsize,
    path::{Path, PathBuf},
    thread,
    time::{Instant, UNIX_EPOCH},
};

use fitgpt_data::{
    Meta, Split,
    publish::{self, is_shard_name},
    tokenizer::{
        END_OF_TEXT, END_OF_TEXT_SPELLING, EndOfTextOrigin, EndOfTextToken, Json, TOKENIZER_FILE,
        Tokenizer, TokenizerError,
        huggingface::{self, GENERATION_CONFIG_FILE, TOKENIZER_CONFIG_FILE},
    },
};
use fitgpt_files::{disk::Disk, formats::compression};

use super::{
    DiskNeed, EndOfText, Format, Invalid, Options, OutputFormat, Pass, PrepareError,
    PrepareSummary, Progress, Vocabulary, default_val_fraction,
    draft::{Draft, LockedFolder},
    encode::{Outputs, TokenWriter, WORKERS_LIMIT},
    error::{file_name, wide_file_name},
    journal::{Clock, EncodedTotals, EncodingEntry, Journal, ScanEntry},
    memory,
    pieces::Pieces,
    shards::{Shards, TokenDraft, TokenWidth},
    source::{self, FoundSources, TextSource, total_bytes},
    split::{DocumentCount, SplitRule, hash_of},
    symbols::Symbols,
    walk::{DocumentPart, InputPosition, LastLine, Tally, Walk},
};

const META: &str = "meta.pkl";

/// Above this size the default fraction for validation is constant.
const LARGE_BYTES: u64 = 1_000_000_000;

/// With more files than this no split is empty by chance, and reading their beginnings takes long.
const KNOWN_LIMIT: usize = 10_000;

/// Every file that a dataset may have, the tokens for training first.
const NAMES: [&str; 8] = [
    file_name(Split::Train),
    wide_file_name(Split::Train),
    file_name(Split::Val),
    wide_file_name(Split::Val),
    META,
    TOKENIZER_FILE,
    TOKENIZER_CONFIG_FILE,
    GENERATION_CONFIG_FILE,
];

/// [`super::prepare`] with any standard input.
pub(super) fn prepare_from(
    options: &Options,
    stdin: &mut dyn Read,
    progress: &mut dyn FnMut(Progress),
    stop: &dyn Fn() -> bool,
) -> Result<PrepareSummary, PrepareError> {
    let start = Instant::now();
    let FoundSources { mut sources, skipped } =
        FoundSources::find(&options.inputs, options.format)?;
    source::share_one_split(&mut sources);
    let n_texts = sources.iter().filter(|source| source.format == Format::Text).count();
    let is_one_text = n_texts == 1 && sources.len() == 1;
    if let Some(val_fraction) = options.val_fraction
        && !(val_fraction > 0.0 && val_fraction < 1.0)
    {
        return Err(PrepareError::ValFraction { val_fraction });
    }
    let mut folder = new_dataset(&options.folder, options.overwrite)?;

    let is_scanned = is_one_text || options.vocabulary == Vocabulary::Chars;
    let shard = sources.iter().find(|source| source.format == Format::Shard);
    let other = match options.vocabulary {
        Vocabulary::Gpt2 => None,
        Vocabulary::Chars => Some("--chars"),
        Vocabulary::Json => Some("--tokenizer"),
    };
    if let (Some(shard), Some(flag)) = (shard, other) {
        return Err(PrepareError::ShardInOther { path: shard.name.clone(), flag });
    }
    let json = match &options.tokenizer {
        Some(path) if options.vocabulary == Vocabulary::Json => Some(JsonFile::open(path)?),
        _ => None,
    };
    let mut kept = Vec::new(); // removed at the end
    let known_bytes: u64 = sources.iter().filter_map(|source| source.bytes).sum();
    for source in sources.iter_mut().filter(|source| source.bytes.is_none()) {
        // Parquet is not read in order, and a named pipe can be opened only once.
        let is_whole = is_scanned || source.format == Format::Parquet || !source.is_stdin();
        // The default fraction depends on the size, which must be known as for a file.
        let limit = if is_whole {
            u64::MAX
        } else if options.val_fraction.is_none() {
            LARGE_BYTES.saturating_sub(known_bytes)
        } else {
            continue;
        };
        let name = format!("input.{}", kept.len());
        let (draft, is_all) = keep(source, &folder, &name, limit, stdin, progress, stop)?;
        if is_all {
            source.read_from(&draft);
        } else {
            source.begin_with(&draft);
        }
        kept.push(draft);
    }
    let val_fraction = options.val_fraction.unwrap_or_else(|| {
        if is_one_text { 0.1 } else { default_val_fraction(total_bytes(&sources)) }
    });

    let key = if kept.is_empty() { journal_key(options, &sources, val_fraction)? } else { None };
    let journal = Journal::resume(&mut folder, key)?;
    let mut notes =
        ProgressRecorder { folder: &mut folder, journal, clock: Clock::new(options.note_every) };

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
    let scan = if is_scanned { Some(preparation.scan(&mut notes)?) } else { None };

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
    let end_of_text_token = match (&json, end_of_text) {
        // The token is not written between documents, but `transformers` stops at it.
        (Some(file), EndOfText::None) if options.end_of_text_token.is_none() => {
            file.end_of_text(None).ok()
        }
        (Some(file), _) => Some(file.end_of_text(options.end_of_text_token.as_deref())?),
        (None, _) if options.vocabulary == Vocabulary::Gpt2 => Some(EndOfTextToken {
            token: END_OF_TEXT_SPELLING.to_owned(),
            id: END_OF_TEXT,
            origin: EndOfTextOrigin::Gpt2,
        }),
        (None, _) => None,
    };
    let is_marked = end_of_text != EndOfText::None;
    let end_of_text_id = end_of_text_token.as_ref().filter(|_| is_marked).map(|token| token.id);
    let width = TokenWidth::of(vocab_size);
    let need = match (&meta, &scan, preparation.total_bytes) {
        (Some(meta), Some(scan), _) if json.is_none() => {
            Some(DiskNeed::of_characters(scan.characters, meta.len() as u64))
        }
        // The amount of text in a compressed file is not known.
        (_, _, bytes) if sources.iter().all(TextSource::is_plain) => {
            bytes.map(|bytes| DiskNeed::of_tokens(bytes, width.bytes()))
        }
        _ => None,
    };
    let kept_bytes = kept.iter().map(Draft::bytes).sum(); // no longer free
    if let Some(need) = need {
        check_disk(need, options.disk_free_bytes.map(|free| free.saturating_sub(kept_bytes)))?;
    }

    let mut rule = match &scan {
        Some(scan) if is_one_text => SplitRule::position(scan.characters, val_fraction),
        _ => {
            let known = known_documents(&sources, options.invalid)?;
            SplitRule::documents(options.seed, val_fraction, known.as_deref())
        }
    };
    let begun = notes.journal.as_ref().and_then(|journal| journal.encoded);
    let mut outputs = outputs(options.output, width, notes.folder, begun.as_ref())?;
    let resumed_tokens = outputs.tokens();
    let workers = match options.threads {
        Some(threads) => threads.get(),
        None => thread::available_parallelism().map_or(1, NonZeroUsize::get),
    };
    let written = preparation.encode(
        &Encoding { tokenizer: &tokenizer, end_of_text_id, end_of_text, workers },
        &mut rule,
        &mut outputs,
        &mut notes,
    );
    let written = match written {
        Ok(written) => written,
        Err(error) => return Err(notes.ended_by(error)),
    };
    written.check(&rule, scan.as_ref(), val_fraction)?;

    let [train_tokens, val_tokens] =
        [&outputs.train, &outputs.val].map(|draft| draft.bytes() / width.bytes());
    let path = |name: &str| options.folder.join(name);
    let summary = PrepareSummary {
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
            Vocabulary::Chars => 0, // a cut between characters never changes tokens
            Vocabulary::Gpt2 => written.tally.forced_cuts,
            Vocabulary::Json => written.tally.cuts,
        },
        end_of_text: end_of_text_token.clone().filter(|_| is_marked),
        memory_limit_bytes: memory::limit_bytes(
            options.vocabulary,
            json.as_ref().map_or(0, |file| file.bytes.len() as u64),
            workers.min(WORKERS_LIMIT),
            written.tally.held_bytes,
        ),
        skipped,
        resumed_tokens,
        train_shards: match options.output {
            OutputFormat::Bin => None,
            OutputFormat::Shards { tokens } => Some(train_tokens.div_ceil(tokens.get().into())),
        },
        seconds: 0.0,
        train_path: path(&token_name(options.output, width, Split::Train)),
        val_path: path(&token_name(options.output, width, Split::Val)),
        meta_path: meta.as_ref().map(|_| path(META)),
    };
    let mut tables: Vec<(&str, Vec<u8>)> = Vec::new();
    tables.extend(meta.map(|meta| (META, meta)));
    if let Some(file) = json {
        let next_to_it = huggingface::files_for_json(end_of_text_token.as_ref());
        tables.extend(next_to_it.into_iter().map(|(name, text)| (name, text.into_bytes())));
        tables.push((TOKENIZER_FILE, file.bytes));
    }
    drop(kept); // only the dataset is published
    match publish(notes.folder, outputs, &tables, stop) {
        Ok(()) => Ok(PrepareSummary { seconds: start.elapsed().as_secs_f64(), ..summary }),
        Err(error) => Err(notes.ended_by(error)),
    }
}

/// Locks the folder of a dataset, if it has none or one that may be replaced.
fn new_dataset(path: &Path, overwrite: bool) -> Result<LockedFolder, PrepareError> {
    // Checked before anything is written, and again under the folder's lock. A dataset whose
    // publication was interrupted is completed first.
    if !publish::is_pending(&Disk::real(), path)? {
        check_free(path, overwrite)?;
    }
    let folder = LockedFolder::make(path)?;
    check_free(path, overwrite)?;
    Ok(folder)
}

fn check_free(folder: &Path, overwrite: bool) -> Result<(), PrepareError> {
    if overwrite {
        return Ok(());
    }
    let shards = Disk::real().list(folder)?.into_iter().filter_map(|name| name.into_string().ok());
    let shards = shards.filter(|name| is_shard_name(name));
    for name in NAMES.map(str::to_owned).into_iter().chain(shards) {
        let path = folder.join(name);
        if path.exists() {
            return Err(PrepareError::Exists { path });
        }
    }
    Ok(())
}

/// Copies input that can be read only once to a temporary file, up to `limit` bytes or a little
/// more. Also returns whether that is all of it.
fn keep(
    source: &TextSource,
    folder: &LockedFolder,
    name: &str,
    limit: u64,
    stdin: &mut dyn Read,
    progress: &mut dyn FnMut(Progress),
    stop: &dyn Fn() -> bool,
) -> Result<(Draft, bool), PrepareError> {
    let mut draft = Draft::create(folder, name)?;
    let mut opened = source.open(stdin)?;
    let mut chunk = vec![0; 256 << 10];
    let mut is_all = false;
    while draft.bytes() < limit {
        if stop() {
            return Err(PrepareError::Stopped);
        }
        match opened.read(&mut chunk) {
            Ok(0) => {
                is_all = true;
                break;
            }
            Ok(read) => draft.write(&chunk[..read])?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(PrepareError::reading(&source.name, error)),
        }
        let (bytes, total_bytes) = (draft.bytes(), source.bytes);
        progress(Progress { pass: Pass::Keep, bytes, total_bytes, documents: 0, tokens: 0 });
    }
    draft.flush()?;
    Ok((draft, is_all))
}

/// The hashes of all documents, if each is a text file, so that a few documents do not leave a
/// split empty. Only the first piece of each is read.
fn known_documents(
    sources: &[TextSource],
    invalid: Invalid,
) -> Result<Option<Vec<u64>>, PrepareError> {
    let is_file = |source: &TextSource| {
        source.format == Format::Text && source.bytes.is_some() && source.named_split().is_none()
    };
    if sources.len() > KNOWN_LIMIT || !sources.iter().all(is_file) {
        return Ok(None);
    }
    let mut hashes = Vec::new();
    for source in sources {
        let mut nothing = io::empty();
        let plain = compression::plain(source.open(&mut nothing)?);
        let mut plain = plain.map_err(|error| PrepareError::reading(&source.name, error))?;
        let mut pieces = Pieces::new(&mut *plain, &source.name, invalid);
        hashes.push(hash_of(pieces.next()?.unwrap_or_default().as_bytes()));
    }
    Ok(Some(hashes))
}

/// Refuses a disk with less free space than usually needed.
fn check_disk(need: DiskNeed, free_bytes: Option<u64>) -> Result<(), PrepareError> {
    match free_bytes {
        Some(free_bytes) if free_bytes < need.usual_bytes => {
            Err(PrepareError::TooLittleDisk { need, free_bytes })
        }
        _ => Ok(()),
    }
}

/// Syncs the files to the disk and publishes them as the dataset.
fn publish(
    folder: &mut LockedFolder,
    outputs: Outputs,
    tables: &[(&str, Vec<u8>)],
    stop: &dyn Fn() -> bool,
) -> Result<(), PrepareError> {
    outputs.train.finish()?;
    outputs.val.finish()?;
    for (name, bytes) in tables {
        let mut draft = folder.drafts().draft(name, 0)?;
        draft.write(bytes)?;
        draft.finish()?;
    }
    if stop() {
        return Err(PrepareError::Stopped);
    }
    folder.publish()
}

/// Records the progress of a preparation, if it can be continued.
struct ProgressRecorder<'a> {
    folder: &'a mut LockedFolder,
    journal: Option<Journal>,
    clock: Clock,
}

impl ProgressRecorder<'_> {
    fn is_due(&mut self) -> bool {
        self.journal.is_some() && self.clock.is_due()
    }

    fn scanned(&mut self, scan: &Scan) -> Result<(), PrepareError> {
        if !self.is_due() {
            return Ok(());
        }
        let Some(journal) = &mut self.journal else { return Ok(()) };
        let symbols = scan.symbols.sorted()?.into_iter().collect();
        journal.scan = Some(ScanEntry { symbols, characters: scan.characters });
        journal.write(self.folder)
    }

    fn encoded(&mut self, entry: EncodingEntry) -> Result<(), PrepareError> {
        let Some(journal) = &mut self.journal else { return Ok(()) };
        journal.encoded = Some(entry);
        journal.write(self.folder)
    }

    /// After a request to stop or a full disk, keeps everything up to the last entry.
    fn ended_by(&mut self, error: PrepareError) -> PrepareError {
        let is_noted = self.journal.as_ref().is_some_and(|journal| journal.encoded.is_some());
        match error {
            PrepareError::Stopped if is_noted => {
                self.folder.keep_drafts();
                PrepareError::Paused
            }
            PrepareError::DiskFull { .. } if is_noted => {
                self.folder.keep_drafts();
                error
            }
            error => error,
        }
    }
}

/// The drafts of both splits, new or as recorded.
fn outputs(
    output: OutputFormat,
    width: TokenWidth,
    folder: &LockedFolder,
    begun: Option<&EncodingEntry>,
) -> Result<Outputs, PrepareError> {
    let bytes = |split| match (begun, split) {
        (None, _) => 0,
        (Some(begun), Split::Train) => begun.train_bytes,
        (Some(begun), Split::Val) => begun.val_bytes,
    };
    let mut names = Vec::new();
    for split in [Split::Train, Split::Val] {
        match output {
            OutputFormat::Bin => names.push(width.file_name(split).to_owned()),
            OutputFormat::Shards { tokens } => {
                let shard_bytes = u64::from(tokens.get()) * width.bytes();
                names.extend(Shards::names(split, bytes(split), shard_bytes));
            }
        }
    }
    if begun.is_some() {
        folder.retain(&names)?;
    }
    let draft = |split| match output {
        OutputFormat::Bin => {
            let draft = folder.drafts().draft(width.file_name(split), bytes(split))?;
            Ok::<_, PrepareError>(TokenDraft::Plain(draft))
        }
        OutputFormat::Shards { tokens } => {
            let (drafts, tokens) = (folder.drafts(), tokens.get().into());
            Ok(TokenDraft::Shards(Shards::new(drafts, split, width, tokens, bytes(split))?))
        }
    };
    Ok(Outputs { width, train: draft(Split::Train)?, val: draft(Split::Val)? })
}

/// The file of a split, or its first shard.
fn token_name(output: OutputFormat, width: TokenWidth, split: Split) -> String {
    match output {
        OutputFormat::Bin => width.file_name(split).to_owned(),
        OutputFormat::Shards { .. } => Shards::names(split, 1, 1).remove(0),
    }
}

/// Everything that determines the bytes of a dataset, as text; `None` if some input can be read
/// only once.
fn journal_key(
    options: &Options,
    sources: &[TextSource],
    val_fraction: f64,
) -> Result<Option<String>, PrepareError> {
    let mut key = format!(
        "1 {} {:?} {:?} {:?} {:?} {val_fraction} {} {:?} {:?} {:?} {:?}",
        env!("CARGO_PKG_VERSION"),
        options.vocabulary,
        options.end_of_text,
        options.end_of_text_token,
        options.field,
        options.seed,
        options.invalid,
        options.output,
        options.format,
        options.tokenizer,
    );
    let tokenizer = options.tokenizer.iter().map(PathBuf::as_path);
    for path in tokenizer.chain(sources.iter().flat_map(TextSource::paths)) {
        let facts = fs::metadata(path).map_err(|source| PrepareError::reading(path, source))?;
        let modified = facts.modified().ok();
        let since = modified.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let _ = write!(key, "\n{} {} {since:?}", path.display(), facts.len());
    }
    for source in sources {
        let _ = write!(key, "\n{:?} {:?}", source.format, source.split);
    }
    Ok(sources.iter().all(|source| source.bytes.is_some()).then_some(key))
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
        let json =
            Json::open_for_documents(path).map_err(|source| PrepareError::Encode { source })?;
        Ok(Self { path, bytes, json })
    }

    /// The end-of-text token: `named`, or the one that the tokenizer's files determine.
    fn end_of_text(&self, named: Option<&str>) -> Result<EndOfTextToken, PrepareError> {
        let Some(token) = named else {
            let folder = self.path.parent().unwrap_or(Path::new(""));
            let found = self.json.end_of_text(folder);
            return found.ok_or_else(|| PrepareError::NoEndOfText { path: self.path.to_owned() });
        };
        let Some(id) = self.json.id_of(token) else {
            let (path, token) = (self.path.to_owned(), token.to_owned());
            return Err(PrepareError::Encode { source: TokenizerError::NoToken { path, token } });
        };
        Ok(EndOfTextToken { token: token.to_owned(), id, origin: EndOfTextOrigin::Option })
    }
}

/// What both passes share.
struct Preparation<'a> {
    walk: Walk<'a>,
    total_bytes: Option<u64>,
    stdin: &'a mut dyn Read,
    progress: &'a mut dyn FnMut(Progress),
}

/// The result of the first pass.
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
    fn scan(&mut self, notes: &mut ProgressRecorder<'_>) -> Result<Scan, PrepareError> {
        if let Some(ScanEntry { symbols, characters }) =
            notes.journal.as_ref().and_then(|journal| journal.scan.clone())
        {
            let mut scan = Scan { symbols: Symbols::new(), characters };
            scan.symbols.add(&symbols);
            return Ok(scan);
        }
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
        notes.scanned(&scan)?;
        Ok(scan)
    }

    fn encode(
        &mut self,
        encoding: &Encoding<'_>,
        rule: &mut SplitRule,
        outputs: &mut Outputs,
        notes: &mut ProgressRecorder<'_>,
    ) -> Result<EncodedTotals, PrepareError> {
        let begun = notes.journal.as_ref().and_then(|journal| journal.encoded);
        let mut written = begun.map_or_else(EncodedTotals::default, |begun| begun.written);
        if let (Some(begun), SplitRule::Documents(documents)) = (begun, &mut *rule) {
            documents.count = begun.count;
        }
        let (total_bytes, progress) = (self.total_bytes, &mut *self.progress);
        let workers = encoding.workers.min(WORKERS_LIMIT);
        let mark = |at| encoding.end_of_text_id.filter(|_| encoding.end_of_text == at);
        written.tally = thread::scope(|scope| {
            let mut encoder = TokenWriter::start(scope, encoding.tokenizer, workers, outputs);
            let is_val = begun.is_some_and(|begun| begun.is_val);
            let mut split = if is_val { Split::Val } else { Split::Train };
            let mut is_undecided = begun.is_some_and(|begun| begun.is_undecided);
            let start = begun.map_or_else(InputPosition::default, |begun| begun.position);
            let is_marked = mark(EndOfText::Before);
            let is_counted = matches!(rule, SplitRule::Documents(_));
            let begin = |split, written: &mut EncodedTotals, encoder: &mut TokenWriter<'_>| {
                written.val_documents += u64::from(is_counted && split == Split::Val);
                is_marked.map_or(Ok(()), |id| encoder.ids(&[id], split))
            };
            let tally = self.walk.run_from(start, self.stdin, &mut |part, tally, position| {
                match part {
                    DocumentPart::Begin { split: named } => {
                        // If the input does not name a split, the first piece of text determines
                        // it.
                        is_undecided = false;
                        match (&mut *rule, named) {
                            (SplitRule::Position { .. }, _) => {}
                            (SplitRule::Documents(_), Some(named)) => split = named,
                            (SplitRule::Documents(_), None) => is_undecided = true,
                        }
                        if !is_undecided {
                            begin(split, &mut written, &mut encoder)?;
                        }
                    }
                    DocumentPart::Text(text) => {
                        if let (true, SplitRule::Documents(documents)) = (is_undecided, &mut *rule)
                        {
                            is_undecided = false;
                            split = documents.split(hash_of(text.as_bytes()));
                            begin(split, &mut written, &mut encoder)?;
                        }
                        let (head, tail) = match rule {
                            SplitRule::Position { train_characters } if split == Split::Train => {
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
                        if let (true, SplitRule::Documents(documents)) = (is_undecided, &mut *rule)
                        {
                            is_undecided = false;
                            split = documents.split(hash_of(b""));
                            begin(split, &mut written, &mut encoder)?;
                        }
                        if let Some(id) = mark(EndOfText::After) {
                            encoder.ids(&[id], split)?;
                        }
                    }
                    DocumentPart::Tokens { ids, is_first, split: named } => {
                        if let (true, SplitRule::Documents(documents)) = (is_first, &mut *rule) {
                            split = named.unwrap_or_else(|| {
                                documents.split(hash_of(bytemuck::cast_slice(ids)))
                            });
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
                if notes.is_due() {
                    let (train_bytes, val_bytes) = encoder.sync()?;
                    let count = match rule {
                        SplitRule::Documents(documents) => documents.count,
                        SplitRule::Position { .. } => DocumentCount::default(),
                    };
                    notes.encoded(EncodingEntry {
                        position,
                        written,
                        count,
                        is_val: split == Split::Val,
                        is_undecided,
                        train_bytes,
                        val_bytes,
                    })?;
                }
                Ok(())
            })?;
            encoder.finish()?;
            Ok::<_, PrepareError>(tally)
        })?;
        Ok(written)
    }
}

/// Splits a text after some number of characters.
fn split_at(text: &str, characters: u64) -> (&str, &str) {
    match usize::try_from(characters).ok().and_then(|n| text.char_indices().nth(n)) {
        Some((at, _)) => text.split_at(at),
        None => (text, ""),
    }
}

impl EncodedTotals {
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

    /// Checks that both passes read the same text, and that both splits have text.
    fn check(
        &self,
        rule: &SplitRule,
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
            SplitRule::Documents(documents) => documents.empty(split, self.characters()),
            SplitRule::Position { .. } => {
                let (documents, characters) = (self.tally.documents, self.characters());
                let computed = None;
                PrepareError::EmptySplit { split, documents, characters, val_fraction, computed }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_with_less_than_the_usual_need_is_refused() {
        let exact = DiskNeed::of_characters(100, 50);
        assert_eq!((exact.usual_bytes, exact.most_bytes), (250, 250));
        assert!(check_disk(exact, Some(250)).is_ok() && check_disk(exact, None).is_ok());
        let error = check_disk(exact, Some(249)).unwrap_err().to_string();
        assert_eq!(error, "the dataset needs 250 bytes, the disk has 249 bytes free");
        let error = check_disk(DiskNeed::of_tokens(1000, 2), Some(499)).unwrap_err();
        let error = error.to_string();
        assert_eq!(
            error,
            "the dataset needs about 500 and at most 2000 bytes, the disk has 499 bytes free"
        );
    }
}
