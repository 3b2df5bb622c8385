//! When it happened: by the traceback, else by the script's last line, else by the account.

use super::{candidates::Candidate, run::Run};
use crate::{
    diagnosis::{Certainty, Phase, PhaseName},
    parse::{Frame, Log},
};

/// What the script's last line leaves open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hint {
    Evaluate,
    Train,
    Load,
    Resume,
}

/// The phase that the traceback names.
pub(super) fn by_frames(log: &Log) -> Option<PhaseName> {
    let frames = &log.frames;
    let has = |words: &[&str]| {
        frames.iter().map(Frame::squeezed).any(|text| words.iter().any(|word| text.contains(word)))
    };
    let is_in = |paths: &[&str]| frames.iter().any(|f| paths.iter().any(|path| f.is_in(path)));
    // What inductor wrote runs in every phase; a compiler that is still at work is its own.
    let runs_generated_code = frames.last().is_some_and(|frame| {
        frame.file.contains("torchinductor") || frame.code.contains("empty_strided")
    });
    let compiles =
        is_in(&["select_algorithm.py", "_dynamo/convert_frame.py", "triton/compiler.py"])
            || has(&[
                "fx_codegen_and_compile",
                "codegen_and_compile",
                "call_user_compiler",
                "benchmark_in_",
            ]);
    if frames.is_empty() {
        None
    } else if compiles && !runs_generated_code {
        Some(PhaseName::Compile)
    } else if has(&["estimate_loss"]) {
        Some(PhaseName::Evaluate)
    } else if has(&[".backward(", "run_backward"]) {
        Some(PhaseName::TrainBackward)
    } else if is_in(&["optim/adamw.py", "optim/adam.py", "optim/optimizer.py", "clip_grad.py"])
        || has(&["optimizer.step(", "scaler.step(", "_foreach_", "clip_grad_norm_", "exp_avg"])
    {
        // A checkpoint's moments are also called so.
        let loads = has(&["load_state_dict(", "torch.load("]);
        Some(if loads { PhaseName::Resume } else { PhaseName::Update })
    } else if is_in(&["torch/serialization.py"]) || has(&["torch.load(", "load_state_dict("]) {
        Some(PhaseName::Resume)
    } else if has(&["model.to(", ".cuda()", "from_pretrained("]) {
        Some(PhaseName::Load)
    } else if is_in(&["prepare.py"]) {
        Some(PhaseName::Prepare)
    } else if frames.iter().any(is_training_loop) {
        Some(PhaseName::TrainForward)
    } else {
        None
    }
}

/// The forward in the loop itself, not in a function of it.
fn is_training_loop(frame: &Frame) -> bool {
    let code: String = frame.code.chars().filter(|c| !c.is_whitespace()).collect();
    matches!(frame.function.as_str(), "<module>" | "main" | "train" | "")
        && (code.contains("loss=model(") || code.contains("loss=raw_model("))
}

/// What the script's last line says.
pub(super) fn by_lines(log: &Log, run: Option<&Run>) -> Option<Hint> {
    let progress = &log.progress;
    let place = |at: Option<u64>| at.unwrap_or(0);
    let step = progress.step.map(|(_, at)| at);
    let iter = progress.iter.map(|(_, at)| at);
    let start = [progress.compiling, progress.made];
    let start = start.into_iter().flatten().max();
    let begun =
        [progress.resuming, progress.scratch, progress.pretrained.as_ref().map(|(_, at)| *at)];
    let begun = begun.into_iter().flatten().max();
    if let Some((number, at)) = progress.iter
        && at > place(step)
    {
        // The next iteration begins with an evaluation where its number says so.
        let interval = run.map_or(2000, |run| run.config.eval_interval());
        let evaluates = number.checked_add(1).is_some_and(|next| next % interval.max(1) == 0);
        return Some(if evaluates { Hint::Evaluate } else { Hint::Train });
    }
    if step.is_some() && step > iter {
        return Some(Hint::Train);
    }
    if start.is_some() && start >= begun {
        return Some(Hint::Evaluate);
    }
    if progress.resuming.is_some() && progress.resuming == begun {
        return Some(Hint::Resume);
    }
    begun.map(|_| Hint::Load)
}

/// The phase, from the surest witness.
pub(super) fn decide(
    by_frames: Option<PhaseName>,
    by_lines: Option<Hint>,
    candidates: &[Candidate],
) -> Phase {
    let likely = |name| Phase { name, certainty: Certainty::Likely };
    if let Some(name) = by_frames {
        return Phase { name, certainty: Certainty::Certain };
    }
    match by_lines {
        Some(Hint::Evaluate) => return likely(PhaseName::Evaluate),
        Some(Hint::Load) => return likely(PhaseName::Load),
        Some(Hint::Resume) => return likely(PhaseName::Resume),
        Some(Hint::Train) | None => {}
    }
    let is_step = |name| {
        matches!(name, PhaseName::TrainForward | PhaseName::TrainBackward | PhaseName::Update)
    };
    let is_open = |c: &&Candidate| by_lines.is_none() || is_step(c.tensor.phase);
    let mut agreeing: Vec<&Candidate> =
        candidates.iter().filter(is_open).filter(|c| c.agrees && c.is_of_config).collect();
    agreeing.sort_by(|a, b| a.distance.total_cmp(&b.distance));
    match agreeing.as_slice() {
        [] if by_lines.is_some() => likely(PhaseName::TrainForward),
        [] => Phase::UNKNOWN,
        [best, rest @ ..] => {
            // Accounts as near as this cannot be told apart.
            const SAME: f64 = 0.002;
            let is_rival = |c: &&&Candidate| {
                c.tensor.phase != best.tensor.phase && c.distance < best.distance + SAME
            };
            let rival = rest.iter().find(is_rival);
            if rival.is_some() && by_lines.is_none() {
                return Phase::UNKNOWN;
            }
            likely(best.tensor.phase)
        }
    }
}
