//! Checkpoints: the weights in Hugging Face's layout, the rest of the state next to them.
//!
//! A folder holds `model.safetensors` and `config.json`, which `transformers` loads as they are,
//! and `state.safetensors`: the optimizer's states by state and parameter name, each with its
//! own type, and one JSON document of the training loop's choosing (position, counters, loss
//! scale, plan choices, resolved config).
//!
//! This module moves bytes and never holds a model: a [`Source`] or a [`Sink`] reads and writes
//! pieces of tensors, and at most 16 MiB are under way at a time. It does not know what the
//! document means, when to save, or which backend the values live on.
//!
//! Promises:
//! - One save is one commit ([`save`]): a crash at any instant leaves the old or the new
//!   checkpoint, never a mix, and never nothing once a first save has been committed.
//! - A file that is not what it should be is an error that names it; nothing here panics on what
//!   a disk holds. Files written here carry a sum over header and values, so that a flipped bit
//!   is an error too, and not a worse model.
//!
//! The `safetensors` crate reads and checks headers here. Its writers want every tensor as one
//! slice of bytes, and its readers want the whole file as one: a second copy of the model either
//! way, or a mapped file, whose pages count and whose truncation is a signal. So the values are
//! streamed with plain reads and writes, around a header of the same form.

mod carry;
mod commit;
mod config;
mod disk;
mod error;
mod header;
mod id;
mod layout;
mod load;
mod lock;
mod read;
mod save;
mod shards;
mod store;
mod write;

#[cfg(test)]
mod tests;

pub use self::{
    carry::carry_tokenizer,
    commit::{exists, locate, recover},
    config::Architecture,
    error::CheckpointError,
    id::SaveId,
    load::{Checkpoint, Positions, Weights, describe, weights_dir},
    lock::Lock,
    save::{
        Contents, best_dir, bytes_needed, forget_best, save, save_weights, weights_bytes_needed,
    },
    shards::INDEX_FILE,
    store::{Entry, Piece, Sink, Source, StoreError, Tensors},
};

/// The weights.
pub const MODEL_FILE: &str = "model.safetensors";
/// What the weights are weights of.
pub const CONFIG_FILE: &str = "config.json";
/// Everything else that a resume needs.
pub const STATE_FILE: &str = "state.safetensors";

/// What this module returns.
type Result<T> = std::result::Result<T, CheckpointError>;
