//! The input as one stream of documents, in pieces.

use std::{
    borrow::Cow,
    cell::Cell,
    io::{self, Read},
};

use fitgpt_data::{Split, Tokens, tokenizer::END_OF_TEXT};
use fitgpt_files::formats::{compression, parquet::TextColumn};
use serde::{Deserialize, Serialize};

use super::{
    Format, Invalid, PrepareError,
    cut::{PIECE_BYTES, cut},
    lines::Lines,
    pieces::Pieces,
    source::TextSource,
};

/// A part of the input. Documents do not nest: `Begin`, pieces of text, `End`; or `Tokens`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DocumentPart<'a> {
    Begin {
        /// The split that its source belongs to, if it belongs to one.
        split: Option<Split>,
    },
    Text(&'a str),
    End,
    /// Tokens of a shard, its end-of-text tokens included.
    Tokens {
        ids: &'a [u32],
        /// Whether a document starts with them.
        is_first: bool,
        /// The split that the file's name states.
        split: Option<Split>,
    },
}

/// A position in the input: a source and how many of its parts have been passed on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct InputPosition {
    pub(super) source: usize,
    pub(super) parts: u64,
    /// The totals at the start of the source.
    tally: Tally,
}

/// Totals of what has been read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Tally {
    /// Bytes of the files, compressed or not.
    pub(super) bytes: u64,
    /// Documents that have ended.
    pub(super) documents: u64,
    /// Cuts inside a document.
    pub(super) cuts: u64,
    /// Cuts at which GPT-2's tokens may differ from those of the whole.
    pub(super) forced_cuts: u64,
    /// The longest line of JSONL or page of Parquet.
    pub(super) held_bytes: u64,
}

/// How many tokens of a shard are read at once.
const SHARD_TOKENS: usize = 32 << 10;

/// What to do with a document that does not end with a line break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LastLine {
    /// Documents are unchanged.
    AsItIs,
    /// It gets one.
    Ended,
}

/// Reads all sources in order. Two walks give the same parts if the files do not change.
pub(super) struct Walk<'a> {
    pub(super) sources: &'a [TextSource],
    /// The field of JSONL, or the column of Parquet.
    pub(super) field: &'a str,
    pub(super) invalid: Invalid,
    pub(super) last_line: LastLine,
    pub(super) stop: &'a dyn Fn() -> bool,
}

type PositionedVisitor<'e> =
    &'e mut dyn FnMut(DocumentPart<'_>, &Tally, InputPosition) -> Result<(), PrepareError>;
type PartVisitor<'e> = &'e mut dyn FnMut(DocumentPart<'_>, &Tally) -> Result<(), PrepareError>;

impl Walk<'_> {
    /// Calls `each` with every part in order.
    pub(super) fn run(
        &self,
        stdin: &mut dyn Read,
        each: PartVisitor,
    ) -> Result<Tally, PrepareError> {
        self.run_from(InputPosition::default(), stdin, &mut |part, tally, _| each(part, tally))
    }

    /// Calls `each` with every part after `start` in order and the position after it. Sources
    /// before `start` are not opened; parts before it are read and skipped.
    pub(super) fn run_from(
        &self,
        start: InputPosition,
        stdin: &mut dyn Read,
        each: PositionedVisitor<'_>,
    ) -> Result<Tally, PrepareError> {
        let mut tally = start.tally;
        let read_bytes = Cell::new(tally.bytes);
        for (index, source) in self.sources.iter().enumerate().skip(start.source) {
            let mut position = InputPosition { source: index, parts: 0, tally };
            let n_skipped = if index == start.source { start.parts } else { 0 };
            let each: PartVisitor = &mut |part, tally| {
                position.parts += 1;
                if position.parts <= n_skipped { Ok(()) } else { each(part, tally, position) }
            };
            let read = match source.format {
                Format::Text | Format::Jsonl => {
                    self.stream(source, stdin, &read_bytes, &mut tally, each)
                }
                Format::Parquet => self.parquet(source, &read_bytes, &mut tally, each),
                Format::Shard => self.shard(source, &read_bytes, &mut tally, each),
            };
            match read {
                // Report the request to stop rather than an error that it caused.
                Err(_) if (self.stop)() => return Err(PrepareError::Stopped),
                read => read?,
            }
            if position.parts < n_skipped {
                return Err(PrepareError::Changed);
            }
            tally.bytes = read_bytes.get();
        }
        tally.bytes = read_bytes.get();
        Ok(tally)
    }

    /// A source that is read from start to end, compressed or not.
    fn stream(
        &self,
        source: &TextSource,
        stdin: &mut dyn Read,
        bytes: &Cell<u64>,
        tally: &mut Tally,
        each: PartVisitor,
    ) -> Result<(), PrepareError> {
        let reading = CountedReader { source: source.open(stdin)?, bytes, stop: self.stop };
        let plain = compression::plain(reading);
        let mut plain = plain.map_err(|error| PrepareError::reading(&source.name, error))?;
        match source.format {
            Format::Jsonl => self.jsonl(&mut *plain, bytes, source, tally, each),
            _ => self.text(&mut *plain, bytes, source, tally, each),
        }
    }

    /// A file of text is one document.
    fn text(
        &self,
        reading: &mut dyn Read,
        bytes: &Cell<u64>,
        source: &TextSource,
        tally: &mut Tally,
        each: PartVisitor,
    ) -> Result<(), PrepareError> {
        let mut pieces = Pieces::new(reading, &source.name, self.invalid);
        let mut last = None;
        each(DocumentPart::Begin { split: source.named_split() }, tally)?;
        while let Some(piece) = pieces.next()? {
            tally.bytes = bytes.get();
            tally.cuts += u64::from(last.is_some());
            last = piece.chars().next_back();
            each(DocumentPart::Text(piece), tally)?;
        }
        tally.forced_cuts += pieces.forced_cuts();
        self.end(last, tally, each)
    }

    /// A JSONL file has one document per line.
    fn jsonl(
        &self,
        reading: &mut dyn Read,
        bytes: &Cell<u64>,
        source: &TextSource,
        tally: &mut Tally,
        each: PartVisitor,
    ) -> Result<(), PrepareError> {
        let mut lines = Lines::new(reading, &source.name, self.field, self.invalid);
        let split = source.named_split();
        while let Some(text) = lines.next()? {
            tally.bytes = bytes.get();
            tally.held_bytes = tally.held_bytes.max(text.len() as u64);
            self.document(&text, split, tally, each)?;
        }
        tally.held_bytes = tally.held_bytes.max(lines.longest_bytes());
        Ok(())
    }

    /// A Parquet file has one document per row; null rows are skipped.
    fn parquet(
        &self,
        source: &TextSource,
        bytes: &Cell<u64>,
        tally: &mut Tally,
        each: PartVisitor,
    ) -> Result<(), PrepareError> {
        let path = || source.name.clone();
        let failed = |source| PrepareError::Parquet { path: path(), source };
        let start = bytes.get();
        let mut column = TextColumn::open(source.open_file()?, self.field).map_err(failed)?;
        let split = source.named_split();
        let mut row = 0;
        while let Some(text) = column.next_text().map_err(failed)? {
            if (self.stop)() {
                return Err(PrepareError::Stopped);
            }
            row += 1;
            let text = match (str::from_utf8(text), self.invalid) {
                (Ok(text), _) => Cow::Borrowed(text),
                (Err(_), Invalid::Replace) => String::from_utf8_lossy(text),
                (Err(_), Invalid::Refuse) => {
                    return Err(PrepareError::RowNotUtf8 { path: path(), row });
                }
            };
            self.document(&text, split, tally, each)?;
            bytes.set(start + column.read_bytes());
            tally.bytes = bytes.get();
        }
        tally.held_bytes = tally.held_bytes.max(column.held_bytes());
        // The other columns count as read.
        bytes.set(start + source.bytes.unwrap_or_default());
        Ok(())
    }

    /// A shard is documents that start with GPT-2's end-of-text token.
    fn shard(
        &self,
        source: &TextSource,
        bytes: &Cell<u64>,
        tally: &mut Tally,
        each: PartVisitor,
    ) -> Result<(), PrepareError> {
        let failed = |error| PrepareError::Shard { source: error };
        let tokens = Tokens::open(source.file()).map_err(failed)?;
        let split = source.named_split();
        let start = bytes.get();
        let mut chunk = vec![0; SHARD_TOKENS];
        let mut position = 0;
        while position < tokens.len() {
            if (self.stop)() {
                return Err(PrepareError::Stopped);
            }
            let n = (tokens.len() - position).min(SHARD_TOKENS as u64) as usize;
            let ids = &mut chunk[..n];
            tokens.read(position, ids).map_err(failed)?;
            let mut rest = &*ids;
            while !rest.is_empty() {
                let is_first = rest[0] == END_OF_TEXT || (position == 0 && rest.len() == n);
                tally.documents += u64::from(is_first);
                let next = rest[1..].iter().position(|&id| id == END_OF_TEXT);
                let (ids, after) = rest.split_at(next.map_or(rest.len(), |next| next + 1));
                each(DocumentPart::Tokens { ids, is_first, split }, tally)?;
                rest = after;
            }
            position += n as u64;
            tally.bytes = start + 2 * position;
        }
        bytes.set(start + source.bytes.unwrap_or_default());
        Ok(())
    }

    /// A document that is in memory.
    fn document(
        &self,
        text: &str,
        split: Option<Split>,
        tally: &mut Tally,
        each: PartVisitor,
    ) -> Result<(), PrepareError> {
        each(DocumentPart::Begin { split }, tally)?;
        let mut rest = text;
        while !rest.is_empty() {
            let cut = cut(rest, PIECE_BYTES);
            tally.cuts += u64::from(cut.at < rest.len());
            tally.forced_cuts += u64::from(!cut.is_safe);
            each(DocumentPart::Text(&rest[..cut.at]), tally)?;
            rest = &rest[cut.at..];
        }
        self.end(text.chars().next_back(), tally, each)
    }

    fn end(
        &self,
        last: Option<char>,
        tally: &mut Tally,
        each: PartVisitor,
    ) -> Result<(), PrepareError> {
        let is_open = last.is_some_and(|last| last != '\n');
        if is_open && self.last_line == LastLine::Ended {
            each(DocumentPart::Text("\n"), tally)?;
        }
        tally.documents += 1;
        each(DocumentPart::End, tally)
    }
}

/// Counts the bytes read, and fails once the caller wants to stop.
struct CountedReader<'a> {
    source: Box<dyn Read + 'a>,
    bytes: &'a Cell<u64>,
    stop: &'a dyn Fn() -> bool,
}

impl Read for CountedReader<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if (self.stop)() {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        let read = self.source.read(bytes)?;
        self.bytes.set(self.bytes.get() + read as u64);
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use std::{fmt::Write, fs};

    use super::*;
    use crate::{Input, source::FoundSources};

    /// The parts of some files, `[` and `]` around each document.
    fn walked(files: &[(&str, &str)], last_line: LastLine) -> (String, Tally) {
        let folder = tempfile::tempdir().unwrap();
        let mut inputs = Vec::new();
        for (name, text) in files {
            fs::write(folder.path().join(name), text).unwrap();
            inputs.push(Input::Path(folder.path().join(name)));
        }
        let sources = FoundSources::find(&inputs, None).unwrap().sources;
        let walk = Walk {
            sources: &sources,
            field: "text",
            invalid: Invalid::Refuse,
            last_line,
            stop: &|| false,
        };
        let mut walked = String::new();
        let each: PartVisitor = &mut |part, _| {
            match part {
                DocumentPart::Begin { .. } => walked.push('['),
                DocumentPart::Text(text) => walked.push_str(text),
                DocumentPart::End => walked.push(']'),
                DocumentPart::Tokens { ids, is_first, .. } => {
                    walked.push_str(if is_first { "<" } else { "+" });
                    write!(walked, "{ids:?}").unwrap();
                }
            }
            Ok(())
        };
        let tally = walk.run(&mut io::empty(), each).unwrap();
        (walked, tally)
    }

    const FILES: [(&str, &str); 4] = [
        ("b.txt", "one\n"),
        ("a.txt", "two"),
        ("c.jsonl", "{\"text\": \"three\"}\n{\"text\": \"\"}\n"),
        ("d.md", ""),
    ];

    #[test]
    fn files_and_lines_are_documents_in_the_order_they_are_named() {
        let (text, tally) = walked(&FILES, LastLine::AsItIs);
        assert_eq!(text, "[one\n][two][three][][]");
        assert_eq!(
            tally,
            Tally { held_bytes: tally.held_bytes, bytes: 38, documents: 5, ..Tally::default() }
        );
    }

    #[test]
    fn a_missing_last_line_break_is_added_if_asked_for() {
        assert_eq!(walked(&FILES, LastLine::Ended).0, "[one\n][two\n][three\n][][]");
    }

    #[test]
    fn a_long_line_is_given_in_pieces() {
        let text = "many words ".repeat(100_000);
        let line = format!("{{\"text\": \"{text}\"}}");
        let (text_of, tally) = walked(&[("a.jsonl", &line)], LastLine::AsItIs);
        assert_eq!(text_of, format!("[{text}]"));
        assert_eq!((tally.documents, tally.cuts, tally.forced_cuts), (1, 4, 0));
        let (_, tally) = walked(
            &[("a.jsonl", &format!("{{\"text\": \"{}\"}}", "a".repeat(3 * PIECE_BYTES)))],
            LastLine::AsItIs,
        );
        assert_eq!(tally.forced_cuts, 2);
    }
}
