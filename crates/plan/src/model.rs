//! A GPT-2-class model: its sizes, and its parameters with names and shapes.
//!
//! Names are those of GPT-2's checkpoints, so that a report can be searched in a PyTorch
//! model. Matrices are stored (out, in), as nanoGPT stores them.

use crate::config::{Config, Gelu};

/// The sizes that make a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Model {
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

/// How a parameter begins.
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

/// One learned tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// As in GPT-2's checkpoints, without `transformer.`.
    pub name: String,
    /// (out, in) for matrices.
    pub shape: Vec<u64>,
    /// How it begins.
    pub init: Init,
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

impl Model {
    /// The model that `config` describes, with the vocabulary its data has.
    pub fn new(config: &Config, vocab: u32) -> Self {
        Self {
            layers: config.n_layer(),
            heads: config.n_head(),
            channels: config.n_embd(),
            vocab,
            block: config.block_size(),
            has_bias: config.bias(),
            gelu: config.gelu(),
        }
    }

    /// Channels of one head.
    pub fn head_channels(&self) -> u32 {
        self.channels / self.heads
    }

    /// Every learned tensor, in the order of nanoGPT's modules. `lm_head` is `wte`.
    pub fn parameters(&self) -> Vec<Parameter> {
        let channels = u64::from(self.channels);
        let std = 0.02;
        // Residual projections begin smaller: their sum grows with depth.
        let residual_std = 0.02 / (2.0 * self.layers as f32).sqrt();

        let mut list = List { has_bias: self.has_bias, parameters: Vec::new() };
        list.add("wte.weight", vec![u64::from(self.vocab), channels], Init::Normal { std });
        list.add("wpe.weight", vec![u64::from(self.block), channels], Init::Normal { std });
        for layer in 0..self.layers {
            list.norm(&format!("h.{layer}.ln_1"), channels);
            list.linear(&format!("h.{layer}.attn.c_attn"), [3 * channels, channels], std);
            list.linear(&format!("h.{layer}.attn.c_proj"), [channels, channels], residual_std);
            list.norm(&format!("h.{layer}.ln_2"), channels);
            list.linear(&format!("h.{layer}.mlp.c_fc"), [4 * channels, channels], std);
            list.linear(&format!("h.{layer}.mlp.c_proj"), [channels, 4 * channels], residual_std);
        }
        list.norm("ln_f", channels);
        list.parameters
    }

    /// Learned elements, `wpe` included.
    pub fn parameter_count(&self) -> u64 {
        self.parameters().iter().map(Parameter::count).sum()
    }
}

/// Parameters as they are listed, with the biases that this model has.
struct List {
    has_bias: bool,
    parameters: Vec<Parameter>,
}

impl List {
    fn add(&mut self, name: &str, shape: Vec<u64>, init: Init) {
        self.parameters.push(Parameter { name: name.to_owned(), shape, init });
    }

    fn norm(&mut self, name: &str, channels: u64) {
        self.add(&format!("{name}.weight"), vec![channels], Init::Ones);
        self.bias(name, channels);
    }

    fn linear(&mut self, name: &str, [out, input]: [u64; 2], std: f32) {
        self.add(&format!("{name}.weight"), vec![out, input], Init::Normal { std });
        self.bias(name, out);
    }

    fn bias(&mut self, name: &str, out: u64) {
        if self.has_bias {
            self.add(&format!("{name}.bias"), vec![out], Init::Zeros);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpt2() -> Model {
        Model {
            layers: 12,
            heads: 12,
            channels: 768,
            vocab: 50304,
            block: 1024,
            has_bias: false,
            gelu: Gelu::Exact,
        }
    }

    #[test]
    fn gpt2_has_the_parameters_that_nanogpt_counts() {
        let parameters = gpt2().parameters();
        let decayed: Vec<_> = parameters.iter().filter(|p| p.decays()).collect();
        assert_eq!(decayed.len(), 50);
        assert_eq!(decayed.iter().map(|p| p.count()).sum::<u64>(), 124_354_560);
        assert_eq!(gpt2().parameter_count(), 124_373_760);
    }

    #[test]
    fn biases_are_listed_right_after_their_weights() {
        let model = Model { has_bias: true, layers: 1, ..gpt2() };
        let names: Vec<_> = model.parameters().into_iter().map(|p| p.name).collect();
        assert_eq!(names[2..4], ["h.0.ln_1.weight", "h.0.ln_1.bias"]);
        assert_eq!(names.last().unwrap(), "ln_f.bias");
    }
}
