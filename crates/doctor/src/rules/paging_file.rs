//! # `paging-file`
//!
//! ## What it sees
//! Windows' error 1455: the paging file is too small.
//!
//! ## Why it happens
//! Windows backs every page that a process reserves, whether it is used or not. Every process that
//! imports PyTorch reserves gigabytes for CUDA's libraries, and so does every worker of a data
//! loader. It is neither the card's memory nor, in most cases, a lack of RAM.
//!
//! ## What helps
//! A larger paging file, or one that Windows manages, on a drive with space; then restart. Fewer
//! workers of the data loader.

use super::Answer;
use crate::{cause::Cause, diagnosis::Certainty, parse::Wording, reason::Analysis};

pub(super) fn check(analysis: &Analysis<'_>) -> Option<Answer> {
    analysis.log.message.as_ref().filter(|message| message.wording == Wording::PagingFile)?;
    Some(Answer { certainty: Certainty::Certain, is_cause: true, cause: Cause::PagingFile {} })
}
