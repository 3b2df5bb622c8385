//! The two passes over the input: the first collects what must be known before writing, the second
//! encodes.

use std::{io::Read, thread};

use fitgpt_data::Split;

use super::{
    EndOfText, Pass, PrepareError, Progress, Vocabulary,
    encode::{Outputs, TokenWriter, WORKERS_LIMIT},
    journal::{EncodedTotals, EncodingEntry, ProgressRecorder, ScanEntry},
    split::{DocumentCount, SplitRule, hash_of},
    symbols::Symbols,
    vocabulary::DatasetVocabulary,
    walk::{DocumentPart, InputPosition, Tally, Walk},
};

/// What both passes share.
pub(super) struct Passes<'a> {
    pub(super) walk: Walk<'a>,
    pub(super) total_bytes: Option<u64>,
    pub(super) stdin: &'a mut dyn Read,
    pub(super) progress: &'a mut dyn FnMut(Progress),
}

/// The result of the first pass.
#[derive(Debug)]
pub(super) struct Scan {
    /// Empty unless the vocabulary is one of characters.
    pub(super) symbols: Symbols,
    pub(super) characters: u64,
}

impl Passes<'_> {
    /// The first pass, or what the journal has of it. Only a vocabulary of characters needs them.
    pub(super) fn scan(
        &mut self,
        vocabulary: Vocabulary,
        notes: &mut ProgressRecorder<'_>,
    ) -> Result<Scan, PrepareError> {
        let mut scan = Scan { symbols: Symbols::new(), characters: 0 };
        if let Some(ScanEntry { symbols, characters }) = notes.scan() {
            scan.symbols.add(symbols);
            scan.characters = *characters;
            return Ok(scan);
        }
        let total_bytes = self.total_bytes;
        let progress = &mut *self.progress;
        self.walk.run(self.stdin, &mut |part, &Tally { bytes, documents, .. }| {
            if let DocumentPart::Text(text) = part {
                if vocabulary == Vocabulary::Chars {
                    scan.symbols.add(text);
                }
                scan.characters += text.chars().count() as u64;
                progress(Progress { pass: Pass::Scan, bytes, total_bytes, documents, tokens: 0 });
            }
            Ok(())
        })?;
        if notes.is_due() {
            let symbols = scan.symbols.sorted()?.into_iter().collect();
            notes.scanned(ScanEntry { symbols, characters: scan.characters })?;
        }
        Ok(scan)
    }

    /// The second pass, from where the journal has it.
    pub(super) fn encode(
        &mut self,
        vocabulary: &DatasetVocabulary,
        workers: usize,
        rule: &mut SplitRule,
        outputs: &mut Outputs,
        notes: &mut ProgressRecorder<'_>,
    ) -> Result<EncodedTotals, PrepareError> {
        let begun = notes.encoding().copied();
        let start = begun.map_or_else(InputPosition::default, |begun| begun.position);
        let (total_bytes, progress) = (self.total_bytes, &mut *self.progress);
        thread::scope(|scope| {
            let workers = workers.min(WORKERS_LIMIT);
            let encoder = TokenWriter::start(scope, &vocabulary.tokenizer, workers, outputs);
            let mut encoding = Encoding::new(vocabulary, rule, encoder, begun.as_ref());
            let tally = self.walk.run_from(start, self.stdin, &mut |part, tally, position| {
                encoding.part(part)?;
                if matches!(part, DocumentPart::Text(_) | DocumentPart::Tokens { .. }) {
                    let &Tally { bytes, documents, .. } = tally;
                    let tokens = encoding.encoder.tokens();
                    progress(Progress {
                        pass: Pass::Encode,
                        bytes,
                        total_bytes,
                        documents,
                        tokens,
                    });
                }
                if notes.is_due() {
                    notes.encoded(encoding.entry(position)?)?;
                }
                Ok(())
            })?;
            encoding.finish(tally)
        })
    }
}

/// The second pass at some position of the input.
struct Encoding<'r, 'w> {
    rule: &'r mut SplitRule,
    encoder: TokenWriter<'w>,
    mark: Option<u32>,
    end_of_text: EndOfText,
    written: EncodedTotals,
    /// The split of the current part.
    split: Split,
    /// Whether the first piece of the current document determines its split.
    is_undecided: bool,
}

impl<'r, 'w> Encoding<'r, 'w> {
    fn new(
        vocabulary: &DatasetVocabulary,
        rule: &'r mut SplitRule,
        encoder: TokenWriter<'w>,
        begun: Option<&EncodingEntry>,
    ) -> Self {
        if let (Some(begun), SplitRule::Documents(documents)) = (begun, &mut *rule) {
            documents.count = begun.count;
        }
        let is_val = begun.is_some_and(|begun| begun.is_val);
        Self {
            rule,
            encoder,
            mark: vocabulary.mark().map(|token| token.id),
            end_of_text: vocabulary.end_of_text,
            written: begun.map_or_else(EncodedTotals::default, |begun| begun.written),
            split: if is_val { Split::Val } else { Split::Train },
            is_undecided: begun.is_some_and(|begun| begun.is_undecided),
        }
    }

    fn part(&mut self, part: DocumentPart<'_>) -> Result<(), PrepareError> {
        match part {
            DocumentPart::Begin { split } => self.begin(split),
            DocumentPart::Text(text) => {
                self.decide(text.as_bytes())?;
                self.text(text)
            }
            DocumentPart::End => {
                self.decide(b"")?;
                self.mark(EndOfText::After)
            }
            DocumentPart::Tokens { ids, is_first, split } => self.tokens(ids, is_first, split),
        }
    }

    /// A document of a source that belongs to the split `named`, or to none.
    fn begin(&mut self, named: Option<Split>) -> Result<(), PrepareError> {
        self.is_undecided = false;
        match (&*self.rule, named) {
            (SplitRule::Position { .. }, _) => {}
            (SplitRule::Documents(_), Some(named)) => self.split = named,
            (SplitRule::Documents(_), None) => {
                self.is_undecided = true;
                return Ok(());
            }
        }
        self.begin_in_split()
    }

    /// Determines the split of the document by its first piece, if that is still open.
    fn decide(&mut self, first: &[u8]) -> Result<(), PrepareError> {
        match &mut *self.rule {
            SplitRule::Documents(documents) if self.is_undecided => {
                self.is_undecided = false;
                self.split = documents.split(hash_of(first));
                self.begin_in_split()
            }
            _ => Ok(()),
        }
    }

    fn begin_in_split(&mut self) -> Result<(), PrepareError> {
        self.count_document();
        self.mark(EndOfText::Before)
    }

    /// Counts a held-out document; the end of a single text is none.
    fn count_document(&mut self) {
        let is_counted = matches!(self.rule, SplitRule::Documents(_));
        self.written.val_documents += u64::from(is_counted && self.split == Split::Val);
    }

    /// Writes the end-of-text token, if `place` is its place.
    fn mark(&mut self, place: EndOfText) -> Result<(), PrepareError> {
        match self.mark {
            Some(id) if self.end_of_text == place => self.encoder.ids(&[id], self.split),
            _ => Ok(()),
        }
    }

    /// A piece of text; a single text changes its split in the middle of one.
    fn text(&mut self, text: &str) -> Result<(), PrepareError> {
        let (head, tail) = match &*self.rule {
            SplitRule::Position { train_characters } if self.split == Split::Train => {
                split_at(text, *train_characters - self.written.train_characters)
            }
            _ => (text, ""),
        };
        if !head.is_empty() {
            self.encoder.text(head, self.split)?;
            self.written.add(head, self.split);
        }
        if !tail.is_empty() {
            self.split = Split::Val;
            self.encoder.text(tail, self.split)?;
            self.written.add(tail, self.split);
        }
        Ok(())
    }

    /// Tokens of a shard.
    fn tokens(
        &mut self,
        ids: &[u32],
        is_first: bool,
        named: Option<Split>,
    ) -> Result<(), PrepareError> {
        if let (true, SplitRule::Documents(documents)) = (is_first, &mut *self.rule) {
            let drawn = || documents.split(hash_of(bytemuck::cast_slice(ids)));
            self.split = named.unwrap_or_else(drawn);
            self.count_document();
        }
        self.encoder.ids(ids, self.split)?;
        self.written.ids[usize::from(self.split == Split::Val)] += ids.len() as u64;
        Ok(())
    }

    /// What the journal needs to continue after `position`. Syncs everything before it.
    fn entry(&mut self, position: InputPosition) -> Result<EncodingEntry, PrepareError> {
        let (train_bytes, val_bytes) = self.encoder.sync()?;
        let count = match &*self.rule {
            SplitRule::Documents(documents) => documents.count,
            SplitRule::Position { .. } => DocumentCount::default(),
        };
        Ok(EncodingEntry {
            position,
            written: self.written,
            count,
            is_val: self.split == Split::Val,
            is_undecided: self.is_undecided,
            train_bytes,
            val_bytes,
        })
    }

    fn finish(self, tally: Tally) -> Result<EncodedTotals, PrepareError> {
        self.encoder.finish()?;
        Ok(EncodedTotals { tally, ..self.written })
    }
}

/// Splits a text after some number of characters.
fn split_at(text: &str, characters: u64) -> (&str, &str) {
    if characters >= text.len() as u64 {
        return (text, ""); // counting would take longer than anything else here
    }
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

    pub(super) fn characters(&self) -> u64 {
        self.train_characters + self.val_characters
    }

    /// Checks that both passes read the same text, and that both splits have text.
    pub(super) fn check(
        &self,
        rule: &SplitRule,
        scanned: Option<u64>,
        val_fraction: f64,
    ) -> Result<(), PrepareError> {
        if scanned.is_some_and(|characters| characters != self.characters()) {
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
