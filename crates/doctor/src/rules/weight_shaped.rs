//! # `weight-shaped`
//!
//! ## What it sees
//! The request prints as a parameter would: a weight, its gradient, a moment of Adam's, or
//! autocast's half copy.
//!
//! ## Why it happens
//! State does not depend on the batch. Such a request fails while the model is loaded, when the
//! first backward makes gradients, when the first step makes moments, or when autocast copies a
//! weight on a card that is already full.
//!
//! ## What helps
//! Depends on the phase: see `static-state-too-large`, `checkpoint-on-device` and
//! `optimizer-temporaries`. If none of these applies, the card was filled by something else.

use super::{Answer, asked_for};
use crate::{cause::Cause, diagnosis::Role, reason::Analysis};

pub(super) fn check(analysis: &Analysis<'_>) -> Option<Answer> {
    asked_for(analysis, Role::Weight, |asked| Cause::WeightShaped { asked })
}
