//! Text to tokens: Python's rules for lines, numbers and strings.

use super::{
    ExpectedToken, FoundToken, PythonError, Reason, TextPosition,
    cursor::Cursor,
    string::{self, FStringPart},
};
use crate::value::excerpt;

/// One token and where it starts.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Token {
    pub(super) position: TextPosition,
    /// How many bytes of the text follow it.
    pub(super) bytes_after: usize,
    pub(super) what: TokenKind,
}

/// What a token is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum TokenKind {
    Name(String),
    Int(i64),
    Float(f64),
    Str(String),
    FString(Vec<FStringPart>),
    Op(&'static str),
    /// The end of a logical line, or a semicolon.
    Newline,
    End,
}

impl TokenKind {
    /// The token as an error quotes it.
    pub(super) fn shown(&self) -> FoundToken {
        FoundToken::Text(match self {
            Self::Name(name) => excerpt(name),
            Self::Int(value) => value.to_string(),
            Self::Float(value) => value.to_string(),
            Self::Str(text) => excerpt(&format!("'{text}'")),
            Self::FString(_) => "f''".to_owned(),
            Self::Op(op) => (*op).to_owned(),
            Self::Newline => return FoundToken::EndOfLine,
            Self::End => return FoundToken::EndOfFile,
        })
    }
}

/// Longest first, so that `**=` is not read as `*` `*=`. Includes operators that the
/// parser refuses, so that its error can name them.
const OPERATORS: [&str; 45] = [
    "**=", "//=", ">>=", "<<=", "...", "**", "//", "==", "!=", "<=", ">=", "+=", "-=", "*=", "/=",
    "%=", "&=", "|=", "^=", "@=", "->", ":=", ">>", "<<", "+", "-", "*", "/", "%", "=", "<", ">",
    "(", ")", "[", "]", "{", "}", ",", ":", ".", "&", "|", "^", "~",
];

/// The tokens of `text` up to its end or the first error, and that error. If the parser finds an
/// error before it, that one is reported: an indented line after an `if` is an error because of the
/// `if`.
pub(super) fn tokens(text: &str) -> (Vec<Token>, Option<PythonError>) {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut lexer = Lexer { cursor: Cursor::new(text), tokens: Vec::new(), brackets: 0 };
    let fault = lexer.run().err();
    if let Some(PythonError { position, .. }) = fault {
        lexer.tokens.push(Token { position, bytes_after: 0, what: TokenKind::End });
    }
    (lexer.tokens, fault)
}

struct Lexer<'a> {
    cursor: Cursor<'a>,
    tokens: Vec<Token>,
    brackets: u32, // open ones; line ends inside them are ignored
}

impl Lexer<'_> {
    fn run(&mut self) -> Result<(), PythonError> {
        while let Some(c) = self.cursor.peek() {
            let position = self.cursor.position();
            match c {
                '\n' | '\r' => {
                    self.cursor.next();
                    if self.brackets == 0 {
                        self.end_line(position);
                    }
                }
                ' ' | '\t' | '\u{c}' => {
                    self.cursor.next();
                }
                '#' => {
                    self.cursor.take_while(|c| c != '\n' && c != '\r');
                }
                ';' => {
                    self.cursor.next();
                    self.end_line(position);
                }
                '\\' => self.continue_line(position)?,
                '\'' | '"' => self.string("", position)?,
                '0'..='9' => self.number(position)?,
                '.' if self.cursor.rest().as_bytes().get(1).is_some_and(u8::is_ascii_digit) => {
                    self.number(position)?;
                }
                c if c.is_alphabetic() || c == '_' => self.name(position)?,
                _ => self.operator(position)?,
            }
        }
        let position = self.cursor.position();
        self.end_line(position);
        self.push(position, TokenKind::End)
    }

    /// Empty lines produce no token.
    fn end_line(&mut self, position: TextPosition) {
        if self.tokens.last().is_some_and(|token| token.what != TokenKind::Newline) {
            let bytes_after = self.cursor.rest().len();
            self.tokens.push(Token { position, bytes_after, what: TokenKind::Newline });
        }
    }

    fn push(&mut self, position: TextPosition, what: TokenKind) -> Result<(), PythonError> {
        let starts_line =
            self.tokens.last().is_none_or(|token| token.position.line != position.line);
        let in_statement = self.tokens.last().is_some_and(|token| token.what != TokenKind::Newline);
        if starts_line && !in_statement && position.column > 1 && what != TokenKind::End {
            return Err(PythonError { position, reason: Reason::Indented });
        }
        let bytes_after = self.cursor.rest().len();
        self.tokens.push(Token { position, bytes_after, what });
        Ok(())
    }

    fn continue_line(&mut self, position: TextPosition) -> Result<(), PythonError> {
        self.cursor.next();
        match self.cursor.next() {
            Some('\n') => Ok(()),
            Some(c) => Err(expected(
                ExpectedToken::EndAfterBackslash,
                FoundToken::Text(c.to_string()),
                position,
            )),
            None => {
                Err(expected(ExpectedToken::LineAfterBackslash, FoundToken::EndOfFile, position))
            }
        }
    }

    fn name(&mut self, position: TextPosition) -> Result<(), PythonError> {
        let name = self.cursor.take_while(|c| c.is_alphanumeric() || c == '_');
        let is_prefix = name.len() <= 2 && matches!(self.cursor.peek(), Some('\'' | '"'));
        if is_prefix {
            self.string(name, position)
        } else {
            self.push(position, TokenKind::Name(name.into()))
        }
    }

    fn string(&mut self, prefix: &str, position: TextPosition) -> Result<(), PythonError> {
        let what = match string::read(&mut self.cursor, prefix, position)? {
            parts if parts.iter().any(|part| matches!(part, FStringPart::Field(_))) => {
                TokenKind::FString(parts)
            }
            mut parts => match parts.pop() {
                Some(FStringPart::Text(text)) => TokenKind::Str(text),
                _ => TokenKind::Str(String::new()),
            },
        };
        self.push(position, what)
    }

    fn number(&mut self, position: TextPosition) -> Result<(), PythonError> {
        // Takes everything that could belong to a number, then parses it as a whole, so
        // that errors quote `12abc` and `1__0` whole. A sign only follows an exponent's `e`.
        let start = self.cursor.rest();
        let is_radix = ["0x", "0X", "0o", "0O", "0b", "0B"].iter().any(|r| start.starts_with(r));
        let mut last = ' ';
        while let Some(c) = self.cursor.peek() {
            let is_sign = !is_radix && matches!(last, 'e' | 'E') && matches!(c, '+' | '-');
            if !(c.is_alphanumeric() || c == '_' || (c == '.' && !is_radix) || is_sign) {
                break;
            }
            last = c;
            self.cursor.next();
        }
        let literal = &start[..start.len() - self.cursor.rest().len()];
        let what = number(literal).map_err(|reason| PythonError { position, reason })?;
        self.push(position, what)
    }

    fn operator(&mut self, position: TextPosition) -> Result<(), PythonError> {
        let rest = self.cursor.rest();
        let Some(op) = OPERATORS.into_iter().find(|op| rest.starts_with(op)) else {
            let found = FoundToken::Text(rest.chars().take(1).collect());
            return Err(expected(ExpectedToken::Expression, found, position));
        };
        for _ in 0..op.len() {
            self.cursor.next();
        }
        match op {
            "(" | "[" | "{" => self.brackets = self.brackets.saturating_add(1),
            ")" | "]" | "}" => self.brackets = self.brackets.saturating_sub(1),
            _ => {}
        }
        self.push(position, TokenKind::Op(op))
    }
}

fn expected(expected: ExpectedToken, found: FoundToken, position: TextPosition) -> PythonError {
    PythonError { position, reason: Reason::Expected { expected, found } }
}

/// Parses a number's literal.
fn number(literal: &str) -> Result<TokenKind, Reason> {
    let bad = || Reason::BadNumber { literal: excerpt(literal) };
    let bytes = literal.as_bytes();
    // An underscore is allowed between two digits (or after `0x`).
    let digits_around = |i: usize| {
        let next = bytes.get(i + 1).is_some_and(u8::is_ascii_hexdigit);
        next && i > 0 && bytes[i - 1].is_ascii_alphanumeric()
    };
    if bytes.iter().enumerate().any(|(i, &b)| b == b'_' && !digits_around(i)) {
        return Err(bad());
    }
    let plain = literal.replace('_', "").to_ascii_lowercase();
    for (prefix, radix) in [("0x", 16), ("0o", 8), ("0b", 2)] {
        if let Some(digits) = plain.strip_prefix(prefix) {
            if digits.is_empty() || !digits.chars().all(|c| c.is_digit(radix)) {
                return Err(bad());
            }
            return i64::from_str_radix(digits, radix)
                .map(TokenKind::Int)
                .map_err(|_| Reason::Overflow);
        }
    }
    if plain.bytes().all(|b| b.is_ascii_digit()) {
        let is_old_octal = plain.starts_with('0') && plain.bytes().any(|b| b != b'0');
        if is_old_octal {
            return Err(bad());
        }
        return plain.parse().map(TokenKind::Int).map_err(|_| Reason::Overflow);
    }
    // Rust parses the same floats as Python, plus `inf` and `nan`, which Python treats as names.
    if !plain.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'+' | b'-')) {
        return Err(bad());
    }
    plain.parse().map(TokenKind::Float).map_err(|_| bad())
}
