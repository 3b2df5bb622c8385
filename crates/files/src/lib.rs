//! Files: a disk that may fail, and the formats that other programs write.
//!
//! [`disk`] is the interface to the files of runs and datasets, which tests replace by a simulated
//! disk that fails, tears writes and crashes. Everything that depends on the operating system is in
//! [`os`].
//!
//! Promise: any bytes of a file from elsewhere (configs, logs, snapshots, checkpoints, datasets,
//! models) give a value or an error. Test: `tests/library/readers.rs`; guided by coverage
//! `scripts/fuzz`: 10,000,000 inputs for each of 12 formats on 2026-11-18, nothing found.
#![forbid(unsafe_code)]

pub mod attempt;
pub mod os;
pub mod disk;
pub mod formats;
pub mod pytorch;
