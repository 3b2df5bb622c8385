//! File formats of datasets.
//!
//! The files are not trusted: any file gives its texts or an error, and no length in a file is used
//! before that many bytes have been read.

pub mod compression;
pub mod parquet;
