//! Shards: which part of each parameter a rank updates, when several processes train together.
//!
//! Every rank has all weights and gradients, but optimizer states only for its own part. Each
//! parameter is divided among all ranks, so that all of them have something to send and to receive
//! as soon as the backward pass has finished its gradient. Parts consist of whole units: blocks of
//! [`SHARD_BLOCK`] elements or, with Muon, a whole matrix, because its update needs all of it. Ranks
//! that own less so far get more of the next parameter.
//!
//! Invariant: the shards of all ranks cover every element once, whatever the number of ranks.
//!
//! Promise: shards cover every element once, with borders on the blocks of the gradient norm;
//! Muon's matrices are whole. Test: this file.

use std::ops::Range;

use fitgpt_program::SHARD_BLOCK;

use crate::{
    Parameter,
    optimizer::{Optimizer, UpdateRule},
};

/// One of the ranks that train together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Share {
    /// Counted from 0.
    pub rank: u32,
    /// How many there are, at least 1.
    pub ranks: u32,
}

impl Share {
    /// A single process.
    pub const WHOLE: Self = Self { rank: 0, ranks: 1 };

    /// Every rank of `ranks`.
    pub fn all(ranks: u32) -> impl DoubleEndedIterator<Item = Self> {
        (0..ranks).map(move |rank| Self { rank, ranks })
    }

    /// The elements of each parameter that this rank updates; an empty range if it updates none.
    pub fn ranges(self, parameters: &[Parameter], optimizer: &Optimizer) -> Vec<Range<u64>> {
        let mut own = vec![0..0; parameters.len()];
        divide(self.ranks, parameters, optimizer, |parameter, rank, range| {
            if rank == self.rank {
                own[parameter] = range;
            }
        });
        own
    }

    /// [`Share::ranges`] of each of `ranks`.
    pub fn all_ranges(
        ranks: u32,
        parameters: &[Parameter],
        optimizer: &Optimizer,
    ) -> Vec<Vec<Range<u64>>> {
        let mut all = vec![vec![0..0; parameters.len()]; ranks as usize];
        divide(ranks, parameters, optimizer, |parameter, rank, range| {
            all[rank as usize][parameter] = range;
        });
        all
    }

    /// [`Share::optimizer_bytes`] of each of `ranks`.
    pub fn all_optimizer_bytes(
        ranks: u32,
        parameters: &[Parameter],
        optimizer: &Optimizer,
    ) -> Vec<u64> {
        let mut all = vec![0; ranks as usize];
        divide(ranks, parameters, optimizer, |parameter, rank, range| {
            let states = optimizer.states_of(&parameters[parameter], &range);
            all[rank as usize] +=
                states.iter().map(crate::optimizer::OptimizerState::bytes).sum::<u64>();
        });
        all
    }

    /// Bytes of optimizer states that this rank keeps.
    pub fn optimizer_bytes(self, parameters: &[Parameter], optimizer: &Optimizer) -> u64 {
        let ranges = self.ranges(parameters, optimizer);
        let of = |(parameter, range): (&Parameter, Range<u64>)| -> u64 {
            let states = optimizer.states_of(parameter, &range);
            states.iter().map(crate::optimizer::OptimizerState::bytes).sum()
        };
        parameters.iter().zip(ranges).map(of).sum()
    }
}

/// Divides every parameter among `ranks`. Calls `give` with its index, a rank and that rank's
/// elements, in the order of ranks; not for a rank without elements of this parameter.
fn divide(
    ranks: u32,
    parameters: &[Parameter],
    optimizer: &Optimizer,
    mut give: impl FnMut(usize, u32, Range<u64>),
) {
    let mut owned = vec![0_u64; ranks as usize];
    let mut so_far = 0;
    for (index, parameter) in parameters.iter().enumerate() {
        let count = parameter.count();
        let unit = match optimizer.rule(parameter) {
            UpdateRule::Muon(_) => count,
            UpdateRule::Elementwise(_) | UpdateRule::AdamW8bit(_) => SHARD_BLOCK.min(count),
        };
        so_far += count;
        // An equal share of all elements so far, if units could be split.
        let fair = so_far.div_ceil(ranks.into());
        let (mut start, mut wanted) = (0, 0);
        for rank in 0..ranks {
            if start == count {
                break;
            }
            let has = &mut owned[rank as usize];
            wanted += fair.saturating_sub(*has);
            let is_last = rank + 1 == ranks;
            let nearest = (wanted + unit / 2) / unit * unit;
            let end = if is_last { count } else { nearest.min(count) };
            if end > start {
                give(index, rank, start..end);
                *has += end - start;
                start = end;
            }
        }
    }
}

impl Default for Share {
    fn default() -> Self {
        Self::WHOLE
    }
}

#[cfg(test)]
mod tests {
    use fitgpt_config::{OptimizerChoice, Written};
    use fitgpt_program::QUANTISED_BLOCK;

    use super::*;
    use crate::Model;

    fn case(optimizer: &str) -> (Vec<Parameter>, Optimizer) {
        let mut written = Written::new();
        let keys = [("n_layer", "3"), ("n_head", "2"), ("n_embd", "150"), ("block_size", "70")];
        for (key, value) in keys.into_iter().chain([("optimizer", optimizer)]) {
            written.set(key, value).unwrap();
        }
        let config = written.resolve().unwrap();
        (Model::new(&config, 1009).parameters(), Optimizer::of(&config))
    }

    #[test]
    fn every_element_has_one_owner() {
        for name in OptimizerChoice::ALL.map(OptimizerChoice::name) {
            let (parameters, optimizer) = case(name);
            for ranks in [1, 2, 3, 4, 6, 7, 200] {
                let mut ends = vec![0; parameters.len()];
                for share in Share::all(ranks) {
                    let ranges = share.ranges(&parameters, &optimizer);
                    for (end, range) in ends.iter_mut().zip(ranges).filter(|(_, r)| !r.is_empty()) {
                        assert_eq!(*end, range.start, "{name}, {share:?}");
                        *end = range.end;
                    }
                }
                let counts: Vec<_> = parameters.iter().map(Parameter::count).collect();
                assert_eq!(ends, counts, "{name}, {ranks} ranks");
            }
        }
    }

    #[test]
    fn shards_are_whole_blocks_and_muon_matrices_are_not_split() {
        assert_eq!(SHARD_BLOCK % QUANTISED_BLOCK, 0);
        for name in ["adamw8bit", "muon"] {
            let (parameters, optimizer) = case(name);
            for share in Share::all(5) {
                let ranges = share.ranges(&parameters, &optimizer);
                for (parameter, range) in parameters.iter().zip(ranges) {
                    let count = parameter.count();
                    assert!(range.start % SHARD_BLOCK == 0);
                    assert!(range.end % SHARD_BLOCK == 0 || range.end == count);
                    if matches!(optimizer.rule(parameter), UpdateRule::Muon(_)) {
                        assert!(range.is_empty() || range == (0..count));
                    }
                }
            }
        }
    }

    #[test]
    fn every_rank_has_its_part_of_every_large_parameter() {
        let config = Written::new().resolve().unwrap();
        let parameters = Model::new(&config, 50304).parameters();
        let optimizer = Optimizer::of(&config);
        for ranks in [2, 4, 8] {
            let all = Share::all_ranges(ranks, &parameters, &optimizer);
            for (index, parameter) in parameters.iter().enumerate() {
                let blocks = parameter.count() / SHARD_BLOCK;
                let fair = blocks / u64::from(ranks);
                for (rank, ranges) in all.iter().enumerate() {
                    let own = ranges[index].end - ranges[index].start;
                    let distance = (own / SHARD_BLOCK).abs_diff(fair);
                    assert!(distance <= 2, "{}, rank {rank} of {ranks}", parameter.name);
                }
            }
        }
    }

    #[test]
    fn four_ranks_have_a_quarter_of_the_moments_each() {
        let config = Written::new().resolve().unwrap();
        let parameters = Model::new(&config, 50304).parameters();
        let optimizer = Optimizer::of(&config);
        let whole = Share::WHOLE.optimizer_bytes(&parameters, &optimizer);
        for share in Share::all(4) {
            let bytes = share.optimizer_bytes(&parameters, &optimizer) as f64;
            assert!((bytes / whole as f64 - 0.25).abs() < 0.001, "{bytes} of {whole}");
        }
        let all = Share::all_optimizer_bytes(4, &parameters, &optimizer);
        let each = |share: Share| share.optimizer_bytes(&parameters, &optimizer);
        assert_eq!(all, Share::all(4).map(each).collect::<Vec<_>>());
    }
}
