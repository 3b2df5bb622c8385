//! The character classes of all patterns: `\p{L}`, `\p{N}`, `\s`, and the rest.
//!
//! The ranges come from `regex-syntax`, the crate whose tables tiktoken's regular expressions use,
//! so that both follow the same version of Unicode.

use std::sync::LazyLock;

use regex_syntax::hir::{Class as ParsedClass, HirKind};

/// The class of a character in the patterns of byte-level tokenizers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum CharClass {
    /// Punctuation, symbols, marks, controls, unassigned.
    Other = 0,
    /// `\s`
    Space = 1,
    /// `\p{N}`
    Number = 2,
    /// `\p{L}`
    Letter = 3,
}

const CLASSES: [CharClass; 4] =
    [CharClass::Other, CharClass::Space, CharClass::Number, CharClass::Letter];

/// Two bits per character, and a table of bytes for ASCII.
#[derive(Debug)]
pub(in crate::tokenizer) struct CharClasses {
    of_byte: [u8; 256],
    of_character: Box<[u8]>,
}

/// In the table of bytes: the character has several bytes.
const SEVERAL_BYTES: u8 = 4;

impl CharClasses {
    /// The table, made on first use.
    pub(in crate::tokenizer) fn get() -> &'static Self {
        static CLASSES: LazyLock<CharClasses> = LazyLock::new(CharClasses::new);
        &CLASSES
    }

    fn new() -> Self {
        let mut of_character = vec![0_u8; (char::MAX as usize + 1) / 4].into_boxed_slice();
        for (pattern, class) in [
            (r"\s", CharClass::Space),
            (r"\p{N}", CharClass::Number),
            (r"\p{L}", CharClass::Letter),
        ] {
            let parsed = regex_syntax::parse(pattern).expect("the pattern is a class");
            let HirKind::Class(ParsedClass::Unicode(ranges)) = parsed.kind() else {
                unreachable!("a class of Unicode parses to one")
            };
            for range in ranges.ranges() {
                for character in range.start() as usize..=range.end() as usize {
                    of_character[character / 4] |= (class as u8) << (character % 4 * 2);
                }
            }
        }
        let mut classes = Self { of_byte: [SEVERAL_BYTES; 256], of_character };
        for byte in 0..128_u8 {
            classes.of_byte[usize::from(byte)] = classes.of(char::from(byte)) as u8;
        }
        classes
    }

    pub(in crate::tokenizer) fn of(&self, character: char) -> CharClass {
        CLASSES[self.bits(character as usize)]
    }

    fn bits(&self, character: usize) -> usize {
        usize::from(self.of_character[character / 4] >> (character % 4 * 2) & 3)
    }

    /// The class and the length of the character that starts at `at`.
    #[inline]
    pub(super) fn at(&self, text: &[u8], at: usize) -> (CharClass, usize) {
        let first = text[at];
        let class = self.of_byte[usize::from(first)];
        if class != SEVERAL_BYTES {
            return (CLASSES[usize::from(class & 3)], 1);
        }
        let (character, len) = decode(text, at);
        (CLASSES[self.bits(character)], len)
    }

    /// The end of the run of one class that starts at `at`.
    #[inline]
    pub(super) fn run(&self, text: &[u8], mut at: usize, class: CharClass) -> usize {
        while let Some(&byte) = text.get(at) {
            let found = self.of_byte[usize::from(byte)];
            if found == class as u8 {
                at += 1;
            } else if found == SEVERAL_BYTES {
                let (character, len) = decode(text, at);
                if self.bits(character) != class as usize {
                    break;
                }
                at += len;
            } else {
                break;
            }
        }
        at
    }
}

/// The character of several bytes at `at`, and its length. `text` is UTF-8.
#[inline]
fn decode(text: &[u8], at: usize) -> (usize, usize) {
    let low = |i: usize| usize::from(text[at + i] & 0x3f);
    let first = usize::from(text[at]);
    match first {
        0xf0.. => ((first & 7) << 18 | low(1) << 12 | low(2) << 6 | low(3), 4),
        0xe0.. => ((first & 15) << 12 | low(1) << 6 | low(2), 3),
        _ => ((first & 31) << 6 | low(1), 2),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_character_has_the_class_of_the_regular_expressions() {
        let classes = CharClasses::get();
        let ranges = |pattern: &str| match regex_syntax::parse(pattern).unwrap().into_kind() {
            HirKind::Class(ParsedClass::Unicode(class)) => {
                class.ranges().iter().map(|range| range.start()..=range.end()).collect::<Vec<_>>()
            }
            other => panic!("{other:?}"),
        };
        let all = [
            (r"[^\s\p{L}\p{N}]", CharClass::Other),
            (r"\s", CharClass::Space),
            (r"\p{N}", CharClass::Number),
            (r"\p{L}", CharClass::Letter),
        ];
        let mut n = 0;
        for (pattern, class) in all {
            for character in ranges(pattern).into_iter().flatten() {
                assert_eq!(classes.of(character), class, "{character:?}");
                let text = character.to_string();
                assert_eq!(classes.at(text.as_bytes(), 0), (class, text.len()));
                n += 1;
            }
        }
        assert_eq!(n, ('\0'..=char::MAX).count());
    }
}
