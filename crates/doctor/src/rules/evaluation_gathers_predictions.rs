//! # `evaluation-gathers-predictions`
//!
//! ## What it sees
//! An evaluation failed where it joins the predictions of a batch to those of all batches before.
//!
//! ## Why it happens
//! Hugging Face's trainer keeps the predictions of the whole evaluation on the card until the end,
//! and for a language model a prediction is a row of logits as wide as the vocabulary for every
//! token.
//!
//! ## What helps
//! `eval_accumulation_steps=1` moves them to the host every step; `preprocess_logits_for_metrics`
//! keeps only the argmax; `prediction_loss_only=True` keeps none.

use super::Answer;
use crate::{
    cause::Cause,
    diagnosis::Certainty,
    reason::{Analysis, trace},
};

/// Lines that join predictions, squeezed.
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

pub(super) fn check(analysis: &Analysis<'_>) -> Option<Answer> {
    let line = trace::line_with(analysis.log, &LINES).filter(|_| analysis.is_gpu())?;
    let requested_bytes = analysis.facts.requested.map(|size| size.bytes);
    let cause = Cause::EvaluationGathersPredictions { requested_bytes, line };
    Some(Answer { certainty: Certainty::Certain, is_cause: true, cause })
}
