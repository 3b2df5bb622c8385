//! Checkpoints: the weights in Hugging Face's layout, the rest of the state next to them.
//!
//! A folder has `model.safetensors` and `config.json`, which `transformers` loads unchanged;
//! `state.safetensors`: the optimizer's states by state and parameter name, each with its own type,
//! and one JSON document that the training loop defines (position, counters, loss scale, plan
//! choices, resolved config); and `manifest.json` with a checksum of each. Earlier checkpoints are
//! kept in `checkpoints/step-…/`, the same four files each.
//!
//! A folder is ours only if our manifest says so ([`begin`], [`inspect`]), and a run writes only to
//! the folder that it began in, whatever its path refers to later ([`HeldFolder`]).
//!
//! Other programs' folders are read too: those of `transformers`, and nanoGPT's `ckpt.pt`.
//!
//! This module moves bytes and never holds a model: a [`TensorSource`] or a [`TensorSink`] reads
//! and writes pieces of tensors, at most 16 MiB at a time. It does not depend on the contents of
//! the document, on when to save, or on the backend that has the values.
//!
//! Promises:
//! - A save is atomic ([`save`]): a crash at any time leaves the old or the new checkpoint, never a
//!   mix, and never nothing once a first save has been committed.
//! - A run that is replaced is removed only after the new one has saved ([`set_aside()`]).
//! - Only finite values are committed.
//! - A damaged file is an error that names it; no content of a disk causes a panic. A flipped bit
//!   in any file of a checkpoint is detected when it is loaded.
//!
//! The `safetensors` crate reads and checks headers. Its writers take every tensor as one slice
//! of bytes, and its readers the whole file: a second copy of the model either way, or a mapped
//! file, whose pages count as memory and whose truncation raises a signal. So the values are
//! streamed with plain reads and writes, around a header of the same form.
//!
//! Promise: nothing that was saved or published is lost in any history of crashes and I/O errors.
//! Test: `crates/checkpoint/src/tests/histories.rs`; `scripts/histories` (10,000 of runs and as
//! many of datasets) and `scripts/kills` (1,000 real kills), both on 2026-11-17 without a loss.

#![forbid(unsafe_code)]

mod carry;
mod id;
mod store;
mod error;
mod config;
mod layout;
mod header;
mod stamp;
mod manifest;
mod commit;
mod lock;
mod held;
mod set_aside;
mod folder;
mod write;
mod read;
mod ownership;
mod shards;
mod nanogpt;
mod origin;
mod scaler;
mod document;
mod load;
mod save;
mod event;
mod tensorboard;
pub mod events;
mod words;
pub mod output;
pub mod export;

#[cfg(test)]
mod tests;

pub use self::{
    carry::{carry_tokenizer, write_tokenizer},
    commit::{best_dir, roll_back},
    config::Architecture,
    document::{Document, RunPosition},
    error::CheckpointError,
    folder::{begin, exists, locate, recover},
    held::{HeldFolder, new_folder_next_to},
    id::SaveId,
    layout::PositionRows,
    load::{Checkpoint, Weights, describe, has_state, weights_dir},
    lock::Lock,
    manifest::Retention,
    nanogpt::{NANOGPT_FILE, NanoGptRun, nanogpt_file},
    origin::{ChosenCheckpoint, choose, nanogpt_stamp},
    ownership::{FolderContents, inspect, is_exported, is_own_name},
    save::{
        Contents, Label, bytes_needed, bytes_present, copy_weights, save, save_weights,
        weights_bytes_needed,
    },
    scaler::Scaler,
    set_aside::{put_back, set_aside},
    shards::{INDEX_FILE, SAVED_FILE, SAVED_INDEX_FILE},
    stamp::NanoGptStamp,
    store::{StoreError, TensorEntry, TensorPiece, TensorSink, TensorSource, Tensors},
};

/// The weights.
pub const MODEL_FILE: &str = "model.safetensors";
/// The model of the weights.
pub const CONFIG_FILE: &str = "config.json";
/// Everything else that a resume needs.
pub(crate) const STATE_FILE: &str = "state.safetensors";
/// Which run the folder belongs to, and checksums over the other three.
pub(crate) const MANIFEST_FILE: &str = "manifest.json";

/// The model card.
pub const CARD_FILE: &str = "README.md";

/// The log of the run, which the training loop writes.
pub const LOG_FILE: &str = "events.jsonl";

/// The files of a save; the manifest is last.
const FILES: [&str; 4] = [MODEL_FILE, CONFIG_FILE, STATE_FILE, MANIFEST_FILE];

/// The result type of this module.
type Result<T> = std::result::Result<T, CheckpointError>;
