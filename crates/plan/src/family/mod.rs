//! Families of models: converts a family's config to a [`Model`] and back, and names its
//! parameters as in checkpoints.
//!
//! A family is one file. [`Family`] has a variant for each `model_type` of Hugging Face's
//! `config.json` that is supported; several may share a file.
//!
//! Promise: no model is silently read as a different one. An unsupported feature is an error that
//! names its key.

mod json;
pub mod gpt2;
pub mod llama;

use std::fmt;

use serde_json::{Map, Value as Json, json};

pub use self::json::{FamilyError, Requirement};
use crate::{
    config::{Config, ConfigError, ConfigValue, Written},
    model::Model,
    published::{Published, Tied},
};

/// A `model_type` that can be planned and trained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// GPT-2, and nanoGPT's variant of it without biases.
    Gpt2,
    /// Llama 1 to 3, `SmolLM`, `TinyLlama`.
    Llama,
    /// Mistral, for sequences up to its attention window.
    Mistral,
    /// Qwen 2 and 2.5: Llama with biases on queries, keys and values.
    Qwen2,
    /// Qwen 3: Llama with normalised queries and keys.
    Qwen3,
}

impl Family {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Gpt2, Self::Llama, Self::Mistral, Self::Qwen2, Self::Qwen3];

    /// As in a config, which is the `model_type` of `config.json`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gpt2 => "gpt2",
            Self::Llama => "llama",
            Self::Mistral => "mistral",
            Self::Qwen2 => "qwen2",
            Self::Qwen3 => "qwen3",
        }
    }

    pub(crate) const NAMES: &'static [&'static str] =
        &["gpt2", "llama", "mistral", "qwen2", "qwen3"];

    /// The family of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|family| family.name() == name)
    }

    /// The model that `config`, whose family this is, describes.
    pub(crate) fn describe(self, config: &Config, vocab: u32) -> Model {
        match self {
            Self::Gpt2 => gpt2::describe(config, vocab),
            _ => llama::describe(self, config, vocab),
        }
    }

    /// How its parameters are named and stored.
    pub fn naming(self) -> &'static Naming {
        match self {
            Self::Gpt2 => &gpt2::NAMING,
            _ => &llama::NAMING,
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The names of a family's parameters, and how Hugging Face's files store them.
#[derive(Debug)]
pub struct Naming {
    /// The table of tokens.
    pub embedding: &'static str,
    /// The table of positions; empty if the family has none.
    pub positions: &'static str,
    /// The prefix before a block's number.
    pub blocks: &'static str,
    /// Before the attention.
    pub norm_1: &'static str,
    /// One joined projection, or those of queries, keys and values.
    pub qkv: &'static [&'static str],
    /// Norms of queries and keys.
    pub qk_norm: [&'static str; 2],
    /// The attention's output projection.
    pub attention_out: &'static str,
    /// Before the MLP.
    pub norm_2: &'static str,
    /// The gate of a gated MLP; empty if the family has none.
    pub mlp_gate: &'static str,
    /// To the MLP's inner width.
    pub mlp_up: &'static str,
    /// Back to the residual width.
    pub mlp_down: &'static str,
    /// Before the head.
    pub norm: &'static str,
    /// The head, if it is not tied.
    pub head: &'static str,
    /// Whether the initial weights of projections into the residual stream shrink with depth.
    pub scales_residual_init: bool,
    /// The prefix of every name except the head's in Hugging Face's files.
    pub file_prefix: &'static str,
    /// Suffixes of names whose matrices are stored (in, out) in files.
    pub transposed: &'static [&'static str],
    /// Whether files always contain biases, as zeros if the model has none.
    pub files_have_all_biases: bool,
    /// Suffixes of names that files may contain and the model does not use.
    pub spare: &'static [&'static str],
}

impl Naming {
    /// The name of a block.
    pub fn block(&self, layer: u32) -> String {
        format!("{}{layer}", self.blocks)
    }
}

/// A model as a `config.json` describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Description {
    /// Its family.
    pub family: Family,
    /// The config keys that describe the same model.
    pub keys: Vec<(&'static str, ConfigValue)>,
    /// Rows of its embedding.
    pub vocab: u32,
    /// Longest sequence that it supports.
    pub positions: u32,
    /// How many tokens a token attends to, if not to the whole sequence.
    pub window: Option<u32>,
    /// Share of activations that training drops.
    pub dropout: f64,
}

impl Description {
    /// Reads the text of a `config.json`, which must be an object.
    pub fn read(document: &Json) -> Result<Self, FamilyError> {
        let document = json::ConfigDocument::new(document)?;
        let found = document.text("model_type")?;
        match Family::parse(found) {
            Some(Family::Gpt2) => gpt2::read(document),
            Some(family) => llama::read(family, document),
            None => Err(FamilyError::ModelType { found: found.to_owned() }),
        }
    }

    /// A model from the table of published models, by its sizes.
    pub fn of_published(model: &Published) -> Result<Self, FamilyError> {
        let Published { layers, heads, width, vocab, context, .. } = *model;
        let is_tied = model.tied == Tied::Yes;
        Self::read(&json!({
            "model_type": model.model_type, "vocab_size": vocab, "tie_word_embeddings": is_tied,
            "n_layer": layers, "n_head": heads, "n_embd": width, "n_positions": context,
            "num_hidden_layers": layers, "num_attention_heads": heads, "hidden_size": width,
            "num_key_value_heads": model.kv_heads, "head_dim": model.head_dim,
            "intermediate_size": model.ffn, "max_position_embeddings": context,
        }))
    }

    /// The config keys for starting from these weights, including the vocabulary but not
    /// `block_size`.
    pub fn pairs(&self) -> impl Iterator<Item = (&'static str, ConfigValue)> {
        self.keys.iter().cloned().chain([("vocab_size", self.vocab.into())])
    }

    /// The model with all of its positions.
    pub fn model(&self) -> Result<Model, ConfigError> {
        let positions = [("block_size", self.positions.into())];
        let written = Written::from_pairs("config.json", self.pairs().chain(positions))?;
        Ok(Model::new(&written.resolve()?, self.vocab))
    }

    /// An error if sequences of `block` tokens exceed the model's attention window.
    pub fn check_window(&self, block: u32) -> Result<(), FamilyError> {
        match self.window {
            Some(window) if window < block => Err(FamilyError::UnsupportedValue {
                key: "sliding_window",
                expected: Requirement::AtLeastBlock(block),
                found: window.to_string(),
            }),
            _ => Ok(()),
        }
    }
}

/// The `config.json` of a model, as `transformers` reads it.
pub fn document(model: &Model, dropout: f64) -> Map<String, Json> {
    match model.family {
        Family::Gpt2 => gpt2::write(model, dropout),
        _ => llama::write(model, dropout),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_family_reads_back_as_its_name() {
        assert_eq!(Family::ALL.map(Family::name), Family::NAMES);
        for family in Family::ALL {
            assert_eq!(Family::parse(family.name()), Some(family));
        }
        assert_eq!(Family::parse("bert"), None);
    }

    #[test]
    fn a_published_model_has_its_parameter_count_or_an_unsupported_type() {
        for model in crate::published::all() {
            match Description::of_published(model) {
                Ok(described) => {
                    let count = described.model().unwrap().parameter_count();
                    assert_eq!(count, model.parameters, "{}", model.id);
                }
                Err(FamilyError::ModelType { found }) => assert_eq!(found, model.model_type),
                Err(other) => panic!("{}: {other}", model.id),
            }
        }
    }

    #[test]
    fn another_model_type_is_refused_by_name() {
        let document = serde_json::json!({"model_type": "mixtral", "hidden_size": 64});
        let error = Description::read(&document).unwrap_err();
        assert_eq!(error, FamilyError::ModelType { found: "mixtral".into() });
        assert!(Description::read(&serde_json::json!([1])).is_err());
        assert!(Description::read(&serde_json::json!({})).is_err());
    }
}
