//! The placer: chooses a start for every tensor so that tensors alive together do not overlap.
//!
//! State comes first, packed in table order. The workspace after it has each program's other
//! tensors, each at the lowest start that is free for its whole lifetime. Three orders are tried
//! and the smallest result is kept. There is no exact search: on the GPT-2 programs one of the
//! three is within 2 % of the live-bytes bound (`tests/library/plans.rs` checks it).
//!
//! Promise: placement is within 2 % of the live-bytes bound on the programs of GPT-2. Test:
//! `crates/model/tests/decoder_programs.rs`, `tests/library/plans.rs`.

use std::{cmp::Reverse, ops::RangeInclusive};

use super::{
    Limits, PlacedProgram, Plan, Slot, Space, Target, lifetimes,
    occupied::{Occupied, PlacedItem, inside_one_chunk},
};
use crate::{Life, Program, units::Bytes};

/// Why no plan was made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// One tensor is larger than the device's largest allocation or binding.
    TooLargeForOnePiece {
        /// Which tensor.
        tensor: String,
        /// Its size.
        need: Bytes,
        /// The device's limit.
        have: Bytes,
    },
}

/// A tensor or scratch to place in the workspace.
struct WorkspaceItem {
    bytes: u64,
    life: RangeInclusive<u32>,
}

/// Places all `programs`, which share their state.
pub fn place(programs: Vec<Program>, target: &impl Target) -> Result<Plan, PlanError> {
    let limits = target.limits();
    for tensor in programs.iter().flat_map(Program::tensors) {
        let (need, have) = (tensor.bytes(), limits.max_chunk.min(limits.max_binding));
        if need > have {
            let tensor = tensor.name.clone();
            return Err(PlanError::TooLargeForOnePiece { tensor, need, have });
        }
    }

    let (state, end) =
        programs.first().map_or((Vec::new(), 0), |program| state_slots(program, &limits));
    let mut top = end;
    let mut planned = Vec::with_capacity(programs.len());
    for program in programs {
        let (items, owners) = items(&program, target);
        let starts = best_starts(&items, end, &limits);
        let mut slots: Vec<_> = state.iter().map(|&(at, len)| slot(at, len, &limits)).collect();
        let mut scratch = vec![None; program.ops().len()];
        // A tensor that no op touches gets no bytes.
        slots.resize(program.tensors().len(), slot(end, 0, &limits));
        for ((item, owner), start) in items.iter().zip(owners).zip(starts) {
            top = top.max(start + item.bytes);
            match owner {
                Owner::Tensor(index) => {
                    let bytes = program.tensors()[index].bytes().get();
                    slots[index] = slot(start, bytes, &limits);
                }
                Owner::Scratch(op, bytes) => scratch[op] = Some(slot(start, bytes, &limits)),
            }
        }
        planned.push(PlacedProgram { program, slots, scratch });
    }
    Ok(Plan { programs: planned, chunks: chunks(top, &limits) })
}

/// What an item is for.
#[derive(Clone, Copy)]
enum Owner {
    /// The tensor with this index.
    Tensor(usize),
    /// The scratch of the op with this index, and its bytes without padding.
    Scratch(usize, u64),
}

fn items(program: &Program, target: &impl Target) -> (Vec<WorkspaceItem>, Vec<Owner>) {
    let limits = target.limits();
    let (mut items, mut owners) = (Vec::new(), Vec::new());
    for (index, (tensor, life)) in program.tensors().iter().zip(lifetimes(program)).enumerate() {
        let Some(life) = life.filter(|_| tensor.life != Life::Always) else { continue };
        items.push(WorkspaceItem { bytes: padded(tensor.bytes(), &limits), life });
        owners.push(Owner::Tensor(index));
    }
    for (index, op) in program.ops().iter().enumerate() {
        let bytes = target.scratch(program, op);
        if bytes > Bytes::ZERO {
            let at = index as u32;
            items.push(WorkspaceItem { bytes: padded(bytes, &limits), life: at..=at });
            owners.push(Owner::Scratch(index, bytes.get()));
        }
    }
    (items, owners)
}

/// The order in which items are placed.
#[derive(Clone, Copy)]
enum PlacementOrder {
    Size,
    Length,
    Area,
}

impl PlacementOrder {
    const ALL: [Self; 3] = [Self::Size, Self::Length, Self::Area];

    /// Largest first; equal ones by size, then by first op.
    fn of(self, items: &[WorkspaceItem]) -> Vec<usize> {
        let mut order: Vec<_> = (0..items.len()).collect();
        order.sort_unstable_by_key(|i| {
            let WorkspaceItem { bytes, life } = &items[*i];
            let length = u64::from(life.end() - life.start());
            let rank = match self {
                Self::Size => 0,
                Self::Length => u128::from(length),
                Self::Area => u128::from(*bytes) * u128::from(length + 1),
            };
            (Reverse(rank), Reverse(*bytes), *life.start(), *i)
        });
        order
    }
}

/// No further order is tried after one with an end up to this: a ten-thousandth above `bound`, the
/// lowest possible end.
fn good_end(bound: u64) -> u64 {
    bound + bound / 10_000
}

/// The starts from the order with the lowest end; from the first of several.
fn best_starts(items: &[WorkspaceItem], base: u64, limits: &Limits) -> Vec<u64> {
    let good = good_end(base + live_bytes(items));
    let mut best: Option<(u64, Vec<u64>)> = None;
    for order in PlacementOrder::ALL {
        // Only a lower end than the best so far helps.
        let most = match best {
            Some((top, _)) if top <= good => break,
            Some((top, _)) => top - 1,
            None => u64::MAX,
        };
        best = starts_in(&order.of(items), items, base, limits, most).or(best);
    }
    best.map_or(Vec::new(), |(_, starts)| starts)
}

/// Whether a program alone can be placed within a number of bytes.
pub struct FitCheck {
    items: Vec<WorkspaceItem>,
    base: u64,
    limits: Limits,
    fits_in_pieces: bool,
}

impl FitCheck {
    /// Collects what has to be placed.
    pub fn new(program: &Program, target: &impl Target) -> Self {
        let limits = target.limits();
        let piece = limits.max_chunk.min(limits.max_binding);
        Self {
            items: items(program, target).0,
            base: state_slots(program, &limits).1,
            limits,
            fits_in_pieces: program.tensors().iter().all(|tensor| tensor.bytes() <= piece),
        }
    }

    /// The fewest bytes that it could be placed in: the most that are alive at once. Much faster
    /// than placing. `None` if a tensor is too large for one piece.
    pub fn live_bytes(&self) -> Option<Bytes> {
        self.fits_in_pieces.then(|| Bytes::new(self.base + live_bytes(&self.items)))
    }

    /// Whether it can be placed within `limit`. Gives the same answer as [`place`].
    pub fn is_placed_in(&self, limit: Bytes) -> bool {
        let Some(bound) = self.live_bytes().filter(|bound| *bound <= limit) else { return false };
        let Self { items, base, limits, .. } = self;
        let (limit, good) = (limit.get(), good_end(bound.get()));
        let mut ends = PlacementOrder::ALL.into_iter().filter_map(|order| {
            starts_in(&order.of(items), items, *base, limits, limit.max(good)).map(|(end, _)| end)
        });
        // Either it is within the limit, or it is good and `place` would stop at it.
        ends.next().is_some_and(|end| end <= limit)
    }
}

/// Starts and sizes of the state, packed in table order, and its end.
fn state_slots(program: &Program, limits: &Limits) -> (Vec<(u64, u64)>, u64) {
    let mut end = 0;
    let slots = program.state().iter().map(|tensor| {
        let bytes = padded(tensor.bytes(), limits);
        let start = inside_one_chunk(end, bytes, limits);
        end = start + bytes;
        (start, tensor.bytes().get())
    });
    (slots.collect(), end)
}

/// The most bytes of `items` that are alive at the same op; no order can end lower.
fn live_bytes(items: &[WorkspaceItem]) -> u64 {
    let ops = items.iter().map(|item| *item.life.end() as usize + 1).max().unwrap_or(0);
    let (mut begins, mut ends) = (vec![0; ops + 1], vec![0; ops + 1]);
    for item in items {
        begins[*item.life.start() as usize] += item.bytes;
        ends[*item.life.end() as usize + 1] += item.bytes;
    }
    let alive = begins.iter().zip(&ends).scan(0, |alive, (begin, end)| {
        *alive = *alive + begin - end;
        Some(*alive)
    });
    alive.max().unwrap_or(0)
}

/// Places each item of `order` at the lowest start that overlaps no item alive at the same time.
/// Returns the starts and the highest end, or `None` if that exceeds `most`.
fn starts_in(
    order: &[usize],
    items: &[WorkspaceItem],
    base: u64,
    limits: &Limits,
    most: u64,
) -> Option<(u64, Vec<u64>)> {
    let mut starts = vec![0; items.len()];
    let mut occupied = Occupied::default();
    let mut top = base;
    for &index in order {
        let bytes = items[index].bytes;
        let (first, last) = (*items[index].life.start(), *items[index].life.end());
        let start = occupied.lowest_start(bytes, [first, last], base, limits);
        let end = start + bytes;
        if end > most {
            return None;
        }
        top = top.max(end);
        starts[index] = start;
        occupied.insert(PlacedItem { start, end, first, last });
    }
    Some((top, starts))
}

fn padded(bytes: Bytes, limits: &Limits) -> u64 {
    (bytes + limits.guard).align_up(limits.alignment).get()
}

fn slot(start: u64, bytes: u64, limits: &Limits) -> Slot {
    let chunk = start / limits.max_chunk.get();
    let start = Bytes::new(start % limits.max_chunk.get());
    let chunk = u32::try_from(chunk).expect("an arena has few chunks");
    Slot { space: Space::Device, chunk, start, end: start + Bytes::new(bytes) }
}

/// Sizes of the chunks that reach up to `top`.
fn chunks(top: u64, limits: &Limits) -> Vec<Bytes> {
    let chunk = limits.max_chunk.get();
    let mut sizes = vec![limits.max_chunk; (top / chunk) as usize];
    if !top.is_multiple_of(chunk) {
        sizes.push(Bytes::new(top % chunk));
    }
    sizes
}
