//! The doctor: what an out-of-memory text says, and why the run did not fit.
//!
//! [`parse`] reads a log, [`diagnose`] thinks it through with the programs that
//! [`fitgpt_plan::torch`] writes for the same run; the answer is data, and the caller has the
//! words for it. Nothing is guessed: a number that several tensors would print lists all of them, and where nothing
//! explains it, that is the finding.
//!
//! No I/O happens here, and no input panics: a log is a text that strangers wrote.
#![forbid(unsafe_code)]

pub mod parse;

mod reason;
mod rules;

mod diagnose;
mod diagnosis;
mod explain;
mod size;

pub use self::{
    diagnose::{Case, Fixes, diagnose, no_fixes},
    diagnosis::{
        Certainty, Datum, Diagnosis, Evidence, Facts, Finding, Fix, Kind, Next, Part, Phase,
        PhaseName, Supposition, Tensor, Want,
    },
    explain::{Language, explain, rules, topics},
    size::size,
};
