//! The items placed so far, ordered by start, with a fast search for the lowest gap.
//!
//! Items are kept in blocks, and blocks in groups, with summaries, so that a search can skip most of
//! a block or a group: if none of its items is alive at the same time, or if those that live long
//! all are and no gap between them is large enough. A plain list makes placement quadratic in the
//! number of layers.

use std::ops::ControlFlow;

use super::Limits;

/// A placed item: its bytes and its lifetime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PlacedItem {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) first: u32,
    pub(super) last: u32,
}

/// A block with this many items is split in two, as is a group with this many blocks.
const SPLIT: usize = 32;

/// Neighbouring items, by start.
#[derive(Debug)]
struct Block {
    items: Vec<PlacedItem>,
    extent: Extent,
    /// `None` after an insertion, until a search needs it.
    long: Option<LongItems>,
}

/// Neighbouring blocks, by start.
#[derive(Debug)]
struct Group {
    blocks: Vec<Block>,
    extent: Extent,
    /// The long items of all blocks; `None` after an insertion, until a search needs it.
    long: Option<LongItems>,
}

/// When some item is alive, and where the last one ends.
#[derive(Clone, Copy, Debug)]
struct Extent {
    /// The first op of the earliest item, and the last op of the latest.
    life: [u32; 2],
    /// The highest end.
    end: u64,
}

impl Extent {
    const NONE: Self = Self { life: [u32::MAX, 0], end: 0 };

    fn with(self, Self { life, end }: Self) -> Self {
        let life = [self.life[0].min(life[0]), self.life[1].max(life[1])];
        Self { life, end: self.end.max(end) }
    }
}

impl PlacedItem {
    fn extent(&self) -> Extent {
        Extent { life: [self.first, self.last], end: self.end }
    }
}

/// The items of a block that live at least half as long as its longest. In a training program these
/// are values kept for the backward: next to them are values that share their bytes before or after
/// them, and most searches need not look at those.
#[derive(Clone, Copy, Debug)]
struct LongItems {
    /// Their latest first op, and their earliest last op.
    common: [u32; 2],
    start: u64,
    end: u64,
    /// The largest gap between them.
    gap: u64,
    /// Items of the block, or of the group's first block, that start before them.
    n_before: usize,
    /// The first item of the block, or the first block of the group, that ends after them.
    after: usize,
}

impl LongItems {
    fn of(items: &[PlacedItem]) -> Self {
        let length = |item: &PlacedItem| item.last - item.first;
        let longest = items.iter().map(length).max().unwrap_or(0);
        let long = items.iter().filter(|item| length(item) >= longest / 2);
        let each = long.map(|item| Self {
            common: [item.first, item.last],
            start: item.start,
            end: item.end,
            gap: 0,
            n_before: 0,
            after: 0,
        });
        let all = each.reduce(Self::and).expect("a block has items");
        let n_before = items.partition_point(|item| item.start < all.start);
        let after = items.iter().position(|item| item.end > all.end).unwrap_or(items.len());
        Self { n_before, after, ..all }
    }

    fn of_blocks(blocks: &mut [Block]) -> Self {
        let each = blocks.iter_mut().map(|block| *block.long());
        let all = each.reduce(Self::and).expect("a group has blocks");
        let after = blocks.iter().position(|block| block.extent.end > all.end);
        Self { after: after.unwrap_or(blocks.len()), ..all }
    }

    /// Both, if `next` starts later.
    fn and(self, next: Self) -> Self {
        Self {
            common: [self.common[0].max(next.common[0]), self.common[1].min(next.common[1])],
            end: self.end.max(next.end),
            gap: self.gap.max(next.gap).max(next.start.saturating_sub(self.end)),
            ..self
        }
    }
}

impl Block {
    fn new(items: Vec<PlacedItem>) -> Self {
        let extent = items.iter().map(PlacedItem::extent).fold(Extent::NONE, Extent::with);
        Self { items, extent, long: None }
    }

    fn start(&self) -> u64 {
        self.items[0].start
    }

    fn long(&mut self) -> &LongItems {
        self.long.get_or_insert_with(|| LongItems::of(&self.items))
    }

    fn insert(&mut self, item: PlacedItem) {
        let rank = self.items.partition_point(|other| other.start <= item.start);
        self.items.insert(rank, item);
        self.extent = self.extent.with(item.extent());
        self.long = None;
    }

    /// Its upper half, if it is large.
    fn split(&mut self) -> Option<Self> {
        let upper = upper_half(&mut self.items)?;
        *self = Self::new(std::mem::take(&mut self.items));
        Some(Self::new(upper))
    }
}

impl Group {
    fn new(blocks: Vec<Block>) -> Self {
        let extent = blocks.iter().map(|block| block.extent).fold(Extent::NONE, Extent::with);
        Self { blocks, extent, long: None }
    }

    fn start(&self) -> u64 {
        self.blocks[0].start()
    }

    fn insert(&mut self, item: PlacedItem) {
        let after = self.blocks.partition_point(|block| block.start() <= item.start);
        let index = after.saturating_sub(1);
        self.blocks[index].insert(item);
        if let Some(upper) = self.blocks[index].split() {
            self.blocks.insert(index + 1, upper);
        }
        self.extent = self.extent.with(item.extent());
        self.long = None;
    }

    /// Its upper half, if it is large.
    fn split(&mut self) -> Option<Self> {
        let upper = upper_half(&mut self.blocks)?;
        *self = Self::new(std::mem::take(&mut self.blocks));
        Some(Self::new(upper))
    }
}

fn upper_half<T>(list: &mut Vec<T>) -> Option<Vec<T>> {
    (list.len() >= SPLIT).then(|| list.split_off(SPLIT / 2))
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

    fn is_alive_with(&self, [first, last]: [u32; 2]) -> bool {
        first <= self.life[1] && self.life[0] <= last
    }

    fn pass_each(&mut self, items: &[PlacedItem]) -> ControlFlow<()> {
        for item in items {
            if self.is_alive_with([item.first, item.last]) {
                self.pass(item.start, item.end)?;
            }
        }
        ControlFlow::Continue(())
    }

    /// Whether none of the items matters.
    fn skips(&self, Extent { life, end }: Extent) -> bool {
        end <= self.start || !self.is_alive_with(life)
    }

    /// Whether all are alive, without a gap that is large enough.
    fn is_blocked_by(&self, long: &LongItems) -> bool {
        long.gap < self.bytes && self.is_alive_with(long.common)
    }

    fn pass_block(&mut self, block: &mut Block) -> ControlFlow<()> {
        if self.skips(block.extent) {
            return ControlFlow::Continue(());
        }
        let long = *block.long();
        if !self.is_blocked_by(&long) {
            return self.pass_each(&block.items);
        }
        self.pass_each(&block.items[..long.n_before])?;
        self.pass(long.start, long.end)?;
        self.pass_each(&block.items[long.after..])
    }

    fn pass_blocks(&mut self, blocks: &mut [Block]) -> ControlFlow<()> {
        blocks.iter_mut().try_for_each(|block| self.pass_block(block))
    }

    fn pass_group(&mut self, Group { blocks, extent, long }: &mut Group) -> ControlFlow<()> {
        if self.skips(*extent) {
            return ControlFlow::Continue(());
        }
        let long = long.get_or_insert_with(|| LongItems::of_blocks(blocks));
        if !self.is_blocked_by(long) {
            return self.pass_blocks(blocks);
        }
        self.pass_each(&blocks[0].items[..long.n_before])?;
        self.pass(long.start, long.end)?;
        self.pass_blocks(&mut blocks[long.after..])
    }
}

/// Placed items by start; items with equal starts in the order of insertion.
#[derive(Debug, Default)]
pub(super) struct Occupied {
    groups: Vec<Group>,
}

impl Occupied {
    /// The lowest start from `base` at which `bytes` bytes overlap no item alive from the first op of `life` to its
    /// last.
    pub(super) fn lowest_start(
        &mut self,
        bytes: u64,
        life: [u32; 2],
        base: u64,
        limits: &Limits,
    ) -> u64 {
        let start = inside_one_chunk(base, bytes, limits);
        let mut search = GapSearch { bytes, life, limits, start };
        let _ = self.groups.iter_mut().try_for_each(|group| search.pass_group(group));
        search.start
    }

    pub(super) fn insert(&mut self, item: PlacedItem) {
        if self.groups.is_empty() {
            return self.groups.push(Group::new(vec![Block::new(vec![item])]));
        }
        let after = self.groups.partition_point(|group| group.start() <= item.start);
        let index = after.saturating_sub(1);
        self.groups[index].insert(item);
        if let Some(upper) = self.groups[index].split() {
            self.groups.insert(index + 1, upper);
        }
    }
}

/// Chunks form one address space, divided at multiples of the largest chunk. A slot that would cross
/// a boundary moves after it.
pub(super) fn inside_one_chunk(start: u64, bytes: u64, limits: &Limits) -> u64 {
    let chunk = limits.max_chunk.get();
    let is_in_the_first = start + bytes <= chunk; // almost always true, and needs no division
    if is_in_the_first || bytes == 0 || start / chunk == (start + bytes - 1) / chunk {
        start
    } else {
        start.next_multiple_of(chunk)
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
            let listed: Vec<_> = occupied
                .groups
                .iter()
                .flat_map(|group| &group.blocks)
                .flat_map(|block| block.items.clone())
                .collect();
            prop_assert_eq!(listed, plain);
        }
    }
}
