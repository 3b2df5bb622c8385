//! The doctor: explains an out-of-memory error from its log.
//!
//! [`parse`] reads a log. [`diagnose`] determines what kind of program wrote it, what the
//! allocator's numbers prove and, if the run is known, compares it with the programs that
//! [`fitgpt_fit::torch`] builds for that run. The result is data; its sentences are in
//! `words`, in four languages. Nothing is guessed: if several tensors would print the same number,
//! all of them are listed, and if none does, that is the finding.
//!
//! This crate does no I/O and no input makes it panic: logs are untrusted text.
#![forbid(unsafe_code)]

mod named;
mod facts;
mod budget;
mod claim;
pub mod parse;
mod cause;
mod remedy;
mod diagnosis;
mod reason;
mod rules;
mod playbook;
mod diagnose;
mod explain;
mod size;
mod words;

pub use self::{
    budget::Budget,
    cause::{Cause, GrowthSign, HostSign, OtherFailure, RequestedTensor, Reservation},
    claim::{CheckedClaim, Claim, ClaimVerdict},
    diagnose::{Context, diagnose},
    diagnosis::{
        Account, Advice, Diagnosis, DoNext, Finding, Fix, MemoryFacts, NextFailure, Step, StepName,
    },
    explain::{PageSummary, explain, nearest, pages, rules, topics},
    facts::{
        AccountShare, AssumedRun, CandidateTensor, Certainty, Domain, FailurePhase, MemoryKind,
        PhaseName, Role, ShareName, TensorName,
    },
    parse::{Segment, SegmentPart, Snapshot, SnapshotError},
    reason::Decoder,
    remedy::{Question, Remedy},
    size::size,
    words::{finding, in_one_unit, mark, plain, step_text, text, ties},
};
