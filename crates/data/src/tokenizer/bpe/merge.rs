//! Tokens and their merges.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap},
};

use super::TokenId;

/// Words up to this length are merged in arrays on the stack.
pub(super) const SHORT_BYTES: usize = 64;

/// The rank of two tokens that do not merge; also no token.
const NONE: u32 = u32::MAX;

/// Ids and ranks have at most this many bits, so that three fit into a slot of the table.
const ID_BITS: u32 = 21;

/// A slot of the table without a pair.
const NO_PAIR: u64 = u64::MAX;

/// Tokens, and the merges that make them. A merge's rank is its position in their order; lower ones
/// are done first.
#[derive(Debug)]
pub(in crate::tokenizer) struct Merges {
    tokens: Tokens,
    /// The token of each byte.
    of_byte: [u32; 256],
    /// The rank of the merge of two bytes, by both.
    of_bytes: Box<[u32]>,
    /// Two tokens and the rank of their merge: open addressing, linear probing.
    pairs: Box<[u64]>,
    /// How far a hash is shifted to be a slot.
    shift: u32,
    /// The token that each merge makes.
    made: Box<[u32]>,
    /// A bit for each two bytes that are neighbours in some token.
    neighbours: Box<[u64]>,
    /// Words that are one token although merging does not make it.
    whole: HashMap<Box<[u8]>, u32>,
}

/// The bytes of all tokens by id, side by side.
#[derive(Clone, Debug)]
pub(in crate::tokenizer) struct Tokens {
    bytes: Vec<u8>,
    ends: Vec<u32>,
}

impl Tokens {
    /// No tokens.
    pub(in crate::tokenizer) fn new() -> Self {
        Self { bytes: Vec::new(), ends: Vec::new() }
    }

    /// Adds the token with the next id.
    pub(in crate::tokenizer) fn push(&mut self, token: &[u8]) {
        self.bytes.extend_from_slice(token);
        self.ends.push(self.bytes.len() as u32);
    }

    /// The bytes of a token, if it exists.
    pub(in crate::tokenizer) fn get(&self, id: u32) -> Option<&[u8]> {
        let id = id as usize;
        let start = if id == 0 { 0 } else { *self.ends.get(id - 1)? };
        Some(&self.bytes[start as usize..*self.ends.get(id)? as usize])
    }
}

/// Two tokens, and the one that they make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::tokenizer) struct Merge {
    pub(in crate::tokenizer) pair: [u32; 2],
    pub(in crate::tokenizer) made: u32,
}

impl Merges {
    /// The tables of `merges` in the order of their ranks. `None` if a byte has no token, two tokens
    /// make one that they do not spell, or are merged twice, or if there are too many of either.
    pub(in crate::tokenizer) fn new(tokens: Tokens, merges: &[Merge]) -> Option<Self> {
        let mut of_byte = [NONE; 256];
        let mut neighbours = vec![0_u64; (1 << 16) / 64];
        for id in 0..tokens.ends.len() as u32 {
            let token = tokens.get(id)?;
            for pair in token.windows(2) {
                let index = pair_of_bytes(pair[0], pair[1]);
                neighbours[index / 64] |= 1 << (index % 64);
            }
            if let &[byte] = token {
                of_byte[usize::from(byte)] = id;
            }
        }
        if of_byte.contains(&NONE) || tokens.ends.len().max(merges.len()) >> ID_BITS > 0 {
            return None;
        }
        let mut of_bytes = vec![NONE; 1 << 16];
        // At most half full.
        let slots = (2 * merges.len()).next_power_of_two().max(2);
        let shift = 64 - slots.trailing_zeros();
        let mut pairs = vec![NO_PAIR; slots];
        for (rank, &Merge { pair: [left, right], made }) in (0..).zip(merges) {
            let (a, b, both) = (tokens.get(left)?, tokens.get(right)?, tokens.get(made)?);
            if a.is_empty() || b.is_empty() || both.strip_prefix(a) != Some(b) {
                return None;
            }
            if let (&[a], &[b]) = (a, b) {
                of_bytes[pair_of_bytes(a, b)] = rank;
            }
            let pair = pair_of_tokens(left, right);
            let mut slot = slot_of(pair, shift);
            while pairs[slot] != NO_PAIR {
                if pairs[slot] >> ID_BITS == pair {
                    return None;
                }
                slot = (slot + 1) % slots;
            }
            pairs[slot] = pair << ID_BITS | u64::from(rank);
        }
        Some(Self {
            tokens,
            of_byte,
            of_bytes: of_bytes.into(),
            pairs: pairs.into(),
            shift,
            made: merges.iter().map(|merge| merge.made).collect(),
            neighbours: neighbours.into(),
            whole: HashMap::new(),
        })
    }

    /// The same, but a word that is a token is not merged.
    #[must_use]
    pub(in crate::tokenizer) fn with_whole_words(mut self) -> Self {
        for id in 0..self.tokens.ends.len() as u32 {
            let token = self.tokens.get(id).unwrap_or_default();
            let mut ids = Vec::<u32>::new();
            if !token.is_empty() {
                self.encode(token, &mut ids);
            }
            if ids.len() > 1 {
                self.whole.insert(token.into(), id);
            }
        }
        self
    }

    /// The token of a word that is not merged.
    #[inline]
    pub(super) fn whole(&self, word: &[u8]) -> Option<u32> {
        if self.whole.is_empty() { None } else { self.whole.get(word).copied() }
    }

    /// The tokens by id.
    pub(in crate::tokenizer) fn tokens(&self) -> &Tokens {
        &self.tokens
    }

    /// Whether some token contains these two bytes next to each other. If none does, the text
    /// before and after this point is merged independently.
    #[inline]
    pub(in crate::tokenizer) fn are_neighbours(&self, left: u8, right: u8) -> bool {
        let index = pair_of_bytes(left, right);
        self.neighbours[index / 64] >> (index % 64) & 1 == 1
    }

    /// The rank of the merge of two tokens, or [`NONE`].
    #[inline]
    fn rank(&self, left: u32, right: u32) -> u32 {
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

    /// Appends the tokens of one word: repeatedly does the merge with the lowest rank, the leftmost
    /// first, until none is left.
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
        let key = |rank: u32, at: usize| {
            if rank == NONE { NO_KEY } else { (rank << 6) as i32 | at as i32 }
        };
        let mut parts = [0_u32; N];
        let mut keys = [NO_KEY; N]; // the merge of the part with the next one, and where
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
            let (at, token) = (lowest as usize % 64, self.made[lowest as usize >> 6]);
            let after = |at: usize| left & (u64::MAX - 1) << at;
            let joined = after(at).trailing_zeros() as usize;
            left &= !(1 << joined);
            keys[joined] = NO_KEY;
            parts[at] = token;
            let after = left & (u64::MAX - 1) << at;
            keys[at] = match after {
                0 => NO_KEY,
                after => key(self.rank(token, parts[after.trailing_zeros() as usize]), at),
            };
            let before = left & ((1 << at) - 1);
            if before != 0 {
                let before = 63 - before.leading_zeros() as usize;
                keys[before] = key(self.rank(parts[before], token), before);
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
            let rank = self.of_bytes[pair_of_bytes(bytes[0], bytes[1])];
            if rank != NONE {
                heap.push(Reverse((rank, i)));
            }
        }
        while let Some(Reverse((rank, at))) = heap.pop() {
            let (left, right) = (at as usize, next[at as usize] as usize);
            // One of the two may have been merged since.
            if right >= n || parts[left] == GONE || self.rank(parts[left], parts[right]) != rank {
                continue;
            }
            let token = self.made[rank as usize];
            parts[left] = token;
            parts[right] = GONE;
            let after = next[right] as usize;
            next[left] = after as u32;
            if after < n {
                previous[after] = at;
                let rank = self.rank(token, parts[after]);
                if rank != NONE {
                    heap.push(Reverse((rank, at)));
                }
            }
            if let Some(&before) = parts.get(previous[left] as usize) {
                let rank = self.rank(before, token);
                if rank != NONE {
                    heap.push(Reverse((rank, previous[left])));
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

    /// The bytes, and then these tokens.
    fn tokens(others: &[&[u8]]) -> Tokens {
        let mut tokens = Tokens::new();
        for byte in BYTES {
            tokens.push(&[byte]);
        }
        for token in others {
            tokens.push(token);
        }
        tokens
    }

    #[test]
    fn tables_that_contradict_themselves_are_refused() {
        let new = |others: &[&[u8]], merges: &[([u32; 2], u32)]| {
            let merges = merges.iter().map(|&(pair, made)| Merge { pair, made });
            Merges::new(tokens(others), &merges.collect::<Vec<_>>())
        };
        let (a, b, ab, abc) = (97, 98, 256, 257);
        assert!(new(&[], &[]).is_some());
        assert!(new(&[b"ab", b"abc"], &[([a, b], ab), ([ab, 99], abc)]).is_some());
        assert!(new(&[b"ab"], &[([a, 257], ab)]).is_none(), "a token that does not exist");
        assert!(new(&[b"ab"], &[([b, a], ab)]).is_none(), "a token that is spelled otherwise");
        assert!(new(&[b"ab"], &[([a, b], ab), ([a, b], ab)]).is_none(), "the same merge twice");
        assert!(Merges::new(Tokens::new(), &[]).is_none(), "no bytes");
    }

    #[test]
    fn the_rank_of_the_merge_decides_and_not_the_token_that_it_makes() {
        // As in Llama 3's file, a token is made in several ways.
        let merge = |pair, made| Merge { pair, made };
        let (a, aa, aaa) = (97, 256, 257);
        let merges = Merges::new(
            tokens(&[b"aa", b"aaa"]),
            &[merge([aa, a], aaa), merge([a, aa], aaa), merge([a, a], aa)],
        );
        let merges = merges.unwrap();
        for n in 1..100 {
            let (word, mut short, mut long) = (vec![b'a'; n], Vec::new(), Vec::new());
            merges.encode::<u32>(&word, &mut short);
            merges.encode_long::<u32>(&word, &mut long);
            assert_eq!(short, long);
            let whole =
                short.iter().map(|&id| merges.tokens().get(id).unwrap().len()).sum::<usize>();
            assert_eq!(whole, n);
        }
    }
}
