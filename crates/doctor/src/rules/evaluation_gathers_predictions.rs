//! # `evaluation-gathers-predictions`
//!
//! ## What it detects
//! An evaluation failed while concatenating the predictions of a batch with those of all previous
//! batches.
//!
//! ## Why it happens
//! Hugging Face's trainer keeps all predictions of an evaluation on the card until the end. For a
//! language model, each token's prediction is a row of logits as wide as the vocabulary.
//!
//! ## What helps
//! `eval_accumulation_steps=1` moves them to the host after every step;
//! `preprocess_logits_for_metrics` can reduce them to the argmax; `prediction_loss_only=True` keeps
//! none.

use super::RuleMatch;
use crate::{
    cause::Cause,
    facts::{Certainty, MemoryKind, PhaseName},
    parse::{Clue, Topic},
    reason::{Analysis, trace},
};

/// Code that concatenates predictions, without white space.
const LINES: [&str; 9] = [
    "nested_concat(",
    "preds_host",
    "torch.cat((preds,",
    "torch.cat([preds,",
    "torch_pad_and_concatenate(",
    "pad_across_processes(",
    "all_preds",
    "gather_for_metrics(",
    "nested_gather(",
];

pub(super) fn check(analysis: &Analysis<'_>) -> Option<RuleMatch> {
    let message = analysis.log.message.as_ref()?;
    let requested_bytes = analysis.facts.requested.map(|size| size.bytes);
    let of = |line: String, certainty| {
        let cause = Cause::EvaluationGathersPredictions { requested_bytes, line };
        Some(RuleMatch { certainty, is_cause: true, cause })
    };
    if let Some(line) = trace::line_with(analysis.log, &LINES).filter(|_| analysis.is_gpu()) {
        return of(line, Certainty::Certain);
    }
    // A user says that predictions are collected, or that it works without the metrics.
    let is_said = analysis.log.setup.situation.topics.contains(&Topic::Predictions)
        && analysis.phase.name == PhaseName::Evaluate
        && message.memory != MemoryKind::HostMemory;
    // Trainers that collect predictions; and training, which needs more for a pass, fits.
    let is_suspected = analysis.phase.name == PhaseName::Evaluate
        && analysis.log.clues.any(&[Clue::HfTrainer, Clue::TuningKit])
        && analysis.log.setup.situation.topics.contains(&Topic::TrainingFits)
        && analysis.log.frames.is_empty()
        && message.memory != MemoryKind::HostMemory;
    match () {
        () if is_said => of(String::new(), Certainty::Likely),
        () if is_suspected => of(String::new(), Certainty::Unknown),
        () => None,
    }
}
