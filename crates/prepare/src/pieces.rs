//! Reads text of any length in pieces.

use std::{io::Read, path::Path};

use fitgpt_data::{DataError, LFS_POINTER};

use super::{
    Invalid, PrepareError,
    cut::{PIECE_BYTES, cut},
    encoding::{self, BYTE_ORDER_MARK, is_of_tokens},
};

/// How much is read at once.
const CHUNK_BYTES: usize = 64 << 10;

/// The most text that is kept: a piece, plus a chunk (with the end of the one before) in which
/// every byte is invalid and became U+FFFD, which has three bytes.
pub(super) const HELD_BYTES: usize = PIECE_BYTES + 3 * (CHUNK_BYTES + 3);

/// The pieces of a text, cut at safe positions if there are any.
pub(super) struct Pieces<'a> {
    source: &'a mut dyn Read,
    path: &'a Path, // for errors
    invalid: Invalid,
    chunk: Vec<u8>,  // read and not decoded; between reads at most three bytes
    chunk_at: u64,   // its offset in the file
    text: String,    // decoded
    given: usize,    // how much of it the caller has seen
    is_at_end: bool, // nothing is left to read
    forced_cuts: u64,
}

impl<'a> Pieces<'a> {
    /// The pieces of `source`.
    pub(super) fn new(source: &'a mut dyn Read, path: &'a Path, invalid: Invalid) -> Self {
        Self {
            source,
            path,
            invalid,
            chunk: Vec::with_capacity(CHUNK_BYTES + 3),
            chunk_at: 0,
            text: String::with_capacity(HELD_BYTES),
            given: 0,
            is_at_end: false,
            forced_cuts: 0,
        }
    }

    /// The next piece, never empty; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<&str>, PrepareError> {
        self.text.drain(..self.given);
        self.given = 0;
        while !self.is_at_end && self.text.len() <= PIECE_BYTES {
            self.fill()?;
        }
        if self.text.is_empty() {
            return Ok(None);
        }
        let cut = cut(&self.text, PIECE_BYTES);
        self.forced_cuts += u64::from(!cut.is_safe);
        self.given = cut.at;
        Ok(Some(&self.text[..cut.at]))
    }

    /// How often a piece ended at a position that is not safe, so that tokens may differ.
    pub(super) fn forced_cuts(&self) -> u64 {
        self.forced_cuts
    }

    /// Drops a byte order mark, and refuses a text of two bytes a character: Latin letters in such a
    /// text are valid UTF-8.
    fn check_beginning(&mut self) -> Result<(), PrepareError> {
        if self.chunk.starts_with(BYTE_ORDER_MARK) {
            self.chunk.drain(..BYTE_ORDER_MARK.len());
            self.chunk_at = BYTE_ORDER_MARK.len() as u64;
        }
        // A line has no line break.
        if self.chunk.starts_with(LFS_POINTER.trim_ascii_end()) {
            let path = self.path.to_owned();
            return Err(PrepareError::Shard { source: DataError::LfsPointer { path } });
        }
        let encoding = encoding::of_two_bytes(&self.chunk);
        let is_tokens = is_of_tokens(self.path) && self.chunk.contains(&0);
        if (encoding.is_some() || is_tokens) && self.invalid == Invalid::Refuse {
            let path = self.path.to_owned();
            return Err(PrepareError::NotUtf8 { path, offset: 0, encoding });
        }
        Ok(())
    }

    /// Reads and decodes one more chunk.
    fn fill(&mut self) -> Result<(), PrepareError> {
        let read = self.source.take(CHUNK_BYTES as u64).read_to_end(&mut self.chunk);
        let read = read.map_err(|source| PrepareError::reading(self.path, source))?;
        self.is_at_end = read == 0;
        if self.chunk_at == 0 {
            self.check_beginning()?;
        }
        let mut rest = &*self.chunk;
        loop {
            let error = match str::from_utf8(rest) {
                Ok(valid) => {
                    self.text.push_str(valid);
                    rest = &[];
                    break;
                }
                Err(error) => error,
            };
            let (valid, after) = rest.split_at(error.valid_up_to());
            self.text.push_str(str::from_utf8(valid).unwrap_or_default()); // valid up to there
            rest = after;
            let invalid = match error.error_len() {
                Some(invalid) => invalid,
                None if self.is_at_end => after.len(), // half a character
                None => break,                         // the rest of it may follow
            };
            match self.invalid {
                Invalid::Refuse => {
                    let offset = self.chunk_at + (self.chunk.len() - after.len()) as u64;
                    let encoding = encoding::guess(&self.chunk);
                    return Err(PrepareError::NotUtf8 {
                        path: self.path.to_owned(),
                        offset,
                        encoding,
                    });
                }
                Invalid::Replace => self.text.push(char::REPLACEMENT_CHARACTER),
            }
            rest = &after[invalid..];
        }
        let decoded = self.chunk.len() - rest.len();
        self.chunk_at += decoded as u64;
        self.chunk.drain(..decoded);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use fitgpt_data::{
        counter::{below, draw},
        tokenizer::Tokenizer,
    };

    use super::*;
    use crate::cut::tests::random_text;

    fn pieces(mut bytes: &[u8], invalid: Invalid) -> Result<Vec<String>, PrepareError> {
        let mut pieces = Pieces::new(&mut bytes, Path::new("book.txt"), invalid);
        let mut all = Vec::new();
        while let Some(piece) = pieces.next()? {
            all.push(piece.to_owned());
        }
        Ok(all)
    }

    /// A text of `len` bytes that is never in memory as a whole.
    struct Repeated<'a> {
        pattern: &'a [u8],
        position: usize,
        len: usize,
    }

    impl Read for Repeated<'_> {
        fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
            let start = self.position % self.pattern.len();
            let left = (self.len - self.position).min(self.pattern.len() - start);
            let n = bytes.len().min(left);
            bytes[..n].copy_from_slice(&self.pattern[start..start + n]);
            self.position += n;
            Ok(n)
        }
    }

    #[test]
    fn pieces_are_the_text_and_have_its_tokens() {
        let text = (0..60).map(|i| random_text(i, 3_000)).collect::<String>();
        assert!(text.len() > 3 * PIECE_BYTES / 2);
        let pieces = pieces(text.as_bytes(), Invalid::Refuse).unwrap();
        assert!(pieces.len() > 1 && pieces.iter().all(|piece| piece.len() <= PIECE_BYTES));
        assert_eq!(pieces.concat(), text);
        let encode = |text: &String| Tokenizer::Gpt2.encode_document(text).unwrap();
        assert_eq!(pieces.iter().flat_map(encode).collect::<Vec<_>>(), encode(&text));
    }

    #[test]
    fn a_text_of_any_length_stays_within_the_memory_limit() {
        let words = "words and words, ".repeat(1_000);
        let accents = "é".repeat(5_000);
        for pattern in [words.as_bytes(), &[b'a'; 4096], &[0xff; 4096], accents.as_bytes()] {
            let mut source = Repeated { pattern, position: 0, len: 16 << 20 };
            let mut pieces = Pieces::new(&mut source, Path::new("book.txt"), Invalid::Replace);
            let before = (pieces.text.capacity(), pieces.chunk.capacity());
            while pieces.next().unwrap().is_some() {}
            assert_eq!((pieces.text.capacity(), pieces.chunk.capacity()), before);
            assert!(before.0 <= HELD_BYTES + 64 && before.1 <= CHUNK_BYTES + 64);
        }
    }

    #[test]
    fn cuts_that_change_tokens_are_counted() {
        for (pattern, cuts) in [("a", 3), ("a ", 0), (" ", 3)] {
            let len = 4 * PIECE_BYTES;
            let mut source = Repeated { pattern: pattern.as_bytes(), position: 0, len };
            let mut pieces = Pieces::new(&mut source, Path::new("book.txt"), Invalid::Refuse);
            while pieces.next().unwrap().is_some() {}
            assert_eq!(pieces.forced_cuts(), cuts, "{pattern:?}");
        }
    }

    #[test]
    fn invalid_bytes_are_reported_with_their_offset() {
        let offset = |bytes: &[u8]| match pieces(bytes, Invalid::Refuse) {
            Err(PrepareError::NotUtf8 { offset, .. }) => offset,
            other => panic!("{other:?}"),
        };
        assert_eq!(offset(b"ab\xffcd"), 2);
        assert_eq!(offset(b"\xc3"), 0);
        assert_eq!(offset("ab日".as_bytes().split_last().unwrap().1), 2);
        for position in [CHUNK_BYTES - 1, CHUNK_BYTES, 5 * CHUNK_BYTES + 1] {
            let mut bytes = "é".repeat(4 * CHUNK_BYTES).into_bytes();
            bytes[position] = 0xff;
            // Half a character before the byte makes the character invalid.
            assert_eq!(offset(&bytes), (position - position % 2) as u64);
        }
    }

    #[test]
    fn replacing_invalid_bytes_is_what_the_standard_library_does() {
        let hard =
            [b"a".as_slice(), b" ", b"\xf0\x9f", b"\x98", b"\xc3", b"\xa9", b"\xe6", b"\xff"];
        for index in 0..40 {
            let bytes = (0..80_000)
                .flat_map(|i| hard[below(draw([index, i]), hard.len() as u64) as usize])
                .copied()
                .collect::<Vec<_>>();
            let replaced = pieces(&bytes, Invalid::Replace).unwrap().concat();
            assert!(replaced == String::from_utf8_lossy(&bytes), "text {index}");
        }
    }

    #[test]
    fn no_text_has_no_pieces() {
        assert!(pieces(b"", Invalid::Refuse).unwrap().is_empty());
    }
}
