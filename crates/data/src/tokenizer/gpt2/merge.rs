//! GPT-2's tokens and merges.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap},
};

/// Two ids per merge; merge i makes token 256 + i. Written by `tools/gpt2_merges.py`.
static MERGES: &[u8] = include_bytes!("merges.bin");

const N_BYTES: usize = 256;

/// The result of looking up two tokens that do not merge.
pub(super) const NONE: u16 = u16::MAX;

/// Words up to this length are merged in arrays on the stack.
pub(super) const SHORT_BYTES: usize = 64;

/// The tokens and their merges. A token's id is its rank: lower ones are merged first.
#[derive(Debug)]
pub(super) struct Merges {
    /// The bytes of all tokens, and the offset of each.
    bytes: Box<[u8]>,
    starts: Box<[u32]>,
    id_of_byte: [u16; N_BYTES],
    /// The token of two bytes, by both.
    of_bytes: Box<[u16]>,
    /// The token of two tokens: open addressing, linear probing.
    pairs: Box<[u32]>,
    merged: Box<[u16]>,
    /// A bit for each two bytes that are neighbours in some token.
    neighbours: Box<[u64]>,
}

/// Slots of the table of pairs: less than two thirds are used.
const PAIR_BITS: u32 = 18;
const NO_PAIR: u32 = u32::MAX;

impl Merges {
    pub(super) fn new() -> Self {
        let mut id_of_byte = [0; N_BYTES];
        let others = (0..=u8::MAX).filter(|&byte| !is_printable(byte));
        let printable = (0..=u8::MAX).filter(|&byte| is_printable(byte));
        let order = printable.chain(others).collect::<Vec<_>>();
        for (id, &byte) in (0..).zip(&order) {
            id_of_byte[usize::from(byte)] = id;
        }

        let mut bytes = order;
        let mut starts = (0..=N_BYTES as u32).collect::<Vec<_>>();
        for merge in all() {
            for part in merge.map(usize::from) {
                bytes.extend_from_within(starts[part] as usize..starts[part + 1] as usize);
            }
            starts.push(bytes.len() as u32);
        }

        let token = |id: usize| &bytes[starts[id] as usize..starts[id + 1] as usize];
        let n_tokens = starts.len() - 1;
        let ids = (0..n_tokens).map(|id| (token(id), id as u16)).collect::<HashMap<_, _>>();
        let mut of_bytes = vec![NONE; 1 << 16];
        let mut pairs = vec![NO_PAIR; 1 << PAIR_BITS];
        let mut merged = vec![NONE; 1 << PAIR_BITS];
        let mut neighbours = vec![0_u64; (1 << 16) / 64];
        for id in N_BYTES..n_tokens {
            let token = token(id);
            for pair in token.windows(2) {
                let index = pair_of_bytes(pair[0], pair[1]);
                neighbours[index / 64] |= 1 << (index % 64);
            }
            if let &[left, right] = token {
                of_bytes[pair_of_bytes(left, right)] = id as u16;
            }
            // As in tiktoken, any two tokens that spell a token merge into it, not only the two
            // that it was made from.
            for at in 1..token.len() {
                let (left, right) = token.split_at(at);
                if let (Some(&left), Some(&right)) = (ids.get(left), ids.get(right)) {
                    let pair = pair_of_tokens(left, right);
                    let mut slot = slot_of(pair);
                    while pairs[slot] != NO_PAIR {
                        slot = (slot + 1) % (1 << PAIR_BITS);
                    }
                    pairs[slot] = pair;
                    merged[slot] = id as u16;
                }
            }
        }
        drop(ids);
        Self {
            bytes: bytes.into(),
            starts: starts.into(),
            id_of_byte,
            of_bytes: of_bytes.into(),
            pairs: pairs.into(),
            merged: merged.into(),
            neighbours: neighbours.into(),
        }
    }

    /// The bytes of a token, if it exists. The end-of-text token is not included here.
    pub(super) fn bytes_of(&self, id: u32) -> Option<&[u8]> {
        let id = id as usize;
        let (start, end) = (self.starts.get(id)?, self.starts.get(id + 1)?);
        Some(&self.bytes[*start as usize..*end as usize])
    }

    /// Whether some token contains these two bytes next to each other. If none does, the text
    /// before and after this point is merged independently.
    #[inline]
    pub(super) fn are_neighbours(&self, left: u8, right: u8) -> bool {
        let index = pair_of_bytes(left, right);
        self.neighbours[index / 64] >> (index % 64) & 1 == 1
    }

    /// The token that two tokens make, or [`NONE`].
    #[inline]
    fn merge(&self, left: u16, right: u16) -> u16 {
        let pair = pair_of_tokens(left, right);
        let mut slot = slot_of(pair);
        loop {
            match self.pairs[slot] {
                found if found == pair => return self.merged[slot],
                NO_PAIR => return NONE,
                _ => slot = (slot + 1) % (1 << PAIR_BITS),
            }
        }
    }

    /// Appends the tokens of one word: repeatedly merges the neighbours that make the lowest token,
    /// the leftmost first, until none merge.
    pub(super) fn encode(&self, word: &[u8], ids: &mut Vec<u16>) {
        if word.len() <= SHORT_BYTES {
            self.encode_short(word, ids);
        } else {
            self.encode_long(word, ids);
        }
    }

    /// Searches all pairs for each merge, which is fastest for short words.
    fn encode_short(&self, word: &[u8], ids: &mut Vec<u16>) {
        let mut parts = [0_u16; SHORT_BYTES];
        let mut pairs = [NONE; SHORT_BYTES]; // what part i and i + 1 make
        let mut n = word.len();
        for (part, &byte) in parts.iter_mut().zip(word) {
            *part = self.id_of_byte[usize::from(byte)];
        }
        for (pair, bytes) in pairs.iter_mut().zip(word.windows(2)) {
            *pair = self.of_bytes[pair_of_bytes(bytes[0], bytes[1])];
        }
        while n > 1 {
            let (mut at, mut lowest) = (0, NONE);
            for (i, &pair) in pairs[..n - 1].iter().enumerate() {
                if pair < lowest {
                    (at, lowest) = (i, pair);
                }
            }
            if lowest == NONE {
                break;
            }
            parts[at] = lowest;
            parts.copy_within(at + 2..n, at + 1);
            pairs.copy_within(at + 1..n, at);
            n -= 1;
            pairs[n - 1] = NONE;
            if at + 1 < n {
                pairs[at] = self.merge(lowest, parts[at + 1]);
            }
            if at > 0 {
                pairs[at - 1] = self.merge(parts[at - 1], lowest);
            }
        }
        ids.extend_from_slice(&parts[..n]);
    }

    /// Keeps the pairs in a heap, so that a word of any length takes `n log n`.
    fn encode_long(&self, word: &[u8], ids: &mut Vec<u16>) {
        const GONE: u16 = NONE; // no token has this id
        let n = word.len();
        let mut parts =
            word.iter().map(|&byte| self.id_of_byte[usize::from(byte)]).collect::<Vec<_>>();
        let mut previous = (0..n as u32).map(|i| i.wrapping_sub(1)).collect::<Vec<_>>();
        let mut next = (1..=n as u32).collect::<Vec<_>>();
        let mut heap = BinaryHeap::with_capacity(n);
        for (i, bytes) in (0_u32..).zip(word.windows(2)) {
            let pair = self.of_bytes[pair_of_bytes(bytes[0], bytes[1])];
            if pair != NONE {
                heap.push(Reverse((pair, i)));
            }
        }
        while let Some(Reverse((pair, at))) = heap.pop() {
            let (left, right) = (at as usize, next[at as usize] as usize);
            // One of the two may have been merged since.
            if right >= n || parts[left] == GONE || self.merge(parts[left], parts[right]) != pair {
                continue;
            }
            parts[left] = pair;
            parts[right] = GONE;
            let after = next[right] as usize;
            next[left] = after as u32;
            if after < n {
                previous[after] = at;
                let pair = self.merge(pair, parts[after]);
                if pair != NONE {
                    heap.push(Reverse((pair, at)));
                }
            }
            if let Some(&before) = parts.get(previous[left] as usize) {
                let pair = self.merge(before, pair);
                if pair != NONE {
                    heap.push(Reverse((pair, previous[left])));
                }
            }
        }
        ids.extend(parts.into_iter().filter(|&part| part != GONE));
    }
}

/// The two tokens that each merge joins.
pub(super) fn all() -> impl Iterator<Item = [u16; 2]> {
    let (merges, _) = MERGES.as_chunks::<4>();
    merges.iter().map(|&[a, b, c, d]| [u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d])])
}

/// Bytes that are printable characters of Latin 1; they have the first ids.
fn is_printable(byte: u8) -> bool {
    matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff)
}

/// The printable character for a byte: its own, or one from U+0100.
pub(super) fn character_of_byte(byte: u8) -> char {
    if is_printable(byte) {
        return char::from(byte);
    }
    let before = (0..byte).filter(|&other| !is_printable(other)).count() as u32;
    char::from_u32(0x100 + before).unwrap_or_default() // at most U+0143
}

fn pair_of_bytes(left: u8, right: u8) -> usize {
    usize::from(left) << 8 | usize::from(right)
}

fn pair_of_tokens(left: u16, right: u16) -> u32 {
    u32::from(left) << 16 | u32::from(right)
}

fn slot_of(pair: u32) -> usize {
    (pair.wrapping_mul(0x9e37_79b1) >> (32 - PAIR_BITS)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_token_is_tiktokens_and_encodes_to_itself() {
        let merges = Merges::new();
        let tiktoken = tiktoken_rs::r50k_base_singleton();
        for id in 0..50_256_u32 {
            let bytes = merges.bytes_of(id).unwrap();
            assert_eq!(bytes, tiktoken.decode_bytes(&[id]).unwrap());
            // tiktoken looks up whole words first; this shows that it is not needed.
            let mut ids = Vec::new();
            merges.encode(bytes, &mut ids);
            assert_eq!(ids.iter().map(|&id| u32::from(id)).collect::<Vec<_>>(), [id]);
        }
        assert_eq!(merges.bytes_of(50_256), None);
        assert_eq!(merges.bytes_of(u32::MAX), None);
    }

    #[test]
    fn the_table_of_pairs_has_free_slots() {
        let taken = Merges::new().pairs.iter().filter(|&&pair| pair != NO_PAIR).count();
        assert!(taken * 3 < 2 << PAIR_BITS, "{taken} pairs");
    }

    #[test]
    fn long_words_are_merged_as_short_ones() {
        let merges = Merges::new();
        for i in 0..2_000_u64 {
            let len = 1 + i as usize % SHORT_BYTES;
            let draw = |j| crate::counter::draw([i, j]);
            let letters: &[u8] =
                [b"aab".as_slice(), b"the in", b"\xe3\x83\x82\x81\xbc", b" \n"][i as usize % 4];
            let word: Vec<_> =
                (0..len as u64).map(|j| letters[draw(j) as usize % letters.len()]).collect();
            let (mut short, mut long) = (Vec::new(), Vec::new());
            merges.encode_short(&word, &mut short);
            merges.encode_long(&word, &mut long);
            assert_eq!(short, long, "{word:?}");
        }
    }
}
