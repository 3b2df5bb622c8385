//! Writes the forward of a block, op by op, from the description of the model.

use std::fmt;

use fitgpt_program::{
    Dropout, DropoutSite, Heads, Life, Names, Op, Program, ProgramKind, Qkv, Tensor, TensorClass,
    TensorRole, Turn,
    units::{DType, TensorId},
};

use crate::{
    BlockWeights, LinearWeights, MlpKind, MlpWeights, Model, ModelWeights, NormKind, NormWeights,
    ParameterId, QkvWeights, naming,
    optimizer::ParameterState,
    state::{SampledTypes, SamplingState, TrainingState},
    training::Training,
};

/// A normalised value, and the tensors that its backward needs.
#[derive(Clone, Copy)]
pub(super) struct NormOutput {
    pub(super) out: TensorId,
    pub(super) mean: Option<TensorId>, // none for RMS norm
    pub(super) rstd: TensorId,
}

/// Queries and keys before and after their norms.
#[derive(Clone, Copy)]
pub(super) struct QkNorm {
    pub(super) before: [TensorId; 2],
    pub(super) norms: [NormOutput; 2],
}

/// What an MLP keeps before its activation.
#[derive(Clone, Copy)]
pub(super) enum MlpActivations {
    Gelu { pre: TensorId },
    SwiGlu { gate: TensorId, up: TensorId },
}

/// Everything a block computed before its last projection.
#[derive(Clone, Copy)]
pub(super) struct BlockActivations {
    pub(super) x: TensorId,
    pub(super) norm_1: NormOutput,
    pub(super) qk_norm: Option<QkNorm>,
    pub(super) qkv: Qkv,
    pub(super) attended: TensorId,
    pub(super) lse: TensorId,
    pub(super) middle: TensorId,
    pub(super) norm_2: NormOutput,
    pub(super) inner: MlpActivations,
}

/// Whether a block's normalised values are kept for its backward.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum NormedValues {
    Kept,
    Recomputed,
}

/// The attention of a forward-only block.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum AttentionKind {
    /// Without a cache.
    Plain,
    /// Of a prompt: also stores its keys and values in the cache.
    FillsCache,
    /// Of one new token: to the keys and values in the cache.
    ReadsCache,
}

/// The tensors that outlive a program.
enum StateTensors {
    Training(TrainingState),
    Sampling(SamplingState),
}

pub(super) struct DecoderBuilder<'a> {
    pub(super) program: Program,
    pub(super) model: &'a Model,
    pub(super) weights: ModelWeights,
    pub(super) shape: (u64, u64), // sequences, tokens per sequence
    pub(super) dropout: f32,
    state: StateTensors,
    activations: DType,
    names: Names,
}

impl<'a> DecoderBuilder<'a> {
    pub(super) fn of_training(
        kind: ProgramKind,
        model: &'a Model,
        training: &Training,
        names: Names,
    ) -> Self {
        let weights = ModelWeights::of(model);
        let mut state = TrainingState::of(model, &weights, training, names);
        let program = Program::new(kind, std::mem::take(&mut state.tensors));
        let state = StateTensors::Training(state);
        Self::new(program, model, weights, state, training.activations, names)
    }

    pub(super) fn of_sampling(
        kind: ProgramKind,
        model: &'a Model,
        batch: u64,
        types: SampledTypes,
    ) -> Self {
        let weights = ModelWeights::of(model);
        let mut state = SamplingState::of(model, &weights, batch, types);
        let program = Program::new(kind, std::mem::take(&mut state.tensors));
        let state = StateTensors::Sampling(state);
        Self::new(program, model, weights, state, types.activations, Names::Kept)
    }

    fn new(
        program: Program,
        model: &'a Model,
        weights: ModelWeights,
        state: StateTensors,
        activations: DType,
        names: Names,
    ) -> Self {
        let shape = (1, 1);
        Self { program, model, weights, shape, dropout: 0.0, state, activations, names }
    }

    /// The tensors of every parameter, in training.
    pub(super) fn parameters(&self) -> &[ParameterState] {
        match &self.state {
            StateTensors::Training(state) => &state.parameters,
            StateTensors::Sampling(_) => unreachable!("sampling has no gradients"),
        }
    }

    /// A parameter's weights.
    pub(super) fn weight(&self, id: ParameterId) -> TensorId {
        match &self.state {
            StateTensors::Training(state) => state.parameters[id.index()].weight,
            StateTensors::Sampling(state) => state.weights[id.index()],
        }
    }

    /// The table in which tokens are looked up.
    fn embedding(&self) -> TensorId {
        match &self.state {
            StateTensors::Training(_) => self.weight(self.weights.embedding),
            StateTensors::Sampling(state) => state.embedding,
        }
    }

    /// A parameter's gradient.
    pub(super) fn gradient(&self, id: ParameterId) -> TensorId {
        self.parameters()[id.index()].gradient
    }

    /// The step's loss.
    pub(super) fn loss(&self) -> TensorId {
        match &self.state {
            StateTensors::Training(state) => state.loss,
            StateTensors::Sampling(_) => unreachable!("sampling has no loss"),
        }
    }

    /// Keys and values of each layer, by layer.
    fn caches(&self) -> &[[TensorId; 2]] {
        match &self.state {
            StateTensors::Training(state) => &state.caches,
            StateTensors::Sampling(state) => &state.caches,
        }
    }

    fn rotary_table(&self) -> Option<TensorId> {
        match &self.state {
            StateTensors::Training(state) => state.rotary,
            StateTensors::Sampling(state) => state.rotary,
        }
    }

    /// The name of a layer: its weight's name without the suffix.
    pub(super) fn layer_name(&self, weight: ParameterId) -> &str {
        let name = &self.weights.parameters[weight.index()].name;
        name.strip_suffix(".weight").unwrap_or(name)
    }

    pub(super) fn norm_name(&self, norm: NormWeights) -> &str {
        self.layer_name(norm.weight)
    }

    /// The name of a block.
    pub(super) fn block_name(&self, layer: u32) -> String {
        naming(self.model.family).block(layer)
    }

    pub(super) fn block_weights(&self, layer: u32) -> BlockWeights {
        self.weights.blocks[layer as usize].clone()
    }

    pub(super) fn heads(&self) -> Heads {
        let Model { heads, kv_heads, head_channels, .. } = *self.model;
        Heads { query: heads, kv: kv_heads, channels: head_channels }
    }

    pub(super) fn dropout_at(&self, layer: u32, site: DropoutSite) -> Option<Dropout> {
        (self.dropout > 0.0).then_some(Dropout { rate: self.dropout, layer, site })
    }

    fn inner(&mut self, name: impl fmt::Display, shape: Vec<u64>, dtype: DType) -> TensorId {
        let (name, class) = (self.names.of(name), TensorClass::Activation);
        let (life, role) = (Life::Inner, TensorRole::General);
        self.program.tensor(Tensor { name, shape, dtype, class, life, role })
    }

    /// (B, T, columns) in the activations' type.
    pub(super) fn activation(&mut self, name: impl fmt::Display, columns: u64) -> TensorId {
        let (batch, seq) = self.shape;
        self.inner(name, vec![batch, seq, columns], self.activations)
    }

    pub(super) fn input(&mut self, name: &str) -> TensorId {
        let (batch, seq) = self.shape;
        self.program.tensor(Tensor {
            name: name.into(),
            shape: vec![batch, seq],
            dtype: DType::U32,
            class: TensorClass::Input,
            life: Life::Input,
            role: TensorRole::General,
        })
    }

    /// Float32 logits of some rows.
    pub(super) fn logits(&mut self, rows: u64) -> TensorId {
        self.program.tensor(Tensor {
            name: "logits".into(),
            shape: vec![rows, self.model.vocab.into()],
            dtype: DType::F32,
            class: TensorClass::Logits,
            life: Life::Inner,
            role: TensorRole::General,
        })
    }

    pub(super) fn embed(&mut self, tokens: TensorId) -> TensorId {
        let out = self.activation("embedded", self.model.channels.into());
        let wte = self.embedding();
        let wpe = self.weights.positions.map(|positions| self.weight(positions));
        let dropout = self.dropout_at(0, DropoutSite::Embedding);
        self.program.op(Op::Embed { tokens, wte, wpe, out, dropout });
        out
    }

    /// Normalises rows as wide as the residual stream.
    pub(super) fn norm(&mut self, weights: NormWeights, x: TensorId, suffix: &str) -> NormOutput {
        let (batch, seq) = self.shape;
        self.norm_rows(weights, x, vec![batch, seq], suffix)
    }

    /// Normalises rows as long as the norm's weight; `rows` is the shape of their statistics.
    fn norm_rows(
        &mut self,
        weights: NormWeights,
        x: TensorId,
        rows: Vec<u64>,
        suffix: &str,
    ) -> NormOutput {
        let name = self.norm_name(weights).to_owned();
        let columns = self.program.get(x).columns();
        let out = self.activation(format_args!("{name}{suffix}"), columns);
        let mean = (self.model.norm == NormKind::Layer)
            .then(|| self.inner(format_args!("{name}.mean{suffix}"), rows.clone(), DType::F32));
        let rstd = self.inner(format_args!("{name}.rstd{suffix}"), rows, DType::F32);
        let weight = self.weight(weights.weight);
        let bias = weights.bias.map(|bias| self.weight(bias));
        let epsilon = self.model.norm_epsilon.get() as f32;
        self.program.op(Op::Norm { x, weight, bias, out, mean, rstd, epsilon });
        NormOutput { out, mean, rstd }
    }

    /// One transformer block, pre-norm, up to the activation of its MLP. Without `activated` the
    /// block is recomputed for its backward, which recomputes the activation itself.
    pub(super) fn block(
        &mut self,
        layer: u32,
        x: TensorId,
        activated: Option<TensorId>,
    ) -> BlockActivations {
        let suffix = if activated.is_some() { "" } else { " again" };
        let weights = self.block_weights(layer);
        let name = self.block_name(layer);

        let norm_1 = self.norm(weights.norm_1, x, suffix); //        (B, T, C)
        let (qkv, qk_norm) = self.qkv(&weights, norm_1.out, suffix); // H·D, G·D, G·D
        let attended = self.attended(&name, suffix);
        let lse = self.attention(
            &name,
            qkv,
            attended,
            self.dropout_at(layer, DropoutSite::Attention),
            suffix,
        );
        let middle = self.attention_out(layer, attended, x, suffix);

        let norm_2 = self.norm(weights.norm_2, middle, suffix); //   (B, T, C)
        let inner = self.mlp_inner(&name, weights.mlp, norm_2.out, activated, suffix);
        BlockActivations { x, norm_1, qk_norm, qkv, attended, lse, middle, norm_2, inner }
    }

    /// Queries, keys and values, normalised and rotated if the model requires it.
    fn qkv(&mut self, weights: &BlockWeights, x: TensorId, suffix: &str) -> (Qkv, Option<QkNorm>) {
        let [q, k, v] = match weights.qkv {
            QkvWeights::Joined(layer) => {
                return (Qkv::Joined(self.linear(layer, x, ".qkv", suffix)), None);
            }
            QkvWeights::Split(layers) => layers.map(|layer| self.linear(layer, x, "", suffix)),
        };
        let qk_norm = weights.qk_norm.map(|norms| {
            let (batch, seq) = self.shape;
            let heads = [self.model.heads, self.model.kv_heads];
            let before = [q, k];
            let norms = std::array::from_fn(|i| {
                self.norm_rows(norms[i], before[i], vec![batch, seq, heads[i].into()], suffix)
            });
            QkNorm { before, norms }
        });
        let [q, k] = qk_norm.map_or([q, k], |norm| norm.norms.map(|norm| norm.out));
        self.rotate(q, Turn::Forward);
        self.rotate(k, Turn::Forward);
        (Qkv::Split { q, k, v }, qk_norm)
    }

    pub(super) fn rotate(&mut self, x: TensorId, turn: Turn) {
        if let (Some(rope), Some(table)) = (self.model.rope(), self.rotary_table()) {
            self.program.op(Op::Rotary { x, table, rope, turn });
        }
    }

    fn attended(&mut self, name: &str, suffix: &str) -> TensorId {
        self.activation(format_args!("{name}.attn{suffix}"), self.model.query_channels())
    }

    fn attention(
        &mut self,
        name: &str,
        qkv: Qkv,
        out: TensorId,
        dropout: Option<Dropout>,
        suffix: &str,
    ) -> TensorId {
        let (batch, seq) = self.shape;
        let heads = self.heads();
        let lse_shape = vec![batch, heads.query.into(), seq];
        let lse = self.inner(format_args!("{name}.attn.lse{suffix}"), lse_shape, DType::F32);
        self.program.op(Op::Attention { qkv, out, lse, heads, dropout });
        lse
    }

    /// A linear layer's output, named after the layer plus `end`.
    fn linear(&mut self, layer: LinearWeights, x: TensorId, end: &str, suffix: &str) -> TensorId {
        let columns = self.weights.parameters[layer.weight.index()].shape[0];
        let name = format!("{}{end}{suffix}", self.layer_name(layer.weight));
        let out = self.activation(name, columns);
        self.linear_into(layer, x, out);
        out
    }

    fn linear_into(&mut self, layer: LinearWeights, x: TensorId, out: TensorId) {
        let (weight, bias) = self.weight_and_bias(layer);
        self.program.op(Op::Linear { x, weight, bias, out });
    }

    fn weight_and_bias(&self, layer: LinearWeights) -> (TensorId, Option<TensorId>) {
        (self.weight(layer.weight), layer.bias.map(|bias| self.weight(bias)))
    }

    fn attention_out(&mut self, layer: u32, x: TensorId, residual: TensorId, s: &str) -> TensorId {
        let name = self.block_name(layer);
        let out = self.activation(format_args!("{name}.middle{s}"), self.model.channels.into());
        let weights = self.weights.blocks[layer as usize].attention_out;
        let dropout = self.dropout_at(layer, DropoutSite::AttentionOut);
        self.residual(weights, x, residual, out, dropout);
        out
    }

    /// The tensor for the activation of an MLP, alive until the second product has read it.
    pub(super) fn activated(&mut self, layer: u32) -> TensorId {
        let name = self.block_name(layer);
        let columns = u64::from(self.model.mlp_channels);
        self.activation(format_args!("{name}.mlp.activated"), columns)
    }

    /// The MLP up to its activation, keeping what a backward needs.
    fn mlp_inner(
        &mut self,
        name: &str,
        weights: MlpWeights,
        x: TensorId,
        activated: Option<TensorId>,
        suffix: &str,
    ) -> MlpActivations {
        let columns = u64::from(self.model.mlp_channels);
        match weights {
            MlpWeights::Gelu { up, .. } => {
                let pre = self.activation(format_args!("{name}.mlp.pre{suffix}"), columns);
                match activated {
                    Some(out) => self.gelu(up, x, Some(pre), out),
                    None => self.linear_into(up, x, pre),
                }
                MlpActivations::Gelu { pre }
            }
            MlpWeights::SwiGlu { gate, up, .. } => {
                let gated = self.linear(gate, x, "", suffix);
                let name = format!("{}{suffix}", self.layer_name(up.weight));
                let kept = self.activation(name, columns);
                match activated {
                    Some(out) => self.swiglu(up, x, gated, Some(kept), out),
                    None => self.linear_into(up, x, kept),
                }
                MlpActivations::SwiGlu { gate: gated, up: kept }
            }
        }
    }

    fn gelu(&mut self, layer: LinearWeights, x: TensorId, pre: Option<TensorId>, out: TensorId) {
        let MlpKind::Gelu(gelu) = self.model.mlp else {
            unreachable!("the weights of an MLP are of its kind");
        };
        let (weight, bias) = self.weight_and_bias(layer);
        self.program.op(Op::LinearGelu { x, weight, bias, pre, out, gelu });
    }

    fn swiglu(
        &mut self,
        layer: LinearWeights,
        x: TensorId,
        gate: TensorId,
        up: Option<TensorId>,
        out: TensorId,
    ) {
        let (weight, bias) = self.weight_and_bias(layer);
        self.program.op(Op::LinearSwiGlu { x, weight, bias, gate, up, out });
    }

    /// The block's output.
    pub(super) fn mlp_residual(&mut self, layer: u32, x: TensorId, residual: TensorId) -> TensorId {
        let name = self.block_name(layer);
        let out = self.activation(name, self.model.channels.into());
        let (MlpWeights::Gelu { down, .. } | MlpWeights::SwiGlu { down, .. }) =
            self.weights.blocks[layer as usize].mlp;
        let dropout = self.dropout_at(layer, DropoutSite::MlpOut);
        self.residual(down, x, residual, out, dropout);
        out
    }

    fn residual(
        &mut self,
        layer: LinearWeights,
        x: TensorId,
        residual: TensorId,
        out: TensorId,
        dropout: Option<Dropout>,
    ) {
        let (weight, bias) = self.weight_and_bias(layer);
        self.program.op(Op::LinearResidual { x, weight, bias, residual, out, dropout });
    }

    pub(super) fn block_forward_only(
        &mut self,
        layer: u32,
        x: TensorId,
        kind: AttentionKind,
    ) -> TensorId {
        let weights = self.block_weights(layer);
        let name = self.block_name(layer);
        let heads = self.heads();
        let norm_1 = self.norm(weights.norm_1, x, "");
        let (qkv, _) = self.qkv(&weights, norm_1.out, "");
        let attended = self.attended(&name, "");
        if kind != AttentionKind::Plain {
            let [keys, values] = self.caches()[layer as usize];
            self.program.op(match kind {
                AttentionKind::ReadsCache => {
                    Op::CachedAttention { qkv, keys, values, out: attended, heads }
                }
                AttentionKind::Plain | AttentionKind::FillsCache => {
                    Op::StoreCache { qkv, keys, values, heads }
                }
            });
        }
        if kind != AttentionKind::ReadsCache {
            self.attention(&name, qkv, attended, None, "");
        }
        let middle = self.attention_out(layer, attended, x, "");
        let norm_2 = self.norm(weights.norm_2, middle, "");
        let activated = match weights.mlp {
            MlpWeights::Gelu { up, .. } => {
                let activated = self.activated(layer);
                self.gelu(up, norm_2.out, None, activated);
                activated
            }
            MlpWeights::SwiGlu { gate, up, .. } => {
                let gated = self.linear(gate, norm_2.out, "", "");
                let activated = self.activated(layer);
                self.swiglu(up, norm_2.out, gated, None, activated);
                activated
            }
        };
        self.mlp_residual(layer, activated, middle)
    }

    /// The logits of the next token, from which the host samples.
    pub(super) fn next_logits(&mut self, x: TensorId) -> TensorId {
        let norm = self.norm(self.weights.norm, x, "");
        let (batch, _) = self.shape;
        let out = self.program.tensor(Tensor {
            name: "logits".into(),
            shape: vec![batch, 1, self.model.vocab.into()],
            dtype: DType::F32,
            class: TensorClass::Logits,
            life: Life::Output,
            role: TensorRole::General,
        });
        let weight = self.weight(self.weights.head);
        self.program.op(Op::Linear { x: norm.out, weight, bias: None, out });
        out
    }
}
