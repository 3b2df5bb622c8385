//! From the contents of a log to what happened: the run, the phase, the tensor, the account.
//!
//! In this order: which memory ran out; what the numbers alone prove; which run it was; in which
//! phase it failed; which tensors the request may have been for, and whether the memory held at
//! that moment agrees with the message.

mod account;
mod decoder;
mod domain;
mod facts;
mod infer;
mod run;
mod candidates;
mod printed;
mod next;
pub(crate) mod claims;
mod budget;
mod phase;
mod state;
pub(crate) mod trace;

use fitgpt_config::ConfigError;
use fitgpt_fit::{
    device::{CUDA_CONTEXT_BYTES, WORKSPACE_BYTES},
    torch,
};

pub use self::decoder::Decoder;
pub(crate) use self::{
    candidates::Candidate,
    domain::domain,
    facts::facts,
    next::{next, peak_bytes},
    run::{ConfigOrigin, TrainingRun},
};
use crate::{
    budget::Budget,
    diagnosis::{Account, MemoryFacts},
    facts::{
        AccountShare, AssumedRun, CandidateTensor, Domain, FailurePhase, MemoryKind, PhaseName,
        Role, ShareName,
    },
    parse::{Clue, Log},
};

/// Whether the request may be compared with GPT-2's tensors: only if the log mentions GPT-2. Among
/// a thousand shapes of an unrelated model, some tensor matches any number.
fn may_be_gpt2(log: &Log, domain: Domain) -> bool {
    let is_named = log.clues.any(&[Clue::Gpt2, Clue::NanoGpt]) || log.progress.is_nanogpt;
    is_named && matches!(domain, Domain::NanoGpt | Domain::DecoderTraining | Domain::Unknown)
}

/// Minimum memory of the CUDA context and libraries.
const LEAST_OVERHEAD: u64 = CUDA_CONTEXT_BYTES[0].get() + WORKSPACE_BYTES[0].get();

/// Everything known about a failure. Rules use this and nothing else.
#[derive(Debug)]
pub(crate) struct Analysis<'a> {
    pub(crate) log: &'a Log,
    pub(crate) facts: MemoryFacts,
    pub(crate) domain: Domain,
    pub(crate) run: Option<TrainingRun>,
    /// The model that the log names, in any stack.
    pub(crate) decoder: Option<Decoder>,
    /// Its state on this card.
    pub(crate) budget: Option<Budget>,
    /// Whether the traceback shows the phase.
    pub(crate) is_phase_traced: bool,
    /// The planned peak of the assumed run, if the log shows clearly more, so that the assumption
    /// is wrong.
    pub(crate) refuted_bytes: Option<u64>,
    /// Why the config is invalid.
    pub(crate) config_error: Option<ConfigError>,
    pub(crate) phase: FailurePhase,
    /// Tensors that the request may have been for, best first.
    pub(crate) candidates: Vec<Candidate>,
    /// Tensors of common runs with the requested size, if the run of the log is unknown or has
    /// none.
    pub(crate) supposed: Vec<(CandidateTensor, AssumedRun)>,
}

impl<'a> Analysis<'a> {
    pub(crate) fn new(
        log: &'a Log,
        facts: &MemoryFacts,
        domain: Domain,
        decoder: Option<Decoder>,
        mut run: Option<TrainingRun>,
        config_error: Option<ConfigError>,
    ) -> Self {
        let refuted_bytes = run.as_ref().and_then(|run| refuted(run, facts));
        if refuted_bytes.is_some() {
            run = None;
        }
        let by_frames = phase::by_frames(log).or_else(|| phase::by_innermost(log, domain));
        let by_lines = phase::by_lines(log, run.as_ref());
        let has_shape = facts.requested.is_some_and(infer::carries_shape);
        let mut candidates = Vec::new();
        if let (Some(run), Some(requested), true) = (&run, facts.requested, has_shape) {
            candidates = candidates::candidates(log, run, requested, facts.allocated);
        }
        let phase = match &log.message {
            Some(_) => {
                phase::decide(by_frames, by_lines, phase::by_words(log, domain), &candidates)
            }
            None => FailurePhase::UNKNOWN, // nothing failed
        };
        let decoder = decoder.or_else(|| Decoder::find(log));
        if run.is_none()
            && let Some(shape) = &log.shape
        {
            candidates.push(printed::candidate(log, shape, decoder.as_ref(), domain));
        }
        candidates::rank(&mut candidates, phase);
        if let Some(supposing) = run.as_ref().and_then(TrainingRun::supposition) {
            for candidate in &mut candidates {
                candidate.tensor.supposing = Some(supposing);
            }
        }
        let is_card = log.message.as_ref().is_some_and(|m| m.memory == MemoryKind::GpuMemory);
        let mut supposed = Vec::new();
        if candidates.is_empty() && has_shape && is_card && may_be_gpt2(log, domain) {
            supposed = infer::suppose(log, facts.requested);
        }
        let budget = match &run {
            Some(_) => None, // its programs say more
            None => budget::budget(log, facts, domain, decoder.as_ref()),
        };
        Self {
            budget,
            is_phase_traced: by_frames.is_some(),
            log,
            facts: *facts,
            domain,
            run,
            decoder,
            refuted_bytes,
            config_error,
            phase,
            candidates,
            supposed,
        }
    }

    /// The tensors that the diagnosis lists.
    pub(crate) fn tensors(&self) -> Vec<CandidateTensor> {
        if self.candidates.is_empty() && !self.supposed.is_empty() {
            return self.supposed.iter().map(|(tensor, _)| tensor.clone()).collect();
        }
        if self.candidates.is_empty() {
            return self.decoder_tensors();
        }
        self.candidates.iter().map(|candidate| candidate.tensor.clone()).collect()
    }

    /// Tensors of the named decoder with the requested size.
    pub(crate) fn decoder_tensors(&self) -> Vec<CandidateTensor> {
        let trains = matches!(self.domain, Domain::DecoderTraining | Domain::Inference);
        match (&self.decoder, self.facts.requested) {
            (Some(decoder), Some(requested))
                if trains && self.has_shape() && self.run.is_none() =>
            {
                decoder.tensors(self.log, requested)
            }
            _ => Vec::new(),
        }
    }

    /// Whether GPU memory ran out.
    pub(crate) fn is_gpu(&self) -> bool {
        self.log.message.as_ref().is_some_and(|message| message.memory == MemoryKind::GpuMemory)
    }

    /// Whether the log is from training.
    pub(crate) fn trains(&self) -> bool {
        matches!(self.domain, Domain::NanoGpt | Domain::DecoderTraining | Domain::OtherTraining)
    }

    /// What the "already allocated" memory of the log consists of, if the program's account agrees
    /// with it within a fifth.
    pub(crate) fn account(&self) -> Option<Account> {
        if let Some(snapshot) = &self.log.snapshot {
            return Some(Account {
                parts: snapshot.owners.clone(),
                explained_bytes: snapshot.allocated_bytes,
                held_bytes: snapshot.allocated_bytes,
            });
        }
        let held_bytes = self.facts.allocated?.bytes;
        let is_near = |bytes: u64| bytes.abs_diff(held_bytes).saturating_mul(5) <= held_bytes;
        let of = |parts: Vec<AccountShare>| {
            let explained_bytes =
                parts.iter().fold(0, |sum: u64, part| sum.saturating_add(part.bytes));
            is_near(explained_bytes).then_some(Account { parts, explained_bytes, held_bytes })
        };
        let is_here = |c: &&Candidate| {
            self.phase.name == PhaseName::Unknown || c.tensor.phase == self.phase.name
        };
        let best = self.candidates.iter().filter(is_here).find_map(|c| c.held.as_ref());
        if let Some(account) = best.and_then(|held| of(held.parts.clone())) {
            return Some(account);
        }
        if let Some(run) = &self.run {
            return next::account(run, self).and_then(of);
        }
        let decoder = self.decoder.as_ref().filter(|_| self.is_gpu())?;
        let part = |name: ShareName, bytes: u64| AccountShare {
            name,
            bytes: bytes.saturating_mul(decoder.parameters),
        };
        let state = |[weights, gradients, moments]: [u64; 3]| {
            vec![
                part(ShareName::Weights, weights),
                part(ShareName::Gradients, gradients),
                part(ShareName::OptimizerState, moments),
            ]
        };
        let nearest = |parts: &Vec<AccountShare>| {
            let sum = parts.iter().fold(0, |sum: u64, part| sum.saturating_add(part.bytes));
            sum.abs_diff(held_bytes)
        };
        if let Some(parts) = state::accounts(self, decoder).into_iter().min_by_key(nearest) {
            return of(parts);
        }
        if self.phase.name == PhaseName::Update && self.trains() {
            // All float32; half-precision weights with float32 moments; all half precision.
            return [[4, 4, 8], [2, 2, 8], [2, 2, 4]]
                .into_iter()
                .find_map(|bytes| of(state(bytes)));
        }
        if matches!(self.domain, Domain::Inference | Domain::Serving) {
            return [2, 4, 1]
                .into_iter()
                .find_map(|bytes| of(vec![part(ShareName::Weights, bytes)]));
        }
        None
    }

    /// Whether the requested size can identify a tensor.
    pub(crate) fn has_shape(&self) -> bool {
        self.facts.requested.is_some_and(infer::carries_shape)
    }

    /// Memory of the card available for tensors of this run: the capacity less the memory of other
    /// processes and the minimum for the CUDA context and libraries.
    pub(crate) fn usable_bytes(&self) -> Option<u64> {
        let foreign = self.facts.foreign.map_or(0, |size| size.bytes);
        Some(self.facts.total?.bytes.saturating_sub(foreign).saturating_sub(LEAST_OVERHEAD))
    }

    /// Whether the failing phase would fit an otherwise empty card; `None` if the run, the phase or
    /// the card is unknown.
    pub(crate) fn fits_an_empty_card(&self) -> Option<bool> {
        let run = self.run.as_ref()?;
        let phase = match self.phase.name {
            PhaseName::Evaluate if self.log.progress.iter.is_some() => torch::TorchPhase::Evaluate,
            PhaseName::Evaluate => torch::TorchPhase::EvaluateFirst,
            PhaseName::TrainForward | PhaseName::TrainBackward => torch::TorchPhase::Train,
            PhaseName::Update => torch::TorchPhase::Update,
            _ => return None,
        };
        let peak = peak_bytes(run, &run.options, phase);
        Some(peak.saturating_add(LEAST_OVERHEAD) <= self.facts.total?.bytes)
    }

    /// The best candidate with a role, and whether it is the best overall.
    pub(crate) fn best_of(&self, role: Role) -> Option<(&Candidate, bool)> {
        let index = self.candidates.iter().position(|c| c.tensor.role == role)?;
        Some((&self.candidates[index], index == 0))
    }
}

/// The planned peak of the run, if the log shows that clearly more was held. Then it was not this
/// program: unfused attention, another optimizer or another script.
fn refuted(run: &TrainingRun, facts: &MemoryFacts) -> Option<u64> {
    let allocated = facts.allocated?;
    let mut options = vec![run.options];
    if !run.options.compile || run.source != ConfigOrigin::Given {
        // Whether the run was compiled is an assumption, too.
        let eager = torch::TorchOptions { compile: false, ..run.options };
        options.extend([eager, torch::TorchOptions { fused_attention: false, ..eager }]);
    }
    let phases = torch::TorchPhase::of_run(&run.options).into_iter();
    let pairs = phases.flat_map(|phase| options.iter().map(move |options| (phase, options)));
    let most = pairs.map(|(phase, options)| peak_bytes(run, options, phase)).max()?;
    (allocated.low > most.saturating_add(most / 5)).then_some(most)
}
