//! `config.json`: what the weights are weights of, in the words of `transformers`' `GPT2Config`.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

use fitgpt_plan::config::Gelu;

use super::{CheckpointError, Result, SaveId, error::Claim};
use crate::tokenizer::Tokenizer;

/// The token that begins and ends a text, where the vocabulary reaches that far.
const END_OF_TEXT: usize = 50256;
/// `GPT-2`'s, and the only one that the kernels have.
const LAYER_NORM_EPSILON: f64 = 1e-5;

/// What a model is, as far as its weights are concerned.
#[derive(Clone, Debug, PartialEq)]
pub struct Architecture {
    /// Blocks.
    pub n_layer: usize,
    /// Attention heads of a block.
    pub n_head: usize,
    /// Channels of the residual stream.
    pub n_embd: usize,
    /// Longest sequence.
    pub block_size: usize,
    /// Rows of the token table, as trained (nanoGPT pads to 50304).
    pub vocab_size: usize,
    /// Whether linear layers and normalisations have biases.
    pub bias: bool,
    /// Share of activations that training drops. The other values come from the shapes of
    /// tensors; this one `transformers` keeps three times, and we read the residual stream's.
    pub dropout: f64,
    /// Which GELU.
    pub gelu: Gelu,
    /// How its tokens read, so that a folder can be sampled from without its dataset.
    pub tokenizer: Option<Tokenizer>,
}

impl Architecture {
    /// The text of `config.json`.
    pub(super) fn to_json(&self, id: SaveId) -> String {
        let end_of_text = (END_OF_TEXT < self.vocab_size).then_some(END_OF_TEXT);
        let activation = match self.gelu {
            Gelu::Exact => "gelu",
            Gelu::Tanh => "gelu_new",
        };
        let document = json!({
            "activation_function": activation,
            "architectures": ["GPT2LMHeadModel"],
            "attn_pdrop": self.dropout,
            "bos_token_id": end_of_text,
            "embd_pdrop": self.dropout,
            "eos_token_id": end_of_text,
            "fitgpt": {
                "bias": self.bias,
                "save_id": id.to_string(),
                "tokenizer": self.tokenizer,
            },
            "layer_norm_epsilon": LAYER_NORM_EPSILON,
            "model_type": "gpt2",
            "n_ctx": self.block_size,
            "n_embd": self.n_embd,
            "n_head": self.n_head,
            "n_inner": null,
            "n_layer": self.n_layer,
            "n_positions": self.block_size,
            "resid_pdrop": self.dropout,
            "tie_word_embeddings": true,
            "torch_dtype": "float32",
            "vocab_size": self.vocab_size,
        });
        format!("{document:#}\n")
    }

    /// Reads `config.json`, ours or another's, and the save id where it has one.
    pub(super) fn from_json(path: &Path, text: &[u8]) -> Result<(Self, Option<String>)> {
        let file: File = serde_json::from_slice(text)
            .map_err(|source| CheckpointError::Json { path: path.to_owned(), source })?;
        file.check(path)?;
        let gelu = match file.activation_function.as_deref() {
            Some("gelu") => Gelu::Exact,
            // The first is what `GPT2Config` means where the key is absent; all are one formula.
            None | Some("gelu_new" | "gelu_pytorch_tanh") => Gelu::Tanh,
            Some(other) => {
                let expected = Claim::Either("\"gelu\"", "\"gelu_new\"");
                return Err(unfit(path, "activation_function", expected, &json!(other)));
            }
        };
        let ours = file.fitgpt.unwrap_or_default();
        let architecture = Self {
            n_layer: file.n_layer,
            n_head: file.n_head,
            n_embd: file.n_embd,
            block_size: file.n_positions,
            vocab_size: file.vocab_size,
            bias: ours.bias.unwrap_or(true),
            dropout: file.resid_pdrop.unwrap_or(0.1),
            gelu,
            tokenizer: ours.tokenizer,
        };
        Ok((architecture, ours.save_id))
    }
}

/// What is read from `config.json`. The sizes must be there; the rest has `GPT2Config`'s defaults.
#[derive(Deserialize)]
struct File {
    model_type: Value,
    n_layer: usize,
    n_head: usize,
    n_embd: usize,
    n_positions: usize,
    vocab_size: usize,
    activation_function: Option<String>,
    resid_pdrop: Option<f64>,
    layer_norm_epsilon: Option<f64>,
    n_inner: Option<usize>,
    tie_word_embeddings: Option<bool>,
    scale_attn_weights: Option<bool>,
    scale_attn_by_inverse_layer_idx: Option<bool>,
    add_cross_attention: Option<bool>,
    fitgpt: Option<Ours>,
}

/// What `GPT2Config` has no word for.
#[derive(Default, Deserialize)]
struct Ours {
    bias: Option<bool>,
    save_id: Option<String>,
    tokenizer: Option<Tokenizer>,
}

impl File {
    /// Refuses what would load and then compute something else.
    fn check(&self, path: &Path) -> Result<()> {
        let claims = [
            (
                "model_type",
                Claim::Is("\"gpt2\""),
                self.model_type == "gpt2",
                self.model_type.clone(),
            ),
            (
                "n_layer",
                Claim::Within("1", "65536"),
                (1..=1 << 16).contains(&self.n_layer),
                json!(self.n_layer),
            ),
            (
                "n_embd",
                Claim::Within("1", "2^24"),
                (1..=1 << 24).contains(&self.n_embd),
                json!(self.n_embd),
            ),
            (
                "n_head",
                Claim::DividesWidth,
                self.n_head > 0 && self.n_embd.is_multiple_of(self.n_head),
                json!(self.n_head),
            ),
            (
                "n_positions",
                Claim::Within("1", "2^32"),
                (1..=1 << 32).contains(&self.n_positions),
                json!(self.n_positions),
            ),
            (
                "vocab_size",
                Claim::Within("1", "2^32"),
                (1..=1 << 32).contains(&self.vocab_size),
                json!(self.vocab_size),
            ),
            (
                "resid_pdrop",
                Claim::Within("0", "1"),
                self.resid_pdrop.is_none_or(|p| (0.0..=1.0).contains(&p)),
                json!(self.resid_pdrop),
            ),
            (
                "layer_norm_epsilon",
                Claim::Is("1e-5"),
                self.layer_norm_epsilon.is_none_or(|e| (e - LAYER_NORM_EPSILON).abs() < 1e-9),
                json!(self.layer_norm_epsilon),
            ),
            (
                "n_inner",
                Claim::FourTimesWidth,
                self.n_inner.is_none_or(|n| n == 4 * self.n_embd),
                json!(self.n_inner),
            ),
            (
                "tie_word_embeddings",
                Claim::Is("true"),
                self.tie_word_embeddings != Some(false),
                json!(self.tie_word_embeddings),
            ),
            (
                "scale_attn_weights",
                Claim::Is("true"),
                self.scale_attn_weights != Some(false),
                json!(self.scale_attn_weights),
            ),
            (
                "scale_attn_by_inverse_layer_idx",
                Claim::Is("false"),
                self.scale_attn_by_inverse_layer_idx != Some(true),
                json!(self.scale_attn_by_inverse_layer_idx),
            ),
            (
                "add_cross_attention",
                Claim::Is("false"),
                self.add_cross_attention != Some(true),
                json!(self.add_cross_attention),
            ),
        ];
        for (key, expected, holds, found) in claims {
            if !holds {
                return Err(unfit(path, key, expected, &found));
            }
        }
        Ok(())
    }
}

/// A key of `config.json` that asks for another model than we have.
fn unfit(path: &Path, key: &'static str, expected: Claim, found: &Value) -> CheckpointError {
    CheckpointError::Config { path: path.to_owned(), key, expected, found: found.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tiny() -> Architecture {
        Architecture {
            n_layer: 2,
            n_head: 2,
            n_embd: 8,
            block_size: 16,
            vocab_size: 65,
            bias: false,
            dropout: 0.2,
            gelu: Gelu::Exact,
            tokenizer: None,
        }
    }

    fn read(text: &str) -> Result<(Architecture, Option<String>)> {
        Architecture::from_json(Path::new("config.json"), text.as_bytes())
    }

    #[test]
    fn a_config_reads_back_as_it_was_written() {
        let id = SaveId::after(None);
        for gelu in [Gelu::Exact, Gelu::Tanh] {
            for bias in [false, true] {
                let architecture = Architecture { bias, gelu, ..tiny() };
                let back = read(&architecture.to_json(id)).unwrap();
                assert_eq!(back, (architecture, Some(id.to_string())));
            }
        }
    }

    #[test]
    fn tokens_beyond_the_vocabulary_are_null() {
        let id = SaveId::after(None);
        let tokens = |vocab_size| {
            let text = Architecture { vocab_size, ..tiny() }.to_json(id);
            let value: Value = serde_json::from_str(&text).unwrap();
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
        let expected = Architecture {
            n_layer: 12,
            n_head: 12,
            n_embd: 768,
            block_size: 1024,
            vocab_size: 50257,
            bias: true,
            dropout: 0.1,
            gelu: Gelu::Tanh,
            tokenizer: None,
        };
        assert_eq!((architecture, id), (expected, None));
    }

    #[test]
    fn a_config_of_another_model_is_refused_by_key() {
        let id = SaveId::after(None);
        let cases = [
            ("model_type", json!("llama")),
            ("n_head", json!(3)),
            ("n_head", json!(0)),
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
                Err(CheckpointError::Config { key, .. }) => assert_eq!(key, broken),
                other => panic!("`{broken}`: {other:?}"),
            }
        }
    }
}
