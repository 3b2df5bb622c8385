//! Splits text into words by hand-written rules, as regular expressions do.
//!
//! GPT-2:
//!
//! ```text
//! '(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s
//! ```
//!
//! A word is a contraction, or a run of one class of characters with at most one space before it.
//! White space before a word is a separate word without its last character, which is the space of
//! the next word, or else a separate word.
//!
//! GPT-4, which Llama 3 (with three digits) and Qwen (with one) took over:
//!
//! ```text
//! (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|
//! \s*[\r\n]+|\s+(?!\S)|\s+
//! ```
//!
//! A contraction may have capitals. Any one character but a line break may be before letters, and
//! line breaks follow signs. White space is a word up to its last line break.

use super::classes::{CharClass, CharClasses};

/// The rules by which text is split into words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::tokenizer) enum Pattern {
    /// GPT-2's.
    Gpt2,
    /// GPT-4's, with at most this many digits in a word.
    Gpt4 {
        /// At least 1.
        digits: usize,
    },
}

impl CharClasses {
    /// The end of the word that starts at `at` by GPT-4's rules. `text` is UTF-8.
    pub(super) fn word_end_of_gpt4(&self, text: &[u8], at: usize, digits: usize) -> usize {
        let (class, len) = self.at(text, at);
        let next = at + len;
        let is_break = |at: usize| matches!(text.get(at), Some(b'\r' | b'\n'));
        match class {
            CharClass::Letter => return self.run(text, next, class),
            CharClass::Number => return self.numbers(text, next, digits - 1),
            CharClass::Other | CharClass::Space => {}
        }
        if text[at] == b'\'' {
            let n = contraction_of_any_case(&text[next..]);
            if n > 0 {
                return next + n;
            }
        }
        let after = if next < text.len() { Some(self.at(text, next)) } else { None };
        if let Some((CharClass::Letter, len)) = after
            && !is_break(at)
        {
            return self.run(text, next + len, CharClass::Letter);
        }
        let signs = match after {
            _ if class == CharClass::Other => Some(next),
            Some((CharClass::Other, len)) if text[at] == b' ' => Some(next + len),
            _ => None,
        };
        if let Some(signs) = signs {
            let mut end = self.run(text, signs, CharClass::Other);
            while is_break(end) {
                end += 1;
            }
            return end;
        }
        self.white_space_end(text, at)
    }

    /// The end of white space at `at`: after its last line break, or before its last character, if
    /// something follows.
    fn white_space_end(&self, text: &[u8], at: usize) -> usize {
        let (mut last, mut end, mut after_break) = (at, at, None);
        while end < text.len() {
            let (class, len) = self.at(text, end);
            if class != CharClass::Space {
                let before = if last > at { last } else { end };
                return after_break.unwrap_or(before);
            }
            last = end;
            end += len;
            if matches!(text[last], b'\r' | b'\n') {
                after_break = Some(end);
            }
        }
        after_break.unwrap_or(end)
    }

    /// The end of at most `limit` numbers at `at`.
    fn numbers(&self, text: &[u8], mut at: usize, limit: usize) -> usize {
        for _ in 0..limit {
            if at == text.len() {
                break;
            }
            let (CharClass::Number, len) = self.at(text, at) else { break };
            at += len;
        }
        at
    }

    /// The end of the word that starts at `at`, which is before the end of `text`. `text` is UTF-8.
    #[inline]
    pub(super) fn word_end(&self, text: &[u8], at: usize) -> usize {
        let (class, len) = self.at(text, at);
        if class != CharClass::Space {
            if text[at] == b'\'' {
                let n = contraction(&text[at + 1..]);
                if n > 0 {
                    return at + 1 + n;
                }
            }
            return self.run(text, at + len, class);
        }
        let next = at + len;
        if next == text.len() {
            return next;
        }
        let (class, next_len) = self.at(text, next);
        if class != CharClass::Space {
            return if text[at] == b' ' { self.run(text, next + next_len, class) } else { next };
        }
        let mut last = next;
        let mut end = next + next_len;
        while end < text.len() {
            let (class, len) = self.at(text, end);
            if class != CharClass::Space {
                return last;
            }
            last = end;
            end += len;
        }
        end
    }
}

/// How many letters after an apostrophe form a contraction; 0 if none do.
#[inline]
pub(super) fn contraction(after: &[u8]) -> usize {
    match after {
        [b's' | b'd' | b'm' | b't', ..] => 1,
        [b'l', b'l', ..] | [b'v' | b'r', b'e', ..] => 2,
        _ => 0,
    }
}

/// How many bytes after an apostrophe form a contraction in any case; 0 if none do. U+017F is the
/// other small form of S.
fn contraction_of_any_case(after: &[u8]) -> usize {
    let lower = |i: usize| after.get(i).map_or(0, u8::to_ascii_lowercase);
    match (lower(0), lower(1)) {
        (b's' | b'd' | b'm' | b't', _) => 1,
        (b'l', b'l') | (b'v' | b'r', b'e') => 2,
        _ if after.starts_with("\u{17f}".as_bytes()) => 2,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<&str> {
        let classes = CharClasses::get();
        let mut words = Vec::new();
        let mut at = 0;
        while at < text.len() {
            let end = classes.word_end(text.as_bytes(), at);
            words.push(&text[at..end]);
            at = end;
        }
        words
    }

    #[test]
    fn a_word_takes_one_space_and_one_class_of_characters() {
        assert_eq!(words("Hello, world 42!?"), ["Hello", ",", " world", " 42", "!?"]);
        assert_eq!(words("x²½y"), ["x", "²½", "y"]);
        assert_eq!(words("日本語。字"), ["日本語", "。", "字"]);
    }

    #[test]
    fn contractions_are_words_only_without_a_space_and_in_small_letters() {
        assert_eq!(words("it's we'll I'M"), ["it", "'s", " we", "'ll", " I", "'", "M"]);
        assert_eq!(words("'rest 've's"), ["'re", "st", " '", "ve", "'s"]);
        assert_eq!(words("''s 'l"), ["''", "s", " '", "l"]);
    }

    #[test]
    fn white_space_leaves_its_last_character_to_the_next_word() {
        assert_eq!(words("a  b"), ["a", " ", " b"]);
        assert_eq!(words("a\n\n  b"), ["a", "\n\n ", " b"]);
        assert_eq!(words("a\n\nb"), ["a", "\n", "\n", "b"]);
        assert_eq!(words("a\tb"), ["a", "\t", "b"]);
        assert_eq!(words("a \u{a0}b"), ["a", " ", "\u{a0}", "b"]);
        assert_eq!(words(" \n"), [" \n"]);
        assert_eq!(words("a \n "), ["a", " \n "]);
    }
}
