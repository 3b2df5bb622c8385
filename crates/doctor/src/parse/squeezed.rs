//! The whole log as one text without white space, searched through a sliding window.
//!
//! Terminals, forums and mail programs wrap messages at different columns. Without white space
//! and in lower case the text is always the same, so messages are searched for here and not in
//! single lines.

use std::ops::Range;

/// Context that is kept before and after a match.
const REACH: usize = 4096;
/// The text is searched whenever this much has been added.
const BATCH: usize = 32 * 1024;

/// An offset in the text without white space.
pub(super) type Offset = u64;

/// The window.
#[derive(Debug, Default)]
pub(super) struct Squeezed {
    text: String,
    start: Offset,
    searched: usize, // everything before this has been searched
}

impl Squeezed {
    /// The offset of the next character.
    pub(super) fn end(&self) -> Offset {
        self.start + self.text.len() as u64
    }

    /// Adds a line, and calls `find` when enough text has been collected.
    pub(super) fn push(&mut self, line: &str, find: impl FnMut(Passage<'_>)) {
        self.text
            .extend(line.chars().filter(|c| !c.is_whitespace()).map(|c| c.to_ascii_lowercase()));
        if self.text.len() > self.searched + BATCH + 2 * REACH {
            let to = floor(&self.text, self.text.len() - REACH);
            self.search(to, find);
        }
    }

    /// Searches what is there, and leaves a gap: nothing after it is near.
    pub(super) fn gap(&mut self, find: impl FnMut(Passage<'_>)) {
        const WIDTH: Offset = 1 << 20;
        self.search(self.text.len(), find);
        self.start += self.text.len() as Offset + WIDTH;
        self.text.clear();
        self.searched = 0;
    }

    /// Searches the rest.
    pub(super) fn finish(mut self, find: impl FnMut(Passage<'_>)) {
        self.search(self.text.len(), find);
    }

    fn search(&mut self, to: usize, mut find: impl FnMut(Passage<'_>)) {
        find(Passage { text: &self.text, start: self.start, from: self.searched, to });
        let keep = floor(&self.text, to.saturating_sub(REACH));
        self.text.drain(..keep);
        self.start += keep as u64;
        self.searched = to - keep;
    }
}

/// A section of the text to search. Matches must begin inside it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Passage<'a> {
    text: &'a str,
    start: Offset,
    from: usize,
    to: usize,
}

/// A match with its context.
#[derive(Clone, Copy, Debug)]
pub(super) struct Occurrence<'a> {
    pub(super) at: Offset,
    pub(super) before: &'a str,
    pub(super) after: &'a str,
}

impl<'a> Passage<'a> {
    /// The section, and enough text after it for a phrase of `longest` bytes.
    pub(super) fn text(self, longest: usize) -> &'a str {
        &self.text[self.from..floor(self.text, (self.to + longest).min(self.text.len()))]
    }

    /// The context of a range of [`text`](Self::text); `None` if it begins after the section.
    pub(super) fn occurrence(self, range: Range<usize>) -> Option<Occurrence<'a>> {
        let Self { text, start, from, to } = self;
        let [at, end] = [from + range.start, from + range.end];
        (at < to).then(|| Occurrence {
            at: start + at as u64,
            before: &text[floor(text, at.saturating_sub(REACH))..at],
            after: &text[end..floor(text, (end + REACH).min(text.len()))],
        })
    }
}

/// The last character boundary at or before `index`.
fn floor(text: &str, index: usize) -> usize {
    (0..=index).rev().find(|i| text.is_char_boundary(*i)).unwrap_or(0)
}

/// The first `length` bytes, or a little less.
pub(super) fn first_of(text: &str, length: usize) -> &str {
    let end = (0..=length.min(text.len())).rev().find(|i| text.is_char_boundary(*i));
    &text[..end.unwrap_or(0)]
}

/// The last `length` bytes, or a little less.
pub(super) fn last_of(text: &str, length: usize) -> &str {
    let start =
        (text.len().saturating_sub(length)..=text.len()).find(|i| text.is_char_boundary(*i));
    &text[start.unwrap_or(text.len())..]
}

#[cfg(test)]
mod tests {
    use super::{super::phrases::Phrases, *};

    #[test]
    fn words_are_found_once_across_window_and_line_boundaries() {
        let phrases = Phrases::new([("outofmemory", ())]);
        let offsets = |p: Passage<'_>| phrases.find(p).map(|(_, (), f)| f.at).collect::<Vec<_>>();
        let filler = "é padding that says nothing\n".repeat(97);
        let mut squeezed = Squeezed::default();
        let mut found = Vec::new();
        for _ in 0..200 {
            squeezed.push(&filler, |p| found.extend(offsets(p)));
            for piece in ["out o", "f mem", "ory"] {
                squeezed.push(piece, |p| found.extend(offsets(p)));
            }
        }
        assert!(squeezed.text.len() < 4 * BATCH);
        squeezed.finish(|p| found.extend(offsets(p)));
        assert_eq!(found.len(), 200);
        assert!(found.is_sorted());
        found.dedup();
        assert_eq!(found.len(), 200);
    }
}
