//! Families of models: converts a family's config to a [`Model`] and back.
//!
//! A family is one file. [`Family`] has a variant for each `model_type` of Hugging Face's
//! `config.json` that is supported; several may share a file.
//!
//! No model is silently read as a different one. An unsupported feature is an error that
//! names its key.
//!
//! Promise: every family trains as in `transformers` (losses, gradients, logits), and an
//! unsupported model is refused by name in every command, never planned as another. Test:
//! `tests/library/pytorch/families.rs`, `tests/runs/families.rs`.

mod json;
mod words;
pub mod gpt2;
pub mod llama;

use fitgpt_config::{Config, ConfigError, ConfigValue, Family, Written};
use serde_json::{Map, Value as Json, json};

pub use self::json::{FamilyError, Requirement};
use crate::{
    Model,
    published::{Published, Tied},
};

impl Model {
    /// The model that `config` describes, with the vocabulary of its data.
    pub fn new(config: &Config, vocab: u32) -> Self {
        match config.family() {
            Family::Gpt2 => gpt2::describe(config, vocab),
            family @ (Family::Llama | Family::Mistral | Family::Qwen2 | Family::Qwen3) => {
                llama::describe(family, config, vocab)
            }
        }
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
            Some(family @ (Family::Llama | Family::Mistral | Family::Qwen2 | Family::Qwen3)) => {
                llama::read(family, document)
            }
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
        Family::Llama | Family::Mistral | Family::Qwen2 | Family::Qwen3 => {
            llama::write(model, dropout)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_that_nanogpt_knows_have_the_published_sizes() {
        for name in ["gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl"] {
            let mut written = Written::from_pairs("", [("family", "qwen3".into())]).unwrap();
            written.merge(Written::from_pairs("", [("init_from", name.into())]).unwrap());
            let config = written.resolve().unwrap();
            let published = Description::of_published(crate::published::find(name).unwrap());
            let pairs = config.pairs();
            for pair in published.unwrap().pairs() {
                assert!(pairs.contains(&pair), "{name}: {pair:?}");
            }
        }
    }

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
