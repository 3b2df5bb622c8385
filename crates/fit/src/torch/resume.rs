//! Resuming from a checkpoint.

use fitgpt_program::Program;

use super::{
    ProgramSpec, TorchPhase,
    tape::{HeldState, Tape},
};

/// `torch.load` puts weights and moments onto the device, then the model is moved there. The
/// optimizer keeps the loaded moments (since PyTorch 2.1), and `state_dict` keeps the weights.
pub(super) fn resume(spec: &ProgramSpec<'_>) -> Program {
    let held =
        HeldState { moments: true, steps: true, loaded_weights: true, ..HeldState::default() };
    // Everything except the model comes from the file.
    let mut tape = Tape::new(TorchPhase::Resume.name(), spec, held);
    let mut loaded = Vec::new();
    for parameter in spec.model.parameters() {
        for prefix in ["state_dict.", "exp_avg.", "exp_avg_sq.", "step."] {
            loaded.push(tape.state(&format!("{prefix}{}", parameter.name)));
        }
    }
    tape.run_in_place("load", &[], &loaded);
    for parameter in spec.model.parameters() {
        let weight = tape.state(&parameter.name);
        tape.run_in_place("to", &[], &[weight]);
    }
    tape.finish()
}
