//! What a key of a config is: its name, what it takes, its default and its range.

use super::value::ConfigValue;

/// One key.
#[derive(Clone, Debug, PartialEq)]
pub struct Key {
    /// As in `--name=value` and `name = value`.
    pub name: &'static str,
    /// Which program has it.
    pub group: KeyGroup,
    /// What it takes.
    pub kind: ValueKind,
    /// The value if none is written; `None` if it depends on the device.
    pub default: ConfigValue,
    /// Allowed values.
    pub range: ValueRange,
    /// One line for `--help`.
    pub help: &'static str,
}

/// Which program has a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyGroup {
    /// A key of nanoGPT's `train.py`.
    NanoGpt,
    /// A key of nanoGPT's `train.py` that this engine ignores.
    Ignored,
    /// A key that nanoGPT does not have.
    FitGpt,
    /// A key of sampling.
    Sampling,
}

/// The kind of value a key takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// A whole number.
    Int,
    /// A number.
    Float,
    /// `True` or `False`.
    Bool,
    /// Any string.
    Text,
    /// One of a few strings.
    Choice(&'static [&'static str]),
    /// One of a few strings, or `None`: chosen for the device.
    ChoiceOrNone(&'static [&'static str]),
    /// `True`, `False` or one of a few strings.
    BoolOr(&'static [&'static str]),
    /// A device's name, some with an index: `cuda:1`.
    Device(&'static [&'static str]),
    /// A size in memory such as `12GB`; empty for none.
    Size,
}

/// The allowed values of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueRange {
    /// Any value.
    Any,
    /// Whole numbers, both ends included.
    Whole {
        /// The smallest value.
        min: i64,
        /// The largest value.
        max: i64,
    },
    /// Finite, 0 or more.
    NotNegative,
    /// Finite, above 0.
    Positive,
    /// At least 0 and below 1.
    BelowOne,
    /// Above 0, at most 1.
    Share,
    /// A string that is not empty.
    NotEmpty,
}

impl ValueRange {
    /// Whether the value, which is of the right kind, is allowed.
    pub fn holds(self, value: &ConfigValue) -> bool {
        match (self, value) {
            (Self::Whole { min, max }, ConfigValue::Int(value)) => (min..=max).contains(value),
            (Self::NotNegative, ConfigValue::Float(value)) => value.is_finite() && *value >= 0.0,
            (Self::Positive, ConfigValue::Float(value)) => value.is_finite() && *value > 0.0,
            (Self::BelowOne, ConfigValue::Float(value)) => (0.0..1.0).contains(value),
            (Self::Share, ConfigValue::Float(value)) => *value > 0.0 && *value <= 1.0,
            (Self::NotEmpty, ConfigValue::Str(value)) => !value.trim().is_empty(),
            (range, _) => range == Self::Any,
        }
    }
}
