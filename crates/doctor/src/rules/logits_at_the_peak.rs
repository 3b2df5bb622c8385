//! # `logits-at-the-peak`
//!
//! ## What it sees
//! The request prints exactly as rows × vocabulary would: logits, their float32 copy, their
//! softmax or a gradient of one of these.
//!
//! ## Why it happens
//! The loss needs the logits, their softmax and a gradient of the same size at once. GPT-2's
//! vocabulary is 65 times its width, so that one such tensor outweighs a layer; eager mode keeps
//! up to 20 bytes for each token and word, compiled mode 4.
//!
//! ## What helps
//! A loss that is computed for some rows at a time, a smaller micro-batch with more accumulation
//! (the same training), and for evaluations a batch of their own.

use super::{Answer, asked_for};
use crate::reason::{Group, Scene};

pub(super) fn check(scene: &Scene<'_>) -> Option<Answer> {
    asked_for(scene, Group::Logits)
}
