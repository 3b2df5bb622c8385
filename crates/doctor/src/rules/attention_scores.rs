//! # `attention-scores`
//!
//! ## What it detects
//! The requested size is batch × heads × tokens × tokens.
//!
//! ## Why it happens
//! Unfused attention stores a score for every pair of tokens and every head, and again after
//! softmax and dropout. Twice the tokens need four times the memory.
//!
//! ## What helps
//! PyTorch 2's fused attention, which never stores them (nanoGPT uses it if available); a smaller
//! micro-batch; or a smaller `block_size`, which changes the training.

use super::{RuleMatch, asked_for, named_by_line};
use crate::{cause::Cause, facts::Role, reason::Analysis};

/// Code that computes unfused scores, without white space.
const LINES: [&str; 16] = [
    "attn_weights",
    "attention_scores",
    "attention_probs",
    "attn_scores",
    "torch.matmul(query",
    "torch.matmul(q,",
    "torch.matmul(q_",
    "torch.bmm(query",
    "torch.bmm(q,",
    "q@k",
    "query@key",
    "softmax(scores",
    "softmax(attn",
    "self.attn_dropout(w)",
    "baddbmm(",
    "einsum('bid,bjd",
];

/// The call is fused, unless it asks for a GiB: then its backend computes every score.
const FUSED: [&str; 1] = ["scaled_dot_product_attention("];

pub(super) fn check(analysis: &Analysis<'_>) -> Option<RuleMatch> {
    let of = |asked| Cause::AttentionScores { asked };
    let is_large = analysis.facts.requested.is_some_and(|size| size.bytes >= 1 << 30);
    asked_for(analysis, Role::AttentionScores, of)
        .or_else(|| named_by_line(analysis, &LINES, of))
        .or_else(|| named_by_line(analysis, &FUSED, of).filter(|_| is_large))
}
