//! Sentences of this crate.

pub(crate) mod config_file;
pub(crate) mod doctor;
pub(crate) mod download;
pub(crate) mod engines;
pub(crate) mod failure;
pub(crate) mod hints;
pub(crate) mod ranks;
pub(crate) mod remarks;
pub(crate) mod report;
pub(crate) mod sample;
pub(crate) mod target;
pub(crate) mod train;
