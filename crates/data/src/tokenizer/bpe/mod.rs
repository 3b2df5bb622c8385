//! Byte-level BPE, for GPT-2 and for every `tokenizer.json` of the same kind.
//!
//! Text is split into words, 64 bytes at once where it is ASCII ([`ascii`]) and otherwise by rules
//! over bytes ([`split`]). A word's tokens are looked up in a cache of fixed size ([`cache`]) or
//! merged by rank ([`merge`]). Nothing is allocated for a word of up to 64 bytes; merging a longer
//! one temporarily takes about 30 bytes per byte.

pub(super) mod classes;
pub(super) mod split;
mod ascii;
mod cache;
pub(super) mod merge;

use std::fmt;

use self::{
    ascii::WINDOW_BYTES,
    cache::{LARGE_BYTES, SMALL_BYTES, SMALL_IDS, SmallKey, WordCache},
    classes::CharClasses,
    merge::Merges,
    split::Pattern,
};

/// A token's id, as wide as the vocabulary needs.
pub(in crate::tokenizer) trait TokenId: Copy + Default + fmt::Debug {
    /// This id, which fits.
    fn new(id: u32) -> Self;

    /// The id as a number.
    fn get(self) -> u32;
}

impl TokenId for u16 {
    #[inline]
    fn new(id: u32) -> Self {
        id as Self
    }

    #[inline]
    fn get(self) -> u32 {
        self.into()
    }
}

impl TokenId for u32 {
    #[inline]
    fn new(id: u32) -> Self {
        id
    }

    #[inline]
    fn get(self) -> u32 {
        self
    }
}

/// Encodes text with any [`Merges`] and one [`Pattern`]. Each thread has its own.
#[derive(Debug)]
pub(in crate::tokenizer) struct WordEncoder<I> {
    cache: WordCache<I>,
    pattern: Pattern,
}

/// The bytes that a window needs: a word's key has 16 bytes from its start.
const LOADED_BYTES: usize = WINDOW_BYTES + 16;

impl<I: TokenId> WordEncoder<I> {
    /// An encoder whose cache has space for these numbers of words of up to 15 bytes and of longer
    /// ones. Both are powers of two.
    pub(super) fn with_words(pattern: Pattern, n_small: usize, n_large: usize) -> Self {
        Self { cache: WordCache::new(n_small, n_large), pattern }
    }

    /// Appends the tokens of `text`.
    pub(super) fn encode(&mut self, merges: &Merges, text: &str, ids: &mut Vec<I>) {
        let classes = CharClasses::get();
        let text = text.as_bytes();
        let mut at = 0;
        if let Pattern::Gpt4 { digits } = self.pattern {
            while at < text.len() {
                let end = classes.word_end_of_gpt4(text, at, digits);
                self.word(merges, text, at, end, ids);
                at = end;
            }
        }
        while at < text.len() {
            at = self.window(merges, text, at, ids);
            // One word by the rules for any character, and more until there is ASCII again.
            while at < text.len() {
                let end = classes.word_end(text, at);
                self.word(merges, text, at, end, ids);
                at = end;
                if text[at..].first_chunk::<8>().is_none_or(|bytes| bytes.is_ascii()) {
                    break;
                }
            }
        }
    }

    /// Appends the tokens of all words from `at` on whose ends 64 bytes at once show, and returns
    /// where the next one starts.
    #[inline]
    fn window(&mut self, merges: &Merges, text: &[u8], mut at: usize, ids: &mut Vec<I>) -> usize {
        loop {
            // What follows the text is not ASCII, so nothing is known about its last word.
            let mut last = [0xff; LOADED_BYTES];
            let loaded = text[at..].first_chunk::<LOADED_BYTES>().unwrap_or_else(|| {
                last[..text.len() - at].copy_from_slice(&text[at..]);
                &last
            });
            let mut starts = match loaded.first_chunk() {
                Some(window) => ascii::word_starts(window) & !1,
                None => 0,
            };
            if starts == 0 {
                return at;
            }
            // Each token has at least a byte, and the last copy is longer than its tokens.
            let mut found = [I::default(); WINDOW_BYTES + SMALL_IDS];
            let (mut n_found, mut start) = (0, 0);
            while starts != 0 {
                let end = starts.trailing_zeros() as usize;
                let hit = match loaded[start..].first_chunk() {
                    Some(bytes) if end - start <= SMALL_BYTES => {
                        self.cache.small(SmallKey::of_first(*bytes, end - start))
                    }
                    _ => None,
                };
                if let Some((word, n)) = hit {
                    found[n_found..n_found + SMALL_IDS].copy_from_slice(word);
                    n_found += n;
                } else {
                    ids.extend_from_slice(&found[..n_found]);
                    n_found = 0;
                    self.word(merges, text, at + start, at + end, ids);
                }
                start = end;
                starts &= starts - 1;
            }
            ids.extend_from_slice(&found[..n_found]);
            at += start;
        }
    }

    /// Appends the tokens of any word.
    #[inline(never)]
    fn word(&mut self, merges: &Merges, text: &[u8], at: usize, end: usize, ids: &mut Vec<I>) {
        if let Some(id) = merges.whole(&text[at..end]) {
            ids.push(I::new(id));
        } else if end - at <= SMALL_BYTES && (end - at <= 4 || text[end - 1] < 128) {
            self.small(merges, text, at, end, ids);
        } else {
            self.long(merges, text, at, end, ids);
        }
    }

    /// Appends the tokens of a short word.
    #[inline]
    fn small(&mut self, merges: &Merges, text: &[u8], at: usize, end: usize, ids: &mut Vec<I>) {
        let key = SmallKey::of(text, at, end);
        if let Some((word, n)) = self.cache.small(key) {
            let len = ids.len() + n;
            ids.extend_from_slice(word);
            ids.truncate(len);
        } else {
            let start = ids.len();
            merges.encode(&text[at..end], ids);
            if merges.whole(&text[at..end]).is_none() {
                self.cache.keep_small(key, &ids[start..]);
            }
        }
    }

    /// Appends the tokens of a longer word. One of ASCII, such as a line's indentation, is likely to
    /// come again.
    fn long(&mut self, merges: &Merges, text: &[u8], at: usize, end: usize, ids: &mut Vec<I>) {
        let word = &text[at..end];
        let is_kept = word.len() <= LARGE_BYTES && text[end - 1] < 128;
        if is_kept && self.cache.large(word, ids) {
            return;
        }
        let before = ids.len();
        self.parts(merges, text, at, end, ids);
        if is_kept {
            self.cache.keep_large(word, &ids[before..]);
        }
    }

    /// Appends the tokens of a word, split into parts that no token crosses. Chinese, written
    /// without spaces, has such parts of one or a few characters.
    fn parts(&mut self, merges: &Merges, text: &[u8], at: usize, end: usize, ids: &mut Vec<I>) {
        let mut start = at;
        for cut in at + 1..=end {
            let is_inside = |cut: usize| {
                text[cut] & 0xc0 == 0x80 || merges.are_neighbours(text[cut - 1], text[cut])
            };
            if cut < end && is_inside(cut) {
                continue;
            }
            let part = &text[start..cut];
            if part.len() <= SMALL_BYTES {
                self.small(merges, text, start, cut, ids);
            } else if part.len() > LARGE_BYTES {
                merges.encode(part, ids);
            } else if !self.cache.large(part, ids) {
                let before = ids.len();
                merges.encode(part, ids);
                self.cache.keep_large(part, &ids[before..]);
            }
            start = cut;
        }
    }
}
