//! # `dev-shm`
//!
//! ## What it sees
//! A worker of a data loader could not hand its batch over: `/dev/shm` is full (`Bus error`,
//! `insufficient shared memory (shm)`).
//!
//! ## Why it happens
//! Workers pass batches through files in `/dev/shm`. Docker gives a container 64 MiB of it. It has
//! nothing to do with the card.
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
