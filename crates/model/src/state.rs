//! The tensors that live as long as a run: weights, gradients, optimizer states, caches.
//!
//! Every program of a plan has the same state at the start of its table, so a [`TensorId`] of state
//! means the same tensor in all of them. Which parameter a tensor belongs to is looked up here, never
//! computed from its position.
//!
//! Constants (the angles of rotary positions) are state that a backend fills when it allocates its
//! arena, in float32 from float64 on the host, so that every device has the same bits.

use fitgpt_program::{
    Life, Names, Tensor, TensorClass, TensorRole,
    units::{DType, TensorId},
};

use crate::{
    Model, ModelWeights, Parameter, ParameterId, ParameterRole, naming, optimizer::ParameterState,
    training::Training,
};

/// The state of training.
#[derive(Clone, Debug)]
pub struct TrainingState {
    /// In the order of the table: weights, gradients, sums of lanes, each kind of optimizer state,
    /// the rest.
    pub tensors: Vec<Tensor>,
    /// By parameter, in the model's order.
    pub parameters: Vec<ParameterState>,
    /// The step's loss.
    pub loss: TensorId,
    /// Cosines and sines of rotary positions.
    pub rotary: Option<TensorId>,
    /// Keys and values of each layer, (B, T, KV·D), if samples are drawn during training.
    pub caches: Vec<[TensorId; 2]>,
}

impl TrainingState {
    /// The state of training `model`.
    pub fn new(model: &Model, training: &Training) -> Self {
        Self::of(model, &ModelWeights::of(model), training, Names::Kept)
    }

    pub(super) fn of(
        model: &Model,
        weights: &ModelWeights,
        training: &Training,
        names: Names,
    ) -> Self {
        let parameters = &weights.parameters;
        let owned = training.share.ranges(parameters, &training.optimizer);
        let mut table =
            StateBuilder { tensors: Vec::with_capacity(4 * parameters.len() + 2), names };
        let weights = table.each(parameters, "", TensorClass::Parameter);
        let gradients = table.each(parameters, "d_", TensorClass::Gradient);
        let totals: Vec<_> = parameters
            .iter()
            .zip(&owned)
            .map(|(parameter, range)| {
                let is_needed = training.lanes_take_turns() && !range.is_empty();
                let name = format_args!("total_{}", parameter.name);
                let (name, shape) = (table.names.of(name), vec![range.end - range.start]);
                is_needed.then(|| table.add(name, shape, DType::F32, TensorClass::Gradient))
            })
            .collect();
        let states: Vec<_> = parameters
            .iter()
            .zip(&owned)
            .map(|(parameter, range)| training.optimizer.states_of(parameter, range))
            .collect();
        let mut found = vec![Vec::new(); parameters.len()];
        // All first states, then all second ones, so that tensors of one pass are adjacent.
        let most = states.iter().map(Vec::len).max().unwrap_or(0);
        for kind in 0..most {
            for (index, parameter) in parameters.iter().enumerate() {
                if let Some(state) = states[index].get(kind) {
                    let name = table.names.of(format_args!("{}.{}", state.name, parameter.name));
                    let shape = state.shape.clone();
                    let id = table.add(name, shape, state.dtype, TensorClass::Optimizer);
                    found[index].push((state.name, id));
                }
            }
        }
        let name = table.names.of("loss");
        let loss = table.add(name, vec![1], DType::F32, TensorClass::Scratch);
        let rotary = table.rotary(model);
        let caches = match training.sampled {
            0 => Vec::new(),
            // Last, so that all other ids are the same as in a run without samples.
            batch => table.caches(model, batch, training.activations),
        };
        let parameters = weights
            .into_iter()
            .zip(gradients)
            .zip(owned)
            .zip(totals)
            .zip(found)
            .map(|((((weight, gradient), owned), total), states)| ParameterState {
                weight,
                gradient,
                owned,
                total,
                states,
            })
            .collect();
        Self { tensors: table.tensors, parameters, loss, rotary, caches }
    }
}

/// How sampling stores what it computes, and the weights that it only reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampledTypes {
    /// Activations, keys and values.
    pub activations: DType,
    /// The matrices of products. Norms, biases and the tables of tokens and positions, of which few
    /// numbers are read, are float32.
    pub matrices: DType,
}

impl SampledTypes {
    /// Activations of this type, and float32 weights.
    pub const fn float32_weights(activations: DType) -> Self {
        Self { activations, matrices: DType::F32 }
    }
}

/// The state of sampling.
#[derive(Clone, Debug)]
pub struct SamplingState {
    /// In the order of the table: weights, caches, the rest.
    pub tensors: Vec<Tensor>,
    /// The weights, by parameter. The table of tokens is the one that the head multiplies if the
    /// model is tied.
    pub weights: Vec<TensorId>,
    /// The table in which tokens are looked up: a tensor of its own if the head, tied to it, is
    /// rounded.
    pub embedding: TensorId,
    /// The parameter that both hold.
    pub embedding_parameter: ParameterId,
    /// Keys and values of each layer, (B, T, KV·D).
    pub caches: Vec<[TensorId; 2]>,
    /// Cosines and sines of rotary positions.
    pub rotary: Option<TensorId>,
}

impl SamplingState {
    /// Weights, and the keys and values of `batch` sequences.
    pub fn new(model: &Model, batch: u64, types: SampledTypes) -> Self {
        Self::of(model, &ModelWeights::of(model), batch, types)
    }

    pub(super) fn of(
        model: &Model,
        weights: &ModelWeights,
        batch: u64,
        types: SampledTypes,
    ) -> Self {
        let mut table = StateBuilder { tensors: Vec::new(), names: Names::Kept };
        let ids: Vec<_> = (0..)
            .zip(&weights.parameters)
            .map(|(index, parameter)| {
                let is_multiplied = match parameter.role {
                    ParameterRole::Matrix | ParameterRole::Head => true,
                    ParameterRole::Embedding => weights.head == ParameterId(index),
                    ParameterRole::Positions | ParameterRole::Norm | ParameterRole::Bias => false,
                };
                let dtype = if is_multiplied { types.matrices } else { DType::F32 };
                table.like(parameter, "", dtype, TensorClass::Parameter)
            })
            .collect();
        let embedding_parameter = weights.embedding;
        let embedding = match ids[embedding_parameter.index()] {
            multiplied if table.tensors[multiplied.index()].dtype != DType::F32 => {
                let parameter = &weights.parameters[embedding_parameter.index()];
                table.like(parameter, "float32 ", DType::F32, TensorClass::Parameter)
            }
            shared => shared,
        };
        let caches = table.caches(model, batch, types.activations);
        let rotary = table.rotary(model);
        let tensors = table.tensors;
        Self { tensors, weights: ids, embedding, embedding_parameter, caches, rotary }
    }
}

/// A table of state under construction.
struct StateBuilder {
    tensors: Vec<Tensor>,
    names: Names,
}

impl StateBuilder {
    fn add(&mut self, name: String, shape: Vec<u64>, dtype: DType, class: TensorClass) -> TensorId {
        let (life, role) = (Life::Always, TensorRole::General);
        self.tensors.push(Tensor { name, shape, dtype, class, life, role });
        TensorId(self.tensors.len() as u32 - 1)
    }

    /// A float32 tensor like each parameter.
    fn each(
        &mut self,
        parameters: &[Parameter],
        prefix: &str,
        class: TensorClass,
    ) -> Vec<TensorId> {
        parameters.iter().map(|p| self.like(p, prefix, DType::F32, class)).collect()
    }

    /// A tensor like a parameter.
    fn like(
        &mut self,
        parameter: &Parameter,
        prefix: &str,
        dtype: DType,
        class: TensorClass,
    ) -> TensorId {
        let name = self.names.of(format_args!("{prefix}{}", parameter.name));
        self.add(name, parameter.shape.clone(), dtype, class)
    }

    /// Keys and values of `batch` sequences in each layer.
    fn caches(&mut self, model: &Model, batch: u64, activations: DType) -> Vec<[TensorId; 2]> {
        let shape = vec![batch, model.block.into(), model.kv_channels()];
        let naming = naming(model.family);
        let of_layer = |layer| {
            ["keys", "values"].map(|part| {
                let name = self.names.of(format_args!("{}.{part}", naming.block(layer)));
                self.add(name, shape.clone(), activations, TensorClass::Activation)
            })
        };
        (0..model.layers).map(of_layer).collect()
    }

    /// The table of rotary positions, if the model has them: a constant that a backend fills.
    fn rotary(&mut self, model: &Model) -> Option<TensorId> {
        model.rope()?;
        let shape = vec![model.block.into(), model.head_channels.into()];
        let name = self.names.of("rotary");
        Some(self.add(name, shape, DType::F32, TensorClass::Input))
    }
}
