//! What fails next, after this failure is fixed.

use fitgpt_fit::torch::{self, CachingAllocator, TorchOptions, TorchPhase};
use fitgpt_program::{Names, memory::profile};

use super::{Analysis, TrainingRun};
use crate::{
    diagnosis::NextFailure,
    facts::{AccountShare, PhaseName, ShareName},
};

/// Peak live bytes of a phase.
pub(crate) fn peak_bytes(run: &TrainingRun, options: &TorchOptions, phase: TorchPhase) -> u64 {
    let programs = torch::phases(&run.model, options);
    let program = programs.iter().find(|(p, _)| *p == phase);
    let peak = program.and_then(|(_, program)| profile(program, &CachingAllocator).peak());
    peak.map_or(0, |peak| peak.bytes.get())
}

/// The first phase after the failing one that does not fit the card either. If other processes are
/// the cause, the fix ends them and frees `foreign_bytes`.
pub(crate) fn next(analysis: &Analysis<'_>, foreign_bytes: u64) -> Option<NextFailure> {
    let (run, usable_bytes) = (analysis.run.as_ref()?, analysis.usable_bytes()? + foreign_bytes);
    let behind: &[TorchPhase] = match analysis.phase.name {
        PhaseName::Load | PhaseName::Resume | PhaseName::Compile => &[
            TorchPhase::EvaluateFirst,
            TorchPhase::Train,
            TorchPhase::Update,
            TorchPhase::Evaluate,
        ],
        PhaseName::Evaluate if analysis.log.progress.iter.is_some() => return None,
        PhaseName::Evaluate => &[TorchPhase::Train, TorchPhase::Update, TorchPhase::Evaluate],
        PhaseName::TrainForward | PhaseName::TrainBackward => {
            &[TorchPhase::Update, TorchPhase::Evaluate]
        }
        PhaseName::Update => &[TorchPhase::Train, TorchPhase::Evaluate],
        _ => return None,
    };
    behind.iter().find_map(|phase| {
        let peak_bytes = peak_bytes(run, &run.options, *phase);
        let name = match phase {
            TorchPhase::Train => PhaseName::TrainForward,
            TorchPhase::Update => PhaseName::Update,
            _ => PhaseName::Evaluate,
        };
        (peak_bytes > usable_bytes).then_some(NextFailure { phase: name, peak_bytes, usable_bytes })
    })
}

/// The memory of the failing phase at its peak, by class.
pub(crate) fn account(run: &TrainingRun, analysis: &Analysis<'_>) -> Option<Vec<AccountShare>> {
    use ShareName as N;
    let phase = match analysis.phase.name {
        PhaseName::Evaluate if analysis.log.progress.iter.is_some() => TorchPhase::Evaluate,
        PhaseName::Evaluate => TorchPhase::EvaluateFirst,
        PhaseName::Update => TorchPhase::Update,
        PhaseName::TrainForward | PhaseName::TrainBackward => TorchPhase::Train,
        _ => return None,
    };
    let program = torch::program(phase, &run.model, &run.options, Names::Kept);
    let peak = profile(&program, &CachingAllocator).peak()?;
    let names = [
        N::Weights,
        N::Gradients,
        N::OptimizerState,
        N::Activations,
        N::Logits,
        N::Scratch,
        N::Inputs,
    ];
    let shares = names.into_iter().zip(peak.classes);
    let parts = shares.filter(|(_, bytes)| bytes.get() > 0);
    Some(parts.map(|(name, bytes)| AccountShare { name, bytes: bytes.get() }).collect())
}
