//! The input as one stream of documents, in pieces.

use std::{
    cell::Cell,
    io::{self, Read},
    path::Path,
};

use super::{
    Format, Invalid, PrepareError,
    cut::{PIECE_BYTES, cut},
    lines::Lines,
    pieces::Pieces,
    source::Source,
};

/// A part of the input. Documents do not nest: `Begin`, pieces of text, `End`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part<'a> {
    Begin,
    Text(&'a str),
    End,
}

/// What has been read so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    /// Of the files as they are.
    pub(super) bytes: u64,
    /// Documents that have ended.
    pub(super) documents: u64,
    /// Cuts inside a document at which tokens may differ from those of the whole.
    pub(super) forced_cuts: u64,
}

/// What becomes of a document whose last line has no end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LastLine {
    /// Documents are given as they are.
    AsItIs,
    /// A document that does not end with a line break gets one.
    Ended,
}

/// A reading of all sources. Two of them give the same parts, if nobody changes the files.
pub(super) struct Walk<'a> {
    pub(super) sources: &'a [Source],
    pub(super) field: &'a str,
    pub(super) invalid: Invalid,
    pub(super) last_line: LastLine,
    pub(super) stop: &'a dyn Fn() -> bool,
}

type Each<'e> = &'e mut dyn FnMut(Part<'_>, &Tally) -> Result<(), PrepareError>;

impl Walk<'_> {
    /// Tells every part in order.
    pub(super) fn run(&self, stdin: &mut dyn Read, each: Each) -> Result<Tally, PrepareError> {
        let read_bytes = Cell::new(0);
        let mut tally = Tally::default();
        for source in self.sources {
            let mut opened = source.open(stdin)?;
            let mut reading = Reading { source: &mut *opened, bytes: &read_bytes, stop: self.stop };
            let told = match source.format {
                Format::Text => self.text(&mut reading, &source.name, &mut tally, each),
                Format::Jsonl => self.jsonl(&mut reading, &source.name, &mut tally, each),
            };
            match told {
                // How a reading ended says less than that it was asked to end.
                Err(_) if (self.stop)() => return Err(PrepareError::Stopped),
                told => told?,
            }
        }
        tally.bytes = read_bytes.get();
        Ok(tally)
    }

    /// A file of text is one document.
    fn text(
        &self,
        reading: &mut Reading<'_>,
        name: &Path,
        tally: &mut Tally,
        each: Each,
    ) -> Result<(), PrepareError> {
        let bytes = reading.bytes;
        let mut pieces = Pieces::new(reading, name, self.invalid);
        let mut last = None;
        each(Part::Begin, tally)?;
        while let Some(piece) = pieces.next()? {
            tally.bytes = bytes.get();
            last = piece.chars().next_back();
            each(Part::Text(piece), tally)?;
        }
        tally.forced_cuts += pieces.forced_cuts();
        self.end(last, tally, each)
    }

    /// A file of JSONL is a document a line.
    fn jsonl(
        &self,
        reading: &mut Reading<'_>,
        name: &Path,
        tally: &mut Tally,
        each: Each,
    ) -> Result<(), PrepareError> {
        let bytes = reading.bytes;
        let mut lines = Lines::new(reading, name, self.field, self.invalid);
        while let Some(text) = lines.next()? {
            tally.bytes = bytes.get();
            each(Part::Begin, tally)?;
            let mut rest = &*text;
            while !rest.is_empty() {
                let cut = cut(rest, PIECE_BYTES);
                tally.forced_cuts += u64::from(!cut.is_safe);
                each(Part::Text(&rest[..cut.at]), tally)?;
                rest = &rest[cut.at..];
            }
            self.end(text.chars().next_back(), tally, each)?;
        }
        Ok(())
    }

    fn end(&self, last: Option<char>, tally: &mut Tally, each: Each) -> Result<(), PrepareError> {
        let is_open = last.is_some_and(|last| last != '\n');
        if is_open && self.last_line == LastLine::Ended {
            each(Part::Text("\n"), tally)?;
        }
        tally.documents += 1;
        each(Part::End, tally)
    }
}

/// Counts what is read, and fails once the caller wants to stop.
struct Reading<'a> {
    source: &'a mut dyn Read,
    bytes: &'a Cell<u64>,
    stop: &'a dyn Fn() -> bool,
}

impl Read for Reading<'_> {
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
    use std::fs;

    use super::*;
    use crate::prepare::Input;

    /// What is told of some files, `[` and `]` around each document.
    fn told(files: &[(&str, &str)], last_line: LastLine) -> (String, Tally) {
        let folder = tempfile::tempdir().unwrap();
        let mut inputs = Vec::new();
        for (name, text) in files {
            fs::write(folder.path().join(name), text).unwrap();
            inputs.push(Input::Path(folder.path().join(name)));
        }
        let sources = Source::find(&inputs, None).unwrap();
        let walk = Walk {
            sources: &sources,
            field: "text",
            invalid: Invalid::Refuse,
            last_line,
            stop: &|| false,
        };
        let mut told = String::new();
        let each: Each = &mut |part, _| {
            match part {
                Part::Begin => told.push('['),
                Part::Text(text) => told.push_str(text),
                Part::End => told.push(']'),
            }
            Ok(())
        };
        let tally = walk.run(&mut io::empty(), each).unwrap();
        (told, tally)
    }

    const FILES: [(&str, &str); 4] = [
        ("b.txt", "one\n"),
        ("a.txt", "two"),
        ("c.jsonl", "{\"text\": \"three\"}\n{\"text\": \"\"}\n"),
        ("d.md", ""),
    ];

    #[test]
    fn files_and_lines_are_documents_in_the_order_they_are_named() {
        let (text, tally) = told(&FILES, LastLine::AsItIs);
        assert_eq!(text, "[one\n][two][three][][]");
        assert_eq!(tally, Tally { bytes: 38, documents: 5, forced_cuts: 0 });
    }

    #[test]
    fn an_open_last_line_is_ended_where_that_is_asked_for() {
        assert_eq!(told(&FILES, LastLine::Ended).0, "[one\n][two\n][three\n][][]");
    }

    #[test]
    fn a_long_line_is_told_in_pieces() {
        let text = "many words ".repeat(100_000);
        let line = format!("{{\"text\": \"{text}\"}}");
        let (told, tally) = told(&[("a.jsonl", &line)], LastLine::AsItIs);
        assert_eq!(told, format!("[{text}]"));
        assert_eq!((tally.documents, tally.forced_cuts), (1, 0));
        let (_, tally) = self::told(
            &[("a.jsonl", &format!("{{\"text\": \"{}\"}}", "a".repeat(3 * PIECE_BYTES)))],
            LastLine::AsItIs,
        );
        assert_eq!(tally.forced_cuts, 2);
    }
}
