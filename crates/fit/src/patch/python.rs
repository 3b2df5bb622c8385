//! The parts of Python that patches need: tokens, statements and their nesting.
//!
//! Comments and whitespace are not tokens, so they never prevent a match; every token has its byte
//! range, so an edit changes nothing else.

use std::ops::Range;

use super::{File, PatchError, SyntaxFault};

/// The kind of a token; patterns compare names and strings differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SourceTokenKind {
    Name,
    Number,
    Text,
    Sign,
}

#[derive(Clone, Debug)]
pub(super) struct SourceToken {
    pub(super) kind: SourceTokenKind,
    pub(super) bytes: Range<usize>,
}

/// A logical line: a simple statement, or the head of a block.
#[derive(Clone, Debug)]
pub(super) struct Statement {
    /// Indices of its tokens.
    pub(super) tokens: Range<usize>,
    /// Bytes of its lines, including the last line feed and a trailing comment.
    pub(super) lines: Range<usize>,
    /// The statement whose block contains it.
    pub(super) parent: Option<usize>,
    /// One past the last statement of its block.
    pub(super) end: usize,
    column: usize,
}

/// A file's text with its tokens and statements.
#[derive(Debug)]
pub(super) struct PythonFile<'a> {
    pub(super) file: File,
    pub(super) text: &'a str,
    pub(super) tokens: Vec<SourceToken>,
    pub(super) statements: Vec<Statement>,
}

impl<'a> PythonFile<'a> {
    pub(super) fn read(file: File, text: &'a str) -> Result<Self, PatchError> {
        let mut lexer =
            SourceLexer { text, at: 0, tokens: Vec::new(), open: Vec::new(), ends: vec![] };
        lexer.run().map_err(|(at, what)| {
            let line = 1 + text[..at].matches('\n').count();
            PatchError::NotPython { file, line, what }
        })?;
        let statements = nest(text, &lexer.tokens, &lexer.ends);
        Ok(Self { file, text, tokens: lexer.tokens, statements })
    }

    /// The source text of some tokens.
    pub(super) fn text_of(&self, tokens: Range<usize>) -> &'a str {
        match (self.tokens.get(tokens.start), self.tokens[..tokens.end].last()) {
            (Some(first), Some(last)) if !tokens.is_empty() => {
                &self.text[first.bytes.start..last.bytes.end]
            }
            _ => "",
        }
    }

    pub(super) fn token(&self, index: usize) -> &'a str {
        &self.text[self.tokens[index].bytes.clone()]
    }

    /// The whitespace before a statement.
    pub(super) fn indent(&self, statement: usize) -> &'a str {
        let Statement { tokens, lines, .. } = &self.statements[statement];
        &self.text[lines.start..self.tokens[tokens.start].bytes.start]
    }

    /// The indentation of a block relative to its head.
    pub(super) fn indent_of_block(&self, head: usize) -> &'a str {
        let child = (head + 1 < self.statements[head].end).then_some(head + 1);
        let indent = child.and_then(|child| self.indent(child).strip_prefix(self.indent(head)));
        indent.filter(|indent| !indent.is_empty()).unwrap_or("    ")
    }

    /// The statements directly in a block, or at the top of the file.
    pub(super) fn children(&self, parent: Option<usize>) -> impl Iterator<Item = usize> {
        let range = parent.map_or(0..self.statements.len(), |p| p + 1..self.statements[p].end);
        range.filter(move |&index| self.statements[index].parent == parent)
    }

    /// Every statement of a block, at any depth.
    pub(super) fn inside(&self, head: usize) -> Range<usize> {
        head + 1..self.statements[head].end
    }

    /// The bytes of a statement with all of its block.
    pub(super) fn block_lines(&self, head: usize) -> Range<usize> {
        let last = &self.statements[self.statements[head].end - 1];
        self.statements[head].lines.start..last.lines.end
    }

    /// How often `name` occurs in some tokens; an attribute after a dot does not count.
    pub(super) fn mentions(&self, tokens: Range<usize>, name: &str) -> usize {
        let is_field = |index: usize| index > 0 && self.token(index - 1) == ".";
        tokens.filter(|&index| self.token(index) == name && !is_field(index)).count()
    }

    /// The line ending of this file.
    pub(super) fn newline(&self) -> &'static str {
        let first = self.text.find('\n').unwrap_or(0);
        if self.text[..first].ends_with('\r') { "\r\n" } else { "\n" }
    }
}

/// Finds the lines, the parent and the end of the block of every statement.
fn nest(text: &str, tokens: &[SourceToken], ends: &[usize]) -> Vec<Statement> {
    let mut statements: Vec<Statement> = Vec::with_capacity(ends.len());
    let mut open: Vec<usize> = Vec::new();
    let mut start = 0;
    for (index, &end) in ends.iter().enumerate() {
        let (first, last) = (tokens[start].bytes.start, tokens[end - 1].bytes.end);
        let line_start = text[..first].rfind('\n').map_or(0, |feed| feed + 1);
        let line_end = text[last..].find('\n').map_or(text.len(), |feed| last + feed + 1);
        let column = width(&text[line_start..first]);
        while open.last().is_some_and(|&outer| statements[outer].column >= column) {
            let closed = open.pop().expect("just seen");
            statements[closed].end = index;
        }
        statements.push(Statement {
            tokens: start..end,
            lines: line_start..line_end,
            parent: open.last().copied(),
            end: ends.len(),
            column,
        });
        open.push(index);
        start = end;
    }
    statements
}

/// Python's column: a tab goes to the next multiple of eight.
fn width(indent: &str) -> usize {
    indent.chars().fold(0, |column, c| if c == '\t' { column / 8 * 8 + 8 } else { column + 1 })
}

/// Operators of several characters.
pub(super) const SIGNS: [&str; 24] = [
    "**=", "//=", ">>=", "<<=", "...", "**", "//", ">>", "<<", "==", "!=", "<=", ">=", "->", ":=",
    "+=", "-=", "*=", "/=", "%=", "@=", "&=", "|=", "^=",
];

struct SourceLexer<'a> {
    text: &'a str,
    at: usize,
    tokens: Vec<SourceToken>,
    /// Open brackets, as token indices.
    open: Vec<usize>,
    /// For every statement, one past its last token.
    ends: Vec<usize>,
}

type LexError = (usize, SyntaxFault);

impl SourceLexer<'_> {
    fn run(&mut self) -> Result<(), LexError> {
        while let Some(&byte) = self.rest().first() {
            match byte {
                b'\n' => {
                    self.at += 1;
                    if self.open.is_empty() {
                        self.end_statement();
                    }
                }
                b' ' | b'\t' | b'\r' | b'\x0c' => self.at += 1,
                b'\\' if matches!(self.rest(), [_, b'\n', ..] | [_, b'\r', b'\n', ..]) => {
                    self.at += 1 + self.rest()[1..].iter().take_while(|&&b| b == b'\r').count() + 1;
                }
                b'#' => self.skip_while(|b| b != b'\n'),
                b'"' | b'\'' => self.string(self.at)?,
                b'0'..=b'9' => self.word(SourceTokenKind::Number, |b| is_name(b) || b == b'.'),
                _ if self.text[self.at..].starts_with('\u{feff}') => {
                    self.at += '\u{feff}'.len_utf8();
                }
                _ if is_name(byte) => self.name_or_string()?,
                _ => self.sign()?,
            }
        }
        if let Some(&open) = self.open.last() {
            return Err((self.tokens[open].bytes.start, SyntaxFault::OpenBracket));
        }
        self.end_statement();
        Ok(())
    }

    fn rest(&self) -> &[u8] {
        &self.text.as_bytes()[self.at..]
    }

    fn skip_while(&mut self, holds: impl Fn(u8) -> bool) {
        self.at += self.rest().iter().take_while(|&&byte| holds(byte)).count();
    }

    fn push(&mut self, kind: SourceTokenKind, start: usize) {
        self.tokens.push(SourceToken { kind, bytes: start..self.at });
    }

    fn word(&mut self, kind: SourceTokenKind, holds: impl Fn(u8) -> bool) {
        let start = self.at;
        self.skip_while(holds);
        self.push(kind, start);
    }

    fn end_statement(&mut self) {
        if self.tokens.len() > self.ends.last().copied().unwrap_or(0) {
            self.ends.push(self.tokens.len());
        }
    }

    /// A name, or the letters before a string such as `f'…'`.
    fn name_or_string(&mut self) -> Result<(), LexError> {
        let start = self.at;
        self.skip_while(is_name);
        let is_prefix = self.text[start..self.at].bytes().all(|b| b"rRbBuUfFtT".contains(&b));
        if is_prefix && self.at - start <= 2 && matches!(self.rest().first(), Some(b'"' | b'\'')) {
            return self.string(start);
        }
        self.push(SourceTokenKind::Name, start);
        Ok(())
    }

    fn string(&mut self, start: usize) -> Result<(), LexError> {
        let quote = self.rest()[0];
        let is_long = self.rest().starts_with(&[quote; 3]);
        let closing = &[quote; 3][..if is_long { 3 } else { 1 }];
        self.at += closing.len();
        loop {
            match self.rest() {
                rest if rest.starts_with(closing) => break,
                [] => return Err((start, SyntaxFault::OpenString)),
                [b'\n', ..] if !is_long => return Err((start, SyntaxFault::OpenString)),
                [b'\\', b'\r', b'\n', ..] => self.at += 3,
                [b'\\', _, ..] => self.at += 2,
                _ => self.at += 1,
            }
        }
        self.at += closing.len();
        self.push(SourceTokenKind::Text, start);
        Ok(())
    }

    fn sign(&mut self) -> Result<(), LexError> {
        let start = self.at;
        let rest = &self.text[start..];
        let long = SIGNS.iter().find(|sign| rest.starts_with(**sign));
        self.at += long.map_or(1, |sign| sign.len());
        match &rest[..self.at - start] {
            "(" | "[" | "{" => self.open.push(self.tokens.len()),
            sign @ (")" | "]" | "}") => {
                let open = self.open.pop().map(|open| &self.text[self.tokens[open].bytes.clone()]);
                if open.map(closing_of) != Some(sign) {
                    return Err((start, SyntaxFault::StrayBracket));
                }
            }
            _ => {}
        }
        self.push(SourceTokenKind::Sign, start);
        Ok(())
    }
}

fn closing_of(open: &str) -> &'static str {
    match open {
        "(" => ")",
        "[" => "]",
        _ => "}",
    }
}

/// Letters of every script: bytes above ASCII.
fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heads(text: &str) -> Vec<(String, Option<usize>)> {
        let source = PythonFile::read(File::Train, text).unwrap();
        let statements = source.statements.iter();
        statements.map(|s| (source.text_of(s.tokens.clone()).to_owned(), s.parent)).collect()
    }

    fn fault(text: &str) -> PatchError {
        PythonFile::read(File::Model, text).unwrap_err()
    }

    #[test]
    fn a_statement_has_the_block_that_contains_it_as_its_parent() {
        let found = heads("if a: # why\n\n    # a note\n    b = 1\n    for c in d:\n\te\nf\n");
        let parents: Vec<_> = found.iter().map(|(_, parent)| *parent).collect();
        assert_eq!(parents, [None, Some(0), Some(0), Some(2), None]);
        assert_eq!(found[0].0, "if a:");
    }

    #[test]
    fn brackets_strings_and_backslashes_continue_a_statement() {
        for text in
            ["a = (1,\n2)\nb", "a = '''x\n# ( \\''' y'''\nb", "a = 1 + \\\n  2\nb", "a = '\\\n'\nb"]
        {
            assert_eq!(heads(text).len(), 2, "{text}");
            assert_eq!(heads(&text.replace('\n', "\r\n")).len(), 2, "{text}");
        }
    }

    #[test]
    fn prefixes_belong_to_strings_and_names_do_not() {
        let source = PythonFile::read(File::Train, "f'a' rb\"b\" fr c'd' größe = 1e5").unwrap();
        let tokens: Vec<_> = (0..source.tokens.len()).map(|i| source.token(i)).collect();
        assert_eq!(tokens, ["f'a'", "rb\"b\"", "fr", "c", "'d'", "größe", "=", "1e5"]);
    }

    #[test]
    fn invalid_python_is_refused_with_its_line() {
        let cases = [
            ("a\nb = 'c\n", 2, SyntaxFault::OpenString),
            ("a = '''", 1, SyntaxFault::OpenString),
            ("a\n\nb = (1, [2)", 3, SyntaxFault::StrayBracket),
            ("a = {\n", 1, SyntaxFault::OpenBracket),
            (")", 1, SyntaxFault::StrayBracket),
        ];
        for (text, line, what) in cases {
            let expected = format!("`model.py` cannot be read as Python: line {line} has {what}");
            assert_eq!(fault(text).to_string(), expected);
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_or_refused(
            text in "[a-f ='\"\\\\\n\r\t#(){}\\[\\]:;.é€\u{feff}]{0,60}",
        ) {
            if let Ok(source) = PythonFile::read(File::Train, &text) {
                for index in 0..source.statements.len() {
                    let statement = &source.statements[index];
                    assert!(index < statement.end && statement.end <= source.statements.len());
                    assert!(statement.parent.is_none_or(|parent| parent < index));
                    source.indent_of_block(index);
                    source.block_lines(index);
                }
            }
        }
    }
}
