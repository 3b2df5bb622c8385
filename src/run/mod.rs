//! The run: what happens between the plan and the last checkpoint.

pub mod bench;
pub mod card;
pub mod device;
pub mod error;
pub mod estimate;
pub mod events;
mod follow;
pub mod init;
pub mod lanes;
pub mod network;
pub mod pretrained;
pub mod progress;
pub mod sample;
pub mod scaler;
pub mod schedule;
pub mod selftest;
pub mod setup;
pub mod stop;
pub mod tensorboard;
pub mod time;
pub mod train;
pub mod trainer;
