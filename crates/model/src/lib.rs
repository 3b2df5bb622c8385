//! A config's model: its description, its programs op by op, and what a run of it needs.
//!
//! A config describes a model; the model writes programs; [`job`] makes the choices that a config
//! leaves open and that do not change the training run; [`report`] is the answer of `plan`, as data.
#![forbid(unsafe_code)]
#![deny(clippy::wildcard_enum_match_arm)]

pub mod published;
pub mod model;
pub mod family;
pub mod optimizer;
pub mod shard;
pub mod training;
pub mod state;
pub mod programs;
pub mod decoder;
pub mod job;
pub mod report;
mod words;

pub use self::model::{
    Biases, BlockWeights, Init, LinearWeights, MlpKind, MlpWeights, Model, ModelWeights, Naming,
    NormKind, NormWeights, Parameter, ParameterId, ParameterRole, Positions, QkvWeights, naming,
};
