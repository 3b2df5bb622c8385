//! The root's commands to the other ranks, and the transfer of optimizer states.
//!
//! The root decides when to step, evaluate, save and end; the others wait for its commands. So
//! every decision is made once, and only the root needs the checkpoint's folder. A save requests
//! the optimizer states of other ranks piece by piece, so no rank ever holds a second copy.

use std::ops::Range;

use fitgpt_data::Split;
use fitgpt_model::{
    Parameter,
    optimizer::{Optimizer, OptimizerState},
    shard::Share,
};

/// A command of the root.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Command {
    /// Receive the root's weights.
    Weights,
    /// One optimizer step.
    Step { step: u64, updates: u64, lr: f32, loss_scale: f32 },
    /// The losses of a split.
    Evaluate(Split),
    /// Send bytes of an optimizer state to the root.
    Send(StateBytes),
    /// Receive bytes of an optimizer state from the root.
    Receive(StateBytes),
    /// The run is over.
    End,
}

/// Some bytes of one optimizer state on its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StateBytes {
    pub(super) parameter: u64,
    /// Which of the parameter's states.
    pub(super) state: u64,
    /// The first byte, in the owner's part of the state.
    pub(super) start: u64,
    pub(super) length: u64,
}

/// A command as it is sent.
pub(super) type CommandWords = [u64; 5];

impl Command {
    pub(super) fn encode(self) -> CommandWords {
        match self {
            Self::Weights => [0; 5],
            Self::Step { step, updates, lr, loss_scale } => {
                [1, step, updates, lr.to_bits().into(), loss_scale.to_bits().into()]
            }
            Self::Evaluate(Split::Train) => [2, 0, 0, 0, 0],
            Self::Evaluate(Split::Val) => [2, 1, 0, 0, 0],
            Self::Send(StateBytes { parameter, state, start, length }) => {
                [3, parameter, state, start, length]
            }
            Self::Receive(StateBytes { parameter, state, start, length }) => {
                [4, parameter, state, start, length]
            }
            Self::End => [5, 0, 0, 0, 0],
        }
    }

    /// Panics on anything that [`encode`](Self::encode) does not produce.
    pub(super) fn decode(encoded: CommandWords) -> Self {
        let number = |bits: u64| f32::from_bits(bits as u32);
        match encoded {
            [0, ..] => Self::Weights,
            [1, step, updates, lr, scale] => {
                Self::Step { step, updates, lr: number(lr), loss_scale: number(scale) }
            }
            [2, 0, ..] => Self::Evaluate(Split::Train),
            [2, ..] => Self::Evaluate(Split::Val),
            [3, parameter, state, start, length] => {
                Self::Send(StateBytes { parameter, state, start, length })
            }
            [4, parameter, state, start, length] => {
                Self::Receive(StateBytes { parameter, state, start, length })
            }
            [5, ..] => Self::End,
            [kind, ..] => unreachable!("no command {kind}"),
        }
    }
}

/// Which bytes of a parameter's optimizer states each rank owns.
pub(super) struct Owners {
    /// By rank, then by parameter.
    ranges: Vec<Vec<Range<u64>>>,
    optimizer: Optimizer,
}

impl Owners {
    pub(super) fn new(ranks: u32, parameters: &[Parameter], optimizer: Optimizer) -> Self {
        Self { ranges: Share::all_ranges(ranks, parameters, &optimizer), optimizer }
    }

    /// Splits bytes of a state at the borders of shards. Each part has its owner, the offset in the
    /// owner's tensor, and the range in `bytes`.
    pub(super) fn parts(
        &self,
        parameter: (usize, &Parameter),
        state: usize,
        bytes: Range<u64>,
    ) -> Vec<(usize, u64, Range<usize>)> {
        let (index, parameter) = parameter;
        let bytes_of = |range: Range<u64>| {
            let states = self.optimizer.states_of(parameter, &range);
            states.get(state).map_or(0, OptimizerState::bytes)
        };
        let mut parts = Vec::new();
        for (rank, ranges) in self.ranges.iter().enumerate() {
            let owned = &ranges[index];
            let first = bytes_of(0..owned.start);
            let last = first + bytes_of(owned.clone());
            let (start, end) = (bytes.start.max(first), bytes.end.min(last));
            if start < end {
                let inside = (start - bytes.start) as usize..(end - bytes.start) as usize;
                parts.push((rank, start - first, inside));
            }
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use fitgpt_config::{OptimizerChoice, Written};
    use fitgpt_model::Model;

    use super::*;

    #[test]
    fn a_command_survives_encoding() {
        let bytes = StateBytes { parameter: 3, state: 1, start: 1 << 40, length: 77 };
        for command in [
            Command::Weights,
            Command::Step { step: 9, updates: 8, lr: 6e-4, loss_scale: 65536.0 },
            Command::Evaluate(Split::Train),
            Command::Evaluate(Split::Val),
            Command::Send(bytes),
            Command::Receive(bytes),
            Command::End,
        ] {
            assert_eq!(Command::decode(command.encode()), command);
        }
    }

    #[test]
    fn the_parts_of_a_state_cover_it_in_order_on_any_number_of_ranks() {
        for optimizer in OptimizerChoice::ALL.map(OptimizerChoice::name) {
            let mut written = Written::new();
            for (key, value) in [("optimizer", optimizer), ("n_layer", "1"), ("n_embd", "240")] {
                written.set(key, value).unwrap();
            }
            let config = written.resolve().unwrap();
            let parameters = Model::new(&config, 700).parameters();
            let optimizer = Optimizer::of(&config);
            for ranks in [1, 2, 5] {
                let owners = Owners::new(ranks, &parameters, optimizer);
                for (index, parameter) in parameters.iter().enumerate() {
                    for (which, state) in optimizer.states(parameter).iter().enumerate() {
                        let mut at = 0;
                        for (rank, start, inside) in
                            owners.parts((index, parameter), which, 0..state.bytes())
                        {
                            assert_eq!((inside.start, start), (at, 0), "rank {rank}");
                            at = inside.end;
                        }
                        assert_eq!(at as u64, state.bytes(), "{}", parameter.name);
                    }
                }
            }
        }
    }
}
