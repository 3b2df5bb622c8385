//! Edits of a text, and the state of a site that a patch changes.

use std::ops::Range;

use super::{Anchor, File, python::PythonFile};

/// Bytes that are replaced; an empty range inserts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SourceEdit {
    at: Range<usize>,
    with: String,
}

/// The state of one site of a patch.
#[derive(Debug)]
pub(super) enum Site {
    /// Found, and to be changed.
    Change(File, Vec<SourceEdit>),
    /// Already changed.
    Already,
    /// Missing, or in a form that could only be changed by guessing.
    Missing(File, Anchor),
}

impl PythonFile<'_> {
    pub(super) fn change(&self, edits: impl Into<Vec<SourceEdit>>) -> Site {
        Site::Change(self.file, edits.into())
    }

    pub(super) fn missing(&self, looked_for: Anchor) -> Site {
        Site::Missing(self.file, looked_for)
    }

    /// Replaces tokens.
    pub(super) fn replace(&self, tokens: Range<usize>, with: impl Into<String>) -> SourceEdit {
        let (first, last) = (&self.tokens[tokens.start], &self.tokens[tokens.end - 1]);
        SourceEdit { at: first.bytes.start..last.bytes.end, with: with.into() }
    }

    /// Inserts text after a token, on its line.
    pub(super) fn append(&self, token: usize, text: impl Into<String>) -> SourceEdit {
        let end = self.tokens[token].bytes.end;
        SourceEdit { at: end..end, with: text.into() }
    }

    /// Inserts lines before a statement, indented as it is.
    pub(super) fn lines_before(&self, statement: usize, lines: &[impl AsRef<str>]) -> SourceEdit {
        let start = self.statements[statement].lines.start;
        SourceEdit { at: start..start, with: self.lines(self.indent(statement), lines) }
    }

    /// Inserts lines after a statement and its block, indented as the statement is.
    pub(super) fn lines_after(&self, statement: usize, lines: &[impl AsRef<str>]) -> SourceEdit {
        let end = self.block_lines(statement).end;
        let text = self.lines(self.indent(statement), lines);
        if self.text[..end].ends_with('\n') {
            return SourceEdit { at: end..end, with: text };
        }
        let newline = self.newline(); // the last line has no line ending: add one before our lines and none after
        let with = format!("{newline}{}", text.strip_suffix(newline).unwrap_or(&text));
        SourceEdit { at: end..end, with }
    }

    /// Replaces the lines of a statement, indented as it is.
    pub(super) fn replace_lines(&self, statement: usize, lines: &[impl AsRef<str>]) -> SourceEdit {
        let at = self.statements[statement].lines.clone();
        let mut with = self.lines(self.indent(statement), lines);
        if !self.text[at.clone()].ends_with('\n') {
            with.truncate(with.len() - self.newline().len());
        }
        SourceEdit { at, with }
    }

    /// Lines of the source, without the indent that they share with the first.
    pub(super) fn unindented(&self, lines: Range<usize>) -> Vec<String> {
        let text = &self.text[lines];
        let indent = &text[..text.len() - text.trim_start_matches([' ', '\t']).len()];
        let bare = |line: &str| line.strip_prefix(indent).unwrap_or(line).to_owned();
        text.lines().map(|line| bare(line.trim_end_matches('\r'))).collect()
    }

    fn lines(&self, indent: &str, lines: &[impl AsRef<str>]) -> String {
        let mut text = String::new();
        for line in lines.iter().map(AsRef::as_ref) {
            if !line.is_empty() {
                text.push_str(indent);
            }
            text.push_str(line);
            text.push_str(self.newline());
        }
        text
    }
}

/// The text after its edits; two edits at one offset keep their order.
pub(super) fn edited(text: &str, mut edits: Vec<SourceEdit>) -> String {
    edits.sort_by_key(|edit| edit.at.start);
    let mut result = String::with_capacity(text.len());
    let mut at = 0;
    for SourceEdit { at: range, with } in edits {
        assert!(at <= range.start, "edits of one patch do not overlap");
        result.push_str(&text[at..range.start]);
        result.push_str(&with);
        at = range.end;
    }
    result + &text[at..]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> PythonFile<'_> {
        PythonFile::read(File::Train, text).unwrap()
    }

    #[test]
    fn edits_at_one_offset_keep_their_order() {
        let text = "a = 1\nb = 2\n";
        let source = source(text);
        let edits = vec![
            source.lines_before(1, &["d"]),
            source.lines_after(0, &["c"]),
            source.replace(2..3, "3"),
        ];
        assert_eq!(edited(text, edits), "a = 3\nd\nc\nb = 2\n");
    }

    #[test]
    fn inserted_lines_take_the_indent_and_the_line_ends_of_the_file() {
        let text = "if a:\r\n\tb\r\n";
        let source = source(text);
        let edit = source.lines_before(1, &["c", "", "d"]);
        assert_eq!(edited(text, vec![edit]), "if a:\r\n\tc\r\n\r\n\td\r\n\tb\r\n");
    }

    #[test]
    fn a_last_line_without_a_line_ending_stays_without() {
        let text = "a\nb";
        let source = source(text);
        assert_eq!(edited(text, vec![source.lines_after(1, &["c"])]), "a\nb\nc");
        assert_eq!(edited(text, vec![source.replace_lines(1, &["c", "d"])]), "a\nc\nd");
    }

    #[test]
    fn lines_lose_only_the_indent_of_the_first() {
        let text = "if a:\n    b = [\n  1,\n        2,\n    ]\n";
        let source = source(text);
        let lines = source.unindented(source.block_lines(1));
        assert_eq!(lines, ["b = [", "  1,", "    2,", "]"]);
    }
}
