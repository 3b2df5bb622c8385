//! Tokens and their merges.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap},
};

use super::TokenId;

/// Words up to this length are merged in arrays on the stack.
pub(super) const SHORT_BYTES: usize = 64;

/// The result of looking up two tokens that do not merge; also no token.
const NONE: u32 = u32::MAX;

/// Ids have at most this many bits, so that three fit into a slot of the table.
const ID_BITS: u32 = 21;

/// A slot of the table without a pair.
const NO_PAIR: u64 = u64::MAX;

/// The tokens and their merges, numbered by rank: first the 256 bytes, then what each merge makes,
/// in order. Lower ones are merged first.
#[derive(Debug)]
pub(in crate::tokenizer) struct Merges {
    /// The bytes of all tokens, and the offset of each.
    bytes: Box<[u8]>,
    starts: Box<[u32]>,
    /// The token of each byte.
    of_byte: [u32; 256],
    /// The token of two bytes, by both.
    of_bytes: Box<[u32]>,
    /// Two tokens and the one that they make: open addressing, linear probing.
    pairs: Box<[u64]>,
    /// How far a hash is shifted to be a slot.
    shift: u32,
    /// A bit for each two bytes that are neighbours in some token.
    neighbours: Box<[u64]>,
}

impl Merges {
    /// The tables of `merges`, each of two tokens by rank, if the 256 bytes have the ranks of
    /// `byte_order`. `None` if a merge makes a token that exists, or joins tokens that do not exist
    /// yet, or if there are too many.
    pub(in crate::tokenizer) fn new(
        byte_order: &[u8; 256],
        merges: impl Iterator<Item = [u32; 2]>,
    ) -> Option<Self> {
        let mut of_byte = [0; 256];
        for (rank, &byte) in (0..).zip(byte_order) {
            of_byte[usize::from(byte)] = rank;
        }
        let mut bytes = byte_order.to_vec();
        let mut starts = (0..=256).collect::<Vec<u32>>();
        let mut of_pair = HashMap::new();
        for (rank, pair) in (256_u32..1 << ID_BITS).zip(merges) {
            for part in pair {
                let &[start, end] = starts.get(part as usize..part as usize + 2)? else {
                    return None;
                };
                bytes.extend_from_within(start as usize..end as usize);
            }
            starts.push(u32::try_from(bytes.len()).ok()?);
            of_pair.insert(pair, rank);
        }

        let n_tokens = starts.len() - 1;
        let token = |id: usize| &bytes[starts[id] as usize..starts[id + 1] as usize];
        let mut distinct = (0..n_tokens).map(token).collect::<Vec<_>>();
        distinct.sort_unstable();
        if of_pair.len() + 256 != n_tokens || distinct.windows(2).any(|two| two[0] == two[1]) {
            return None;
        }
        drop(distinct);

        let mut of_bytes = vec![NONE; 1 << 16];
        let mut neighbours = vec![0_u64; (1 << 16) / 64];
        for id in 256..n_tokens {
            let token = token(id);
            for pair in token.windows(2) {
                let index = pair_of_bytes(pair[0], pair[1]);
                neighbours[index / 64] |= 1 << (index % 64);
            }
            if let &[left, right] = token {
                of_bytes[pair_of_bytes(left, right)] = id as u32;
            }
        }
        // At most half full.
        let slots = (2 * of_pair.len()).next_power_of_two().max(2);
        let shift = 64 - slots.trailing_zeros();
        let mut pairs = vec![NO_PAIR; slots];
        for (pair, id) in of_pair {
            let pair = pair_of_tokens(pair[0], pair[1]);
            let mut slot = slot_of(pair, shift);
            while pairs[slot] != NO_PAIR {
                slot = (slot + 1) % slots;
            }
            pairs[slot] = pair << ID_BITS | u64::from(id);
        }
        Some(Self {
            bytes: bytes.into(),
            starts: starts.into(),
            of_byte,
            of_bytes: of_bytes.into(),
            pairs: pairs.into(),
            shift,
            neighbours: neighbours.into(),
        })
    }

    /// The bytes of a token, if it exists.
    pub(in crate::tokenizer) fn bytes_of(&self, id: u32) -> Option<&[u8]> {
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
    fn merge(&self, left: u32, right: u32) -> u32 {
        let pair = pair_of_tokens(left, right);
        let mut slot = slot_of(pair, self.shift);
        loop {
            match self.pairs[slot] {
                NO_PAIR => return NONE,
                found if found >> ID_BITS == pair => return found as u32 & ((1 << ID_BITS) - 1),
                _ => slot = (slot + 1) & (self.pairs.len() - 1),
            }
        }
    }

    /// Appends the tokens of one word: repeatedly merges the neighbours that make the lowest token,
    /// the leftmost first, until none merge.
    pub(in crate::tokenizer) fn encode<I: TokenId>(&self, word: &[u8], ids: &mut Vec<I>) {
        if word.len() <= 16 {
            self.encode_short::<16, I>(word, ids);
        } else if word.len() <= SHORT_BYTES {
            self.encode_short::<SHORT_BYTES, I>(word, ids);
        } else {
            self.encode_long(word, ids);
        }
    }

    /// Compares all pairs for each merge, which is fastest for short words. Parts keep the position
    /// of their first byte, and a mask has those that are left, so nothing is moved.
    fn encode_short<const N: usize, I: TokenId>(&self, word: &[u8], ids: &mut Vec<I>) {
        const NO_KEY: i32 = i32::MAX;
        const { assert!(N <= 64 && ID_BITS + 6 < 31) };
        // Signed, because the least of signed numbers is faster without newer instructions.
        let key = |token: u32, at: usize| {
            if token == NONE { NO_KEY } else { (token << 6) as i32 | at as i32 }
        };
        let mut parts = [0_u32; N];
        let mut keys = [NO_KEY; N]; // the token that the part and the next one make, and where
        for (part, &byte) in parts.iter_mut().zip(word) {
            *part = self.of_byte[usize::from(byte)];
        }
        for (i, bytes) in word.windows(2).enumerate() {
            keys[i] = key(self.of_bytes[pair_of_bytes(bytes[0], bytes[1])], i);
        }
        let mut left = u64::MAX >> (64 - word.len() as u32); // a word has at least a byte
        loop {
            let lowest = keys.iter().fold(NO_KEY, |lowest, &key| lowest.min(key));
            if lowest == NO_KEY {
                break;
            }
            let (at, token) = (lowest as usize % 64, lowest as u32 >> 6);
            let after = |at: usize| left & (u64::MAX - 1) << at;
            let joined = after(at).trailing_zeros() as usize;
            left &= !(1 << joined);
            keys[joined] = NO_KEY;
            parts[at] = token;
            let after = left & (u64::MAX - 1) << at;
            keys[at] = match after {
                0 => NO_KEY,
                after => key(self.merge(token, parts[after.trailing_zeros() as usize]), at),
            };
            let before = left & ((1 << at) - 1);
            if before != 0 {
                let before = 63 - before.leading_zeros() as usize;
                keys[before] = key(self.merge(parts[before], token), before);
            }
        }
        while left != 0 {
            ids.push(I::new(parts[left.trailing_zeros() as usize]));
            left &= left - 1;
        }
    }

    /// Keeps the pairs in a heap, so that a word of any length takes `n log n`.
    fn encode_long<I: TokenId>(&self, word: &[u8], ids: &mut Vec<I>) {
        const GONE: u32 = NONE;
        let n = word.len();
        let mut parts =
            word.iter().map(|&byte| self.of_byte[usize::from(byte)]).collect::<Vec<_>>();
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
        ids.extend(parts.into_iter().filter(|&part| part != GONE).map(I::new));
    }
}

fn pair_of_bytes(left: u8, right: u8) -> usize {
    usize::from(left) << 8 | usize::from(right)
}

fn pair_of_tokens(left: u32, right: u32) -> u64 {
    u64::from(left) << ID_BITS | u64::from(right)
}

fn slot_of(pair: u64, shift: u32) -> usize {
    (pair.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> shift) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokenizer::gpt2;

    const BYTES: [u8; 256] = {
        let mut bytes = [0; 256];
        let mut i = 0;
        while i < 256 {
            bytes[i] = i as u8;
            i += 1;
        }
        bytes
    };

    #[test]
    fn words_of_any_length_are_merged_alike() {
        let merges = gpt2::tables();
        for i in 0..4_000_u64 {
            let len = 1 + i as usize % SHORT_BYTES;
            let draw = |j| crate::counter::draw([i, j]);
            let letters: &[u8] =
                [b"aab".as_slice(), b"the in", b"\xe3\x83\x82\x81\xbc", b" \n", &BYTES]
                    [i as usize % 5];
            let word: Vec<_> =
                (0..len as u64).map(|j| letters[draw(j) as usize % letters.len()]).collect();
            let (mut short, mut long, mut either) =
                (Vec::<u16>::new(), Vec::<u16>::new(), Vec::<u32>::new());
            merges.encode_short::<SHORT_BYTES, _>(&word, &mut short);
            merges.encode_long(&word, &mut long);
            merges.encode(&word, &mut either);
            assert_eq!(short, long, "{word:?}");
            assert_eq!(either, short.into_iter().map(u32::from).collect::<Vec<_>>(), "{word:?}");
        }
    }

    #[test]
    fn merges_that_make_no_new_token_are_refused() {
        let new = |merges: &[[u32; 2]]| Merges::new(&BYTES, merges.iter().copied());
        assert!(new(&[]).is_some());
        assert_eq!(new(&[[97, 98], [256, 99]]).unwrap().bytes_of(257), Some(b"abc".as_slice()));
        assert!(new(&[[97, 256]]).is_none(), "a token that does not exist yet");
        assert!(new(&[[97, 98], [97, 98]]).is_none(), "the same merge twice");
        assert!(new(&[[97, 98], [98, 99], [256, 99], [97, 257]]).is_none(), "the same token twice");
    }
}
