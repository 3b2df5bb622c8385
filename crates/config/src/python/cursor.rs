//! The next character of a text, with line and column.

use super::TextPosition;

/// A position in the text, with line and column.
#[derive(Clone, Copy)]
pub(super) struct Cursor<'a> {
    rest: &'a str,
    position: TextPosition,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { rest: text, position: TextPosition { line: 1, column: 1 } }
    }

    pub(super) fn rest(&self) -> &'a str {
        self.rest
    }

    pub(super) fn position(&self) -> TextPosition {
        self.position
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    /// The next character; `\r\n` and a lone `\r` are read as `\n`, as in Python.
    pub(super) fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.rest = &self.rest[c.len_utf8()..];
        if c == '\r' {
            self.rest = self.rest.strip_prefix('\n').unwrap_or(self.rest);
        }
        if c == '\n' || c == '\r' {
            self.position.line = self.position.line.saturating_add(1);
            self.position.column = 1;
            return Some('\n');
        }
        self.position.column = self.position.column.saturating_add(1);
        Some(c)
    }

    pub(super) fn take_while(&mut self, belongs: impl Fn(char) -> bool) -> &'a str {
        let start = self.rest;
        while self.peek().is_some_and(&belongs) {
            self.next();
        }
        &start[..start.len() - self.rest.len()]
    }
}
