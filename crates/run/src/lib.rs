//! A run in memory: what happens between the plan and the last checkpoint, on one rank or many.
//!
//! Nothing here prints. A run reports its [progress](train::Progress) to its caller.

#![forbid(unsafe_code)]

pub mod budget;
pub mod host;
pub mod cards;
pub mod watch;
pub mod ranks;
pub mod device;
pub mod error;
mod follow;
pub mod init;
pub mod lanes;
pub mod network;
pub mod pretrained;
pub mod sample;
pub mod schedule;
pub mod setup;
pub mod bench;
pub mod estimate;
pub mod host_rate;
pub mod selftest;
pub mod stop;
pub mod time;
pub mod trainer;
pub mod card;
pub mod train;
mod words;
