//! The input of one preparation: what was found, and copies of what can be read only once.

use std::io::{self, Read};

use fitgpt_files::formats::compression;

use super::{
    EndOfText, Format, Invalid, Options, Pass, PrepareError, Progress, SkippedFile, Vocabulary,
    default_val_fraction,
    draft::{Draft, LockedFolder},
    pieces::Pieces,
    source::{self, FoundSources, TextSource},
    split::{SplitRule, hash_of},
};

/// Above this size the default fraction for validation is constant.
const LARGE_BYTES: u64 = 1_000_000_000;

/// With more files than this no split is empty by chance, and reading their beginnings takes long.
const KNOWN_LIMIT: usize = 10_000;

/// What both passes read.
pub(super) struct TextInput<'a> {
    pub(super) sources: Vec<TextSource>,
    /// Files in folders that are not read.
    pub(super) skipped: Vec<SkippedFile>,
    /// Whether it is a single text, which is split in two, rather than documents.
    pub(super) is_one_text: bool,
    options: &'a Options,
}

impl<'a> TextInput<'a> {
    /// Finds what `options` name.
    pub(super) fn find(options: &'a Options) -> Result<Self, PrepareError> {
        let FoundSources { mut sources, skipped } =
            FoundSources::find(&options.inputs, options.format)?;
        source::share_one_split(&mut sources);
        let is_one_text = matches!(&sources[..], [only] if only.format == Format::Text);
        Ok(Self { sources, skipped, is_one_text, options })
    }

    /// Refuses shards of GPT-2's tokens in a dataset with another vocabulary.
    pub(super) fn refuse_other_shards(&self) -> Result<(), PrepareError> {
        let flag = match self.options.vocabulary {
            Vocabulary::Gpt2 => return Ok(()),
            Vocabulary::Chars => "--chars",
            Vocabulary::Json => "--tokenizer",
        };
        match self.sources.iter().find(|source| source.format == Format::Shard) {
            Some(shard) => Err(PrepareError::ShardInOther { path: shard.name.clone(), flag }),
            None => Ok(()),
        }
    }

    /// Whether the text must be known before it is encoded: its characters or its length.
    pub(super) fn is_scanned(&self) -> bool {
        self.is_one_text || self.options.vocabulary == Vocabulary::Chars
    }

    /// Where the end-of-text token goes.
    pub(super) fn end_of_text(&self) -> EndOfText {
        let usual = if self.is_one_text { EndOfText::None } else { EndOfText::After };
        self.options.end_of_text.unwrap_or(usual)
    }

    /// The length of the input, if it is known.
    pub(super) fn bytes(&self) -> Option<u64> {
        source::total_bytes(&self.sources)
    }

    /// The length of the input if its text is no longer; the amount of text in a compressed file is
    /// not known.
    pub(super) fn plain_bytes(&self) -> Option<u64> {
        self.bytes().filter(|_| self.sources.iter().all(TextSource::is_plain))
    }

    /// The fraction of the text that is held out. By default it depends on the length of the input.
    pub(super) fn val_fraction(&self) -> f64 {
        self.options.val_fraction.unwrap_or_else(|| {
            if self.is_one_text { 0.1 } else { default_val_fraction(self.bytes()) }
        })
    }

    /// Copies to `folder` what can be read only once and must be read twice, or whose length must
    /// be known.
    pub(super) fn keep(
        &mut self,
        folder: &LockedFolder,
        stdin: &mut dyn Read,
        progress: &mut dyn FnMut(Progress),
        stop: &dyn Fn() -> bool,
    ) -> Result<Vec<Draft>, PrepareError> {
        let mut kept = Vec::new();
        let known_bytes: u64 = self.sources.iter().filter_map(|source| source.bytes).sum();
        let is_scanned = self.is_scanned();
        for source in self.sources.iter_mut().filter(|source| source.bytes.is_none()) {
            // Parquet is not read in order, and a named pipe can be opened only once.
            let is_whole = is_scanned || source.format == Format::Parquet || !source.is_stdin();
            // The default fraction depends on the size, which must be known as for a file.
            let limit = if is_whole {
                u64::MAX
            } else if self.options.val_fraction.is_none() {
                LARGE_BYTES.saturating_sub(known_bytes)
            } else {
                continue;
            };
            let draft = Draft::create(folder, &format!("input.{}", kept.len()))?;
            let (draft, is_all) = keep(source, draft, limit, stdin, progress, stop)?;
            if is_all {
                source.read_from(&draft);
            } else {
                source.begin_with(&draft);
            }
            kept.push(draft);
        }
        Ok(kept)
    }

    /// How text is divided; `characters` is the length of the text, if it was scanned.
    pub(super) fn split_rule(&self, characters: Option<u64>) -> Result<SplitRule, PrepareError> {
        match characters {
            Some(characters) if self.is_one_text => {
                Ok(SplitRule::position(characters, self.val_fraction()))
            }
            _ => {
                let known = known_documents(&self.sources, self.options.invalid)?;
                let (seed, val_fraction) = (self.options.seed, self.val_fraction());
                Ok(SplitRule::documents(seed, val_fraction, known.as_deref()))
            }
        }
    }
}

/// Copies a source to `draft`, up to `limit` bytes or a little more. Also returns whether that is
/// all of it.
fn keep(
    source: &TextSource,
    mut draft: Draft,
    limit: u64,
    stdin: &mut dyn Read,
    progress: &mut dyn FnMut(Progress),
    stop: &dyn Fn() -> bool,
) -> Result<(Draft, bool), PrepareError> {
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
