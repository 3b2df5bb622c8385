//! The sum over lanes: gradients of all lanes added up in their order, on whichever ranks they are.
//!
//! A lane is a part of a step whose gradients are summed by themselves. Rank r runs lanes r, r + R,
//! r + 2R, … one after the other. After each round of R lanes, the owner of a piece of the gradient
//! receives that piece from every other rank and adds the lanes to its running total in lane
//! order, beginning with lane 0 itself. The order of additions is therefore a property of the
//! training run: it depends on the number of lanes, never on the number of ranks.
//!
//! A message holds pieces of at most [`message_elements`] elements. All buffers are allocated
//! before the first step and are part of the plan ([`buffer_bytes`]).

use std::{ops::Range, rc::Rc};

use fitgpt_exec::{Backend, BackendError, cpu::gradient_norm};
use fitgpt_plan::{
    job::TRAIN,
    model::Parameter,
    program::{TrainingState, decoder::Training},
    shard::{SHARD_BLOCK, Share},
    units::{Bytes, TensorId},
};

use crate::ranks::{ROOT, Ranks};

/// What all buffers together take, unless there are so many ranks that their smallest messages
/// take more.
const BUFFER_BYTES: u64 = 8 << 20;

/// Elements of a message: whole blocks, so that the squares of a block are never in two messages.
fn message_elements(ranks: u64) -> u64 {
    let elements = BUFFER_BYTES / 4 / (2 * ranks);
    (elements / SHARD_BLOCK).max(1) * SHARD_BLOCK
}

/// Bytes of the longest message.
pub(super) fn message_bytes(ranks: usize) -> usize {
    4 * message_elements(ranks as u64) as usize
}

/// Bytes on the host that adding up lanes takes: a message to and from every other rank, this
/// rank's part and the sum, and a sum of squares for each block of the gradient.
pub fn buffer_bytes(training: &Training, parameters: &[Parameter]) -> Bytes {
    if !training.adds_up_lanes() {
        return Bytes::ZERO;
    }
    let ranks = u64::from(training.share.ranks);
    let blocks: u64 = parameters.iter().map(|p| p.count().div_ceil(SHARD_BLOCK)).sum();
    Bytes::new(2 * ranks * 4 * message_elements(ranks) + 8 * blocks)
}

/// Which tensors of the parameters a message is read from or written to.
#[derive(Clone, Copy)]
enum Of {
    Weights,
    Gradients,
    /// Of earlier lanes.
    Totals,
}

/// Consecutive elements of one parameter, from a multiple of [`SHARD_BLOCK`] on.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Piece {
    parameter: usize,
    start: u64,
    length: usize,
}

/// Pieces that travel together.
type Message = Vec<Piece>;

fn length(message: &Message) -> usize {
    message.iter().map(|piece| piece.length).sum()
}

/// The messages of some elements of each parameter.
fn messages(ranges: &[Range<u64>], most: u64) -> Vec<Message> {
    let mut list: Vec<Message> = Vec::new();
    let mut free = 0;
    for (parameter, range) in ranges.iter().enumerate() {
        let mut start = range.start;
        while start < range.end {
            let left = range.end - start;
            // Only the end of a parameter is not the end of a block.
            let taken = if left <= free { left } else { free / SHARD_BLOCK * SHARD_BLOCK };
            if taken == 0 {
                list.push(Vec::new());
                free = most;
                continue;
            }
            let piece = Piece { parameter, start, length: taken as usize };
            list.last_mut().expect("a message was begun").push(piece);
            start += taken;
            free -= taken;
        }
    }
    list
}

/// Whether a round of lanes is the first or the last of a step; with as many lanes as ranks it is
/// both.
#[derive(Clone, Copy)]
pub(super) struct Round {
    pub(super) is_first: bool,
    pub(super) is_last: bool,
}

/// Adds up lanes.
pub(super) struct LaneSum {
    ranks: Rc<Ranks>,
    /// The messages of each rank's shard.
    shards: Vec<Vec<Message>>,
    /// For each rank, where the blocks of its shard are in `squares`.
    blocks: Vec<Range<usize>>,
    /// The block that each parameter begins with.
    first_block: Vec<usize>,
    squares: Vec<f64>,
    /// By rank; this rank's are empty.
    outgoing: Vec<Vec<f32>>,
    incoming: Vec<Vec<f32>>,
    own: Vec<f32>,
    sum: Vec<f32>,
}

impl LaneSum {
    /// Allocates all buffers; `None` if there is one lane only.
    pub(super) fn new(
        ranks: Rc<Ranks>,
        training: &Training,
        parameters: &[Parameter],
    ) -> Option<Self> {
        if !training.adds_up_lanes() {
            return None;
        }
        let most = message_elements(ranks.count() as u64);
        let mut n_blocks = 0;
        let first_block: Vec<_> = parameters
            .iter()
            .map(|parameter| {
                let first = n_blocks;
                n_blocks += parameter.count().div_ceil(SHARD_BLOCK) as usize;
                first
            })
            .collect();
        let (mut shards, mut blocks, mut end) = (Vec::new(), Vec::new(), 0);
        for share in Share::all(training.share.ranks) {
            let ranges = share.ranges(parameters, &training.optimizer);
            let of = |range: &Range<u64>| (range.end - range.start).div_ceil(SHARD_BLOCK) as usize;
            let start = end;
            end += ranges.iter().map(of).sum::<usize>();
            blocks.push(start..end);
            shards.push(messages(&ranges, most));
        }
        assert_eq!(end, n_blocks, "shards cover every block once");
        let most = most as usize;
        let for_others = || -> Vec<Vec<f32>> {
            let length = |rank| if rank == ranks.rank() { 0 } else { most };
            (0..ranks.count()).map(|rank| vec![0.0; length(rank)]).collect()
        };
        Some(Self {
            outgoing: for_others(),
            incoming: for_others(),
            own: vec![0.0; most],
            sum: vec![0.0; most],
            squares: vec![0.0; n_blocks],
            ranks,
            shards,
            blocks,
            first_block,
        })
    }

    /// Adds the gradients of one round of lanes, one of each rank, to what earlier rounds have
    /// left. All gradients are zero afterwards; after the last round, this rank's shard is the sum
    /// over all lanes, and its squares are known.
    pub(super) fn add(
        &mut self,
        backend: &mut dyn Backend,
        state: &TrainingState,
        round: Round,
    ) -> Result<(), BackendError> {
        let own_rank = self.ranks.rank();
        let count = self.shards.iter().map(Vec::len).max().unwrap_or(0);
        for at in 0..count {
            for rank in self.ranks.others() {
                if let Some(message) = self.shards[rank].get(at) {
                    let values = &mut self.outgoing[rank][..length(message)];
                    read(backend, state, Of::Gradients, message, values)?;
                }
            }
            self.exchange_shards(at);
            for rank in self.ranks.others() {
                if let Some(message) = self.shards[rank].get(at) {
                    let values = &mut self.outgoing[rank][..length(message)];
                    values.fill(0.0);
                    write(backend, state, Of::Gradients, message, values)?;
                }
            }
            let Some(message) = self.shards[own_rank].get(at) else { continue };
            let length = length(message);
            let (own, sum) = (&mut self.own[..length], &mut self.sum[..length]);
            read(backend, state, Of::Gradients, message, own)?;
            if !round.is_first {
                read(backend, state, Of::Totals, message, sum)?;
            }
            for rank in 0..self.ranks.count() {
                let lane = if rank == own_rank { &*own } else { &self.incoming[rank][..length] };
                if round.is_first && rank == 0 {
                    sum.copy_from_slice(lane); // not 0 + lane: that would lose a negative zero
                } else {
                    sum.iter_mut().zip(lane).for_each(|(sum, value)| *sum += value);
                }
            }
            if round.is_last {
                write(backend, state, Of::Gradients, message, sum)?;
                let mut rest = &*sum;
                for piece in message {
                    let values;
                    (values, rest) = rest.split_at(piece.length);
                    let first = self.first_block[piece.parameter];
                    let first = first + (piece.start / SHARD_BLOCK) as usize;
                    let sums = gradient_norm::block_sums(values);
                    self.squares[first..].iter_mut().zip(sums).for_each(|(to, sum)| *to = sum);
                }
            } else {
                write(backend, state, Of::Totals, message, sum)?;
                own.fill(0.0);
                write(backend, state, Of::Gradients, message, own)?;
            }
        }
        Ok(())
    }

    /// Message `at` of every shard: to its owner from all others.
    fn exchange_shards(&mut self, at: usize) {
        let Self { ranks, shards, outgoing, incoming, .. } = self;
        let mut sends = Vec::with_capacity(ranks.count());
        for (rank, values) in outgoing.iter().enumerate().filter(|(_, values)| !values.is_empty()) {
            if let Some(message) = shards[rank].get(at) {
                sends.push((rank, bytemuck::cast_slice(&values[..length(message)])));
            }
        }
        let mut receives = Vec::with_capacity(ranks.count());
        if let Some(message) = shards[ranks.rank()].get(at) {
            let length = length(message);
            let others = incoming.iter_mut().enumerate().filter(|(_, values)| !values.is_empty());
            receives.extend(
                others
                    .map(|(rank, values)| (rank, bytemuck::cast_slice_mut(&mut values[..length]))),
            );
        }
        ranks.exchange(&sends, receives);
    }

    /// The norm of the sum over all lanes, the same bits on every rank.
    pub(super) fn norm(&mut self, loss_scale: f32) -> f32 {
        let Self { ranks, blocks, squares, .. } = self;
        let own = squares[blocks[ranks.rank()].clone()].to_vec();
        let sends: Vec<_> = ranks
            .others()
            .filter(|_| !own.is_empty())
            .map(|rank| (rank, bytemuck::cast_slice(&own)))
            .collect();
        let mut receives = Vec::with_capacity(ranks.count());
        let mut rest = &mut squares[..];
        for (rank, blocks) in blocks.iter().enumerate() {
            let part;
            (part, rest) = rest.split_at_mut(blocks.len());
            if rank != ranks.rank() && !part.is_empty() {
                receives.push((rank, bytemuck::cast_slice_mut(part)));
            }
        }
        ranks.exchange(&sends, receives);
        gradient_norm::of_sums(squares, loss_scale)
    }

    /// Gives every rank the weights that the others have updated.
    pub(super) fn gather_weights(
        &mut self,
        backend: &mut dyn Backend,
        state: &TrainingState,
    ) -> Result<(), BackendError> {
        let Self { ranks, shards, incoming, own, .. } = self;
        let own_rank = ranks.rank();
        let count = shards.iter().map(Vec::len).max().unwrap_or(0);
        for at in 0..count {
            let mut sends = Vec::with_capacity(ranks.count());
            if let Some(message) = shards[own_rank].get(at).filter(|_| ranks.count() > 1) {
                let values = &mut own[..length(message)];
                read(backend, state, Of::Weights, message, values)?;
                let bytes: &[u8] = bytemuck::cast_slice(values);
                sends.extend(ranks.others().map(|rank| (rank, bytes)));
            }
            let mut receives = Vec::with_capacity(ranks.count());
            for (rank, values) in incoming.iter_mut().enumerate() {
                if let Some(message) = shards[rank].get(at).filter(|_| rank != own_rank) {
                    let bytes = bytemuck::cast_slice_mut(&mut values[..length(message)]);
                    receives.push((rank, bytes));
                }
            }
            ranks.exchange(&sends, receives);
            for rank in ranks.others() {
                if let Some(message) = shards[rank].get(at) {
                    let values = &incoming[rank][..length(message)];
                    write(backend, state, Of::Weights, message, values)?;
                }
            }
        }
        Ok(())
    }

    /// Gives every rank the weights of the root.
    pub(super) fn broadcast_weights(
        &mut self,
        backend: &mut dyn Backend,
        state: &TrainingState,
    ) -> Result<(), BackendError> {
        for message in self.shards.iter().flatten() {
            let values = &mut self.own[..length(message)];
            if self.ranks.is_root() {
                read(backend, state, Of::Weights, message, values)?;
                let bytes: &[u8] = bytemuck::cast_slice(values);
                let sends: Vec<_> = self.ranks.others().map(|rank| (rank, bytes)).collect();
                self.ranks.exchange(&sends, Vec::new());
            } else {
                self.ranks.receive(ROOT, bytemuck::cast_slice_mut(values));
                write(backend, state, Of::Weights, message, values)?;
            }
        }
        Ok(())
    }

    /// Bytes for the host's own use between steps.
    pub(super) fn staging(&mut self) -> &mut [u8] {
        bytemuck::cast_slice_mut(&mut self.own)
    }
}

/// A piece's tensor, and the byte in it at which the piece begins.
fn location(state: &TrainingState, of: Of, piece: &Piece) -> (TensorId, Bytes) {
    let parameter = &state.parameters[piece.parameter];
    let (tensor, first) = match of {
        Of::Weights => (parameter.weight, piece.start),
        Of::Gradients => (parameter.gradient, piece.start),
        Of::Totals => {
            let total = parameter.total.expect("lanes that take turns have totals");
            (total, piece.start - parameter.owned.start)
        }
    };
    (tensor, Bytes::new(4 * first))
}

fn read(
    backend: &mut dyn Backend,
    state: &TrainingState,
    of: Of,
    message: &Message,
    mut values: &mut [f32],
) -> Result<(), BackendError> {
    for piece in message {
        let (tensor, start) = location(state, of, piece);
        let part;
        (part, values) = values.split_at_mut(piece.length);
        backend.read(TRAIN, tensor, start, bytemuck::cast_slice_mut(part))?;
    }
    Ok(())
}

fn write(
    backend: &mut dyn Backend,
    state: &TrainingState,
    of: Of,
    message: &Message,
    mut values: &[f32],
) -> Result<(), BackendError> {
    for piece in message {
        let (tensor, start) = location(state, of, piece);
        let part;
        (part, values) = values.split_at(piece.length);
        backend.write(TRAIN, tensor, start, bytemuck::cast_slice(part))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: u64 = SHARD_BLOCK;

    #[test]
    fn messages_cover_every_element_once_and_split_at_blocks() {
        let ranges = [0..100, BLOCK..5 * BLOCK + 7, 0..0, 0..1, 0..3 * BLOCK];
        for most in [BLOCK, 2 * BLOCK, 64 * BLOCK] {
            let list = messages(&ranges, most);
            assert!(list.iter().all(|message| length(message) as u64 <= most));
            let mut ends: Vec<_> = ranges.iter().map(|range| range.start).collect();
            for piece in list.iter().flatten() {
                assert_eq!(piece.start, ends[piece.parameter]);
                assert_eq!(piece.start % BLOCK, 0);
                ends[piece.parameter] += piece.length as u64;
            }
            assert!(ends.iter().zip(&ranges).all(|(end, range)| *end == range.end), "{most}");
        }
        assert_eq!(messages(&ranges, 64 * BLOCK).len(), 1);
    }

    #[test]
    fn buffers_take_eight_mebibytes_up_to_64_ranks() {
        for ranks in [1, 2, 3, 6, 64] {
            let bytes = 2 * ranks * 4 * message_elements(ranks);
            assert!(bytes <= BUFFER_BYTES && bytes > BUFFER_BYTES / 2, "{ranks}: {bytes}");
        }
        assert_eq!(message_elements(1000), BLOCK);
    }
}
