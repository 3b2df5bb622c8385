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

use super::{Answer, asked_for, named_by_line};
use crate::{cause::Cause, diagnosis::Role, reason::Analysis};

/// Lines of code that write scores out, squeezed.
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

pub(super) fn check(analysis: &Analysis<'_>) -> Option<Answer> {
    let of = |asked| Cause::AttentionScores { asked };
    asked_for(analysis, Role::AttentionScores, of).or_else(|| named_by_line(analysis, &LINES, of))
}
