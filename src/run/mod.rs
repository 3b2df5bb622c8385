//! The run: what happens between the plan and the last checkpoint.

pub mod events;
