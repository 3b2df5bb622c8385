//! JSONL: one document per line, in a field of an object.

use std::{
    borrow::Cow,
    fmt,
    io::{BufRead, BufReader, Read},
    path::Path,
};

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use fitgpt_data::{DataError, LFS_POINTER};

use super::{
    Invalid, PrepareError,
    encoding::{self, BYTE_ORDER_MARK, is_of_tokens},
    error::JsonKind,
};

/// The longest line. A line and its text are kept in memory; nothing else in this module grows with
/// the input.
pub(super) const LINE_BYTES: u64 = 64 << 20;

/// How many fields of a line an error names, and how many characters of each.
const SHOWN_FIELDS: usize = 12;
const SHOWN_CHARACTERS: usize = 60;

/// The lines of a file.
pub(super) struct Lines<'a> {
    source: BufReader<&'a mut dyn Read>,
    path: &'a Path, // for errors
    field: &'a str,
    invalid: Invalid,
    line: Vec<u8>,
    number: u64,
    line_at: u64, // its offset in the file
    longest_bytes: u64,
}

impl<'a> Lines<'a> {
    /// The lines of `source`; their text is in `field`, with dots between its levels.
    pub(super) fn new(
        source: &'a mut dyn Read,
        path: &'a Path,
        field: &'a str,
        invalid: Invalid,
    ) -> Self {
        let source = BufReader::with_capacity(256 << 10, source);
        Self {
            source,
            path,
            field,
            invalid,
            line: Vec::new(),
            number: 0,
            line_at: 0,
            longest_bytes: 0,
        }
    }

    /// The text of the next line that is not blank; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<Cow<'_, str>>, PrepareError> {
        loop {
            self.line_at += self.line.len() as u64;
            self.line.clear();
            self.number += 1;
            let mut limited = (&mut self.source).take(LINE_BYTES + 1);
            let read = limited.read_until(b'\n', &mut self.line);
            read.map_err(|source| PrepareError::reading(self.path, source))?;
            if self.line.is_empty() {
                return Ok(None);
            }
            self.longest_bytes = self.longest_bytes.max(self.line.len() as u64);
            if self.line.len() as u64 > LINE_BYTES {
                let (path, line) = (self.path.to_owned(), self.number);
                return Err(PrepareError::LineTooLong { path, line, limit_bytes: LINE_BYTES });
            }
            if self.number == 1 {
                self.check_beginning()?;
            }
            if !self.line.trim_ascii().is_empty() {
                return self.text().map(Some);
            }
        }
    }

    /// Drops a byte order mark, and refuses a text of two bytes a character.
    fn check_beginning(&mut self) -> Result<(), PrepareError> {
        if self.line.starts_with(BYTE_ORDER_MARK) {
            self.line.drain(..BYTE_ORDER_MARK.len());
            self.line_at += BYTE_ORDER_MARK.len() as u64;
        }
        // A line has no line break.
        if self.line.starts_with(LFS_POINTER.trim_ascii_end()) {
            let path = self.path.to_owned();
            return Err(PrepareError::Shard { source: DataError::LfsPointer { path } });
        }
        let encoding = encoding::of_two_bytes(&self.line);
        let is_tokens = is_of_tokens(self.path) && self.line.contains(&0);
        if (encoding.is_some() || is_tokens) && self.invalid == Invalid::Refuse {
            let path = self.path.to_owned();
            return Err(PrepareError::NotUtf8 { path, offset: 0, encoding });
        }
        Ok(())
    }

    /// The length of the longest line so far.
    pub(super) fn longest_bytes(&self) -> u64 {
        self.longest_bytes
    }

    /// The text in the field of the line that was read.
    fn text(&self) -> Result<Cow<'_, str>, PrepareError> {
        let path = || self.path.to_owned();
        let line = self.number;
        let bytes = self.line.trim_ascii_end(); // so that the error for a truncated line is on line 1
        let json = match (str::from_utf8(bytes), self.invalid) {
            (Ok(json), _) => Cow::Borrowed(json),
            (Err(_), Invalid::Replace) => String::from_utf8_lossy(bytes),
            (Err(error), Invalid::Refuse) => {
                let offset = self.line_at + error.valid_up_to() as u64;
                let encoding = encoding::guess(bytes);
                return Err(PrepareError::NotUtf8 { path: path(), offset, encoding });
            }
        };
        let found = match json {
            Cow::Borrowed(json) => find(json, self.field),
            Cow::Owned(json) => find(&json, self.field).map(FieldValue::into_owned),
        };
        // Python writes text that was cut inside a surrogate pair as JSON that other parsers
        // refuse.
        let found = match (found, self.invalid) {
            (Err(_), Invalid::Replace) => {
                let json = String::from_utf8_lossy(bytes);
                find(&without_lone_surrogates(&json), self.field).map(FieldValue::into_owned)
            }
            (found, _) => found,
        };
        let field = || self.field.to_owned();
        match found {
            Ok(FieldValue::Text(text)) => Ok(text),
            Ok(FieldValue::Nothing) => {
                let fields = first_fields(&String::from_utf8_lossy(bytes));
                Err(PrepareError::NoField { path: path(), line, field: field(), fields })
            }
            Ok(FieldValue::Other(found)) => {
                Err(PrepareError::NotText { path: path(), line, field: field(), found })
            }
            Err(error) => {
                // The JSON reader was given one line, and counts it as line 1.
                let message = error.to_string();
                let reason =
                    message.split(" at line 1 column").next().unwrap_or(&message).to_owned();
                Err(PrepareError::NotJson { path: path(), line, column: error.column(), reason })
            }
        }
    }
}

/// The value of a field.
#[derive(Debug, PartialEq, Eq)]
enum FieldValue<'a> {
    Text(Cow<'a, str>),
    /// A value that is not text.
    Other(JsonKind),
    Nothing,
}

impl FieldValue<'_> {
    fn into_owned(self) -> FieldValue<'static> {
        match self {
            Self::Text(text) => FieldValue::Text(Cow::Owned(text.into_owned())),
            Self::Other(name) => FieldValue::Other(name),
            Self::Nothing => FieldValue::Nothing,
        }
    }
}

/// The names of the first fields of a line, for an error.
fn first_fields(json: &str) -> Vec<String> {
    let fields: serde_json::Map<_, _> = serde_json::from_str(json).unwrap_or_default();
    let short = |name: String| name.chars().take(SHOWN_CHARACTERS).collect();
    fields.into_iter().take(SHOWN_FIELDS).map(|(name, _)| short(name)).collect()
}

/// Finds a field without keeping anything else of the line.
fn find<'a>(json: &'a str, field: &str) -> Result<FieldValue<'a>, serde_json::Error> {
    let mut reader = serde_json::Deserializer::from_str(json);
    let found = FieldPath(Some(field)).deserialize(&mut reader)?;
    reader.end()?;
    Ok(found)
}

/// A field below a value, with dots between its levels; `None` means the value itself.
struct FieldPath<'f>(Option<&'f str>);

impl FieldPath<'_> {
    /// `found` if this is the end of the path.
    fn end<'a>(&self, found: FieldValue<'a>) -> FieldValue<'a> {
        if self.0.is_none() { found } else { FieldValue::Nothing }
    }
}

impl<'de> DeserializeSeed<'de> for FieldPath<'_> {
    type Value = FieldValue<'de>;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<FieldValue<'de>, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for FieldPath<'_> {
    type Value = FieldValue<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<FieldValue<'de>, E> {
        Ok(self.end(FieldValue::Text(Cow::Borrowed(text))))
    }

    fn visit_str<E>(self, text: &str) -> Result<FieldValue<'de>, E> {
        Ok(self.end(FieldValue::Text(Cow::Owned(text.to_owned()))))
    }

    fn visit_bool<E>(self, _: bool) -> Result<FieldValue<'de>, E> {
        Ok(self.end(FieldValue::Other(JsonKind::Boolean)))
    }

    fn visit_i64<E>(self, _: i64) -> Result<FieldValue<'de>, E> {
        Ok(self.end(FieldValue::Other(JsonKind::Number)))
    }

    fn visit_u64<E>(self, _: u64) -> Result<FieldValue<'de>, E> {
        Ok(self.end(FieldValue::Other(JsonKind::Number)))
    }

    fn visit_f64<E>(self, _: f64) -> Result<FieldValue<'de>, E> {
        Ok(self.end(FieldValue::Other(JsonKind::Number)))
    }

    fn visit_unit<E>(self) -> Result<FieldValue<'de>, E> {
        Ok(self.end(FieldValue::Other(JsonKind::Null)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<FieldValue<'de>, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(self.end(FieldValue::Other(JsonKind::Array)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<FieldValue<'de>, A::Error> {
        let Some(field) = self.0 else {
            while entries.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            return Ok(FieldValue::Other(JsonKind::Object));
        };
        let (name, rest) = match field.split_once('.') {
            Some((name, rest)) => (name, Some(rest)),
            None => (field, None),
        };
        let mut found = FieldValue::Nothing;
        while let Some(key) = entries.next_key::<Cow<'de, str>>()? {
            if key == name {
                found = entries.next_value_seed(FieldPath(rest))?; // the last of several counts
            } else {
                entries.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }
}

/// The JSON with every escaped lone surrogate replaced by U+FFFD.
fn without_lone_surrogates(json: &str) -> String {
    let unit = |escape: &str| match escape.strip_prefix("\\u").and_then(|rest| rest.get(..4)) {
        Some(digits) => u16::from_str_radix(digits, 16).ok(),
        None => None,
    };
    let mut replaced = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(at) = rest.find('\\') {
        replaced.push_str(&rest[..at]);
        rest = &rest[at..];
        let is_pair = matches!(unit(rest), Some(0xD800..=0xDBFF))
            && matches!(rest.get(6..).and_then(unit), Some(0xDC00..=0xDFFF));
        let len = match unit(rest) {
            _ if is_pair => 12,
            Some(0xD800..=0xDFFF) => {
                replaced.push_str("\\ufffd");
                rest = &rest[6..];
                continue;
            }
            Some(_) => 6,
            None => 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
        };
        replaced.push_str(&rest[..len]);
        rest = &rest[len..];
    }
    replaced + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(bytes: &[u8], field: &str, invalid: Invalid) -> Result<Vec<String>, PrepareError> {
        let mut source = bytes;
        let mut lines = Lines::new(&mut source, Path::new("a.jsonl"), field, invalid);
        let mut texts = Vec::new();
        while let Some(text) = lines.next()? {
            texts.push(text.into_owned());
        }
        Ok(texts)
    }

    fn error_of(bytes: &[u8], field: &str) -> String {
        texts(bytes, field, Invalid::Refuse).unwrap_err().to_string()
    }

    #[test]
    fn every_line_is_a_document() {
        let json = b"\xef\xbb\xbf{\"text\": \"one\"}\r\n\n  \n{\"id\": [1, {\"text\": 2}], \"text\": \"t\\u0077o\\n\"}\n{\"text\": \"\"}";
        assert_eq!(texts(json, "text", Invalid::Refuse).unwrap(), ["one", "two\n", ""]);
        assert!(texts(b"", "text", Invalid::Refuse).unwrap().is_empty());
    }

    #[test]
    fn a_field_may_be_levels_deep() {
        let json = br#"{"a": {"text": "no", "b": {"c": "yes"}}, "b": {"c": "no"}}"#;
        assert_eq!(texts(json, "a.b.c", Invalid::Refuse).unwrap(), ["yes"]);
    }

    #[test]
    fn the_last_of_two_fields_with_the_same_name_counts() {
        let json = br#"{"text": 1, "text": "two"}"#;
        assert_eq!(texts(json, "text", Invalid::Refuse).unwrap(), ["two"]);
    }

    #[test]
    fn an_invalid_line_is_reported_with_its_number() {
        let good = "{\"text\": \"x\"}\n\n";
        let table = [
            ("{\"text\": \"x\"", "text", "is not JSON: EOF while parsing an object, column 12"),
            ("plain words", "text", "is not JSON: expected value, column 1"),
            ("{\"text\": \"x\"} {", "text", "is not JSON: trailing characters, column 15"),
            (
                "{\"title\": \"x\"}",
                "text",
                "has no field `text`; choose one of `title` with `--field`",
            ),
            ("[\"text\"]", "text", "has no field `text`"),
            ("{\"a\": \"x\"}", "a.b", "has no field `a.b`; choose one of `a` with `--field`"),
            ("{\"a\": {\"b\": 1}}", "a.c", "has no field `a.c`; choose one of `a` with `--field`"),
        ];
        for (line, field, expected) in table {
            assert_eq!(error_of(line.as_bytes(), field), format!("`a.jsonl` line 1 {expected}"));
            if field == "text" {
                let all = format!("{good}{line}\n{good}");
                assert_eq!(error_of(all.as_bytes(), field), format!("`a.jsonl` line 3 {expected}"));
            }
        }
        for (value, found) in [
            ("1", "a number"),
            ("-1", "a number"),
            ("1e9", "a number"),
            ("null", "null"),
            ("true", "a boolean"),
            ("[\"x\"]", "an array"),
            ("{\"x\": {}}", "an object"),
        ] {
            let expected =
                format!("`a.jsonl` line 1: the field `text` should be text, but is {found}");
            assert_eq!(error_of(format!("{{\"text\": {value}}}").as_bytes(), "text"), expected);
        }
    }

    #[test]
    fn invalid_bytes_are_reported_with_their_offset_or_replaced() {
        let json = b"{\"text\": \"x\"}\n{\"text\": \"a\xffb\"}\n";
        assert_eq!(
            error_of(json, "text"),
            "`a.jsonl` is not valid UTF-8 at byte 25; `--lossy` replaces invalid bytes"
        );
        assert_eq!(texts(json, "text", Invalid::Replace).unwrap(), ["x", "a\u{fffd}b"]);
    }

    #[test]
    fn a_lone_surrogate_is_an_error_or_replaced() {
        let json = br#"{"text": "\\ud83d \ud83d\ude00 \ud83d\u0041 \udc00 \" \ud83d"}"#;
        assert!(error_of(json, "text").starts_with("`a.jsonl` line 1 is not JSON: "));
        assert_eq!(
            texts(json, "text", Invalid::Replace).unwrap(),
            ["\\ud83d 😀 \u{fffd}A \u{fffd} \" \u{fffd}"]
        );
        // Other broken JSON stays an error.
        assert!(texts(br#"{"text": "\u12"#, "text", Invalid::Replace).is_err());
        assert!(texts("{\"text\": \"\\ué\"}".as_bytes(), "text", Invalid::Replace).is_err());
    }

    #[test]
    fn an_endless_line_is_refused_at_the_limit() {
        let mut endless = std::io::repeat(b'a');
        let mut lines = Lines::new(&mut endless, Path::new("a"), "text", Invalid::Refuse);
        let error = lines.next().unwrap_err();
        assert_eq!(error.to_string(), "`a` line 1 is longer than 67108864 bytes");
        assert!(lines.line.capacity() as u64 <= 2 * LINE_BYTES);
    }
}
