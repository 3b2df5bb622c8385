//! # `attention-scores`
//!
//! ## What it sees
//! The request prints as batch × heads × tokens × tokens would.
//!
//! ## Why it happens
//! Attention that is not fused writes the score of every token with every other, for every
//! head, and again as softmax and as dropout. Twice the tokens, four times the bytes.
//!
//! ## What helps
//! PyTorch 2's fused attention, which never writes them (nanoGPT uses it where it is there); a
//! smaller micro-batch; and, which changes the run, a smaller `block_size`.

use super::{Answer, asked_for};
use crate::reason::{Group, Scene};

pub(super) fn check(scene: &Scene<'_>) -> Option<Answer> {
    asked_for(scene, Group::Attention)
}
