//! Formats of foreign files that datasets come in.
//!
//! Whatever a file holds, the answer is its texts or an error: nothing that a file states is
//! believed before its bytes are there.

pub mod compression;
pub mod parquet;
