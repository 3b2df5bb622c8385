//! A cache of the tokens of recent words, in tables of fixed size.
//!
//! A word's hash selects a bucket of two, which is a line of the processor's cache if ids have 16
//! bits; a new word replaces the older one. So a lookup is two comparisons without a loop, and a
//! word that was replaced is merged again, which only costs time.

use super::TokenId;

/// The longest word of the small table; its length is the key's last byte.
pub(super) const SMALL_BYTES: usize = 15;

/// The most tokens of a word in the small table.
pub(super) const SMALL_IDS: usize = 7;

/// The longest word of the large table.
pub(super) const LARGE_BYTES: usize = 96;
const LARGE_IDS: usize = 31;

/// A word of at most [`SMALL_BYTES`] bytes and its tokens.
#[derive(Clone, Copy, Debug, Default)]
struct Small<I> {
    key: u128,
    ids: [I; SMALL_IDS],
    n_ids: I,
}

/// The words with one hash, the newer first.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
struct Bucket<I>([Small<I>; 2]);

/// A word of at most [`LARGE_BYTES`] bytes.
#[derive(Clone, Copy, Debug)]
struct Large<I> {
    word: [u8; LARGE_BYTES], // padded with zeros
    len: u8,
    n_ids: u8,
    ids: [I; LARGE_IDS],
}

/// Both tables.
#[derive(Debug)]
pub(super) struct WordCache<I> {
    small: Box<[Bucket<I>]>,
    large: Box<[Large<I>]>,
}

/// The key of a short word.
#[derive(Clone, Copy, Debug)]
pub(super) struct SmallKey(u128);

impl SmallKey {
    /// The key of the first `len` of these bytes: 1 to [`SMALL_BYTES`].
    #[inline]
    pub(super) fn of_first(bytes: [u8; 16], len: usize) -> Self {
        debug_assert!((1..=SMALL_BYTES).contains(&len), "{len}");
        let bits = u128::from_le_bytes(bytes) & (u128::MAX >> (128 - 8 * len as u32));
        Self(bits | (len as u128) << 120)
    }

    /// The key of `text[at..end]`, which has 1 to [`SMALL_BYTES`] bytes.
    #[inline]
    pub(super) fn of(text: &[u8], at: usize, end: usize) -> Self {
        let bytes = text[at..].first_chunk::<16>().copied().unwrap_or_else(|| {
            let mut bytes = [0; 16];
            bytes[..end - at].copy_from_slice(&text[at..end]);
            bytes
        });
        Self::of_first(bytes, end - at)
    }

    #[inline]
    fn hash(self) -> usize {
        let (low, high) = (self.0 as u64, (self.0 >> 64) as u64);
        let mixed = low ^ high.wrapping_mul(0xff51_afd7_ed55_8ccd);
        (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize
    }
}

impl<I: TokenId> WordCache<I> {
    /// Empty tables with space for these numbers of words, which are powers of two.
    pub(super) fn new(n_small: usize, n_large: usize) -> Self {
        assert!(n_small.is_power_of_two() && n_large.is_power_of_two() && n_small >= 2);
        let none = I::default();
        let large = Large { word: [0; LARGE_BYTES], len: 0, n_ids: 0, ids: [none; LARGE_IDS] };
        Self {
            small: vec![Bucket::default(); n_small / 2].into(),
            large: vec![large; n_large].into(),
        }
    }

    /// The tokens of a short word and their number, if they are known. Those after the number have
    /// no meaning: a copy of fixed size is faster than one of the right size.
    #[inline]
    pub(super) fn small(&self, key: SmallKey) -> Option<(&[I; SMALL_IDS], usize)> {
        let Bucket(words) = &self.small[key.hash() & (self.small.len() - 1)];
        let word = if words[0].key == key.0 { &words[0] } else { &words[1] };
        (word.key == key.0).then(|| (&word.ids, word.n_ids.get() as usize))
    }

    /// Keeps the tokens of a short word, unless they are too many.
    pub(super) fn keep_small(&mut self, key: SmallKey, found: &[I]) {
        if found.len() <= SMALL_IDS {
            let mut ids = [I::default(); SMALL_IDS];
            ids[..found.len()].copy_from_slice(found);
            let Bucket(words) = &mut self.small[key.hash() & (self.small.len() - 1)];
            words[1] = words[0];
            words[0] = Small { key: key.0, ids, n_ids: I::new(found.len() as u32) };
        }
    }

    /// Appends the tokens of a longer word, if they are known.
    pub(super) fn large(&self, word: &[u8], ids: &mut Vec<I>) -> bool {
        let entry = &self.large[self.large_slot(word)];
        let is_hit = usize::from(entry.len) == word.len() && &entry.word[..word.len()] == word;
        if is_hit {
            ids.extend_from_slice(&entry.ids[..usize::from(entry.n_ids)]);
        }
        is_hit
    }

    /// Keeps the tokens of a longer word, unless they are too many.
    pub(super) fn keep_large(&mut self, word: &[u8], found: &[I]) {
        if found.len() <= LARGE_IDS {
            let slot = self.large_slot(word);
            let entry = &mut self.large[slot];
            entry.word[..word.len()].copy_from_slice(word);
            entry.ids[..found.len()].copy_from_slice(found);
            (entry.len, entry.n_ids) = (word.len() as u8, found.len() as u8);
        }
    }

    fn large_slot(&self, word: &[u8]) -> usize {
        let mut hash = word.len() as u64;
        let (chunks, rest) = word.as_chunks::<8>();
        for chunk in chunks {
            hash = (hash ^ u64::from_le_bytes(*chunk)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            hash ^= hash >> 32;
        }
        for &byte in rest {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
        (hash >> 32) as usize & (self.large.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_does_not_depend_on_the_position_in_a_text() {
        let text = b"abc abcd\0 a text that goes on";
        let key = |at, end| SmallKey::of(text, at, end).0;
        assert_eq!(key(0, 3), key(4, 7));
        assert_ne!(key(4, 8), key(4, 9), "a zero byte is a byte");
        let alone = SmallKey::of(b"text", 0, 4).0;
        assert_eq!(key(12, 16), alone);
    }

    #[test]
    fn a_bucket_keeps_the_two_latest_words_and_never_matches_another() {
        let mut cache = WordCache::<u16>::new(2, 1);
        let key = |word: &[u8]| SmallKey::of(word, 0, word.len());
        let found = |cache: &WordCache<u16>, word: &[u8]| {
            cache.small(key(word)).map(|(ids, n)| ids[..n].to_vec())
        };
        assert_eq!(found(&cache, b"one"), None);
        cache.keep_small(key(b"one"), &[1, 2]);
        cache.keep_small(key(b"two"), &[3]);
        assert_eq!(found(&cache, b"one"), Some(vec![1, 2]));
        assert_eq!(found(&cache, b"two"), Some(vec![3]));
        cache.keep_small(key(b"three"), &[u16::MAX; SMALL_IDS]);
        assert_eq!(found(&cache, b"one"), None);
        assert_eq!(found(&cache, b"two"), Some(vec![3]));
        assert_eq!(found(&cache, b"three"), Some(vec![u16::MAX; SMALL_IDS]));
        cache.keep_small(key(b"many"), &[0; SMALL_IDS + 1]);
        assert_eq!(found(&cache, b"many"), None);

        let mut ids = Vec::new();
        let words = [b"a word of some length".as_slice(), b"a word of some other length"];
        cache.keep_large(words[1], &[4]);
        cache.keep_large(words[0], &[5, 6]);
        assert!(cache.large(words[0], &mut ids) && !cache.large(words[1], &mut ids));
        assert!(!cache.large(&words[1][..words[0].len()], &mut ids));
        assert_eq!(ids, [5, 6]);
    }
}
