//! The run: what happens between the plan and the last checkpoint.

pub mod device;
pub mod error;
mod follow;
pub mod init;
pub mod lanes;
pub mod network;
pub mod pretrained;
pub mod sample;
pub mod scaler;
pub mod schedule;
pub mod progress;
pub mod setup;
pub mod bench;
pub mod estimate;
pub mod selftest;
pub mod stop;
pub mod time;
pub mod trainer;
pub mod card;
pub mod train;
mod words;
