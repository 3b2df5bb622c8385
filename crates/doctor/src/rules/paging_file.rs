//! # `paging-file`
//!
//! ## What it detects
//! Windows error 1455: the paging file is too small.
//!
//! ## Why it happens
//! Windows backs all memory that a process commits, used or not. Every process that imports PyTorch,
//! including every data loader worker, commits gigabytes for the CUDA libraries. GPU memory is not
//! involved, and usually RAM is not short either.
//!
//! ## What helps
//! A larger or system-managed paging file on a drive with free space, then a restart; or fewer data
//! loader workers.

use super::RuleMatch;
use crate::{cause::Cause, facts::Certainty, parse::Wording, reason::Analysis};

pub(super) fn check(analysis: &Analysis<'_>) -> Option<RuleMatch> {
    analysis.log.message.as_ref().filter(|message| message.wording == Wording::PagingFile)?;
    Some(RuleMatch { certainty: Certainty::Certain, is_cause: true, cause: Cause::PagingFile {} })
}
