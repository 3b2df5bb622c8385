//! # `evaluation-uses-training-batch`
//!
//! ## What it detects
//! The failure is in an evaluation that uses the training batch size.
//!
//! ## Why it happens
//! nanoGPT has a single `batch_size`. Its `estimate_loss` keeps no activations and runs no backward
//! pass, but needs the logits of a whole batch and those of the previous batch.
//!
//! ## What helps
//! A smaller evaluation batch; with more `eval_iters` it covers the same sequences. nanoGPT has no
//! key for it (`fitgpt` has `eval_batch_size`). The training step may not fit either. Fewer
//! `eval_iters` alone change nothing.

use fitgpt_fit::torch::{TorchOptions, TorchPhase};

use super::RuleMatch;
use crate::{
    cause::Cause,
    facts::PhaseName,
    reason::{Analysis, peak_bytes},
};

pub(super) fn check(analysis: &Analysis<'_>) -> Option<RuleMatch> {
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
    Some(RuleMatch { certainty: analysis.phase.certainty, is_cause: fits_alone, cause })
}
