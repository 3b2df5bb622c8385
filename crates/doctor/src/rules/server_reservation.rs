//! # `server-reservation`
//!
//! ## What it detects
//! A server or a framework reserves a fraction of the card in advance: vLLM's
//! `gpu_memory_utilization`, SGLang's `mem_fraction_static`, XLA's preallocation.
//!
//! ## Why it happens
//! vLLM reserves a fraction of the total memory, regardless of other processes; the rest must be
//! enough for CUDA graphs and everything outside PyTorch. XLA reserves three quarters of the card at
//! first use.
//!
//! ## What helps
//! A fraction that fits the free memory (`--gpu-memory-utilization 0.8`), no CUDA graphs
//! (`--enforce-eager`), or an empty card. For JAX, `XLA_PYTHON_CLIENT_PREALLOCATE=false`.

use super::RuleMatch;
use crate::{
    cause::{Cause, Reservation},
    facts::Certainty,
    parse::{Clue, Wording},
    reason::Analysis,
};

/// A fraction of the card that leaves too little for the rest, in thousandths.
const TOO_HIGH: u64 = 940;

pub(super) fn check(analysis: &Analysis<'_>) -> Option<RuleMatch> {
    let message = analysis.log.message.as_ref().filter(|_| analysis.is_gpu())?;
    let (log, facts) = (analysis.log, &analysis.facts);
    let bytes = |size: Option<crate::parse::PrintedSize>| size.map(|size| size.bytes);
    let of = |reservation, certainty| {
        let cause = Cause::ServerReservation {
            reservation,
            wanted_bytes: bytes(message.wanted),
            free_bytes: bytes(facts.free),
            share_thousandths: log.setup.utilization_thousandths,
        };
        Some(RuleMatch { certainty, is_cause: true, cause })
    };
    if message.wording == Wording::Server && message.free.is_some() {
        return of(Reservation::Share, Certainty::Certain);
    }
    if !log.clues.any(&[Clue::Vllm, Clue::Sglang]) || message.wording == Wording::Server {
        return None;
    }
    // A training step left less than the engine gave up when it went to sleep.
    if log.clues.has(Clue::WakesUp) {
        return of(Reservation::NothingLeft, Certainty::Likely);
    }
    let is_high = log.setup.utilization_thousandths.is_some_and(|share| share >= TOO_HIGH);
    if is_high || log.clues.has(Clue::CapturesGraphs) {
        return of(Reservation::NothingLeft, Certainty::Likely);
    }
    let has_company = match (facts.foreign, facts.total) {
        // Other processes with most of the card are the cause themselves.
        (Some(foreign), Some(total)) => {
            (total.bytes / 10..total.bytes / 2).contains(&foreign.bytes)
        }
        _ => false,
    };
    if has_company { of(Reservation::Share, Certainty::Likely) } else { None }
}
