//! The whole log as one text without white space, searched through a sliding window.
//!
//! Terminals, forums and mail programs wrap messages at different columns. Without white space
//! and in lower case the text is always the same, so messages are searched for here and not in
//! single lines.

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
    /// The section and the text after it.
    pub(super) fn text(self) -> &'a str {
        &self.text[self.from..]
    }

    /// Whether it contains `word`.
    pub(super) fn holds(self, word: &str) -> bool {
        self.text[self.from..].contains(word)
    }

    /// Every occurrence of `words`.
    pub(super) fn find(self, words: &'static str) -> impl Iterator<Item = Occurrence<'a>> {
        let Self { text, start, from, to } = self;
        text[from..]
            .match_indices(words)
            .map(move |(at, _)| from + at)
            .take_while(move |at| *at < to)
            .map(move |at| {
                let end = at + words.len();
                Occurrence {
                    at: start + at as u64,
                    before: &text[floor(text, at.saturating_sub(REACH))..at],
                    after: &text[end..floor(text, (end + REACH).min(text.len()))],
                }
            })
    }
}

/// The last character boundary at or before `index`.
fn floor(text: &str, index: usize) -> usize {
    (0..=index).rev().find(|i| text.is_char_boundary(*i)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_once_across_window_and_line_boundaries() {
        let filler = "é padding that says nothing\n".repeat(97);
        let mut squeezed = Squeezed::default();
        let mut found = Vec::new();
        for _ in 0..200 {
            squeezed.push(&filler, |p| found.extend(p.find("outofmemory").map(|f| f.at)));
            for piece in ["out o", "f mem", "ory"] {
                squeezed.push(piece, |p| found.extend(p.find("outofmemory").map(|f| f.at)));
            }
        }
        assert!(squeezed.text.len() < 4 * BATCH);
        squeezed.finish(|p| found.extend(p.find("outofmemory").map(|f| f.at)));
        assert_eq!(found.len(), 200);
        assert!(found.is_sorted());
        found.dedup();
        assert_eq!(found.len(), 200);
    }
}
