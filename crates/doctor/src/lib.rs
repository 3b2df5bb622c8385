//! The doctor: what an out-of-memory text says, and why the run did not fit.
//!
//! [`parse`] reads a log, [`diagnose`] thinks it through: what kind of program it is of, which
//! numbers the allocator proves, and, if the run is known, the programs that
//! [`fitgpt_plan::torch`] writes for it. The answer is data, and the caller has the words for it.
//! Nothing is guessed: a number that several tensors would print lists all of them, and if
//! nothing explains it, that is the finding.
//!
//! No I/O happens here, and no input panics: a log is a text that strangers wrote.
#![forbid(unsafe_code)]

pub mod parse;

mod reason;
mod rules;

mod playbook;

mod cause;
mod diagnose;
mod diagnosis;
mod explain;
mod size;
mod snapshot;

pub use self::{
    cause::{Cause, HostSign, OtherFailure, RequestedTensor, Reservation},
    diagnose::{Context, diagnose},
    diagnosis::{
        Account, AccountShare, Advice, AssumedRun, CandidateTensor, Certainty, Diagnosis, DoNext,
        Domain, FailurePhase, Finding, Fix, MemoryFacts, MemoryKind, NextFailure, PhaseName, Role,
    },
    explain::{Language, explain, rules, topics},
    playbook::{Question, Remedy},
    reason::Decoder,
    size::size,
    snapshot::{Snapshot, SnapshotError},
};
