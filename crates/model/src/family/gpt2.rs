//! GPT-2, as OpenAI published it and as nanoGPT trains it.
//!
//! Learned positions, layer norm, one joined projection to queries, keys and values, GELU, a tied
//! head. nanoGPT's GPT-2 has no biases by default; `transformers`' always has them, so our
//! checkpoint folders store zeros and record the difference under `fitgpt`.

use fitgpt_config::{Config, ConfigValue, Family};
use fitgpt_program::{Gelu, units::Real};
use serde_json::{Map, Value as Json, json};

use super::{Description, FamilyError, Requirement, json::ConfigDocument};
use crate::{Biases, MlpKind, Model, NormKind, Positions};

const NORM_EPSILON: f64 = 1e-5;
/// The token between texts.
const END_OF_TEXT: u32 = 50_256;

/// The sizes of a GPT-2.
#[derive(Clone, Copy, Debug)]
pub struct Gpt2Sizes {
    /// Transformer blocks.
    pub layers: u32,
    /// Attention heads; they divide `channels`.
    pub heads: u32,
    /// Width of the residual stream.
    pub channels: u32,
    /// Rows of the embedding.
    pub vocab: u32,
    /// Longest sequence.
    pub block: u32,
    /// Whether linear layers and norms have biases.
    pub has_bias: bool,
    /// Which GELU.
    pub gelu: Gelu,
}

impl Gpt2Sizes {
    /// The model of these sizes.
    pub const fn model(self) -> Model {
        Model {
            family: Family::Gpt2,
            layers: self.layers,
            channels: self.channels,
            vocab: self.vocab,
            block: self.block,
            heads: self.heads,
            kv_heads: self.heads,
            head_channels: self.channels / self.heads,
            mlp_channels: 4 * self.channels,
            positions: Positions::Learned,
            norm: NormKind::Layer,
            norm_epsilon: Real::new(NORM_EPSILON),
            has_qk_norm: false,
            mlp: MlpKind::Gelu(self.gelu),
            biases: Biases::everywhere(self.has_bias),
            is_tied: true,
        }
    }
}

pub(super) fn describe(config: &Config, vocab: u32) -> Model {
    Gpt2Sizes {
        layers: config.n_layer(),
        heads: config.n_head(),
        channels: config.n_embd(),
        vocab,
        block: config.block_size(),
        has_bias: config.bias(),
        gelu: config.gelu(),
    }
    .model()
}

/// Reads `GPT2Config`. The sizes are required; the rest has that class's defaults.
pub(super) fn read(document: ConfigDocument<'_>) -> Result<Description, FamilyError> {
    let (layers, heads) = (document.layers("n_layer")?, document.size("n_head")?);
    let channels = document.size("n_embd")?;
    if !channels.is_multiple_of(heads) {
        return Err(document.refuse("n_head", Requirement::Divides("n_embd")));
    }
    let gelu = match document.get("activation_function").map(Json::as_str) {
        Some(Some("gelu")) => Gelu::Exact,
        // The first is the default of `GPT2Config`; all are the same formula.
        None | Some(Some("gelu_new" | "gelu_pytorch_tanh")) => Gelu::Tanh,
        Some(_) => {
            let expected = Requirement::Either("\"gelu\"", "\"gelu_new\"");
            return Err(document.refuse("activation_function", expected));
        }
    };
    let epsilon = document.positive("layer_norm_epsilon")?;
    if epsilon.is_some_and(|epsilon| (epsilon - NORM_EPSILON).abs() > 1e-9) {
        return Err(document.refuse("layer_norm_epsilon", Requirement::Is("1e-5")));
    }
    if document
        .optional_size("n_inner")?
        .is_some_and(|inner| Some(inner) != channels.checked_mul(4))
    {
        return Err(document.refuse("n_inner", Requirement::Is("four times `n_embd`")));
    }
    document.require("tie_word_embeddings", true)?;
    document.require("scale_attn_weights", true)?;
    document.require("scale_attn_by_inverse_layer_idx", false)?;
    document.require("add_cross_attention", false)?;
    let has_bias = match document.object("fitgpt")? {
        Some(ours) => ours.flag("bias")?.unwrap_or(true),
        None => true,
    };
    Ok(Description {
        family: Family::Gpt2,
        keys: vec![
            ("family", Family::Gpt2.name().into()),
            ("n_layer", layers.into()),
            ("n_head", heads.into()),
            ("n_embd", channels.into()),
            ("bias", has_bias.into()),
            ("gelu", gelu.name().into()),
            // Features of other families, unset.
            ("n_kv_head", 0_u32.into()),
            ("head_dim", 0_u32.into()),
            ("ffn_dim", 0_u32.into()),
            ("rope_theta", 10_000.0.into()),
            ("rope_scaling", "".into()),
            ("norm_eps", 0.0.into()),
            ("tie_embeddings", true.into()),
            ("attention_bias", ConfigValue::None),
            ("mlp_bias", false.into()),
        ],
        vocab: document.size("vocab_size")?,
        positions: document.size("n_positions")?,
        window: None,
        dropout: document.share("resid_pdrop")?.unwrap_or(0.1),
    })
}

pub(super) fn write(model: &Model, dropout: f64) -> Map<String, Json> {
    let end_of_text = (END_OF_TEXT < model.vocab).then_some(END_OF_TEXT);
    let activation = match model.mlp {
        MlpKind::Gelu(Gelu::Exact) => "gelu",
        MlpKind::Gelu(Gelu::Tanh) | MlpKind::SwiGlu => "gelu_new",
    };
    let document = json!({
        "activation_function": activation,
        "architectures": ["GPT2LMHeadModel"],
        "attn_pdrop": dropout,
        "bos_token_id": end_of_text,
        "embd_pdrop": dropout,
        "eos_token_id": end_of_text,
        "fitgpt": { "bias": model.has_bias() },
        "layer_norm_epsilon": NORM_EPSILON,
        "model_type": "gpt2",
        "n_ctx": model.block,
        "n_embd": model.channels,
        "n_head": model.heads,
        "n_inner": null,
        "n_layer": model.layers,
        "n_positions": model.block,
        "resid_pdrop": dropout,
        "tie_word_embeddings": true,
        "torch_dtype": "float32",
        "vocab_size": model.vocab,
    });
    let Json::Object(map) = document else { unreachable!("the literal above is an object") };
    map
}
