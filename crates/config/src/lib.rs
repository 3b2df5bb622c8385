//! Configuration: nanoGPT's Python files and `--key=value` overrides, to one checked [`Config`].
//!
//! [`Written`] holds what was written and where; [`Written::resolve`] makes the [`Config`] that
//! a run uses. Files are parsed, never executed. This module does no I/O: the caller passes in
//! texts and [`MachineFacts`].
//!
//! Promise: any input gives a [`Config`] or a [`ConfigError`] with a location. In a [`Config`]
//! every key has a value of its type and in its range, `n_head` divides `n_embd`, and the byte
//! counts of the largest tensors fit 64 bits.

mod choice;
mod lanes;
pub mod limits;
mod optimizer;
mod size;
mod value;
mod keys;
mod error;
mod words;
mod python;
mod rewrite;
mod setting;
mod written;
mod resolved;
mod rules;

#[cfg(test)]
mod tests;

pub use self::{
    choice::{
        AttentionBias, DeviceChoice, Family, GPT2_VOCAB, GradCheckpoint, InitFrom, PADDED_VOCAB,
        Precision, RopeSetting,
    },
    error::{ConfigError, FamilyRule, Location},
    keys::{KEYS, Key, KeyGroup, ValueKind, ValueRange},
    lanes::{LaneSplit, divisors},
    limits::{LIMITS, SizeLimit},
    optimizer::{MuonCoefficients, MuonDtype, OptimizerChoice},
    python::{
        Construct, ExpectedToken, FoundToken, GivenArguments, MachineFacts, Reason, ValueNoun,
    },
    resolved::{Config, EffectiveBatch},
    rewrite::rewrite,
    size::parse as parse_size,
    value::ConfigValue,
    written::{UnknownValue, Written},
};
