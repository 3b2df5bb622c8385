//! The run: what happens between the plan and the last checkpoint.

pub mod bench;
pub mod device;
pub mod error;
pub mod estimate;
pub mod events;
pub mod init;
pub mod pretrained;
pub mod progress;
pub mod sample;
pub mod scaler;
pub mod schedule;
pub mod setup;
pub mod stop;
pub mod time;
pub mod train;
pub mod trainer;
