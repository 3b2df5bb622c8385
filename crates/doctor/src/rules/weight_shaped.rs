//! # `weight-shaped`
//!
//! ## What it detects
//! The requested size is that of a parameter: a weight, its gradient, one of Adam's moments or
//! autocast's half-precision copy.
//!
//! ## Why it happens
//! State does not depend on the batch. Such a request fails while the model is loaded, when the
//! first backward pass allocates gradients, when the first step allocates moments, or when autocast
//! copies a weight on a card that is already full.
//!
//! ## What helps
//! It depends on the phase: see `static-state-too-large`, `checkpoint-on-device` and
//! `optimizer-temporaries`. If none of these applies, something else filled the card.

use super::{RuleMatch, asked_for};
use crate::{cause::Cause, facts::Role, reason::Analysis};

pub(super) fn check(analysis: &Analysis<'_>) -> Option<RuleMatch> {
    let mut found = asked_for(analysis, Role::Weight, |asked| Cause::WeightShaped { asked })?;
    // A weight may be the largest buffer of a program that another one makes too large.
    found.is_cause &= analysis.log.shape.as_ref().is_none_or(|shape| !shape.is_part);
    Some(found)
}
