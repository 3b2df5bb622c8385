//! String literals: quotes, prefixes, escapes, and the fields of f-strings.

use super::{Construct, PythonError, Reason, TEXT_LIMIT, TextPosition, cursor::Cursor};

/// A piece of an f-string as written.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum FStringPart {
    Text(String),
    /// What is between braces.
    Field(String),
}

/// Reads the literal whose opening quote is at `cursor`, after `prefix`. Only an f-string can have
/// fields; any other literal is a single text.
pub(super) fn read(
    cursor: &mut Cursor<'_>,
    prefix: &str,
    position: TextPosition,
) -> Result<Vec<FStringPart>, PythonError> {
    let refuse = |reason| PythonError { position, reason };
    let unsupported = |what| refuse(Reason::Unsupported { what });
    let lower = prefix.to_ascii_lowercase();
    let (is_raw, is_format) = match lower.as_str() {
        "" | "u" => (false, false),
        "r" => (true, false),
        "f" => (false, true),
        "rf" | "fr" => (true, true),
        "b" | "br" | "rb" => return Err(unsupported(Construct::Bytes)),
        _ => return Err(unsupported(Construct::StringPrefix)),
    };
    let Some(quote) = cursor.next() else { return Err(refuse(Reason::UnterminatedString)) };
    let is_triple = cursor.rest().starts_with([quote; 2].iter().collect::<String>().as_str());
    if is_triple {
        cursor.next();
        cursor.next();
    }

    let mut parts = Vec::new();
    let mut text = String::new();
    let whole = |mut parts: Vec<FStringPart>, text| {
        parts.push(FStringPart::Text(text));
        Ok(parts)
    };
    loop {
        if text.len() > TEXT_LIMIT {
            return Err(refuse(Reason::TextTooLong { limit: TEXT_LIMIT }));
        }
        let here = cursor.position();
        let Some(c) = cursor.next() else { return Err(refuse(Reason::UnterminatedString)) };
        match c {
            c if c == quote => {
                if !is_triple {
                    return whole(parts, text);
                }
                if cursor.rest().starts_with([quote; 2].iter().collect::<String>().as_str()) {
                    cursor.next();
                    cursor.next();
                    return whole(parts, text);
                }
                text.push(c);
            }
            '\n' if !is_triple => return Err(refuse(Reason::UnterminatedString)),
            // A raw string keeps its backslashes, but a backslash still escapes a quote.
            '\\' if is_raw => {
                text.push('\\');
                text.extend(cursor.next());
            }
            '\\' => {
                escape(cursor, &mut text)
                    .map_err(|reason| PythonError { position: here, reason })?;
            }
            '{' | '}' if is_format => {
                if cursor.peek() == Some(c) {
                    cursor.next();
                    text.push(c);
                    continue;
                }
                let field = if c == '{' { field(cursor, quote) } else { None };
                let field = field.ok_or_else(|| unsupported(Construct::FString))?;
                parts.push(FStringPart::Text(std::mem::take(&mut text)));
                parts.push(FStringPart::Field(field));
            }
            c => text.push(c),
        }
    }
}

/// The text of a field up to its closing brace. Strings in it must use the other quote.
fn field(cursor: &mut Cursor<'_>, quote: char) -> Option<String> {
    let mut text = String::new();
    let (mut depth, mut inner) = (0_u32, None);
    loop {
        let c = cursor.next()?;
        match inner {
            Some(_) if c == '\n' => return None,
            Some(end) if c == end => inner = None,
            Some(_) => {}
            None if c == quote || c == '\n' || c == '\\' => return None,
            None => match c {
                '\'' | '"' => inner = Some(c),
                '{' | '(' | '[' => depth += 1,
                '}' if depth == 0 => return Some(text),
                '}' | ')' | ']' => depth = depth.checked_sub(1)?,
                _ => {}
            },
        }
        text.push(c);
        if text.len() > TEXT_LIMIT {
            return None;
        }
    }
}

/// What follows a backslash.
fn escape(cursor: &mut Cursor<'_>, text: &mut String) -> Result<(), Reason> {
    let Some(c) = cursor.next() else { return Err(Reason::UnterminatedString) };
    let plain = match c {
        '\n' => return Ok(()), // a joined line
        '\\' | '\'' | '"' => c,
        'a' => '\u{7}',
        'b' => '\u{8}',
        'f' => '\u{c}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'v' => '\u{b}',
        'x' => code_point(cursor, 2)?,
        'u' => code_point(cursor, 4)?,
        'U' => code_point(cursor, 8)?,
        'N' => return Err(Reason::Unsupported { what: Construct::CharacterByName }),
        '0'..='7' => octal(cursor, c),
        other => {
            // Python keeps the backslash of an unknown escape.
            text.push('\\');
            other
        }
    };
    text.push(plain);
    Ok(())
}

fn code_point(cursor: &mut Cursor<'_>, digits: u32) -> Result<char, Reason> {
    let mut code = 0_u32;
    for _ in 0..digits {
        let digit = cursor.peek().and_then(|c| c.to_digit(16)).ok_or(Reason::BadEscape)?;
        cursor.next();
        code = code << 4 | digit; // at most eight digits: fits
    }
    char::from_u32(code).ok_or(Reason::BadEscape)
}

/// Up to three digits; `\777` is below the first surrogate, so every code is a character.
fn octal(cursor: &mut Cursor<'_>, first: char) -> char {
    let mut code = first.to_digit(8).unwrap_or(0);
    for _ in 0..2 {
        let Some(digit) = cursor.peek().and_then(|c| c.to_digit(8)) else { break };
        cursor.next();
        code = code * 8 + digit;
    }
    char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)
}
