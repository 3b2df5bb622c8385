//! The learned tensors of a model: names, shapes, and which layer uses which.
//!
//! Parameters stay as in checkpoints. GPT-2's joined `c_attn` is one matrix; Llama's `q_proj`,
//! `k_proj` and `v_proj` are three, although one product over all three would be slightly faster.
//! Muon orthogonalises a matrix and 8-bit moments are split into blocks, so joining them would
//! change the training run. Attention accepts either layout.

use crate::{MlpKind, Model, Naming, Positions, naming};

/// The initial values of a parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Init {
    /// Normal with mean 0.
    Normal {
        /// Its standard deviation.
        std: f32,
    },
    /// All zero.
    Zeros,
    /// All one.
    Ones,
}

/// What a parameter is for. Optimizers choose their update rule by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ParameterRole {
    /// The table of tokens, which may be the head too.
    Embedding,
    /// The table of positions.
    Positions,
    /// A matrix of a block.
    Matrix,
    /// The scale of a normalisation.
    Norm,
    /// A bias.
    Bias,
    /// The head of a model that is not tied.
    Head,
}

/// One learned tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// As in the family's checkpoints.
    pub name: String,
    /// (out, in) for matrices.
    pub shape: Vec<u64>,
    /// Its initial values.
    pub init: Init,
    /// What it is for.
    pub role: ParameterRole,
}

impl Parameter {
    /// Elements.
    pub fn count(&self) -> u64 {
        self.shape.iter().product()
    }

    /// Weight decay is for matrices only.
    pub fn decays(&self) -> bool {
        self.shape.len() >= 2
    }
}

/// A position in [`ModelWeights::parameters`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ParameterId(pub u32);

impl ParameterId {
    /// For indexing the list of parameters.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The parameters of a linear layer.
#[derive(Clone, Copy, Debug)]
pub struct LinearWeights {
    /// (out, in).
    pub weight: ParameterId,
    /// (out).
    pub bias: Option<ParameterId>,
}

/// The parameters of a normalisation.
#[derive(Clone, Copy, Debug)]
pub struct NormWeights {
    /// The scale.
    pub weight: ParameterId,
    /// The bias.
    pub bias: Option<ParameterId>,
}

/// The projections to queries, keys and values.
#[derive(Clone, Copy, Debug)]
pub enum QkvWeights {
    /// One matrix whose output has all three next to each other.
    Joined(LinearWeights),
    /// Three matrices: queries, keys, values.
    Split([LinearWeights; 3]),
}

/// The projections of an MLP.
#[derive(Clone, Copy, Debug)]
pub enum MlpWeights {
    /// With a GELU between them.
    Gelu {
        /// To the inner width.
        up: LinearWeights,
        /// Back.
        down: LinearWeights,
    },
    /// With a gate.
    SwiGlu {
        /// The input of `SiLU`.
        gate: LinearWeights,
        /// The factor of the gate.
        up: LinearWeights,
        /// Back.
        down: LinearWeights,
    },
}

/// The parameters of one block.
#[derive(Clone, Debug)]
pub struct BlockWeights {
    /// Before the attention.
    pub norm_1: NormWeights,
    /// To queries, keys and values.
    pub qkv: QkvWeights,
    /// Scales of queries and keys, if those are normalised.
    pub qk_norm: Option<[NormWeights; 2]>,
    /// The attention's output.
    pub attention_out: LinearWeights,
    /// Before the MLP.
    pub norm_2: NormWeights,
    /// The MLP.
    pub mlp: MlpWeights,
}

/// All parameters of a model, and which layer uses which.
#[derive(Clone, Debug)]
pub struct ModelWeights {
    /// In the order of the model's modules.
    pub parameters: Vec<Parameter>,
    /// The table of tokens.
    pub embedding: ParameterId,
    /// The table of positions, if they are learned.
    pub positions: Option<ParameterId>,
    /// By layer.
    pub blocks: Vec<BlockWeights>,
    /// Before the head.
    pub norm: NormWeights,
    /// The head's matrix: the embedding if the model is tied.
    pub head: ParameterId,
}

impl ModelWeights {
    /// The parameters of `model` with its family's names.
    pub fn of(model: &Model) -> Self {
        let naming = naming(model.family);
        let [channels, vocab] = [model.channels, model.vocab].map(u64::from);
        let mut list = ParameterList { model, naming, parameters: Vec::new() };
        let embedding = list.table(naming.embedding, [vocab, channels], ParameterRole::Embedding);
        let positions = (model.positions == Positions::Learned).then(|| {
            list.table(naming.positions, [model.block.into(), channels], ParameterRole::Positions)
        });
        let blocks = (0..model.layers).map(|layer| list.block(layer)).collect();
        let norm = list.norm(naming.norm, channels);
        let head = if model.is_tied {
            embedding
        } else {
            list.table(naming.head, [vocab, channels], ParameterRole::Head)
        };
        Self { parameters: list.parameters, embedding, positions, blocks, norm, head }
    }
}

/// Standard deviation of the initial weights.
const STD: f32 = 0.02;

/// The list of parameters under construction.
struct ParameterList<'a> {
    model: &'a Model,
    naming: &'static Naming,
    parameters: Vec<Parameter>,
}

impl ParameterList<'_> {
    fn add(
        &mut self,
        name: String,
        shape: Vec<u64>,
        init: Init,
        role: ParameterRole,
    ) -> ParameterId {
        self.parameters.push(Parameter { name, shape, init, role });
        ParameterId(self.parameters.len() as u32 - 1)
    }

    fn table(&mut self, name: &str, shape: [u64; 2], role: ParameterRole) -> ParameterId {
        self.add(format!("{name}.weight"), shape.to_vec(), Init::Normal { std: STD }, role)
    }

    fn norm(&mut self, name: &str, channels: u64) -> NormWeights {
        let weight =
            self.add(format!("{name}.weight"), vec![channels], Init::Ones, ParameterRole::Norm);
        let bias = self.bias(name, channels, self.model.biases.norm);
        NormWeights { weight, bias }
    }

    fn linear(&mut self, name: &str, shape: [u64; 2], std: f32, has_bias: bool) -> LinearWeights {
        let init = Init::Normal { std };
        let weight =
            self.add(format!("{name}.weight"), shape.to_vec(), init, ParameterRole::Matrix);
        LinearWeights { weight, bias: self.bias(name, shape[0], has_bias) }
    }

    fn bias(&mut self, name: &str, out: u64, has_bias: bool) -> Option<ParameterId> {
        has_bias
            .then(|| self.add(format!("{name}.bias"), vec![out], Init::Zeros, ParameterRole::Bias))
    }

    fn block(&mut self, layer: u32) -> BlockWeights {
        let Self { model, naming, .. } = *self;
        let channels = u64::from(model.channels);
        let (queries, keys) = (model.query_channels(), model.kv_channels());
        let biases = model.biases;
        let residual_std = if naming.scales_residual_init {
            // Scaled down, because the residual stream sums over all layers.
            STD / (2.0 * model.layers as f32).sqrt()
        } else {
            STD
        };
        let of = |part: &str| format!("{}.{part}", naming.block(layer));

        let norm_1 = self.norm(&of(naming.norm_1), channels);
        let qkv = match naming.qkv {
            &[joined] => {
                let shape = [queries + 2 * keys, channels];
                QkvWeights::Joined(self.linear(&of(joined), shape, STD, biases.qkv))
            }
            names => QkvWeights::Split(std::array::from_fn(|part| {
                let out = if part == 0 { queries } else { keys };
                self.linear(&of(names[part]), [out, channels], STD, biases.qkv)
            })),
        };
        let qk_norm = model
            .has_qk_norm
            .then(|| naming.qk_norm.map(|name| self.norm(&of(name), model.head_channels.into())));
        let shape = [channels, queries];
        let has_bias = biases.attention_out;
        let attention_out = self.linear(&of(naming.attention_out), shape, residual_std, has_bias);
        let norm_2 = self.norm(&of(naming.norm_2), channels);
        let inner = u64::from(model.mlp_channels);
        let mut mlp = |name: &str, shape, std| self.linear(&of(name), shape, std, biases.mlp);
        let (widening, back) = ([inner, channels], [channels, inner]);
        let mlp = match model.mlp {
            MlpKind::Gelu(_) => MlpWeights::Gelu {
                up: mlp(naming.mlp_up, widening, STD),
                down: mlp(naming.mlp_down, back, residual_std),
            },
            MlpKind::SwiGlu => MlpWeights::SwiGlu {
                gate: mlp(naming.mlp_gate, widening, STD),
                up: mlp(naming.mlp_up, widening, STD),
                down: mlp(naming.mlp_down, back, residual_std),
            },
        };
        BlockWeights { norm_1, qkv, qk_norm, attention_out, norm_2, mlp }
    }
}

#[cfg(test)]
mod tests {
    use fitgpt_program::Gelu;

    use crate::{Model, Parameter, family::gpt2::Gpt2Sizes};

    fn gpt2(has_bias: bool) -> Model {
        Gpt2Sizes {
            layers: 12,
            heads: 12,
            channels: 768,
            vocab: 50304,
            block: 1024,
            has_bias,
            gelu: Gelu::Exact,
        }
        .model()
    }

    #[test]
    fn gpt2_has_the_parameters_that_nanogpt_counts() {
        let parameters = gpt2(false).parameters();
        let decayed: Vec<_> = parameters.iter().filter(|p| p.decays()).collect();
        assert_eq!(decayed.len(), 50);
        assert_eq!(decayed.iter().map(|p| p.count()).sum::<u64>(), 124_354_560);
        assert_eq!(parameters.iter().map(Parameter::count).sum::<u64>(), 124_373_760);
    }

    #[test]
    fn biases_are_listed_right_after_their_weights() {
        let names: Vec<_> = gpt2(true).parameters().into_iter().map(|p| p.name).collect();
        assert_eq!(names[2..4], ["h.0.ln_1.weight", "h.0.ln_1.bias"]);
        assert_eq!(names.last().unwrap(), "ln_f.bias");
    }
}
