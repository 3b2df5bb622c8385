//! Splits text into GPT-2's words, as its regular expression does, by hand-written rules.
//!
//! ```text
//! '(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s
//! ```
//!
//! A word is a contraction, or a run of one class of characters with at most one space before it.
//! White space before a word is a separate word without its last character, which is the space of
//! the next word, or else a separate word.

use super::classes::{CharClass, CharClasses};

impl CharClasses {
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
