//! # `dev-shm`
//!
//! ## What it detects
//! A data loader worker could not pass on a batch because `/dev/shm` is full (`Bus error`,
//! `insufficient shared memory (shm)`).
//!
//! ## Why it happens
//! Workers pass batches through files in `/dev/shm`, and Docker gives a container only 64 MiB of it.
//! GPU memory is not involved.
//!
//! ## What helps
//! `docker run --shm-size=8g` or `--ipc=host`; in Kubernetes an `emptyDir` with `medium: Memory`
//! at `/dev/shm`; or `num_workers=0`.

use super::Answer;
use crate::{cause::Cause, diagnosis::Certainty, parse::Wording, reason::Analysis};

pub(super) fn check(analysis: &Analysis<'_>) -> Option<Answer> {
    analysis.log.message.as_ref().filter(|message| message.wording == Wording::DevShm)?;
    Some(Answer { certainty: Certainty::Certain, is_cause: true, cause: Cause::DevShm {} })
}
