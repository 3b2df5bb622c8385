//! Why a run ended before its end.

use std::path::PathBuf;

use fitgpt_exec::BackendError;

use crate::{checkpoint::CheckpointError, data::DataError, run::events::EventError};

/// What went wrong in a run. Nothing saved is lost by any of them.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The data.
    #[error(transparent)]
    Data(#[from] DataError),
    /// A checkpoint.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The log of events.
    #[error(transparent)]
    Event(#[from] EventError),
    /// The device.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// The loss or its gradient is no number any more.
    #[error("step {step} ended with a loss of {loss} and a gradient norm of {grad_norm}; the last checkpoint is of step {saved}", saved = saved.map_or("none".to_owned(), |s| s.to_string()))]
    Diverged {
        /// Which step.
        step: u64,
        /// The loss.
        loss: f64,
        /// The norm of its gradient.
        grad_norm: f64,
        /// The next step of the last checkpoint, where there is one.
        saved: Option<u64>,
    },
    /// The folder cannot be made.
    #[error("cannot make the folder `{}`: {source}", path.display())]
    Folder {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}
