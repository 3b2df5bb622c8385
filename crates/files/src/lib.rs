//! Files: a disk that may fail, and the formats that other programs write.
//!
//! [`disk`] is the interface to the files of runs and datasets, which tests replace by a simulated
//! disk that fails, tears writes and crashes. Everything that depends on the operating system is in
//! [`os`].
#![forbid(unsafe_code)]

pub mod attempt;
pub mod os;
pub mod disk;
pub mod formats;
pub mod pytorch;
