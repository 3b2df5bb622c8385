//! Clipping and AdamW.

use fitgpt_program::{
    Life, Program, TensorClass, TensorRole,
    units::{DType, TensorId},
};

use super::{
    ProgramSpec, TorchPhase,
    pass::ModelPass,
    tape::{HeldState, Tape},
};

/// After the last micro-batch: gradients and moments exist, and `logits` still holds the last
/// micro-batch's.
pub(super) fn update(spec: &ProgramSpec<'_>) -> Program {
    let options = spec.options;
    let held = HeldState { gradients: true, ..HeldState::later(options) };
    let shape = (options.batch, options.seq);
    let mut pass = ModelPass::new(TorchPhase::Update, spec, held, shape);
    pass.names_of_training(TorchPhase::Update);
    let mut tape = pass.tape;
    clip(&mut tape);
    if options.fused_adam {
        let (from, on) = operands(&tape, held.steps, |_| true);
        tape.run_in_place("_fused_adamw_", &from, &on);
    } else {
        // Weight decay splits the parameters into two groups, updated one after the other.
        for decays in [true, false] {
            foreach(&mut tape, held.steps, decays);
        }
    }
    tape.finish()
}

/// The norm of every gradient, the norm of those, and a factor for all gradients.
fn clip(tape: &mut Tape<'_>) {
    let parameters = tape.model.parameters();
    let mut norms = Vec::with_capacity(parameters.len());
    for parameter in &parameters {
        let norm = tape.scalar(format_args!("norm of d_{}", parameter.name));
        let gradient = tape.state(&format!("d_{}", parameter.name));
        tape.run("linalg_vector_norm", &[gradient], &[norm]);
        norms.push(norm);
    }
    let scratch = (TensorClass::Scratch, Life::Inner);
    let stack = tape.tensor("norms", &[norms.len() as u64], DType::F32, scratch);
    tape.run("stack", &norms, &[stack]);
    let total = tape.scalar("norm");
    tape.run("linalg_vector_norm", &[stack], &[total]);
    tape.hold(&norms);
    let factor = tape.scalar("clip factor");
    tape.run("clamp", &[total], &[factor]);
    let gradients: Vec<_> =
        parameters.iter().map(|p| tape.state(&format!("d_{}", p.name))).collect();
    tape.run_in_place("_foreach_mul_", &[factor], &gradients);
    tape.hold(&[total]);
}

/// What AdamW reads and changes, for the chosen parameters.
fn operands(
    tape: &Tape<'_>,
    has_steps: bool,
    chosen: fn(bool) -> bool,
) -> (Vec<TensorId>, Vec<TensorId>) {
    let (mut from, mut on) = (Vec::new(), Vec::new());
    for parameter in tape.model.parameters().iter().filter(|p| chosen(p.decays())) {
        let name = &parameter.name;
        from.push(tape.state(&format!("d_{name}")));
        for prefix in ["", "exp_avg.", "exp_avg_sq."] {
            on.push(tape.state(&format!("{prefix}{name}")));
        }
        if has_steps {
            on.push(tape.state(&format!("step.{name}")));
        }
    }
    (from, on)
}

/// One group of AdamW as lists of tensors: all square roots of second moments exist at once.
fn foreach(tape: &mut Tape<'_>, has_steps: bool, decays: bool) {
    let mut roots = Vec::new();
    let mut moments = Vec::new();
    for parameter in tape.model.parameters().iter().filter(|p| p.decays() == decays) {
        let name = format_args!("square root of exp_avg_sq.{}", parameter.name);
        let optimizer = (TensorClass::Optimizer, Life::Inner);
        let root = tape.tensor(name, &parameter.shape, DType::F32, optimizer);
        tape.mark(root, TensorRole::SecondMomentRoot);
        roots.push(root);
        moments.push(tape.state(&format!("exp_avg_sq.{}", parameter.name)));
    }
    tape.run("_foreach_sqrt", &moments, &roots);
    let (mut from, on) = operands(tape, has_steps, if decays { |d| d } else { |d| !d });
    from.extend(&roots);
    tape.run_in_place("_foreach_addcdiv_", &from, &on);
}
