//! `config.json`: the model of the weights, as `transformers` reads it.

use std::path::Path;

use fitgpt_data::tokenizer::Tokenizer;
use fitgpt_model::{
    Model,
    family::{self, Description},
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{CheckpointError, Result, SaveId};

/// More than any `config.json`: ours takes about 1 MB with a vocabulary of 65,536 symbols.
pub(super) const MAX_CONFIG_BYTES: u64 = 16 << 20;

/// Token ids that a fine-tuned model takes over from its first weights.
const SPECIAL_TOKENS: [&str; 3] = ["bos_token_id", "eos_token_id", "pad_token_id"];

/// A model as its weights and tokens define it.
#[derive(Clone, Debug, PartialEq)]
pub struct Architecture {
    /// Its sizes and parts; `block` is the longest sequence.
    pub model: Model,
    /// Share of activations that training drops.
    pub dropout: f64,
    /// Its tokenizer, so that a folder can be sampled from without its dataset.
    pub tokenizer: Option<Tokenizer>,
    /// Ids of special tokens from the `config.json` of the first weights; the family's if empty.
    pub special_tokens: Map<String, Value>,
}

impl Architecture {
    /// The text of `config.json`.
    pub(super) fn to_json(&self, id: SaveId) -> String {
        let mut document = family::document(&self.model, self.dropout);
        for (key, value) in &self.special_tokens {
            document.insert(key.clone(), value.clone());
        }
        let ours = document.entry("fitgpt").or_insert_with(|| json!({}));
        ours["save_id"] = json!(id.to_string());
        ours["tokenizer"] = json!(self.tokenizer);
        format!("{:#}\n", Value::Object(document))
    }

    /// Reads a `config.json`, ours or another program's, and the save id if it has one.
    pub(super) fn from_json(path: &Path, text: &[u8]) -> Result<ConfigContents> {
        let json = |source| CheckpointError::Json { path: path.to_owned(), source };
        let document: Value = serde_json::from_slice(text).map_err(json)?;
        let description = Description::read(&document)
            .map_err(|source| CheckpointError::Family { path: path.to_owned(), source })?;
        let model = description.model().map_err(|source| CheckpointError::Config {
            path: path.to_owned(),
            source: Box::new(source),
        })?;
        let ours = Option::<OwnKeys>::deserialize(&document["fitgpt"]).map_err(json)?;
        let ours = ours.unwrap_or_default();
        let kept = SPECIAL_TOKENS.iter().filter_map(|key| Some((*key, document.get(*key)?)));
        let special_tokens = kept.map(|(key, value)| (key.to_owned(), value.clone())).collect();
        let architecture =
            Self { model, dropout: description.dropout, tokenizer: ours.tokenizer, special_tokens };
        Ok(ConfigContents { architecture, description, save_id: ours.save_id })
    }

    /// The save id that a `config.json` states.
    pub(super) fn save_id(text: &[u8]) -> Option<SaveId> {
        let document: Value = serde_json::from_slice(text).ok()?;
        document["fitgpt"]["save_id"].as_str()?.parse().ok()
    }
}

/// The contents of a `config.json`.
#[derive(Debug)]
pub(super) struct ConfigContents {
    pub(super) architecture: Architecture,
    pub(super) description: Description,
    /// `None` in other programs' files.
    pub(super) save_id: Option<String>,
}

/// Our keys, which `transformers` does not have.
#[derive(Default, Deserialize)]
struct OwnKeys {
    save_id: Option<String>,
    tokenizer: Option<Tokenizer>,
}

#[cfg(test)]
mod tests {
    use fitgpt_config::Family;
    use fitgpt_model::{
        MlpKind, Positions,
        family::{FamilyError, gpt2::Gpt2Sizes},
    };
    use fitgpt_program::{Gelu, Rope};

    use super::*;

    fn tiny() -> Architecture {
        let sizes = Gpt2Sizes {
            layers: 2,
            heads: 2,
            channels: 8,
            vocab: 65,
            block: 16,
            has_bias: false,
            gelu: Gelu::Exact,
        };
        Architecture {
            model: sizes.model(),
            dropout: 0.2,
            tokenizer: None,
            special_tokens: Map::new(),
        }
    }

    fn read(text: &str) -> Result<(Architecture, Option<String>)> {
        let read = Architecture::from_json(Path::new("config.json"), text.as_bytes())?;
        Ok((read.architecture, read.save_id))
    }

    #[test]
    fn a_config_reads_back_as_it_was_written() {
        let id = SaveId::after(None, 7);
        let token = |id: Value| Map::from_iter([("eos_token_id".to_owned(), id)]);
        let mut all = Vec::new();
        for gelu in [Gelu::Exact, Gelu::Tanh] {
            for bias in [false, true] {
                let mut it = tiny();
                it.model.mlp = MlpKind::Gelu(gelu);
                it.model.biases = fitgpt_model::Biases::everywhere(bias);
                all.push(it);
            }
        }
        let llama = r#"{"model_type": "llama", "hidden_size": 48, "intermediate_size": 40,
            "num_hidden_layers": 2, "num_attention_heads": 6, "num_key_value_heads": 2,
            "vocab_size": 97, "max_position_embeddings": 32, "rope_theta": 5e5,
            "eos_token_id": [1, 2]}"#;
        let llama = read(llama).unwrap().0;
        assert_eq!(llama.model.family, Family::Llama);
        assert_eq!(llama.model.positions, Positions::Rotary(Rope::new(5e5)));
        assert_eq!(llama.special_tokens, token(json!([1, 2])));
        all.push(llama);
        for mut architecture in all {
            let (back, read_id) = read(&architecture.to_json(id)).unwrap();
            assert_eq!(read_id, Some(id.to_string()));
            // The family writes those that were not given.
            for (key, value) in &back.special_tokens {
                architecture.special_tokens.entry(key).or_insert(value.clone());
            }
            assert_eq!(back, architecture);
        }
    }

    #[test]
    fn tokens_beyond_the_vocabulary_are_null() {
        let id = SaveId::after(None, 7);
        let tokens = |vocab| {
            let mut architecture = tiny();
            architecture.model.vocab = vocab;
            let value: Value = serde_json::from_str(&architecture.to_json(id)).unwrap();
            (value["bos_token_id"].as_u64(), value["eos_token_id"].as_u64())
        };
        assert_eq!(tokens(50256), (None, None));
        assert_eq!(tokens(50257), (Some(50256), Some(50256)));
    }

    #[test]
    fn a_config_of_transformers_is_read_with_its_defaults() {
        let (architecture, id) = read(
            r#"{"model_type": "gpt2", "n_positions": 1024, "n_embd": 768, "n_head": 12,
                "n_layer": 12, "vocab_size": 50257, "initializer_range": 0.02}"#,
        )
        .unwrap();
        let sizes = Gpt2Sizes {
            layers: 12,
            heads: 12,
            channels: 768,
            vocab: 50257,
            block: 1024,
            has_bias: true,
            gelu: Gelu::Tanh,
        };
        let expected = Architecture { model: sizes.model(), dropout: 0.1, ..tiny() };
        assert_eq!((architecture, id), (expected, None));
    }

    #[test]
    fn a_config_of_another_model_is_refused_by_key() {
        let id = SaveId::after(None, 7);
        let cases = [
            ("n_head", json!(3)),
            ("n_head", json!(0)),
            ("n_layer", json!(1 << 20)),
            ("n_inner", json!(7)),
            ("activation_function", json!("relu")),
            ("layer_norm_epsilon", json!(1e-6)),
            ("tie_word_embeddings", json!(false)),
            ("scale_attn_weights", json!(false)),
            ("add_cross_attention", json!(true)),
            ("resid_pdrop", json!(1.5)),
        ];
        for (broken, value) in cases {
            let mut config: Value = serde_json::from_str(&tiny().to_json(id)).unwrap();
            config[broken] = value;
            match read(&config.to_string()) {
                Err(CheckpointError::Family {
                    source: FamilyError::UnsupportedValue { key, .. },
                    ..
                }) => {
                    assert_eq!(key, broken);
                }
                other => panic!("`{broken}`: {other:?}"),
            }
        }
        let mut config: Value = serde_json::from_str(&tiny().to_json(id)).unwrap();
        config["model_type"] = json!("bert");
        let error = read(&config.to_string()).unwrap_err().to_string();
        assert!(error.contains("`bert`"), "{error}");
        config["model_type"] = json!("llama");
        let error = read(&config.to_string()).unwrap_err().to_string();
        assert!(error.contains("`num_hidden_layers` is missing"), "{error}");
    }
}
