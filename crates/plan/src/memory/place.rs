//! The placer: a start for every tensor, so that what lives together lies apart.
//!
//! State first, packed in table order. Then each program's own tensors in the workspace
//! behind it, each at the lowest start that is free for its whole life. Three orders are
//! tried and the smallest result kept; an exact search is not, because on the GPT-2 programs
//! one of the three meets the live-bytes bound within 2 % (`tests/plans.rs` holds it).

use std::{cmp::Reverse, ops::RangeInclusive};

use super::{Limits, Plan, Planned, Slot, Space, Target, lifetimes};
use crate::{
    program::{Life, Program},
    units::Bytes,
};

/// Why no plan was made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// One tensor is larger than the device's largest allocation or binding.
    #[error("`{tensor}` needs {need} in one piece, the device gives {have}")]
    TooLargeForOnePiece {
        /// Which tensor.
        tensor: String,
        /// Its size.
        need: Bytes,
        /// The device's limit.
        have: Bytes,
    },
}

/// One thing to place in the workspace.
struct Item {
    bytes: u64,
    life: RangeInclusive<u32>,
}

/// Places all `programs` over their common state.
pub fn place(programs: Vec<Program>, target: &impl Target) -> Result<Plan, PlanError> {
    let limits = target.limits();
    for tensor in programs.iter().flat_map(Program::tensors) {
        let (need, have) = (tensor.bytes(), limits.max_chunk.min(limits.max_binding));
        if need > have {
            let tensor = tensor.name.clone();
            return Err(PlanError::TooLargeForOnePiece { tensor, need, have });
        }
    }

    let mut state = Vec::new();
    let mut end = 0;
    for tensor in programs.first().map_or(&[][..], Program::state) {
        let bytes = padded(tensor.bytes(), &limits);
        let start = inside_one_chunk(end, bytes, &limits);
        state.push((start, tensor.bytes().get()));
        end = start + bytes;
    }

    let mut top = end;
    let mut planned = Vec::with_capacity(programs.len());
    for program in programs {
        let (items, owners) = items(&program, target);
        let starts = best_starts(&items, end, &limits);
        let mut slots: Vec<_> = state.iter().map(|&(at, len)| slot(at, len, &limits)).collect();
        let mut scratch = vec![None; program.ops().len()];
        // A tensor that no op touches has no bytes.
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
        planned.push(Planned { program, slots, scratch });
    }
    Ok(Plan { programs: planned, chunks: chunks(top, &limits) })
}

/// Whose bytes an item are.
#[derive(Clone, Copy)]
enum Owner {
    Tensor(usize),
    Scratch(usize, u64),
}

fn items(program: &Program, target: &impl Target) -> (Vec<Item>, Vec<Owner>) {
    let limits = target.limits();
    let (mut items, mut owners) = (Vec::new(), Vec::new());
    for (index, (tensor, life)) in program.tensors().iter().zip(lifetimes(program)).enumerate() {
        let Some(life) = life.filter(|_| tensor.life != Life::Always) else { continue };
        items.push(Item { bytes: padded(tensor.bytes(), &limits), life });
        owners.push(Owner::Tensor(index));
    }
    for (index, op) in program.ops().iter().enumerate() {
        let bytes = target.scratch(program, op);
        if bytes > Bytes::ZERO {
            let at = index as u32;
            items.push(Item { bytes: padded(bytes, &limits), life: at..=at });
            owners.push(Owner::Scratch(index, bytes.get()));
        }
    }
    (items, owners)
}

/// The starts of the order that ends lowest.
fn best_starts(items: &[Item], base: u64, limits: &Limits) -> Vec<u64> {
    let length = |i: &usize| items[*i].life.end() - items[*i].life.start();
    let mut by_size: Vec<_> = (0..items.len()).collect();
    by_size.sort_by_key(|i| (Reverse(items[*i].bytes), *items[*i].life.start(), *i));
    let mut by_length = by_size.clone();
    by_length.sort_by_key(|i| Reverse(length(i)));
    let mut by_area = by_size.clone();
    by_area.sort_by_key(|i| Reverse(u128::from(items[*i].bytes) * u128::from(length(i) + 1)));

    [by_size, by_length, by_area]
        .iter()
        .map(|order| starts_in(order, items, base, limits))
        .min_by_key(|starts| starts.iter().zip(items).map(|(s, i)| s + i.bytes).max())
        .expect("three orders were tried")
}

/// Each item of `order` at the lowest start where it touches nothing that lives with it.
fn starts_in(order: &[usize], items: &[Item], base: u64, limits: &Limits) -> Vec<u64> {
    let mut starts = vec![0; items.len()];
    let mut placed: Vec<usize> = Vec::with_capacity(items.len()); // by start
    for &index in order {
        let item = &items[index];
        let mut start = inside_one_chunk(base, item.bytes, limits);
        for &other in &placed {
            let lives_apart = items[other].life.end() < item.life.start()
                || item.life.end() < items[other].life.start();
            if lives_apart {
                continue;
            }
            if start + item.bytes <= starts[other] {
                break; // the gap before `other` is large enough, and the rest lies behind it
            }
            start =
                inside_one_chunk(start.max(starts[other] + items[other].bytes), item.bytes, limits);
        }
        starts[index] = start;
        let rank = placed.partition_point(|&other| starts[other] <= start);
        placed.insert(rank, index);
    }
    starts
}

/// Chunks are seen as one address space cut at multiples of the largest chunk: whatever would
/// straddle a cut moves behind it.
fn inside_one_chunk(start: u64, bytes: u64, limits: &Limits) -> u64 {
    let chunk = limits.max_chunk.get();
    if bytes == 0 || start / chunk == (start + bytes - 1) / chunk {
        start
    } else {
        start.next_multiple_of(chunk)
    }
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
