//! The items placed so far, ordered by start, with a fast search for the lowest gap.
//!
//! Items are kept in blocks with summaries, so that a search can skip a block: if none of its items
//! is alive at the same time, or if all of them are and no gap between them is large enough. A plain
//! list makes placement quadratic in the number of layers.

use super::{Limits, place::inside_one_chunk};

/// A placed item: its bytes and its lifetime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PlacedItem {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) first: u32,
    pub(super) last: u32,
}

/// A block is split in two at this size.
const BLOCK: usize = 128;

/// Neighbouring items, by start.
#[derive(Debug)]
struct Block {
    items: Vec<PlacedItem>,
    /// The range of first ops, and of last ops.
    first: [u32; 2],
    last: [u32; 2],
    /// The highest end.
    end: u64,
    /// The largest gap between the items.
    gap: u64,
}

impl Block {
    fn new(items: Vec<PlacedItem>) -> Self {
        let mut block = Self { items, first: [u32::MAX, 0], last: [u32::MAX, 0], end: 0, gap: 0 };
        block.summarise();
        block
    }

    fn summarise(&mut self) {
        let Self { items, first, last, end, gap } = self;
        (*first, *last, *end, *gap) = ([u32::MAX, 0], [u32::MAX, 0], 0, 0);
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                *gap = (*gap).max(item.start.saturating_sub(*end));
            }
            *first = [first[0].min(item.first), first[1].max(item.first)];
            *last = [last[0].min(item.last), last[1].max(item.last)];
            *end = (*end).max(item.end);
        }
    }

    fn start(&self) -> u64 {
        self.items[0].start
    }
}

/// Placed items by start; items with equal starts in the order of insertion.
#[derive(Debug, Default)]
pub(super) struct Occupied {
    blocks: Vec<Block>,
}

impl Occupied {
    /// The lowest start from `base` at which `bytes` bytes overlap no item alive in `first..=last`.
    pub(super) fn lowest_start(
        &self,
        bytes: u64,
        [first, last]: [u32; 2],
        base: u64,
        limits: &Limits,
    ) -> u64 {
        let mut start = inside_one_chunk(base, bytes, limits);
        for block in &self.blocks {
            let is_none_alive = block.last[1] < first || last < block.first[0];
            if is_none_alive {
                continue;
            }
            let are_all_alive = block.first[1] <= last && first <= block.last[0];
            if are_all_alive && block.gap < bytes {
                if start + bytes <= block.start() {
                    return start;
                }
                if block.end > start {
                    start = inside_one_chunk(block.end, bytes, limits);
                }
                continue;
            }
            for other in &block.items {
                let lives_apart = other.last < first || last < other.first;
                if lives_apart {
                    continue;
                }
                if start + bytes <= other.start {
                    return start; // the gap is large enough, and the rest starts later
                }
                if other.end > start {
                    start = inside_one_chunk(other.end, bytes, limits);
                }
            }
        }
        start
    }

    pub(super) fn insert(&mut self, item: PlacedItem) {
        let after = self.blocks.partition_point(|block| block.start() <= item.start);
        let Some(index) = after.checked_sub(1) else {
            match self.blocks.first_mut() {
                Some(block) => {
                    block.items.insert(0, item);
                    block.summarise();
                }
                None => self.blocks.push(Block::new(vec![item])),
            }
            return self.split(0);
        };
        let block = &mut self.blocks[index];
        let rank = block.items.partition_point(|other| other.start <= item.start);
        block.items.insert(rank, item);
        block.summarise();
        self.split(index);
    }

    fn split(&mut self, index: usize) {
        let block = &mut self.blocks[index];
        if block.items.len() >= BLOCK {
            let upper = block.items.split_off(BLOCK / 2);
            block.summarise();
            self.blocks.insert(index + 1, Block::new(upper));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::units::Bytes;

    /// The search over a plain list, with which [`Occupied`] must agree.
    fn plain_lowest_start(
        placed: &[PlacedItem],
        bytes: u64,
        [first, last]: [u32; 2],
        base: u64,
        limits: &Limits,
    ) -> u64 {
        let mut start = inside_one_chunk(base, bytes, limits);
        for other in placed {
            if other.last < first || last < other.first {
                continue;
            }
            if start + bytes <= other.start {
                break;
            }
            if other.end > start {
                start = inside_one_chunk(other.end, bytes, limits);
            }
        }
        start
    }

    proptest! {
        #[test]
        fn blocks_give_the_starts_of_a_plain_list(
            items in prop::collection::vec((1_u64..40, 0_u32..300, 0_u32..40), 1..700),
            base in 0_u64..50,
            chunk in prop_oneof![Just(u64::MAX / 4), 40_u64..200],
        ) {
            let limits = Limits { max_chunk: Bytes::new(chunk), ..Limits::HOST };
            let (mut occupied, mut plain) = (Occupied::default(), Vec::new());
            for (bytes, first, length) in items {
                let life = [first, first + length];
                let start = occupied.lowest_start(bytes, life, base, &limits);
                prop_assert_eq!(start, plain_lowest_start(&plain, bytes, life, base, &limits));
                let placed = PlacedItem { start, end: start + bytes, first, last: first + length };
                let rank = plain.partition_point(|other: &PlacedItem| other.start <= start);
                plain.insert(rank, placed);
                occupied.insert(placed);
            }
            let listed: Vec<_> = occupied.blocks.iter().flat_map(|b| b.items.clone()).collect();
            prop_assert_eq!(listed, plain);
        }
    }
}
