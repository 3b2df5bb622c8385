//! What the claims of a text change in the user's own config.

use fitgpt_fit::torch::{TorchOptions, TorchPhase};

use super::{TrainingRun, peak_bytes};
use crate::{
    claim::{CheckedClaim, Claim},
    facts::PhaseName,
};

/// The claims with their verdicts, and with planned peaks if the run is known.
pub(crate) fn check(claims: &[Claim], run: Option<&TrainingRun>) -> Vec<CheckedClaim> {
    claims.iter().map(|claim| of(*claim, run)).collect()
}

fn of(claim: Claim, run: Option<&TrainingRun>) -> CheckedClaim {
    let verdict = claim.verdict();
    let plain = CheckedClaim { claim, verdict, phase: None, before_bytes: None, after_bytes: None };
    let Some(run) = run else { return plain };
    let base = run.options;
    let quarter = |batch: u64| (batch / 4).max(1);
    let (phase, changed) = match claim {
        Claim::EvalBatchSize => {
            (TorchPhase::EvaluateFirst, TorchOptions { eval_batch: base.eval_batch.min(4), ..base })
        }
        Claim::EvalBlockSize => {
            (TorchPhase::EvaluateFirst, TorchOptions { eval_seq: base.eval_seq.min(512), ..base })
        }
        Claim::GradientCheckpointing => {
            (TorchPhase::Train, TorchOptions { checkpoint_blocks: true, ..base })
        }
        Claim::SmallerMicroBatch => {
            (TorchPhase::Train, TorchOptions { batch: quarter(base.batch), ..base })
        }
        Claim::CompileOff => (TorchPhase::Train, TorchOptions { compile: false, ..base }),
        Claim::BlockSize => (TorchPhase::Train, TorchOptions { seq: base.seq.min(512), ..base }),
        _ => return plain,
    };
    let name = match phase {
        TorchPhase::Train => PhaseName::TrainForward,
        _ => PhaseName::Evaluate,
    };
    CheckedClaim {
        phase: Some(name),
        before_bytes: Some(peak_bytes(run, &base, phase)),
        after_bytes: Some(peak_bytes(run, &changed, phase)),
        ..plain
    }
}
