//! From what the log says to what happened: the run, the phase, the tensor, the account.
//!
//! In this order: which memory; what the numbers say by themselves; which run this was; where
//! in it the failure lies; which tensors could have been asked for, and whether what was held
//! then agrees with the message.

mod account;
mod candidates;
mod facts;
mod infer;
mod next;
mod phase;
mod run;

pub(crate) use self::{
    candidates::{Candidate, Group},
    facts::facts,
    next::{next, peak_bytes},
    run::{Run, Source},
};
use fitgpt_plan::{
    config::ConfigError,
    device::{CUDA_CONTEXT_BYTES, WORKSPACE_BYTES},
    torch,
};

use crate::{
    diagnosis::{Facts, Phase, PhaseName, Supposition, Tensor},
    parse::{Log, Memory},
};

/// Whether the number may be compared with GPT-2's tensors at all. A traceback or a text of
/// another model has tensors of which nothing is known here, and some of a thousand shapes fits
/// any number.
fn may_be_gpt2(log: &Log) -> bool {
    log.subject.is_gpt2 || (!log.subject.is_other && log.frames.is_empty())
}

/// The least that a context and its libraries take.
const LEAST_OVERHEAD: u64 = CUDA_CONTEXT_BYTES[0].get() + WORKSPACE_BYTES[0].get();

/// A failure that has been thought through; rules look at this and nothing else.
#[derive(Debug)]
pub(crate) struct Scene<'a> {
    pub(crate) log: &'a Log,
    pub(crate) facts: Facts,
    pub(crate) run: Option<Run>,
    /// Why the config was refused.
    pub(crate) config_error: Option<ConfigError>,
    pub(crate) phase: Phase,
    /// What could have been asked for, best first.
    pub(crate) candidates: Vec<Candidate>,
    /// Runs that would print this request, where the log's own run does not or is not known.
    pub(crate) supposed: Vec<(Tensor, Supposition)>,
}

impl<'a> Scene<'a> {
    pub(crate) fn new(
        log: &'a Log,
        facts: &Facts,
        run: Option<Run>,
        config_error: Option<ConfigError>,
    ) -> Self {
        let by_frames = phase::by_frames(log);
        let by_lines = phase::by_lines(log, run.as_ref());
        let has_shape = facts.requested.is_some_and(infer::carries_shape);
        let mut candidates = Vec::new();
        if let (Some(run), Some(requested), true) = (&run, facts.requested, has_shape) {
            candidates = candidates::candidates(log, run, requested, facts.allocated);
        }
        let phase = match &log.message {
            Some(_) => phase::decide(by_frames, by_lines, &candidates),
            None => Phase::UNKNOWN, // nothing failed
        };
        if run.is_none()
            && let Some(shape) = &log.shape
        {
            candidates.push(Candidate::printed(shape));
        }
        candidates::rank(&mut candidates, phase);
        if let Some(supposing) = run.as_ref().and_then(Run::supposition) {
            for candidate in &mut candidates {
                candidate.tensor.supposing = Some(supposing);
            }
        }
        let is_card = log.message.as_ref().is_some_and(|m| m.memory == Memory::Gpu);
        let mut supposed = Vec::new();
        if candidates.is_empty() && has_shape && is_card && may_be_gpt2(log) {
            supposed = infer::suppose(log, facts.requested);
        }
        Self { log, facts: *facts, run, config_error, phase, candidates, supposed }
    }

    /// The tensors as the diagnosis lists them.
    pub(crate) fn tensors(&self) -> Vec<Tensor> {
        if self.candidates.is_empty() {
            return self.supposed.iter().map(|(tensor, _)| tensor.clone()).collect();
        }
        self.candidates.iter().map(|candidate| candidate.tensor.clone()).collect()
    }

    /// Whether the request's number can tell a tensor.
    pub(crate) fn has_shape(&self) -> bool {
        self.facts.requested.is_some_and(infer::carries_shape)
    }

    /// What of the card tensors of this run can have: all of it, less what others hold and the
    /// least that a context and its libraries take.
    pub(crate) fn usable_bytes(&self) -> Option<u64> {
        let foreign = self.facts.foreign.map_or(0, |size| size.bytes);
        Some(self.facts.total?.bytes.saturating_sub(foreign).saturating_sub(LEAST_OVERHEAD))
    }

    /// Whether the failing phase would fit if nobody else were on the card; `None` where the run,
    /// the phase or the card is not known.
    pub(crate) fn fits_an_empty_card(&self) -> Option<bool> {
        let run = self.run.as_ref()?;
        let phase = match self.phase.name {
            PhaseName::Evaluate if self.log.progress.iter.is_some() => torch::Phase::Evaluate,
            PhaseName::Evaluate => torch::Phase::EvaluateFirst,
            PhaseName::TrainForward | PhaseName::TrainBackward => torch::Phase::Train,
            PhaseName::Update => torch::Phase::Update,
            _ => return None,
        };
        let peak = peak_bytes(run, &run.options, phase);
        Some(peak.saturating_add(LEAST_OVERHEAD) <= self.facts.total?.bytes)
    }

    /// The best candidate of a group, and whether it is the best of all.
    pub(crate) fn best_of(&self, group: Group) -> Option<(&Candidate, bool)> {
        let index = self.candidates.iter().position(|c| c.group == group)?;
        Some((&self.candidates[index], index == 0))
    }
}
