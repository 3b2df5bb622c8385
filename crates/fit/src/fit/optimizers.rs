//! Which optimizers need less memory than the config's.

use fitgpt_config::{InitFrom, OptimizerChoice};

use super::{Change, Engine, FitRequest};

/// Optimizers with less state than the config's; nanoGPT has only one.
pub(super) fn with_less_state(request: &FitRequest<'_>) -> impl Iterator<Item = Change> {
    let config = request.config;
    let is_ours = matches!(request.engine, Engine::Fitgpt { .. });
    // The optimizer of a checkpoint is fixed.
    let is_open = is_ours && *config.init_from() != InitFrom::Resume;
    let smaller: &[_] = match config.optimizer() {
        OptimizerChoice::AdamW if is_open => &[OptimizerChoice::AdamW8bit, OptimizerChoice::Muon],
        _ => &[],
    };
    smaller.iter().map(|choice| ("optimizer", choice.name().into()))
}
