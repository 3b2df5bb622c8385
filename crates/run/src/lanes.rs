//! The sum over lanes: adds up the gradients of all lanes in lane order, for any number of ranks.
//!
//! A lane is a part of a step whose gradients are summed separately. Rank r of R runs lane r and
//! every R-th lane after it, one after the other. After each round of R lanes, the owner of a piece
//! of the gradient receives that piece from every other rank and adds the lanes to its running total
//! in lane order, beginning with lane 0 itself. The order of additions is therefore a property of
//! the training run: it depends on the number of lanes, never on the number of ranks.
//!
//! A gradient is sent as soon as the last micro-batch of a lane has finished with it, while the
//! backward pass goes on to earlier layers ([`LaneSum::progress`]). So messages are in the order in
//! which the backward pass finishes gradients, and at most [`IN_FLIGHT`] exchanges are pending.
//!
//! A message holds pieces of at most [`message_elements`] elements. All buffers are allocated
//! before the first step and are part of the plan ([`buffer_bytes`]).
//!
//! A chain from rank to rank would send as much and take R hops. The owner of a shard also has the
//! final gradient in hand, so it sums the squares of its blocks; all ranks gather these sums and
//! add them in the order of a single process. The update of several lanes has the norm as an input,
//! also in one process, so that a GPU computes it as the CPU does.
//!
//! Promise: for equal `lanes`, every number of ranks trains the same bits (losses, norms, weights,
//! optimizer states), also after a rank was killed and the run resumed with another number. Test:
//! `tests/ranks/check.py`, `tests/runs/ranks.rs`; on software Vulkan `scripts/ranks-vulkan`.

use std::{env, ops::Range, rc::Rc};

use fitgpt_exec::{Backend, BackendError, cpu::gradient_norm};
use fitgpt_model::{Parameter, shard::Share, state::TrainingState, training::Training};
use fitgpt_program::{
    Program, SHARD_BLOCK,
    units::{Bytes, ProgramId, TensorId},
};

use crate::ranks::{Exchange, ROOT, RankMessage, Ranks};

/// The size of all buffers, unless there are so many ranks that their smallest messages take more.
const BUFFER_BYTES: u64 = 16 << 20;

/// How many exchanges are pending at a time: the next one starts while the last one is added up.
const IN_FLIGHT: u64 = 2;

/// `0` sends gradients only after the backward pass, to measure what overlapping gains.
const OVERLAP_VARIABLE: &str = "FITGPT_OVERLAP";

/// Elements of a message: whole blocks, so that a block is never split between two messages. Each
/// exchange has a message to and from every other rank; four more buffers of this size hold this
/// rank's part, the sum, zeros, and the copy of a message that is not posted.
fn message_elements(ranks: u64) -> u64 {
    let elements = BUFFER_BYTES / 4 / (2 * IN_FLIGHT * ranks);
    (elements / SHARD_BLOCK).max(1) * SHARD_BLOCK
}

/// Bytes of the longest message.
pub(super) fn message_bytes(ranks: usize) -> usize {
    4 * message_elements(ranks as u64) as usize
}

/// Bytes on the host that adding up lanes takes: messages, and a sum of squares for each block of
/// the gradient.
pub fn buffer_bytes(training: &Training, parameters: &[Parameter]) -> Bytes {
    if !training.adds_up_lanes() {
        return Bytes::ZERO;
    }
    let ranks = u64::from(training.share.ranks);
    let blocks: u64 = parameters.iter().map(|p| p.count().div_ceil(SHARD_BLOCK)).sum();
    Bytes::new(2 * IN_FLIGHT * ranks * 4 * message_elements(ranks) + 8 * blocks)
}

/// Which tensors of the parameters a message is read from or written to.
#[derive(Clone, Copy)]
enum LaneTensors {
    Weights,
    Gradients,
    /// The sums of earlier lanes.
    Totals,
}

/// Consecutive elements of one parameter, starting at a multiple of [`SHARD_BLOCK`].
#[derive(Clone, Debug, PartialEq, Eq)]
struct Piece {
    parameter: usize,
    start: u64,
    length: usize,
}

/// Pieces that are sent together.
type PieceGroup = Vec<Piece>;

fn length(message: &[Piece]) -> usize {
    message.iter().map(|piece| piece.length).sum()
}

/// The messages of some elements of each parameter, in this order of parameters.
fn messages(ranges: &[Range<u64>], order: &[usize], most: u64) -> Vec<PieceGroup> {
    let mut list: Vec<PieceGroup> = Vec::new();
    let mut free = 0;
    for parameter in order.iter().copied() {
        let range = &ranges[parameter];
        let mut start = range.start;
        while start < range.end {
            let left = range.end - start;
            // A piece ends at the end of a block or of the parameter.
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

/// For each parameter, how many ops of `program` have ended when its gradient is complete.
fn completions(program: &Program, state: &TrainingState) -> Vec<usize> {
    let mut ended = vec![0; program.tensors().len()];
    for (at, op) in program.ops().iter().enumerate() {
        for operand in op.operands() {
            ended[operand.tensor.index()] = at + 1;
        }
    }
    state.parameters.iter().map(|parameter| ended[parameter.gradient.index()]).collect()
}

/// Every exchange of gradients: messages to the owners of shards.
pub(super) struct Schedule {
    /// The messages of each rank's shard; the first messages of all ranks are exchanged together,
    /// then the second ones.
    shards: Vec<Vec<PieceGroup>>,
    /// How many ops have ended when the gradients of each exchange are complete; never decreases.
    pub(super) complete: Vec<usize>,
}

impl Schedule {
    /// `program` is the training step of `state`.
    pub(super) fn new(
        program: &Program,
        state: &TrainingState,
        ranges: &[Vec<Range<u64>>],
    ) -> Self {
        let completions = completions(program, state);
        let mut order: Vec<_> = (0..completions.len()).collect();
        order.sort_by_key(|parameter| completions[*parameter]);
        let most = message_elements(ranges.len() as u64);
        let shards: Vec<_> = ranges.iter().map(|of| messages(of, &order, most)).collect();
        let count = shards.iter().map(Vec::len).max().unwrap_or(0);
        let mut so_far = 0;
        let complete = |at: usize| {
            let pieces = shards.iter().filter_map(|shard| shard.get(at)).flatten();
            let ended = pieces.map(|piece| completions[piece.parameter]).max();
            so_far = so_far.max(ended.unwrap_or(0));
            so_far
        };
        let complete = (0..count).map(complete).collect();
        Self { shards, complete }
    }

    fn message(&self, rank: usize, at: usize) -> &[Piece] {
        self.shards[rank].get(at).map_or(&[], Vec::as_slice)
    }

    /// Bytes of message `at` of a rank's shard.
    pub(super) fn bytes(&self, rank: usize, at: usize) -> usize {
        4 * length(self.message(rank, at))
    }
}

/// Whether a round of lanes is the first or the last of a step; both, if there are as many lanes as
/// ranks.
#[derive(Clone, Copy)]
pub(super) struct Round {
    pub(super) is_first: bool,
    pub(super) is_last: bool,
}

/// Adds up lanes.
pub(super) struct LaneSum {
    ranks: Rc<Ranks>,
    schedule: Schedule,
    /// For each rank, the blocks of its shard in `squares`.
    blocks: Vec<Vec<Range<usize>>>,
    /// The first block of each parameter.
    first_block: Vec<usize>,
    squares: Vec<f64>,
    /// Exchanges that are not pending.
    idle: Vec<Exchange>,
    own: Vec<f32>,
    sum: Vec<f32>,
    zeros: Vec<f32>,
    /// How many exchanges of this round were posted and added.
    n_posted: usize,
    n_added: usize,
    overlaps: bool,
}

impl LaneSum {
    /// Allocates all buffers; `None` if there is only one lane. `program` is the training step.
    pub(super) fn new(
        ranks: Rc<Ranks>,
        training: &Training,
        parameters: &[Parameter],
        program: &Program,
        state: &TrainingState,
    ) -> Option<Self> {
        if !training.adds_up_lanes() {
            return None;
        }
        let mut n_blocks = 0;
        let first_block: Vec<_> = parameters
            .iter()
            .map(|parameter| {
                let first = n_blocks;
                n_blocks += parameter.count().div_ceil(SHARD_BLOCK) as usize;
                first
            })
            .collect();
        let ranges = Share::all_ranges(training.share.ranks, parameters, &training.optimizer);
        let blocks_of = |ranges: &Vec<Range<u64>>| -> Vec<Range<usize>> {
            let blocks = |(first, range): (&usize, &Range<u64>)| {
                let block = |at: u64| first + at.div_ceil(SHARD_BLOCK) as usize;
                block(range.start)..block(range.end)
            };
            first_block.iter().zip(ranges).map(blocks).collect()
        };
        let most = message_elements(ranks.count() as u64) as usize;
        let messages =
            || ranks.others().map(|rank| RankMessage::with_capacity(rank, 4 * most)).collect();
        let idle = (0..IN_FLIGHT).map(|_| Exchange { sends: messages(), receives: messages() });
        Some(Self {
            idle: idle.collect(),
            own: vec![0.0; most],
            sum: vec![0.0; most],
            zeros: vec![0.0; most],
            squares: vec![0.0; n_blocks],
            blocks: ranges.iter().map(blocks_of).collect(),
            schedule: Schedule::new(program, state, &ranges),
            ranks,
            first_block,
            n_posted: 0,
            n_added: 0,
            overlaps: env::var(OVERLAP_VARIABLE).as_deref() != Ok("0"),
        })
    }

    /// The number of ops of a lane's last micro-batch after which [`LaneSum::progress`] first has
    /// something to do; `None` if everything is sent at the end of the micro-batch.
    pub(super) fn first_complete(&self) -> Option<usize> {
        let is_worth_it = self.overlaps && self.ranks.count() > 1;
        self.schedule.complete.first().copied().filter(|_| is_worth_it)
    }

    /// Sends the gradients that are complete after `ended` ops, as far as there are free buffers,
    /// and adds what has arrived. Never waits.
    pub(super) fn progress(
        &mut self,
        backend: &mut dyn Backend,
        state: &TrainingState,
        round: Round,
        ended: usize,
    ) -> Result<(), BackendError> {
        while self.n_added < self.n_posted
            && let Some(exchange) = self.ranks.collect_complete()
        {
            self.add(backend, state, round, exchange)?;
        }
        while self.schedule.complete.get(self.n_posted).is_some_and(|complete| *complete <= ended)
            && let Some(exchange) = self.idle.pop()
        {
            self.post(backend, state, exchange)?;
        }
        Ok(())
    }

    /// Adds the gradients of one round of lanes, one per rank, to the totals of earlier rounds.
    /// Then all gradients are zero; after the last round, this rank's shard is the sum over all
    /// lanes, and the sums of its squares are known.
    pub(super) fn finish(
        &mut self,
        backend: &mut dyn Backend,
        state: &TrainingState,
        round: Round,
    ) -> Result<(), BackendError> {
        while self.n_added < self.schedule.complete.len() {
            self.progress(backend, state, round, usize::MAX)?;
            if self.n_added < self.n_posted {
                let exchange = self.ranks.collect();
                self.add(backend, state, round, exchange)?;
            }
        }
        (self.n_posted, self.n_added) = (0, 0);
        Ok(())
    }

    /// Starts the next exchange, and zeroes the gradients that were sent.
    fn post(
        &mut self,
        backend: &mut dyn Backend,
        state: &TrainingState,
        mut exchange: Exchange,
    ) -> Result<(), BackendError> {
        let at = self.n_posted;
        for outgoing in &mut exchange.sends {
            let message = self.schedule.message(outgoing.rank, at);
            outgoing.resize(4 * length(message));
            read(backend, state, LaneTensors::Gradients, message, outgoing.floats_mut())?;
            write(backend, state, LaneTensors::Gradients, message, &self.zeros)?;
        }
        let own = self.schedule.bytes(self.ranks.rank(), at);
        exchange.receives.iter_mut().for_each(|message| message.resize(own));
        self.ranks.post(exchange);
        self.n_posted += 1;
        Ok(())
    }

    /// Adds the lanes of the oldest exchange to this rank's shard.
    fn add(
        &mut self,
        backend: &mut dyn Backend,
        state: &TrainingState,
        round: Round,
        exchange: Exchange,
    ) -> Result<(), BackendError> {
        let own_rank = self.ranks.rank();
        let message = self.schedule.message(own_rank, self.n_added);
        self.n_added += 1;
        let length = length(message);
        let (own, sum) = (&mut self.own[..length], &mut self.sum[..length]);
        read(backend, state, LaneTensors::Gradients, message, own)?;
        if !round.is_first {
            read(backend, state, LaneTensors::Totals, message, sum)?;
        }
        let mut received = exchange.receives.iter();
        for rank in 0..self.ranks.count() {
            let lane = if rank == own_rank {
                &*own
            } else {
                received.next().expect("one of each other rank, in their order").floats()
            };
            if round.is_first && rank == 0 {
                sum.copy_from_slice(lane); // not 0 + lane: that would lose a negative zero
            } else {
                sum.iter_mut().zip(lane).for_each(|(sum, value)| *sum += value);
            }
        }
        if round.is_last {
            write(backend, state, LaneTensors::Gradients, message, sum)?;
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
            write(backend, state, LaneTensors::Totals, message, sum)?;
            write(backend, state, LaneTensors::Gradients, message, &self.zeros)?;
        }
        self.idle.push(exchange);
        Ok(())
    }

    /// The norm of the sum over all lanes, the same bits on every rank.
    pub(super) fn norm(&mut self, loss_scale: f32) -> f32 {
        let Self { ranks, blocks, squares, .. } = self;
        let of = |rank: usize| -> Vec<f64> {
            blocks[rank].iter().flat_map(|blocks| &squares[blocks.clone()]).copied().collect()
        };
        let own = of(ranks.rank());
        let sends: Vec<_> = ranks
            .others()
            .filter(|_| !own.is_empty())
            .map(|rank| (rank, bytemuck::cast_slice(&own)))
            .collect();
        let mut all: Vec<_> = ranks.others().map(|rank| (rank, of(rank))).collect();
        let receives = all
            .iter_mut()
            .filter(|(_, squares)| !squares.is_empty())
            .map(|(rank, squares)| (*rank, bytemuck::cast_slice_mut(squares)))
            .collect();
        ranks.exchange(&sends, receives);
        for (rank, received) in all {
            let mut received = received.into_iter();
            for blocks in &blocks[rank] {
                let to = squares[blocks.clone()].iter_mut();
                to.zip(&mut received).for_each(|(to, sum)| *to = sum);
            }
        }
        gradient_norm::of_sums(squares, loss_scale)
    }

    /// Gives every rank the weights that the others have updated.
    pub(super) fn gather_weights(
        &mut self,
        backend: &mut dyn Backend,
        state: &TrainingState,
    ) -> Result<(), BackendError> {
        let Self { ranks, schedule, idle, own, .. } = self;
        if ranks.count() == 1 {
            return Ok(());
        }
        let count = schedule.complete.len();
        let mut n_posted = 0;
        for at in 0..count {
            while n_posted < count
                && let Some(mut exchange) = idle.pop()
            {
                let message = schedule.message(ranks.rank(), n_posted);
                let values = &mut own[..length(message)];
                read(backend, state, LaneTensors::Weights, message, values)?;
                for message in &mut exchange.sends {
                    message.resize(4 * values.len());
                    message.floats_mut().copy_from_slice(values);
                }
                for message in &mut exchange.receives {
                    message.resize(schedule.bytes(message.rank, n_posted));
                }
                ranks.post(exchange);
                n_posted += 1;
            }
            let exchange = ranks.collect();
            for incoming in &exchange.receives {
                let message = schedule.message(incoming.rank, at);
                write(backend, state, LaneTensors::Weights, message, incoming.floats())?;
            }
            idle.push(exchange);
        }
        Ok(())
    }

    /// Gives every rank the weights of the root.
    pub(super) fn broadcast_weights(
        &mut self,
        backend: &mut dyn Backend,
        state: &TrainingState,
    ) -> Result<(), BackendError> {
        for message in self.schedule.shards.iter().flatten() {
            let values = &mut self.own[..length(message)];
            if self.ranks.is_root() {
                read(backend, state, LaneTensors::Weights, message, values)?;
                let bytes: &[u8] = bytemuck::cast_slice(values);
                let sends: Vec<_> = self.ranks.others().map(|rank| (rank, bytes)).collect();
                self.ranks.exchange(&sends, Vec::new());
            } else {
                self.ranks.receive(ROOT, bytemuck::cast_slice_mut(values));
                write(backend, state, LaneTensors::Weights, message, values)?;
            }
        }
        Ok(())
    }

    /// Scratch bytes for the host between steps.
    pub(super) fn staging(&mut self) -> &mut [u8] {
        bytemuck::cast_slice_mut(&mut self.own)
    }
}

/// A piece's tensor, and the piece's first byte in it.
fn location(state: &TrainingState, of: LaneTensors, piece: &Piece) -> (TensorId, Bytes) {
    let parameter = &state.parameters[piece.parameter];
    let (tensor, first) = match of {
        LaneTensors::Weights => (parameter.weight, piece.start),
        LaneTensors::Gradients => (parameter.gradient, piece.start),
        LaneTensors::Totals => {
            let total = parameter.total.expect("lanes that take turns have totals");
            (total, piece.start - parameter.owned.start)
        }
    };
    (tensor, Bytes::new(4 * first))
}

fn read(
    backend: &mut dyn Backend,
    state: &TrainingState,
    of: LaneTensors,
    message: &[Piece],
    mut values: &mut [f32],
) -> Result<(), BackendError> {
    for piece in message {
        let (tensor, start) = location(state, of, piece);
        let part;
        (part, values) = values.split_at_mut(piece.length);
        backend.read(ProgramId::FIRST, tensor, start, bytemuck::cast_slice_mut(part))?;
    }
    Ok(())
}

fn write(
    backend: &mut dyn Backend,
    state: &TrainingState,
    of: LaneTensors,
    message: &[Piece],
    mut values: &[f32],
) -> Result<(), BackendError> {
    for piece in message {
        let (tensor, start) = location(state, of, piece);
        let part;
        (part, values) = values.split_at(piece.length);
        backend.write(ProgramId::FIRST, tensor, start, bytemuck::cast_slice(part))?;
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
            let order: Vec<_> = (0..ranges.len()).rev().collect();
            let list = messages(&ranges, &order, most);
            assert!(list.iter().all(|message| length(message) as u64 <= most));
            let mut ends: Vec<_> = ranges.iter().map(|range| range.start).collect();
            for piece in list.iter().flatten() {
                assert_eq!(piece.start, ends[piece.parameter]);
                assert_eq!(piece.start % BLOCK, 0);
                ends[piece.parameter] += piece.length as u64;
            }
            assert!(ends.iter().zip(&ranges).all(|(end, range)| *end == range.end), "{most}");
        }
        assert_eq!(messages(&ranges, &[4, 0, 1, 2, 3], 64 * BLOCK).len(), 1);
        let order: Vec<_> =
            messages(&ranges, &[4, 0, 1, 3], BLOCK).iter().flatten().map(|p| p.parameter).collect();
        assert!(order.is_sorted_by_key(|p| [1, 2, 3, 4, 0][*p]), "{order:?}");
    }

    #[test]
    fn buffers_take_sixteen_mebibytes_up_to_64_ranks() {
        for ranks in [1, 2, 3, 6, 64] {
            let bytes = 2 * IN_FLIGHT * ranks * 4 * message_elements(ranks);
            assert!(bytes <= BUFFER_BYTES && bytes > BUFFER_BYTES / 2, "{ranks}: {bytes}");
        }
        assert_eq!(message_elements(1000), BLOCK);
    }
}
