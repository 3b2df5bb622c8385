//! From a config to a verified memory plan.
//!
//! A config describes a model; the model writes programs; the planner turns programs into
//! byte ranges of one arena. Nothing here touches a file, a device or a float tensor, so
//! planning needs no card.
#![forbid(unsafe_code)]

pub mod published;
pub mod units;
pub mod config;
pub mod family;
pub mod model;
pub mod optimizer;
pub mod shard;
pub mod program;
pub mod memory;
pub mod device;
pub mod job;
pub mod report;
pub mod torch;
pub mod fit;
