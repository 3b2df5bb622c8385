//! The items placed so far, ordered by start, with a fast search for the lowest gap.
//!
//! Items are kept in blocks with summaries, so that a search can skip most of a block: if none of
//! its items is alive at the same time, or if those that live long all are and no gap between them
//! is large enough. A plain list makes placement quadratic in the number of layers.

use std::ops::ControlFlow;

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
    /// The first op of the earliest item, and the last op of the latest.
    life: [u32; 2],
    /// The highest end.
    end: u64,
    long: LongItems,
}

/// The items of a block that live at least half as long as its longest. In a training program these
/// are values kept for the backward: next to them are values that share their bytes before or after
/// them, and most searches need not look at those.
#[derive(Debug, Default)]
struct LongItems {
    /// Their latest first op, and their earliest last op.
    common: [u32; 2],
    start: u64,
    end: u64,
    /// The largest gap between them.
    gap: u64,
    /// Items of the block that start before them.
    n_before: usize,
    /// The first item of the block that ends after them.
    after: usize,
}

impl LongItems {
    fn of(items: &[PlacedItem]) -> Self {
        let length = |item: &PlacedItem| item.last - item.first;
        let longest = items.iter().map(length).max().unwrap_or(0);
        let mut long = items.iter().filter(|item| length(item) >= longest / 2);
        let Some(first) = long.next() else { return Self::default() };
        let (start, mut end, mut gap) = (first.start, first.end, 0);
        let mut common = [first.first, first.last];
        for item in long {
            common = [common[0].max(item.first), common[1].min(item.last)];
            gap = gap.max(item.start.saturating_sub(end));
            end = end.max(item.end);
        }
        let n_before = items.partition_point(|item| item.start < start);
        let after = items.iter().position(|item| item.end > end).unwrap_or(items.len());
        Self { common, start, end, gap, n_before, after }
    }

    /// Whether each of them is alive at some op of `first..=last`.
    fn are_alive_in(&self, [first, last]: [u32; 2]) -> bool {
        self.common[0] <= last && first <= self.common[1]
    }
}

impl Block {
    fn new(items: Vec<PlacedItem>) -> Self {
        let mut block = Self { items, life: [u32::MAX, 0], end: 0, long: LongItems::default() };
        block.summarise();
        block
    }

    fn summarise(&mut self) {
        let Self { items, life, end, long } = self;
        (*life, *end) = ([u32::MAX, 0], 0);
        for item in items.iter() {
            *life = [life[0].min(item.first), life[1].max(item.last)];
            *end = (*end).max(item.end);
        }
        *long = LongItems::of(items);
    }

    fn start(&self) -> u64 {
        self.items[0].start
    }
}

/// The search for the lowest start.
struct GapSearch<'a> {
    bytes: u64,
    life: [u32; 2],
    limits: &'a Limits,
    /// All lower starts are occupied.
    start: u64,
}

impl GapSearch<'_> {
    /// Moves past the bytes `from..to`, which are occupied. `Break` if the gap before them is large
    /// enough: the rest starts later.
    fn pass(&mut self, from: u64, to: u64) -> ControlFlow<()> {
        if self.start + self.bytes <= from {
            return ControlFlow::Break(());
        }
        if to > self.start {
            self.start = inside_one_chunk(to, self.bytes, self.limits);
        }
        ControlFlow::Continue(())
    }

    fn pass_each(&mut self, items: &[PlacedItem]) -> ControlFlow<()> {
        let [first, last] = self.life;
        let mut alive = items.iter().filter(|item| item.first <= last && first <= item.last);
        alive.try_for_each(|item| self.pass(item.start, item.end))
    }

    fn pass_block(&mut self, block: &Block) -> ControlFlow<()> {
        let [first, last] = self.life;
        let is_none_alive = block.life[1] < first || last < block.life[0];
        if is_none_alive || block.end <= self.start {
            return ControlFlow::Continue(());
        }
        let Block { items, long, .. } = block;
        if long.gap >= self.bytes || !long.are_alive_in(self.life) {
            return self.pass_each(items);
        }
        self.pass_each(&items[..long.n_before])?;
        self.pass(long.start, long.end)?;
        self.pass_each(&items[long.after..])
    }
}

/// Placed items by start; items with equal starts in the order of insertion.
#[derive(Debug, Default)]
pub(super) struct Occupied {
    blocks: Vec<Block>,
}

impl Occupied {
    /// The lowest start from `base` at which `bytes` bytes overlap no item alive from the first op of `life` to its
    /// last.
    pub(super) fn lowest_start(
        &self,
        bytes: u64,
        life: [u32; 2],
        base: u64,
        limits: &Limits,
    ) -> u64 {
        let start = inside_one_chunk(base, bytes, limits);
        let mut search = GapSearch { bytes, life, limits, start };
        let _ = self.blocks.iter().try_for_each(|block| search.pass_block(block));
        search.start
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
