//! Patterns of Python code with gaps, matched token by token.
//!
//! `$name` matches one name, `$$name` any sequence of tokens with balanced brackets, including an
//! empty one. `model($$args)` matches both `model( X,Y )  # note` and `model(X, Y)`; a string
//! matches with any quotes.

use std::ops::Range;

use super::python::{PythonFile, SIGNS, SourceTokenKind};

/// The tokens that a pattern matched, and those in its gaps.
#[derive(Debug, Default)]
pub(super) struct PatternMatch<'p> {
    pub(super) tokens: Range<usize>,
    gaps: Vec<(&'p str, Range<usize>)>,
}

impl PatternMatch<'_> {
    /// The tokens in a gap of the pattern.
    pub(super) fn gap(&self, name: &str) -> Range<usize> {
        let gap = self.gaps.iter().find(|(gap, _)| *gap == name);
        gap.map(|(_, tokens)| tokens.clone()).expect("every caller names a gap of its pattern")
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum PatternPart<'p> {
    Same(&'p str),
    Name(&'p str),
    Run(&'p str),
}

impl PythonFile<'_> {
    /// Matches a whole statement.
    pub(super) fn matches<'p>(
        &self,
        statement: usize,
        pattern: &'p str,
    ) -> Option<PatternMatch<'p>> {
        let tokens = self.statements[statement].tokens.clone();
        self.matches_tokens(tokens, pattern)
    }

    /// Matches some tokens from the first to the last.
    pub(super) fn matches_tokens<'p>(
        &self,
        tokens: Range<usize>,
        pattern: &'p str,
    ) -> Option<PatternMatch<'p>> {
        let mut found = PatternMatch { tokens: tokens.clone(), gaps: Vec::new() };
        let end = self.follow(&parts(pattern), tokens.clone(), MatchEnd::End, &mut found.gaps)?;
        debug_assert_eq!(end, tokens.end);
        Some(found)
    }

    /// The first match of a pattern in a statement.
    pub(super) fn find<'p>(&self, statement: usize, pattern: &'p str) -> Option<PatternMatch<'p>> {
        let Range { start, end } = self.statements[statement].tokens;
        let parts = parts(pattern);
        (start..end).find_map(|first| {
            let mut gaps = Vec::new();
            let last = self.follow(&parts, first..end, MatchEnd::Anywhere, &mut gaps)?;
            Some(PatternMatch { tokens: first..last, gaps })
        })
    }

    /// The end of `parts` if they match from the first of `tokens`.
    fn follow<'p>(
        &self,
        parts: &[PatternPart<'p>],
        tokens: Range<usize>,
        until: MatchEnd,
        gaps: &mut Vec<(&'p str, Range<usize>)>,
    ) -> Option<usize> {
        let Some((part, others)) = parts.split_first() else {
            let is_end = until == MatchEnd::Anywhere || tokens.is_empty();
            return is_end.then_some(tokens.start);
        };
        let Range { start, end } = tokens;
        match *part {
            PatternPart::Same(text) => {
                let same = start < end && unquoted(self.token(start)) == unquoted(text);
                same.then(|| self.follow(others, start + 1..end, until, gaps))?
            }
            PatternPart::Name(name) => {
                if start == end || self.tokens[start].kind != SourceTokenKind::Name {
                    return None;
                }
                gaps.push((name, start..start + 1));
                let rest = self.follow(others, start + 1..end, until, gaps);
                rest.or_else(|| {
                    gaps.pop();
                    None
                })
            }
            PatternPart::Run(name) => {
                let mut stop = start;
                loop {
                    gaps.push((name, start..stop));
                    if let Some(last) = self.follow(others, stop..end, until, gaps) {
                        return Some(last);
                    }
                    gaps.pop();
                    stop = self.after(stop..end)?;
                }
            }
        }
    }

    /// One past the first token, or past the bracket that closes it; `None` at a closing bracket.
    fn after(&self, tokens: Range<usize>) -> Option<usize> {
        let mut depth = 0_usize;
        for index in tokens {
            match self.token(index) {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth = depth.checked_sub(1)?,
                _ => {}
            }
            if depth == 0 {
                return Some(index + 1);
            }
        }
        None
    }

    /// The arguments in the tokens between a call's brackets; a comma at the end adds none.
    pub(super) fn arguments(&self, tokens: Range<usize>) -> Vec<Range<usize>> {
        let mut arguments = Vec::new();
        let (mut start, mut at) = (tokens.start, tokens.start);
        while let Some(next) = self.after(at..tokens.end) {
            if self.token(at) == "," {
                arguments.push(start..at);
                start = next;
            }
            at = next;
        }
        arguments.push(start..tokens.end);
        arguments.retain(|argument| !argument.is_empty());
        arguments
    }
}

#[derive(Clone, Copy, PartialEq)]
enum MatchEnd {
    End,
    Anywhere,
}

/// Splits a pattern into Python's tokens and gaps.
fn parts(pattern: &str) -> Vec<PatternPart<'_>> {
    let mut parts = Vec::new();
    let mut rest = pattern.trim_start();
    while let Some(first) = rest.chars().next() {
        let is_name = |c: char| c.is_alphanumeric() || c == '_';
        let gap = rest.trim_start_matches('$');
        let dollars = rest.len() - gap.len();
        let length = match first {
            '\'' => 2 + rest[1..].find('\'').expect("a pattern's strings are closed"),
            '$' => dollars + gap.find(|c| !is_name(c)).unwrap_or(gap.len()),
            c if is_name(c) => rest.find(|c| !is_name(c)).unwrap_or(rest.len()),
            _ => SIGNS.iter().find(|sign| rest.starts_with(**sign)).map_or(1, |sign| sign.len()),
        };
        let (word, after) = rest.split_at(length);
        parts.push(match dollars {
            0 => PatternPart::Same(word),
            1 => PatternPart::Name(&word[1..]),
            _ => PatternPart::Run(&word[2..]),
        });
        rest = after.trim_start();
    }
    parts
}

fn unquoted(text: &str) -> &str {
    let between = |quote| text.strip_prefix(quote)?.strip_suffix(quote);
    between('\'').or_else(|| between('"')).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::{super::File, *};

    /// The text in gap `a` if the first statement of `text` matches.
    fn gap(text: &str, pattern: &str) -> Option<String> {
        let source = PythonFile::read(File::Train, text).unwrap();
        let found = source.matches(0, pattern)?;
        Some(source.text_of(found.gap("a")).to_owned())
    }

    #[test]
    fn a_gap_takes_a_name_or_a_run_with_closed_brackets() {
        assert_eq!(gap("loss = model( X,Y ) # note", "$a = model($$b)").unwrap(), "loss");
        assert_eq!(gap("loss = model( X,Y )", "$l = model($$a)").unwrap(), "X,Y");
        assert_eq!(gap("f(g(1), [2])", "f($$a)").unwrap(), "g(1), [2]");
        assert_eq!(gap("f()", "f($$a)").unwrap(), "");
        assert_eq!(gap("x = 1", "x = $a"), None, "a number is no name");
    }

    #[test]
    fn a_whole_statement_matches_and_no_part_of_it() {
        assert_eq!(gap("f(a).b", "f($$a)"), None);
        assert_eq!(gap("f(a)(b)", "f($$a)"), None);
        assert_eq!(gap("x == f(a)", "x = $$a"), None);
        assert_eq!(gap("f(a); g()", "f($$a)"), None);
    }

    #[test]
    fn strings_are_the_same_in_any_quotes() {
        assert!(gap("losses[\"val\"] < b", "losses['val'] < $a").is_some());
        assert!(gap("losses['train'] < b", "losses['val'] < $a").is_none());
    }

    #[test]
    fn a_pattern_is_found_inside_a_statement() {
        let source = PythonFile::read(File::Train, "x = f(g(1, h), 2)").unwrap();
        let found = source.find(0, "g($$a)").unwrap();
        assert_eq!(source.text_of(found.tokens.clone()), "g(1, h)");
        let arguments = source.arguments(found.gap("a"));
        let texts: Vec<_> = arguments.into_iter().map(|tokens| source.text_of(tokens)).collect();
        assert_eq!(texts, ["1", "h"]);
    }

    #[test]
    fn arguments_are_split_at_their_own_commas_only() {
        let source = PythonFile::read(File::Train, "f(a, (b, c), d=[1, 2],)").unwrap();
        let found = source.matches(0, "f($$a)").unwrap();
        assert_eq!(source.arguments(found.gap("a")).len(), 3);
    }
}
