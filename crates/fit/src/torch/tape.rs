//! Records what PyTorch's eager mode does, op by op.
//!
//! PyTorch frees a tensor when its last reference goes: from an op that reads it, from a graph that
//! saved it for the backward, or from a Python variable. [`Tape::hold`] records the last kind, so
//! that the program's lifetimes are PyTorch's.

use std::{
    collections::{HashMap, HashSet},
    fmt,
};

use fitgpt_model::{Model, Parameter};
use fitgpt_program::{
    Life, Names, Op, Operand, Program, ProgramKind, Tensor, TensorClass, TensorRole, reads,
    units::{DType, TensorId},
    updates, writes,
};

use super::{ProgramSpec, TorchOptions};

/// Which state is in device memory when a phase begins.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HeldState {
    /// Gradients of earlier micro-batches.
    pub(super) gradients: bool,
    /// Adam's moments.
    pub(super) moments: bool,
    /// Adam's counts of steps.
    pub(super) steps: bool,
    /// The weights of a checkpoint that a global variable still holds.
    pub(super) loaded_weights: bool,
    /// Flat gradient buckets of data-parallel workers.
    pub(super) buckets: bool,
    /// A causal mask in every layer, if attention is not fused.
    pub(super) masks: bool,
}

impl HeldState {
    /// Before the first step.
    pub(super) fn first(options: &TorchOptions) -> Self {
        Self {
            gradients: false,
            moments: options.resumed,
            steps: options.resumed,
            loaded_weights: options.resumed,
            buckets: options.ddp_world > 1,
            masks: !options.fused_attention,
        }
    }

    /// After the first step.
    pub(super) fn later(options: &TorchOptions) -> Self {
        let steps = options.counts_steps_on_device();
        Self { moments: true, steps, ..Self::first(options) }
    }
}

/// A program under construction, with the names of its state.
pub(super) struct Tape<'a> {
    pub(super) model: &'a Model,
    program: Program, // only its tensors; the ops are added at the end
    ops: Vec<(&'static str, Vec<Operand>)>,
    names: Names,
    table: StateTable,
    has_gradients: bool,
}

/// The ids of the state.
struct StateTable {
    /// A parameter or a mask by its name.
    ids: HashMap<String, u32>,
    /// The distance from a parameter to its gradient or optimizer state, by the name's prefix.
    offsets: Vec<(&'static str, u32)>,
}

impl<'a> Tape<'a> {
    pub(super) fn new(name: &'static str, spec: &ProgramSpec<'a>, held: HeldState) -> Self {
        let ProgramSpec { model, names, .. } = *spec;
        let (state, table) = state(model, held, names);
        let program = Program::new(ProgramKind::Other(name), state);
        Self { model, program, ops: Vec::new(), names, table, has_gradients: held.gradients }
    }

    pub(super) fn finish(mut self) -> Program {
        for (name, operands) in self.ops {
            self.program.op(Op::Named { name, operands });
        }
        self.program
    }

    pub(super) fn state(&self, name: &str) -> TensorId {
        let StateTable { ids, offsets } = &self.table;
        let of = offsets.iter().find_map(|(prefix, offset)| {
            let parameter = name.strip_prefix(prefix)?;
            Some(ids[parameter] + offset)
        });
        TensorId(of.unwrap_or_else(|| ids[name]))
    }

    pub(super) fn shape_of(&self, tensor: TensorId) -> Vec<u64> {
        self.program.get(tensor).shape.clone()
    }

    pub(super) fn dtype_of(&self, tensor: TensorId) -> DType {
        self.program.get(tensor).dtype
    }

    pub(super) fn tensor(
        &mut self,
        name: impl fmt::Display,
        shape: &[u64],
        dtype: DType,
        (class, life): (TensorClass, Life),
    ) -> TensorId {
        let (name, shape) = (self.names.of(name), shape.to_vec());
        let role = TensorRole::General;
        self.program.tensor(Tensor { name, shape, dtype, class, life, role })
    }

    /// States which tensor it is.
    pub(super) fn mark(&mut self, tensor: TensorId, role: TensorRole) {
        self.program.set_role(tensor, role);
    }

    pub(super) fn role_of(&self, tensor: TensorId) -> TensorRole {
        self.program.get(tensor).role
    }

    /// A value between two ops.
    pub(super) fn value(
        &mut self,
        name: impl fmt::Display,
        shape: &[u64],
        dtype: DType,
    ) -> TensorId {
        self.tensor(name, shape, dtype, (TensorClass::Activation, Life::Inner))
    }

    /// One element, such as a loss or a norm. Takes 512 bytes like any small tensor.
    pub(super) fn scalar(&mut self, name: impl fmt::Display) -> TensorId {
        self.tensor(name, &[], DType::F32, (TensorClass::Scratch, Life::Inner))
    }

    /// An op with new results.
    pub(super) fn run(&mut self, name: &'static str, from: &[TensorId], into: &[TensorId]) {
        let mut operands: Vec<Operand> = Vec::with_capacity(from.len() + into.len());
        read_once(&mut operands, from);
        operands.extend(into.iter().copied().map(writes));
        self.ops.push((name, operands));
    }

    /// An op that works in place.
    pub(super) fn run_in_place(&mut self, name: &'static str, from: &[TensorId], on: &[TensorId]) {
        let changed: HashSet<_> = on.iter().filter(|_| from.len() > FEW).collect();
        let is_changed = |t: &TensorId| {
            if from.len() > FEW { changed.contains(t) } else { on.contains(t) }
        };
        let from = from.iter().filter(|t| !is_changed(t)).copied().map(reads);
        let operands = from.chain(on.iter().copied().map(updates)).collect();
        self.ops.push((name, operands));
    }

    /// Keeps these alive until the last op is done: a Python variable, an argument or a context holds
    /// them.
    pub(super) fn hold(&mut self, tensors: &[TensorId]) {
        let (_, operands) = self.ops.last_mut().expect("hold follows an op");
        read_once(operands, tensors);
    }

    /// A copy in another type, as `Tensor.to` makes it.
    pub(super) fn cast(&mut self, tensor: TensorId, dtype: DType) -> TensorId {
        let source = self.program.get(tensor);
        let name = self.names.of(format_args!("{} ({dtype})", source.name));
        let shape = source.shape.clone();
        let (class, role) = match (source.class, source.role) {
            // A half copy of a weight counts as an activation: it is freed after the forward.
            (TensorClass::Parameter, _) => (TensorClass::Activation, TensorRole::ParameterCopy),
            (class, TensorRole::Logits) => (class, TensorRole::General), // only a copy
            same => same,
        };
        let life = Life::Inner;
        let copy = self.program.tensor(Tensor { name, shape, dtype, class, life, role });
        self.run("_to_copy", &[tensor], &[copy]);
        copy
    }

    /// A tensor for a float32 gradient of `parameter`: the gradient itself if there was none.
    pub(super) fn new_gradient(&mut self, parameter: &str) -> TensorId {
        let shape = self.shape_of(self.state(parameter));
        let (new, life) =
            if self.has_gradients { ("new ", Life::Inner) } else { ("", Life::Output) };
        let name = format_args!("{new}d_{parameter}");
        self.tensor(name, &shape, DType::F32, (TensorClass::Gradient, life))
    }

    /// Adds to the gradient of earlier micro-batches. If there is none, autograd uses
    /// the new tensor without an op.
    pub(super) fn accumulate(&mut self, parameter: &str, gradient: TensorId) {
        if self.has_gradients {
            let sum = self.state(&format!("d_{parameter}"));
            self.run_in_place("add_", &[gradient], &[sum]);
        }
    }

    /// A layer's bias, if the model has biases.
    pub(super) fn bias(&self, owner: &str) -> Option<TensorId> {
        self.model.has_bias().then(|| self.state(&format!("{owner}.bias")))
    }
}

/// Most ops have few tensors and are searched without a table; an optimizer's op has a list of every
/// parameter.
const FEW: usize = 16;

/// Adds those of `tensors` that are not operands yet, as reads.
fn read_once(operands: &mut Vec<Operand>, tensors: &[TensorId]) {
    if operands.len() + tensors.len() > FEW {
        let mut known: HashSet<_> = operands.iter().map(|operand| operand.tensor).collect();
        let new = tensors.iter().filter(|tensor| known.insert(**tensor));
        operands.extend(new.copied().map(reads));
        return;
    }
    for &tensor in tensors {
        if operands.iter().all(|operand| operand.tensor != tensor) {
            operands.push(reads(tensor));
        }
    }
}

/// The buffer that nanoGPT calls `bias` in every attention.
pub(super) fn mask_name(layer: u32) -> String {
    format!("h.{layer}.attn.bias, the causal mask")
}

fn state(model: &Model, held: HeldState, names: Names) -> (Vec<Tensor>, StateTable) {
    let parameters = model.parameters();
    let mut groups = vec![("", TensorClass::Parameter, TensorRole::General)];
    if held.gradients {
        groups.push(("d_", TensorClass::Gradient, TensorRole::General));
    }
    if held.moments {
        groups.push(("exp_avg.", TensorClass::Optimizer, TensorRole::FirstMoment));
        groups.push(("exp_avg_sq.", TensorClass::Optimizer, TensorRole::SecondMoment));
    }
    if held.loaded_weights {
        groups.push(("state_dict.", TensorClass::Parameter, TensorRole::LoadedWeight));
    }
    let always = |name: String, shape: Vec<u64>, class| Tensor {
        name,
        shape,
        dtype: DType::F32,
        class,
        life: Life::Always,
        role: TensorRole::General,
    };
    let mut state = Vec::new();
    let mut offsets = Vec::new();
    for (prefix, class, role) in groups {
        if !prefix.is_empty() {
            offsets.push((prefix, state.len() as u32));
        }
        let named = |p: &Parameter| {
            let name = names.of(format_args!("{prefix}{}", p.name));
            Tensor { role, ..always(name, p.shape.clone(), class) }
        };
        state.extend(parameters.iter().map(named));
    }
    if held.steps {
        // Adam counts the steps of each parameter in a separate tensor.
        offsets.push(("step.", state.len() as u32));
        let step = |p: &Parameter| {
            always(names.of(format_args!("step.{}", p.name)), vec![], TensorClass::Optimizer)
        };
        state.extend(parameters.iter().map(step));
    }
    let mut ids: HashMap<_, _> = parameters.iter().map(|p| p.name.clone()).zip(0..).collect();
    if held.masks {
        let block = u64::from(model.block);
        for layer in 0..model.layers {
            ids.insert(mask_name(layer), state.len() as u32);
            let name = names.of(mask_name(layer));
            state.push(always(name, vec![block, block], TensorClass::Parameter));
        }
    }
    if held.buckets {
        let bucket = |(i, count)| {
            always(names.of(format_args!("bucket {i}")), vec![count], TensorClass::Gradient)
        };
        state.extend(buckets(&parameters).into_iter().enumerate().map(bucket));
    }
    (state, StateTable { ids, offsets })
}

/// Sizes of the buckets in which data-parallel workers sum their gradients: parameters from the
/// last to the first, the first bucket closed at 1 MiB and the others at 25 MiB.
fn buckets(parameters: &[Parameter]) -> Vec<u64> {
    let mut buckets = vec![0];
    for parameter in parameters.iter().rev() {
        let cap_bytes = if buckets.len() == 1 { 1 << 20 } else { 25 << 20 };
        let open = buckets.last_mut().expect("there is always an open bucket");
        *open += parameter.count();
        if *open * DType::F32.size() >= cap_bytes {
            buckets.push(0);
        }
    }
    buckets.retain(|count| *count > 0);
    buckets
}
