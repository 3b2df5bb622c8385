//! # `dev-shm`
//!
//! ## What it detects
//! A data loader worker could not pass on a batch because `/dev/shm` is full (`Bus error`,
//! `insufficient shared memory (shm)`), or a process ended with signal 7, most often for that reason.
//!
//! ## Why it happens
//! Workers pass batches through files in `/dev/shm`, and Docker gives a container only 64 MiB of it.
//! GPU memory is not involved.
//!
//! ## What helps
//! `docker run --shm-size=8g` or `--ipc=host`; in Kubernetes an `emptyDir` with `medium: Memory`
//! at `/dev/shm`; or `num_workers=0`.

use super::RuleMatch;
use crate::{cause::Cause, facts::Certainty, parse::Wording, reason::Analysis};

pub(super) fn check(analysis: &Analysis<'_>) -> Option<RuleMatch> {
    let certainty = match analysis.log.message.as_ref()?.wording {
        Wording::DevShm => Certainty::Certain,
        // A full `/dev/shm` is the usual reason, not the only one.
        Wording::BusError => Certainty::Likely,
        _ => return None,
    };
    Some(RuleMatch { certainty, is_cause: true, cause: Cause::DevShm {} })
}
