//! Config errors: the facts, and the location of the refused value.

use std::fmt;

use serde::Serialize;
use thiserror::Error;

use super::{
    key::{ValueKind, ValueRange},
    lanes::LaneSplit,
    python::Reason,
};

/// Where a value was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Location {
    /// A file's name, `command line`, `default`, or a name given by the caller.
    pub source: String,
    /// Counted from 1; `None` if the source has no lines.
    pub line: Option<u32>,
    /// In characters, counted from 1.
    pub column: Option<u32>,
}

impl Location {
    /// A source without lines.
    pub fn of(source: impl Into<String>) -> Self {
        Self { source: source.into(), line: None, column: None }
    }

    /// An override such as `--batch_size=8`.
    pub fn command_line() -> Self {
        Self::of("command line")
    }

    /// The value was not written: it is the key's default.
    pub fn default_value() -> Self {
        Self::of("default")
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)?;
        for position in [self.line, self.column].into_iter().flatten() {
            write!(f, ":{position}")?;
        }
        Ok(())
    }
}

/// Why a config was refused. Prints as `place: message`.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum ConfigError {
    /// A config file, or an override's expression, is not in the supported subset of Python.
    Python {
        /// Where in the text.
        place: Location,
        /// Why.
        reason: Reason,
    },
    /// No key has this name, and nothing in the file uses it.
    UnknownKey {
        /// As written.
        key: String,
        /// The most similar key, if one is similar enough.
        nearest: Option<&'static str>,
        /// Where it was written.
        place: Location,
    },
    /// The key takes another kind of value.
    WrongKind {
        /// The key.
        key: &'static str,
        /// As written, or as Python would print it.
        value: String,
        /// What the key takes.
        expected: ValueKind,
        /// Where it was written.
        place: Location,
    },
    /// The kind is right, the value is out of range.
    OutOfRange {
        /// The key.
        key: &'static str,
        /// As Python would print it.
        value: String,
        /// The allowed values.
        range: ValueRange,
        /// Where it was written.
        place: Location,
    },
    /// The value is not one of the key's choices.
    NotAChoice {
        /// The key.
        key: &'static str,
        /// As written.
        value: String,
        /// Every valid spelling.
        choices: &'static [&'static str],
        /// Where it was written.
        place: Location,
    },
    /// A memory size that is not a number with a unit.
    NotASize {
        /// The key.
        key: &'static str,
        /// As written.
        value: String,
        /// Where it was written.
        place: Location,
    },
    /// `n_head` does not divide `n_embd`.
    HeadsDoNotDivide {
        /// Channels.
        n_embd: u32,
        /// Heads.
        n_head: u32,
        /// Divisors of `n_embd` near `n_head`, ascending.
        heads: Vec<u32>,
        /// Multiples of `n_head` next to `n_embd`, ascending.
        widths: Vec<u32>,
        /// Where the last of the two was written.
        place: Location,
    },
    /// The family has no such key.
    NotOfFamily {
        /// The key.
        key: &'static str,
        /// The family of the config.
        family: &'static str,
        /// Where the key was written.
        place: Location,
    },
    /// The optimizer has no such key.
    NotOfOptimizer {
        /// The key.
        key: &'static str,
        /// The optimizer of the config.
        optimizer: &'static str,
        /// Where the key was written.
        place: Location,
    },
    /// Sizes that break a rule of the family.
    BreaksFamilyRule {
        /// Which rule, and the sizes.
        rule: FamilyRule,
        /// Where the last of the sizes was written.
        place: Location,
    },
    /// An evaluation would need more positions than the model has.
    EvalBlockTooLong {
        /// Tokens of an evaluated sequence.
        eval_block_size: u32,
        /// Positions of the model.
        block_size: u32,
        /// Where `eval_block_size` was written.
        place: Location,
    },
    /// The micro-batches of a step cannot be divided among the lanes.
    LanesDoNotDivide {
        /// Parts of a step.
        lanes: u32,
        /// Micro-batches of a step.
        accumulation: u32,
        /// Keys that would work.
        works: LaneSplit,
        /// Where the last of the keys was written.
        place: Location,
    },
    /// Each size is in range, but their product overflows 64 bits.
    TooLarge {
        /// The factors, as keys and numbers.
        product: Vec<&'static str>,
        /// Where the last of the factors was written.
        place: Location,
    },
}

/// A rule between sizes of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FamilyRule {
    /// `n_kv_head` does not divide `n_head`.
    KeyValueHeads {
        /// Query heads.
        n_head: u32,
        /// Key/value heads.
        n_kv_head: u32,
    },
    /// Rotary positions rotate pairs of channels.
    OddHead {
        /// Channels of a head.
        head_dim: u32,
    },
}

impl ConfigError {
    /// The error's name in JSON.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Python { reason, .. } => reason.kind(),
            Self::UnknownKey { .. } => "unknown-key",
            Self::WrongKind { .. } => "wrong-kind",
            Self::OutOfRange { .. } => "out-of-range",
            Self::NotAChoice { .. } => "not-a-choice",
            Self::NotASize { .. } => "not-a-size",
            Self::HeadsDoNotDivide { .. } => "heads-do-not-divide",
            Self::NotOfFamily { .. } => "not-of-family",
            Self::NotOfOptimizer { .. } => "not-of-optimizer",
            Self::BreaksFamilyRule { .. } => "breaks-family-rule",
            Self::EvalBlockTooLong { .. } => "eval-block-too-long",
            Self::LanesDoNotDivide { .. } => "lanes-do-not-divide",
            Self::TooLarge { .. } => "too-large",
        }
    }

    /// Where the refused value was written.
    pub fn place(&self) -> &Location {
        match self {
            Self::Python { place, .. }
            | Self::UnknownKey { place, .. }
            | Self::WrongKind { place, .. }
            | Self::OutOfRange { place, .. }
            | Self::NotAChoice { place, .. }
            | Self::NotASize { place, .. }
            | Self::HeadsDoNotDivide { place, .. }
            | Self::NotOfFamily { place, .. }
            | Self::NotOfOptimizer { place, .. }
            | Self::BreaksFamilyRule { place, .. }
            | Self::EvalBlockTooLong { place, .. }
            | Self::LanesDoNotDivide { place, .. }
            | Self::TooLarge { place, .. } => place,
        }
    }
}
