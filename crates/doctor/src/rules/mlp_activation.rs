//! # `mlp-activation`
//!
//! ## What it sees
//! The request prints as batch × tokens × four times the channels would: the inner value of an
//! MLP, before or after GELU, or its gradient.
//!
//! ## Why it happens
//! Every layer keeps two of them for its backward. That one of these failed says that the card
//! was full, more than that this tensor is the culprit.
//!
//! ## What helps
//! A smaller micro-batch with more accumulation, or recomputing blocks in the backward, which
//! computes their forward once more: about a third of a step.

use super::{Answer, asked_for};
use crate::{cause::Cause, diagnosis::Role, reason::Analysis};

pub(super) fn check(analysis: &Analysis<'_>) -> Option<Answer> {
    asked_for(analysis, Role::Mlp, |asked| Cause::MlpActivation { asked })
}
