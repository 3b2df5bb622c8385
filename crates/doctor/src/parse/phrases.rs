//! Many phrases, all found in one pass over the text.

use aho_corasick::{AhoCorasick, MatchKind};

use super::squeezed::{Occurrence, Passage};

/// Phrases without white space and in lower case, each with a value.
pub(super) struct Phrases<T> {
    table: Vec<(&'static str, T)>,
    automaton: AhoCorasick,
    longest: usize,
}

impl<T> Phrases<T> {
    pub(super) fn new(phrases: impl IntoIterator<Item = (&'static str, T)>) -> Self {
        let table: Vec<_> = phrases.into_iter().collect();
        let is_squeezed = |c: char| !c.is_whitespace() && !c.is_ascii_uppercase();
        debug_assert!(table.iter().all(|(words, _)| words.chars().all(is_squeezed)));
        let words = table.iter().map(|(words, _)| words);
        let longest = words.clone().map(|words| words.len()).max().unwrap_or(0);
        let automaton = AhoCorasick::builder().match_kind(MatchKind::Standard).build(words);
        Self { automaton: automaton.expect("the phrases are few and short"), table, longest }
    }

    /// The value of every phrase that occurs in `text`.
    pub(super) fn values(&self, text: &str) -> impl Iterator<Item = &T> {
        let found = self.automaton.find_overlapping_iter(text);
        found.map(|found| &self.table[found.pattern().as_usize()].1)
    }

    /// Every occurrence that begins in `passage`, with its phrase and value.
    pub(super) fn find<'a>(
        &self,
        passage: Passage<'a>,
    ) -> impl Iterator<Item = (&'static str, &T, Occurrence<'a>)> {
        let found = self.automaton.find_overlapping_iter(passage.text(self.longest));
        found.filter_map(move |found| {
            let (words, value) = &self.table[found.pattern().as_usize()];
            Some((*words, value, passage.occurrence(found.range())?))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{super::squeezed::Squeezed, *};

    #[test]
    fn overlapping_phrases_are_all_found_with_their_context() {
        let phrases = Phrases::new([("outof", 1), ("fmemo", 2), ("ofmemory", 3)]);
        let mut squeezed = Squeezed::default();
        squeezed.push("ran out of memory é", |_| {});
        let mut found = Vec::new();
        squeezed.finish(|passage| {
            found.extend(phrases.find(passage).map(|(words, value, place)| {
                (words, *value, place.at, place.before.to_owned(), place.after.to_owned())
            }));
        });
        found.sort();
        let expected = [
            ("fmemo", 2, 7, "ranouto".to_owned(), "ryé".to_owned()),
            ("ofmemory", 3, 6, "ranout".to_owned(), "é".to_owned()),
            ("outof", 1, 3, "ran".to_owned(), "memoryé".to_owned()),
        ];
        assert_eq!(found, expected);
    }
}
