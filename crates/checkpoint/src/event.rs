//! What happened in a run: one line of its log, and reading such lines.

use std::{
    io,
    path::{Path, PathBuf},
};

use fitgpt_files::{
    attempt::Attempt,
    disk::{Disk, DiskError, DiskFile},
};
use serde::{Deserialize, Deserializer, Serialize};

use super::CheckpointError;

/// Something that happened in a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum Event {
    /// The run was planned, and starts or continues at this step.
    Plan {
        /// The first step.
        step: u64,
        /// The run's id, as in its checkpoints; earlier versions wrote none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        run_id: Option<String>,
        /// The plan, as `plan --json` prints it.
        plan: serde_json::Value,
    },
    /// One optimizer update.
    Step {
        /// Which.
        step: u64,
        /// Mean over the effective batch, before the update.
        #[serde(deserialize_with = "number")]
        loss: f64,
        /// The learning rate of this update.
        lr: f64,
        /// Norm of the gradient before it is clipped.
        #[serde(deserialize_with = "number")]
        grad_norm: f64,
        /// How long it took.
        ms: f64,
        /// Tokens of the effective batch per second.
        tokens_per_s: f64,
        /// The factor of the loss under `float16`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        loss_scale: Option<f64>,
        /// Whether the update was skipped because a gradient had overflowed.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        skipped: bool,
        /// How long rank 0 waited for others, with several ranks.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        wait_ms: Option<f64>,
    },
    /// Losses of both splits, before the update of this step.
    Evaluation {
        /// The step that comes next.
        step: u64,
        /// Mean over the training split's sequences.
        #[serde(deserialize_with = "number")]
        train_loss: f64,
        /// Mean over the validation split's sequences.
        #[serde(deserialize_with = "number")]
        val_loss: f64,
        /// Standard error of `train_loss`.
        #[serde(deserialize_with = "number")]
        train_loss_se: f64,
        /// Standard error of `val_loss`.
        #[serde(deserialize_with = "number")]
        val_loss_se: f64,
    },
    /// A text that the model wrote, before the update of this step.
    Sample {
        /// The step that comes next.
        step: u64,
        /// What it continued, or the end of that.
        prompt: String,
        /// What it wrote.
        text: String,
    },
    /// A checkpoint was committed.
    Checkpoint {
        /// The step that comes next.
        step: u64,
        /// The id of the save, as in its files.
        save_id: String,
        /// The folder. Text, because JSON cannot express every path.
        path: String,
    },
    /// The run ended normally.
    End {
        /// The step that would come next.
        step: u64,
        /// Why: `done`, `interrupted`, `diverged`, `failed`.
        reason: String,
        /// Seconds since the start of this run.
        seconds: f64,
    },
}

/// Reads a number that JSON cannot express, written as `null`, as NaN.
fn number<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or(f64::NAN))
}

/// Why the log was not written.
#[derive(Debug, thiserror::Error)]
pub enum EventError {
    /// The operating system reported an error.
    Io {
        /// A verb: `write`, `rename`.
        action: Attempt,
        /// What it was done to.
        path: PathBuf,
        /// What the operating system reported.
        source: io::Error,
    },
    /// The folder of the log was moved, deleted or replaced.
    Folder(CheckpointError),
    /// The event has no JSON form.
    Json {
        /// The log.
        path: PathBuf,
        /// Why not.
        source: serde_json::Error,
    },
}

impl From<DiskError> for EventError {
    fn from(error: DiskError) -> Self {
        let DiskError { action, path, source } = error;
        Self::Io { action, path, source }
    }
}

/// Passes every event of the log at `path` to `visit`, except truncated lines.
pub fn each(path: &Path, mut visit: impl FnMut(Event)) -> Result<(), EventError> {
    let file = Disk::real().open(path)?;
    Ok(each_line(&file, |line, _| {
        if let Ok(event) = serde_json::from_slice(line) {
            visit(event);
        }
        Ok(())
    })?)
}

/// How a line of a log ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineEnd {
    /// Complete.
    Newline,
    /// Truncated at the end of the file, or longer than [`MAX_LINE_BYTES`].
    Torn,
}

/// More than any event: a plan with the data of its picture has less than 1 MiB.
pub(super) const MAX_LINE_BYTES: usize = 16 << 20;

/// Passes every line of `file` to `visit`, without its newline. Only the beginning of a line that
/// is too long for an event is kept in memory.
pub(super) fn each_line(
    file: &DiskFile,
    mut visit: impl FnMut(&[u8], LineEnd) -> Result<(), DiskError>,
) -> Result<(), DiskError> {
    let mut chunk = vec![0; 64 << 10];
    let mut line = Vec::new();
    let mut is_too_long = false;
    let mut position = 0;
    loop {
        let count = file.read_at(&mut chunk, position)?;
        if count == 0 {
            break;
        }
        position += count as u64;
        for part in chunk[..count].split_inclusive(|byte| *byte == b'\n') {
            let (text, is_ended) = match part.split_last() {
                Some((b'\n', text)) => (text, true),
                _ => (part, false),
            };
            is_too_long |= line.len() + text.len() > MAX_LINE_BYTES;
            if !is_too_long {
                line.extend_from_slice(text);
            }
            if is_ended {
                visit(&line, if is_too_long { LineEnd::Torn } else { LineEnd::Newline })?;
                line.clear();
                is_too_long = false;
            }
        }
    }
    if !line.is_empty() {
        visit(&line, LineEnd::Torn)?;
    }
    Ok(())
}
