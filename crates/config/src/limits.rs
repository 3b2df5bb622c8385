//! The largest sizes that can be planned, in one table.
//!
//! Above these a plan would take minutes, or a figure in it would not be exact. Each limit is far
//! beyond published models. Keys without an entry are limited by their type alone.

use super::key::ValueRange;

/// The largest value of one or more keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeLimit {
    /// The keys it applies to.
    pub keys: &'static [&'static str],
    /// The largest value.
    pub most: u32,
    /// Why.
    pub reason: &'static str,
}

/// Layers.
pub const LAYERS: SizeLimit = SizeLimit {
    keys: &["n_layer"],
    most: 1 << 10,
    reason: "every tensor of every layer is placed, and `fit` does that for many candidates: with \
             4,096 layers that took 40 seconds",
};
/// Heads of queries, keys and values.
pub(crate) const HEADS: SizeLimit = SizeLimit {
    keys: &["n_head", "n_kv_head"],
    most: 1 << 16,
    reason: "a head has at least one channel, and a GPU launches at most 65,535 groups on an axis",
};
/// Widths of matrices.
pub(crate) const CHANNELS: SizeLimit = SizeLimit {
    keys: &["n_embd", "head_dim", "ffn_dim"],
    most: 1 << 20,
    reason: "one square matrix of this width has 4 TiB in float32",
};
/// Rows of the embedding.
pub(crate) const VOCABULARY: SizeLimit = SizeLimit {
    keys: &["vocab_size"],
    most: 1 << 24,
    reason: "the float32 logits of one token already take 64 MiB",
};
/// Positions.
pub(crate) const POSITIONS: SizeLimit = SizeLimit {
    keys: &["block_size", "eval_block_size"],
    most: 1 << 24,
    reason: "float32 counts positions exactly up to 2^24, and rotary positions are float32",
};
/// Sequences at a time.
pub(crate) const SEQUENCES: SizeLimit = SizeLimit {
    keys: &["batch_size", "eval_batch_size", "num_samples"],
    most: 1 << 20,
    reason: "no device holds more sequences at a time; larger steps use gradient accumulation",
};

/// Every limit.
pub const LIMITS: [SizeLimit; 6] = [LAYERS, HEADS, CHANNELS, VOCABULARY, POSITIONS, SEQUENCES];

impl SizeLimit {
    /// The limit of a key, if it has one.
    pub fn of(key: &str) -> Option<&'static Self> {
        LIMITS.iter().find(|limit| limit.keys.contains(&key))
    }

    /// From 1 to the limit.
    pub(super) const fn at_least_one(self) -> ValueRange {
        ValueRange::Whole { min: 1, max: self.most as i64 }
    }

    /// From 0, which has a special meaning, to the limit.
    pub(super) const fn at_least_zero(self) -> ValueRange {
        ValueRange::Whole { min: 0, max: self.most as i64 }
    }
}

#[cfg(test)]
mod tests {
    use fitgpt_say::{Lang, Say as _};

    use super::*;
    use crate::{Key, Written};

    #[test]
    fn every_limit_is_the_range_of_its_keys() {
        for limit in LIMITS {
            for name in limit.keys {
                let key = Key::find(name).unwrap();
                let is_range = [limit.at_least_one(), limit.at_least_zero()].contains(&key.range);
                assert!(is_range, "{name}: {:?}", key.range);
                assert_eq!(SizeLimit::of(name).unwrap().most, limit.most);
            }
        }
        assert_eq!(SizeLimit::of("max_iters"), None);
    }

    #[test]
    fn the_table_in_the_documents_has_these_limits() {
        let table = include_str!("../../../docs/limits.md");
        for SizeLimit { keys, most, .. } in LIMITS {
            let keys: Vec<_> = keys.iter().map(|key| format!("`{key}`")).collect();
            let digits = most.to_string();
            let groups = digits.as_bytes().rchunks(3).rev().map(str::from_utf8);
            let groups: Vec<_> = groups.collect::<Result<_, _>>().unwrap();
            let row = format!("| {} | {} |", keys.join(", "), groups.join(","));
            assert!(table.contains(&row), "{row}");
        }
    }

    #[test]
    fn a_value_above_its_limit_is_refused_with_key_value_and_limit() {
        for (key, value, message) in [
            ("n_layer", "1000000", "`n_layer` must be from 1 to 1024, not `1000000`"),
            ("n_head", "65537", "`n_head` must be from 1 to 65536, not `65537`"),
            ("n_embd", "4294967295", "`n_embd` must be from 1 to 1048576, not `4294967295`"),
            ("vocab_size", "16777217", "`vocab_size` must be from 0 to 16777216, not `16777217`"),
            ("block_size", "20000000", "`block_size` must be from 1 to 16777216, not `20000000`"),
            ("batch_size", "1048577", "`batch_size` must be from 1 to 1048576, not `1048577`"),
        ] {
            let mut written = Written::new();
            written.set(key, value).unwrap();
            let error = written.resolve().unwrap_err();
            assert_eq!(
                (error.kind(), error.say(Lang::English).as_str()),
                ("out-of-range", message)
            );
        }
    }
}
