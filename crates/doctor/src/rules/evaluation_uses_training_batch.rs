//! # `evaluation-uses-training-batch`
//!
//! ## What it sees
//! The failure lies in an evaluation, which runs with the batch of training.
//!
//! ## Why it happens
//! nanoGPT has one `batch_size`. Its `estimate_loss` keeps no activations and runs no backward,
//! but needs the logits of a whole batch, and those of the batch before.
//!
//! ## What helps
//! A batch of its own for evaluations; more `eval_iters` then cover the same sequences. nanoGPT
//! has no key for that (`fitgpt` has `eval_batch_size`). Mind the training step: it may be the
//! next that does not fit. Fewer `eval_iters` alone change nothing.

use fitgpt_plan::torch::{TorchOptions, TorchPhase};

use super::Answer;
use crate::{
    cause::Cause,
    diagnosis::PhaseName,
    reason::{Analysis, peak_bytes},
};

pub(super) fn check(analysis: &Analysis<'_>) -> Option<Answer> {
    let run = analysis.run.as_ref()?;
    let options = run.options;
    let is_shared = options.eval_batch == options.batch && options.batch > 1;
    if analysis.phase.name != PhaseName::Evaluate || !is_shared {
        return None;
    }
    let phase = if analysis.log.progress.iter.is_some() {
        TorchPhase::Evaluate
    } else {
        TorchPhase::EvaluateFirst
    };
    let one = TorchOptions { eval_batch: 1, ..options };
    let (whole, single) = (peak_bytes(run, &options, phase), peak_bytes(run, &one, phase));
    let cause = Cause::EvaluationUsesTrainingBatch {
        batch_size: options.batch,
        peak_bytes: whole,
        peak_with_one_sequence_bytes: single,
    };
    let fits_alone = analysis.usable_bytes().is_some_and(|usable| single <= usable);
    Some(Answer { certainty: analysis.phase.certainty, is_cause: fits_alone, cause })
}
