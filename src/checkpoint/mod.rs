//! Checkpoints: the weights in Hugging Face's layout, the rest of the state next to them.
//!
//! A folder holds `model.safetensors` and `config.json`, which `transformers` loads as they are;
//! `state.safetensors`: the optimizer's states by state and parameter name, each with its own
//! type, and one JSON document that the training loop defines (position, counters, loss scale,
//! plan choices, resolved config); and `manifest.json` with a checksum of each. Earlier
//! checkpoints are kept in `checkpoints/step-…/`, the same four files each.
//!
//! Other programs' folders are read too: those of `transformers`, and nanoGPT's `ckpt.pt`.
//!
//! This module moves bytes and never holds a model: a [`TensorSource`] or a [`TensorSink`] reads and writes
//! pieces of tensors, and at most 16 MiB are in flight at a time. It does not know what the
//! document means, when to save, or which backend the values live on.
//!
//! Promises:
//! - One save is one commit ([`save`]): a crash at any instant leaves the old or the new
//!   checkpoint, never a mix, and never nothing once a first save has been committed.
//! - Only finite values are committed.
//! - A damaged file is an error that names it; nothing here panics on what a disk holds. A
//!   flipped bit in any file of a checkpoint is found when it is loaded.
//!
//! The `safetensors` crate reads and checks headers. Its writers take every tensor as one slice
//! of bytes, and its readers the whole file: a second copy of the model either way, or a mapped
//! file, whose pages count as memory and whose truncation raises a signal. So the values are
//! streamed with plain reads and writes, around a header of the same form.

mod carry;
mod commit;
mod config;
mod error;
mod header;
mod id;
mod layout;
mod load;
mod lock;
mod manifest;
mod nanogpt;
mod read;
mod save;
mod shards;
mod store;
mod write;

#[cfg(test)]
mod tests;

pub use self::{
    carry::{carry_tokenizer, write_tokenizer},
    commit::{exists, locate, recover, roll_back},
    config::Architecture,
    error::CheckpointError,
    id::SaveId,
    load::{Checkpoint, Positions, Weights, describe, has_state, weights_dir},
    lock::Lock,
    manifest::Keep,
    nanogpt::{NANOGPT_FILE, NanoGptRun, nanogpt_file},
    save::{
        Contents, Label, best_dir, bytes_needed, bytes_present, check_replaceable, copy_weights,
        remove, save, save_weights, weights_bytes_needed,
    },
    shards::{INDEX_FILE, SAVED_FILE, SAVED_INDEX_FILE},
    store::{Entry, StoreError, TensorPiece, TensorSink, TensorSource, Tensors},
};

/// The weights.
pub const MODEL_FILE: &str = "model.safetensors";
/// What the weights are weights of.
pub const CONFIG_FILE: &str = "config.json";
/// Everything else that a resume needs.
pub const STATE_FILE: &str = "state.safetensors";
/// Checksums over the other three.
pub const MANIFEST_FILE: &str = "manifest.json";

/// Everything that a save may write; the manifest last.
const FILES: [&str; 4] = [MODEL_FILE, CONFIG_FILE, STATE_FILE, MANIFEST_FILE];

/// What this module returns.
type Result<T> = std::result::Result<T, CheckpointError>;
