//! # `optimizer-temporaries`
//!
//! ## What it detects
//! The failure is in the optimizer step, or in the gradient clipping before it.
//!
//! ## Why it happens
//! The first step allocates both moments, 8 bytes per parameter, so the second iteration may not fit
//! even if the first did. Multi-tensor AdamW (`foreach`) also allocates the square roots of all
//! second moments at once, 4 more bytes per parameter. Meanwhile `logits` still holds those of the
//! last micro-batch.
//!
//! ## What helps
//! `fused=True`, which needs no such temporaries, and `del logits` before the step. Neither changes
//! the training.

use super::RuleMatch;
use crate::{
    cause::Cause,
    facts::PhaseName,
    reason::{Analysis, trace},
};

pub(super) fn check(analysis: &Analysis<'_>) -> Option<RuleMatch> {
    if !analysis.is_gpu() || analysis.phase.name != PhaseName::Update {
        return None;
    }
    let uses_lists = trace::holds(analysis.log, &["_foreach_", "_multi_tensor_"]);
    let makes_moments = trace::holds(analysis.log, &["zeros_like", "_init_group"]);
    let matrices = analysis.run.as_ref().map(|run| -> u64 {
        run.model.parameters().iter().filter(|p| p.decays()).map(|p| 4 * p.count()).sum()
    });
    let count = analysis.run.as_ref().map(|run| run.model.parameter_count());
    let cause = Cause::OptimizerTemporaries {
        makes_moments,
        uses_lists,
        moments_bytes: count.map(|count| 8 * count),
        list_bytes: matrices.map(|bytes| if uses_lists { bytes } else { 0 }),
    };
    Some(RuleMatch { certainty: analysis.phase.certainty, is_cause: true, cause })
}
