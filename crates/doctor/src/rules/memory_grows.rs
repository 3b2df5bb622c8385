//! # `memory-grows`
//!
//! ## What it detects
//! A user describes that memory use grows from step to step, or that a run fails after many steps
//! that fitted.
//!
//! ## Why it happens
//! Something keeps tensors of earlier steps alive. The usual case is a loss or an output that is
//! collected in a list or added to a sum: it keeps its whole graph with all activations. If
//! nothing is kept, a later batch was larger, for example one with the longest sequence.
//!
//! ## What helps
//! Keep numbers instead of tensors: `total += loss.item()`, and `output.detach().cpu()` for
//! outputs. Run evaluations under `torch.inference_mode()`. A memory snapshot shows which lines
//! allocated what is still alive.

use super::RuleMatch;
use crate::{
    cause::{Cause, GrowthSign},
    facts::{Certainty, Domain, MemoryKind},
    parse::Clue,
    reason::Analysis,
};

pub(super) fn check(analysis: &Analysis<'_>) -> Option<RuleMatch> {
    let message = analysis.log.message.as_ref()?;
    if !matches!(message.memory, MemoryKind::GpuMemory | MemoryKind::Unknown) {
        return None;
    }
    let growth = analysis.log.setup.situation.grows;
    let grows = growth.is_some_and(|memory| memory != MemoryKind::HostMemory);
    let (clues, setup) = (analysis.log.clues, &analysis.log.setup);
    // Growth ends at a small request. A large one is that of a large pass, and users of a program
    // that they have not written see growth without knowing what is kept.
    let is_large = analysis.facts.requested.is_some_and(|size| size.bytes > 1 << 30);
    let is_theirs = !is_large && analysis.domain != Domain::Serving;
    let (sign, certainty) = if grows && is_theirs {
        (GrowthSign::Described, Certainty::Likely)
    } else if grows {
        (GrowthSign::Described, Certainty::Unknown)
    } else if clues.has(Clue::FailsLate) || setup.fails_after.is_some() {
        (GrowthSign::FailsLate, Certainty::Unknown)
    } else {
        return None;
    };
    Some(RuleMatch { certainty, is_cause: true, cause: Cause::MemoryGrows { sign } })
}
