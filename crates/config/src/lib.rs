//! Configuration: nanoGPT's Python files and `--key=value` overrides, to one checked [`Config`].
//!
//! [`Written`] holds what was written and where; [`Written::resolve`] makes the [`Config`] that
//! a run uses. Files are parsed, never executed. This module does no I/O: the caller passes in
//! texts and [`MachineFacts`].
//!
//! In a [`Config`] every key has a value of its type and in its range, `n_head` divides `n_embd`,
//! and the byte counts of the largest tensors fit 64 bits.
//!
//! Promise: any text is a config or an error with its position; only labels of a config may be
//! unknown, a key that decides the run never is. Test: properties in `crates/config/src/tests.rs`.

#![forbid(unsafe_code)]
#![deny(clippy::wildcard_enum_match_arm)]

mod choice;
mod lanes;
mod size;
mod value;
mod optimizer;
mod key;
pub mod limits;
mod setting;
mod keys;
mod python;
mod error;
mod words;
mod rewrite;
mod written;
mod resolved;
mod rules;
mod resolve;

#[cfg(test)]
mod tests;

pub use self::{
    choice::{
        AttentionBias, DeviceChoice, Family, GPT2_VOCAB, GradCheckpoint, InitFrom, PADDED_VOCAB,
        Precision, ResumeFrom, RopeSetting,
    },
    error::{ConfigError, FamilyRule, Location},
    key::{Key, KeyGroup, ValueKind, ValueRange},
    keys::KEYS,
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
