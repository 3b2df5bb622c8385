//! Shards: which part of each parameter a rank updates, when several processes train together.
//!
//! Every rank has all weights and gradients, and the optimizer's states of its own part only. The
//! parameters, one after the other, are cut into units, and each rank has consecutive units. A unit
//! is a block of [`SHARD_BLOCK`] elements of one parameter, or, with Muon, a whole matrix: its
//! update needs all of it.
//!
//! Invariant: the shards of all ranks cover every element once, whatever the number of ranks.

use std::ops::Range;

use crate::{
    model::Parameter,
    optimizer::{Optimizer, UpdateRule},
};

/// Elements of the smallest part of a parameter that a rank owns. The squares of a gradient are
/// summed by the same blocks, so the norm does not depend on who sums them. A multiple of the
/// block that shares a scale in 8-bit states.
pub const SHARD_BLOCK: u64 = 1 << 14;

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

    /// The elements of each parameter that this rank updates; empty ranges for parameters of which
    /// it has nothing.
    pub fn ranges(self, parameters: &[Parameter], optimizer: &Optimizer) -> Vec<Range<u64>> {
        let total: u64 = parameters.iter().map(Parameter::count).sum();
        let mut before = 0;
        let range = |parameter: &Parameter| {
            let count = parameter.count();
            let unit = match optimizer.rule(parameter) {
                UpdateRule::Muon(_) => count,
                UpdateRule::AdamW(_) | UpdateRule::AdamW8bit(_) => SHARD_BLOCK,
            };
            let first = before;
            before += count;
            let is_own = |start: &u64| {
                let middle = first + start + unit.min(count - start) / 2;
                let owner = u128::from(middle) * u128::from(self.ranks) / u128::from(total);
                owner == u128::from(self.rank)
            };
            let starts = || (0..count).step_by(unit as usize);
            let Some(start) = starts().find(is_own) else { return 0..0 };
            let n_units = starts().filter(is_own).count() as u64;
            start..count.min(start + n_units * unit)
        };
        parameters.iter().map(range).collect()
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

impl Default for Share {
    fn default() -> Self {
        Self::WHOLE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{config::Written, model::Model, program::QUANTISED_BLOCK};

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
    fn every_element_has_one_owner_and_shards_are_consecutive() {
        for name in ["adamw", "adamw8bit", "muon"] {
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
    fn borders_are_on_blocks_and_matrices_of_muon_are_whole() {
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
    fn four_ranks_have_a_quarter_of_the_moments_each() {
        let config = Written::new().resolve().unwrap();
        let parameters = Model::new(&config, 50304).parameters();
        let optimizer = Optimizer::of(&config);
        let whole = Share::WHOLE.optimizer_bytes(&parameters, &optimizer);
        for share in Share::all(4) {
            let bytes = share.optimizer_bytes(&parameters, &optimizer) as f64;
            assert!((bytes / whole as f64 - 0.25).abs() < 0.001, "{bytes} of {whole}");
        }
    }
}
