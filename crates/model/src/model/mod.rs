//! The description of a decoder-only language model: its sizes and the kind of each layer.
//!
//! The program builder needs nothing else. [`crate::family`] has the config keys and the parameter
//! names of each family.
//!
//! Matrices are stored (out, in), as PyTorch's `nn.Linear` stores them.
//!
//! A family is one file that maps config keys and `config.json` to a description and back, and
//! names the parameters. A feature that the programs lack (another rope scaling, a window shorter
//! than the block, experts) is an error with the key's name: no model is ever planned as another
//! one. There is no autograd: each kind of layer has its forward and backward ops.

pub mod naming;
mod weights;

use fitgpt_config::Family;
use fitgpt_program::{Gelu, Rope, units::Real};

pub use self::weights::{
    BlockWeights, Init, LinearWeights, MlpWeights, ModelWeights, NormWeights, Parameter,
    ParameterId, ParameterRole, QkvWeights,
};
pub use crate::naming::{Naming, naming};

/// A model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Model {
    /// The family, which names the parameters.
    pub family: Family,
    /// Transformer blocks.
    pub layers: u32,
    /// Width of the residual stream.
    pub channels: u32,
    /// Rows of the embedding.
    pub vocab: u32,
    /// Longest sequence.
    pub block: u32,
    /// Query heads.
    pub heads: u32,
    /// Key and value heads; they divide `heads`.
    pub kv_heads: u32,
    /// Channels of one head.
    pub head_channels: u32,
    /// Inner width of an MLP.
    pub mlp_channels: u32,
    /// How positions are encoded.
    pub positions: Positions,
    /// Which normalisation.
    pub norm: NormKind,
    /// The epsilon of normalisations.
    pub norm_epsilon: Real,
    /// Whether queries and keys are normalised head by head.
    pub has_qk_norm: bool,
    /// Which MLP.
    pub mlp: MlpKind,
    /// Which layers have biases.
    pub biases: Biases,
    /// Whether the head shares the embedding's matrix.
    pub is_tied: bool,
}

/// How positions are encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Positions {
    /// A learned table, added to the embedding.
    Learned,
    /// Queries and keys are rotated by an angle that depends on the position.
    Rotary(Rope),
}

/// Which normalisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NormKind {
    /// `(x - mean) / deviation`.
    Layer,
    /// `x / root mean square`.
    Rms,
}

/// Which MLP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MlpKind {
    /// `down(gelu(up(x)))`.
    Gelu(Gelu),
    /// `down(silu(gate(x)) * up(x))`.
    SwiGlu,
}

/// Which layers have biases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Biases {
    /// Normalisations.
    pub norm: bool,
    /// The projections to queries, keys and values.
    pub qkv: bool,
    /// The attention's output projection.
    pub attention_out: bool,
    /// The MLP's projections.
    pub mlp: bool,
}

impl Biases {
    /// All layers, or none.
    pub const fn everywhere(has_bias: bool) -> Self {
        Self { norm: has_bias, qkv: has_bias, attention_out: has_bias, mlp: has_bias }
    }
}

impl Model {
    /// Channels of all query heads together.
    pub fn query_channels(&self) -> u64 {
        u64::from(self.heads) * u64::from(self.head_channels)
    }

    /// Channels of all key heads together; values have as many.
    pub fn kv_channels(&self) -> u64 {
        u64::from(self.kv_heads) * u64::from(self.head_channels)
    }

    /// Whether linear layers and norms have biases, as set by GPT-2's `bias`.
    pub fn has_bias(&self) -> bool {
        self.biases.norm
    }

    /// The rotation of queries and keys, if the model has one.
    pub fn rope(&self) -> Option<Rope> {
        match self.positions {
            Positions::Learned => None,
            Positions::Rotary(rope) => Some(rope),
        }
    }

    /// Every learned tensor, in the order of the model's modules.
    pub fn parameters(&self) -> Vec<Parameter> {
        ModelWeights::of(self).parameters
    }

    /// Learned elements.
    pub fn parameter_count(&self) -> u64 {
        self.parameters().iter().map(Parameter::count).sum()
    }
}
