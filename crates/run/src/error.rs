//! Why a run ended before its end.

use std::path::PathBuf;

use fitgpt_checkpoint::{CheckpointError, events::EventError};
use fitgpt_data::DataError;
use fitgpt_exec::BackendError;

/// What went wrong in a run. None of these errors loses a saved checkpoint.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The data.
    Data(#[from] DataError),
    /// A checkpoint.
    Checkpoint(#[from] CheckpointError),
    /// The log of events.
    Event(#[from] EventError),
    /// The device.
    Backend(#[from] BackendError),
    /// The loss or its gradient is no longer finite.
    Diverged {
        /// Which step.
        step: u64,
        /// The loss.
        loss: f64,
        /// The norm of its gradient.
        grad_norm: f64,
        /// The next step of the last checkpoint, if there is one.
        saved: Option<u64>,
    },
    /// A weight or an optimizer state is infinite or not a number.
    NotFinite {
        /// Our name for the tensor.
        tensor: String,
        /// The next step of the last checkpoint, if there is one.
        saved: Option<u64>,
    },
    /// The folder was moved, deleted or replaced; the state is saved next to it.
    FolderLost {
        /// The folder.
        path: PathBuf,
        /// The step that comes next.
        step: u64,
        /// The new folder.
        saved_in: PathBuf,
    },
    /// The same, but the state could not be saved.
    FolderLostUnsaved {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: Box<RunError>,
    },
    /// The folder cannot be created.
    Folder {
        /// Which.
        path: PathBuf,
        /// What the operating system reported.
        source: std::io::Error,
    },
}

impl RunError {
    /// Whether the folder of the run was moved, deleted or replaced.
    pub(super) fn is_folder_lost(&self) -> bool {
        matches!(
            self,
            Self::Checkpoint(CheckpointError::FolderLost { .. })
                | Self::Event(EventError::Folder(CheckpointError::FolderLost { .. }))
        )
    }
}
