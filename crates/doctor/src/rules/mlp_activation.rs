//! # `mlp-activation`
//!
//! ## What it detects
//! The requested size is batch × tokens × 4 · channels: the hidden activation of an MLP, before or
//! after GELU, or its gradient.
//!
//! ## Why it happens
//! Every layer keeps two of them for the backward pass. That one of them failed only shows that the
//! card was full, not that this tensor is the problem.
//!
//! ## What helps
//! A smaller micro-batch with more accumulation, or recomputing blocks in the backward pass, which
//! adds about a third to the compute of a step.

use super::{RuleMatch, asked_for};
use crate::{cause::Cause, facts::Role, reason::Analysis};

pub(super) fn check(analysis: &Analysis<'_>) -> Option<RuleMatch> {
    asked_for(analysis, Role::Mlp, |asked| Cause::MlpActivation { asked })
}
