//! # `undecided`
//!
//! ## What it detects
//! Memory ran out, and the log shows none of the evidence that a cause needs: sizes that match, a
//! phase, a line of code, a known model on a known card, or the allocator's numbers.
//!
//! ## Why it happens
//! Most reports contain only the last line of the error. It says that a request failed, not what
//! fills the card.
//!
//! ## What helps
//! The whole log with its traceback, or a memory snapshot, which shows what every block is for.
//! Steps that are safe in any case are marked so; they need not be the fix.

use super::RuleMatch;
use crate::{
    cause::Cause,
    facts::{Certainty, Domain, MemoryKind, PhaseName},
    reason::Analysis,
};

pub(super) fn check(analysis: &Analysis<'_>) -> Option<RuleMatch> {
    let message = analysis.log.message.as_ref()?;
    let facts = &analysis.facts;
    let bytes = |size: Option<crate::parse::PrintedSize>| size.map(|size| size.bytes);
    if analysis.log.snapshot.is_some() || message.memory == MemoryKind::SharedMemory {
        return None;
    }
    let mut explanations = Vec::new();
    let mut add = |name: &'static str, is_open: bool| {
        if is_open {
            explanations.push(name);
        }
    };
    let is_open_kind = message.memory == MemoryKind::Unknown;
    let is_host = message.memory == MemoryKind::HostMemory;
    // Numbers that show what the other processes hold rule them out.
    let has_others = facts.foreign.is_none_or(|size| size.bytes > 1 << 30);
    let fits = analysis.budget.as_ref().is_some_and(|budget| !budget.usually_fails());
    let phase = analysis.phase.name;
    match analysis.domain {
        _ if is_host => {}
        Domain::NanoGpt | Domain::DecoderTraining | Domain::OtherTraining => {
            let is_step = !matches!(phase, PhaseName::Save | PhaseName::Load | PhaseName::Resume);
            add("static-state-too-large", analysis.run.is_none() && !fits);
            add("batch-too-large", is_step);
            add("gather-on-save", phase == PhaseName::Save);
            add("checkpoint-on-device", phase == PhaseName::Resume);
        }
        Domain::Inference | Domain::Serving => {
            add("weights-too-large", !fits);
            add("kv-cache", phase != PhaseName::Load);
        }
        Domain::None | Domain::Unknown => {
            add("batch-too-large", true);
            add("weights-too-large", true);
        }
    }
    add("foreign-memory", !is_host && has_others);
    add("host-memory", is_open_kind || is_host);
    let cause = Cause::Undecided {
        explanations,
        allocated_bytes: bytes(facts.allocated),
        total_bytes: bytes(facts.total),
        requested_bytes: bytes(facts.requested),
    };
    Some(RuleMatch { certainty: Certainty::Certain, is_cause: false, cause })
}
