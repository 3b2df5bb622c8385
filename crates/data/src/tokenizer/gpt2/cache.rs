//! A cache of the tokens of recent words, in tables of fixed size.
//!
//! A word's hash selects one slot, and the latest word replaces the one before: no chains and no
//! eviction. A word that was replaced is merged again, which only costs time.

/// The longest word of the small table; its length is the key's last byte.
pub(super) const SMALL_BYTES: usize = 15;
const SMALL_IDS: usize = 7;

/// The longest word of the large table.
pub(super) const LARGE_BYTES: usize = 96;
const LARGE_IDS: usize = 31;

/// A word of at most [`SMALL_BYTES`] bytes: 32 bytes, so that a cache line holds two.
#[derive(Clone, Copy, Debug)]
struct Small {
    key: u128,
    ids: [u16; SMALL_IDS],
    n_ids: u8,
}

/// A word of at most [`LARGE_BYTES`] bytes.
#[derive(Clone, Copy, Debug)]
struct Large {
    word: [u8; LARGE_BYTES], // padded with zeros
    len: u8,
    n_ids: u8,
    ids: [u16; LARGE_IDS],
}

/// Short words that are looked up first: 32 KiB, which stay in the core's first cache.
const N_HOT: usize = 1 << 10;

/// All tables.
#[derive(Debug)]
pub(super) struct WordCache {
    hot: Box<[Small; N_HOT]>,
    small: Box<[Small]>,
    large: Box<[Large]>,
}

/// The key of a short word.
#[derive(Clone, Copy, Debug)]
pub(super) struct SmallKey(u128);

impl SmallKey {
    /// The key of `text[at..end]`, which has 1 to [`SMALL_BYTES`] bytes.
    #[inline]
    pub(super) fn of(text: &[u8], at: usize, end: usize) -> Self {
        let len = end - at;
        debug_assert!((1..=SMALL_BYTES).contains(&len), "{len}");
        let bits = if let Some(bytes) = text[at..].first_chunk::<16>() {
            u128::from_le_bytes(*bytes) & ((1 << (8 * len)) - 1)
        } else {
            let mut bytes = [0; 16];
            bytes[..len].copy_from_slice(&text[at..end]);
            u128::from_le_bytes(bytes)
        };
        Self(bits | (len as u128) << 120)
    }

    #[inline]
    fn hash(self) -> usize {
        let (low, high) = (self.0 as u64, (self.0 >> 64) as u64);
        let mixed = low ^ high.wrapping_mul(0xff51_afd7_ed55_8ccd);
        (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize
    }
}

impl WordCache {
    /// Empty tables with space for these numbers of words, which are powers of two.
    pub(super) fn new(n_small: usize, n_large: usize) -> Self {
        assert!(n_small.is_power_of_two() && n_large.is_power_of_two());
        let small = Small { key: 0, ids: [0; SMALL_IDS], n_ids: 0 };
        let large = Large { word: [0; LARGE_BYTES], len: 0, n_ids: 0, ids: [0; LARGE_IDS] };
        Self {
            hot: vec![small; N_HOT].try_into().expect("as many as there are"),
            small: vec![small; n_small].into(),
            large: vec![large; n_large].into(),
        }
    }

    /// Appends the tokens of a short word, if they are known.
    #[inline]
    pub(super) fn small(&mut self, key: SmallKey, ids: &mut Vec<u16>) -> bool {
        let hash = key.hash();
        let hot = &mut self.hot[hash % N_HOT];
        if hot.key != key.0 {
            let entry = &self.small[hash & (self.small.len() - 1)];
            if entry.key != key.0 {
                return false;
            }
            *hot = *entry;
        }
        // A copy of fixed size is faster than one of the right size.
        let len = ids.len() + usize::from(hot.n_ids);
        ids.extend_from_slice(&hot.ids);
        ids.truncate(len);
        true
    }

    /// Keeps the tokens of a short word, unless they are too many.
    pub(super) fn keep_small(&mut self, key: SmallKey, found: &[u16]) {
        if found.len() <= SMALL_IDS {
            let mut ids = [0; SMALL_IDS];
            ids[..found.len()].copy_from_slice(found);
            let slot = key.hash() & (self.small.len() - 1);
            self.small[slot] = Small { key: key.0, ids, n_ids: found.len() as u8 };
        }
    }

    /// Appends the tokens of a longer word, if they are known.
    pub(super) fn large(&self, word: &[u8], ids: &mut Vec<u16>) -> bool {
        let entry = &self.large[self.large_slot(word)];
        let is_hit = usize::from(entry.len) == word.len() && &entry.word[..word.len()] == word;
        if is_hit {
            ids.extend_from_slice(&entry.ids[..usize::from(entry.n_ids)]);
        }
        is_hit
    }

    /// Keeps the tokens of a longer word, unless they are too many.
    pub(super) fn keep_large(&mut self, word: &[u8], found: &[u16]) {
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
    fn a_slot_keeps_the_latest_word_and_never_matches_another() {
        let mut cache = WordCache::new(1, 1);
        let mut ids = Vec::new();
        let key = |word: &[u8]| SmallKey::of(word, 0, word.len());
        assert!(!cache.small(key(b"one"), &mut ids));
        cache.keep_small(key(b"one"), &[1, 2]);
        cache.keep_small(key(b"two"), &[3]);
        assert!(!cache.small(key(b"one"), &mut ids) && cache.small(key(b"two"), &mut ids));
        cache.keep_small(key(b"one"), &[1, 2]);
        assert!(cache.small(key(b"one"), &mut ids) && cache.small(key(b"one"), &mut ids));
        cache.keep_small(key(b"many"), &[0; SMALL_IDS + 1]);
        assert!(!cache.small(key(b"many"), &mut ids));
        assert_eq!(ids, [3, 1, 2, 1, 2]);

        let words = [b"a word of some length".as_slice(), b"a word of some other length"];
        cache.keep_large(words[1], &[4]);
        cache.keep_large(words[0], &[5, 6]);
        assert!(cache.large(words[0], &mut ids) && !cache.large(words[1], &mut ids));
        assert!(!cache.large(&words[1][..words[0].len()], &mut ids));
        assert_eq!(ids, [3, 1, 2, 1, 2, 5, 6]);
    }
}
