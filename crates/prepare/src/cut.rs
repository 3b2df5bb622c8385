//! Finds positions where a text can be cut without changing its tokens.
//!
//! GPT-2 splits text into words by a pattern and encodes each word separately:
//!
//! ```text
//! '(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s
//! ```
//!
//! A cut is safe if the pattern ends a word there regardless of what follows, and if the left part
//! alone gives the same words. That holds between characters `a` and `b` if
//!
//! - `a` is not white space and `b` is: no alternative has white space after anything else, and
//!   the run that ends with `a` also ends at the end of a text. Only runs of white space look
//!   ahead, and those of the left part are followed by something in it.
//! - `a` and `b` are of different classes (letter, number, other), and `a` is not an apostrophe:
//!   no alternative but a contraction mixes classes.
//! - `a` and `b` are of one class, no token has the last byte of `a` before the first of `b`, and
//!   `b` is not an apostrophe: the word is cut, but merged as before.
//!
//! The first rule finds a cut in nearly every line of nearly every language, the second in text that
//! is written without spaces. The third cuts a word, so it is for text without any other cut; it
//! says nothing about tokens that are not GPT-2's. What is left are runs of one class whose bytes are side by
//! side in tokens, such as a long line of base64: a merge can depend on all of such a word, so
//! that one of any length would need memory of any size.

use fitgpt_data::tokenizer::gpt2::{CharClass, are_neighbours, class_of};

/// The most text that is encoded at once.
pub(super) const PIECE_BYTES: usize = 256 << 10;

/// A position to cut at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    /// How many bytes are before the cut; at least 1 if there is text.
    pub(super) at: usize,
    /// Whether the parts have the tokens of the whole. The end of the text counts.
    pub(super) is_safe: bool,
}

/// The last safe cut in the first `limit` bytes, or else the last boundary between characters:
/// tokens may then differ from those of the whole, but still decode to the text.
///
/// `limit` is at least 4, so that a character fits.
pub(super) fn cut(text: &str, limit: usize) -> Cut {
    assert!(limit >= 4, "no cut lies within {limit} bytes");
    if text.len() <= limit {
        return Cut { at: text.len(), is_safe: true };
    }
    let mut end = limit;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let mut in_word = None;
    let mut after = text[end..].chars().next();
    for (start, before) in text[..end].char_indices().rev() {
        let at = start + before.len_utf8();
        match after.map(|after| safety(before, after)) {
            Some(Safety::BetweenWords) => return Cut { at, is_safe: true },
            Some(Safety::InWord) => in_word = in_word.or(Some(at)),
            Some(Safety::None) | None => {}
        }
        after = Some(before);
    }
    Cut { at: in_word.unwrap_or(end), is_safe: in_word.is_some() }
}

/// Why a text may be cut between two characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Safety {
    /// A word ends there.
    BetweenWords,
    /// No token crosses the cut.
    InWord,
    /// It may not.
    None,
}

fn safety(before: char, after: char) -> Safety {
    match (class_of(before), class_of(after)) {
        (CharClass::Space, _) => Safety::None,
        (_, CharClass::Space) => Safety::BetweenWords,
        (a, b) if a != b && before != '\'' => Safety::BetweenWords,
        (a, b) if a == b && after != '\'' && !are_neighbours(before, after) => Safety::InWord,
        _ => Safety::None,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use fitgpt_data::{
        counter::{below, draw},
        tokenizer::Tokenizer,
    };

    use super::*;

    /// Characters of every class of the pattern, and combinations of them.
    const SNIPPETS: [&str; 54] = [
        " ",
        "  ",
        "   ",
        "\n",
        "\n\n",
        "\t",
        "\r\n",
        "\u{a0}",
        "\u{3000}",
        "\u{2028}",
        "\u{85}",
        "\u{b}",
        "\u{200b}",
        "a",
        "b",
        "the",
        "Hello",
        "s",
        "t",
        "l",
        "ll",
        "re",
        "ve",
        "r",
        "v",
        "e",
        "d",
        "m",
        "'",
        "''",
        "'s",
        "'ll",
        "'re",
        "'S",
        "’s",
        "0",
        "7",
        "123",
        "²",
        "½",
        "Ⅷ",
        "٣",
        ".",
        "...",
        "!?",
        "$",
        "+/=",
        "é",
        "e\u{301}",
        "ß",
        "日本",
        "かな。",
        "한국",
        "👩‍👩‍👧",
    ];

    /// Text number `index` of `snippets` snippets.
    pub(crate) fn random_text(index: u64, snippets: u64) -> String {
        (0..snippets)
            .map(|i| SNIPPETS[below(draw([3, index, i]), SNIPPETS.len() as u64) as usize])
            .collect()
    }

    fn encode(text: &str) -> Vec<u32> {
        Tokenizer::Gpt2.encode_document(text).unwrap()
    }

    #[test]
    fn at_every_safe_cut_the_parts_have_the_tokens_of_the_whole() {
        let mut cuts = 0;
        for index in 0..4_000 {
            let text = random_text(index, 3 + index % 9);
            let whole = encode(&text);
            for (at, after) in text.char_indices().skip(1) {
                let before = text[..at].chars().next_back().unwrap();
                if safety(before, after) != Safety::None {
                    let parts = [encode(&text[..at]), encode(&text[at..])].concat();
                    assert_eq!(parts, whole, "{text:?} cut at {at}");
                    cuts += 1;
                }
            }
        }
        assert!(cuts > 8_000, "only {cuts} cuts were tried");
    }

    #[test]
    fn text_cut_many_times_has_the_tokens_of_the_whole() {
        for index in 0..300 {
            let text = random_text(index, 200);
            for limit in [12, 40, 333] {
                let (mut rest, mut parts, mut is_exact) = (&*text, Vec::new(), true);
                while !rest.is_empty() {
                    let cut = cut(rest, limit);
                    assert!(cut.at <= limit);
                    is_exact &= cut.is_safe;
                    parts.extend(encode(&rest[..cut.at]));
                    rest = &rest[cut.at..];
                }
                assert_eq!(Tokenizer::Gpt2.decode(&parts), text);
                assert!(is_exact || limit < 100, "no cut within {limit} bytes of {text:?}");
                if is_exact {
                    assert_eq!(parts, encode(&text), "{text:?} by {limit}");
                }
            }
        }
    }

    #[test]
    fn a_cut_is_before_the_last_white_space_within_the_limit() {
        assert_eq!(cut("one two three", 9), Cut { at: 7, is_safe: true });
        assert_eq!(cut("one two  three", 10), Cut { at: 7, is_safe: true });
        assert_eq!(cut("one two", 7), Cut { at: 7, is_safe: true });
        assert_eq!(cut("one two ", 7), Cut { at: 7, is_safe: true });
    }

    #[test]
    fn text_without_spaces_is_cut_between_letters_and_signs() {
        assert_eq!(cut("字字。字字", 14), Cut { at: 9, is_safe: true });
        assert_eq!(cut("Zm9vYmFy+Zm", 10), Cut { at: 9, is_safe: true });
        assert_eq!(cut("don'ts", 5), Cut { at: 3, is_safe: true });
    }

    #[test]
    fn a_word_is_cut_between_bytes_that_no_token_has_side_by_side() {
        assert_eq!(cut("字字字字字", 14), Cut { at: 12, is_safe: true });
        assert_eq!(cut("ééééé", 5), Cut { at: 4, is_safe: true });
        assert_eq!(cut("\0\0\0\0'", 4), Cut { at: 3, is_safe: true });
    }

    #[test]
    fn a_run_without_a_safe_cut_is_cut_at_the_limit_between_characters() {
        assert_eq!(cut("aaaaaaaa", 5), Cut { at: 5, is_safe: false });
        assert_eq!(cut("        a", 5), Cut { at: 5, is_safe: false });
        assert_eq!(cut("ーーーーー", 5), Cut { at: 3, is_safe: false });
        assert_eq!(cut("''''s", 4), Cut { at: 4, is_safe: false });
    }

    #[test]
    fn the_longest_pieces_without_a_safe_cut_can_be_encoded() {
        for run in ["a", " ", "\n", "-", "字", "\0"] {
            let text = run.repeat(PIECE_BYTES / run.len()) + "x";
            assert_eq!(Tokenizer::Gpt2.decode(&encode(&text)), text, "a run of {run:?}");
        }
    }
}
