//! Reads the golden files of `tests/golden`: named tensors and the case they belong to.
//!
//! A bad fixture fails the test that reads it, so everything here panics with the name of the file
//! and the tensor.

use std::{collections::BTreeMap, fs, path::PathBuf};

use fitgpt_model::{Model, family::gpt2::Gpt2Sizes};
use fitgpt_program::Gelu;
use safetensors::{Dtype, SafeTensors};
use serde::Deserialize;

/// The cases that `tests/golden/make.py` writes.
pub(crate) const CASES: [&str; 5] =
    ["bias_exact", "plain_tanh", "ragged", "wide_head", "accumulated"];

/// The path of a file of `tests/golden`.
pub(crate) fn path(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", "golden", name].iter().collect()
}

/// The metadata of a golden file: what was run, and how.
#[derive(Debug, Deserialize)]
pub(crate) struct GoldenFacts {
    pub(crate) case: GoldenCase,
    pub(crate) steps: usize,
    pub(crate) betas: [f32; 2],
    pub(crate) adam_eps: f32,
    pub(crate) weight_decay: f32,
    /// Steps whose gradients were scaled down.
    pub(crate) clipped_steps: usize,
    /// The error of PyTorch's float32 relative to the values in the file, by quantity: the
    /// largest difference divided by its tensor's largest magnitude.
    pub(crate) float32_error: BTreeMap<String, f64>,
}

/// One model and its batches.
#[derive(Debug, Deserialize)]
pub(crate) struct GoldenCase {
    pub(crate) layers: u32,
    pub(crate) heads: u32,
    pub(crate) channels: u32,
    pub(crate) vocab: u32,
    pub(crate) block: u32,
    pub(crate) bias: bool,
    pub(crate) gelu: String,
    pub(crate) batch: usize,
    pub(crate) micro_batches: usize,
    /// 0 if gradients are not clipped.
    pub(crate) grad_clip: f32,
}

impl GoldenCase {
    pub(crate) fn model(&self) -> Model {
        Gpt2Sizes {
            layers: self.layers,
            heads: self.heads,
            channels: self.channels,
            vocab: self.vocab,
            block: self.block,
            has_bias: self.bias,
            gelu: match self.gelu.as_str() {
                "exact" => Gelu::Exact,
                "tanh" => Gelu::Tanh,
                other => panic!("a golden file names an unknown GELU: `{other}`"),
            },
        }
        .model()
    }
}

/// The values of one tensor.
#[derive(Debug)]
pub(crate) enum GoldenValues {
    F32(Vec<f32>),
    U32(Vec<u32>),
}

/// One tensor of a file.
#[derive(Debug)]
pub(crate) struct GoldenTensor {
    pub(crate) shape: Vec<usize>,
    pub(crate) values: GoldenValues,
}

impl GoldenTensor {
    pub(crate) fn f32s(&self) -> &[f32] {
        match &self.values {
            GoldenValues::F32(values) => values,
            GoldenValues::U32(_) => panic!("the tensor holds token ids, not float32"),
        }
    }

    pub(crate) fn u32s(&self) -> &[u32] {
        match &self.values {
            GoldenValues::U32(values) => values,
            GoldenValues::F32(_) => panic!("the tensor holds float32, not token ids"),
        }
    }
}

/// A file of named tensors.
#[derive(Debug)]
pub(crate) struct GoldenTensors(BTreeMap<String, GoldenTensor>);

impl GoldenTensors {
    /// Reads a file of `tests/golden`.
    pub(crate) fn read(file: &str) -> Self {
        Self::parse(file, &bytes_of(file))
    }

    fn parse(file: &str, bytes: &[u8]) -> Self {
        let tensors = SafeTensors::deserialize(bytes).unwrap_or_else(|e| panic!("`{file}`: {e}"));
        let read = |(name, view): (String, safetensors::tensor::TensorView<'_>)| {
            let words = view.data().as_chunks().0.iter().copied();
            let values = match view.dtype() {
                Dtype::F32 => GoldenValues::F32(words.map(f32::from_le_bytes).collect()),
                Dtype::U32 => GoldenValues::U32(words.map(u32::from_le_bytes).collect()),
                other => panic!("`{file}`: `{name}` has the type {other:?}"),
            };
            (name, GoldenTensor { shape: view.shape().to_vec(), values })
        };
        Self(tensors.tensors().into_iter().map(read).collect())
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    pub(crate) fn get(&self, name: &str) -> &GoldenTensor {
        self.0.get(name).unwrap_or_else(|| panic!("no tensor `{name}` in the file"))
    }
}

/// One golden file.
#[derive(Debug)]
pub(crate) struct Golden {
    pub(crate) facts: GoldenFacts,
    pub(crate) tensors: GoldenTensors,
}

impl Golden {
    /// Reads `tests/golden/<case>.safetensors`.
    pub(crate) fn read(case: &str) -> Self {
        let file = format!("{case}.safetensors");
        let text = facts_of(&file);
        let facts = serde_json::from_str(&text).unwrap_or_else(|e| panic!("`{file}`: {e}"));
        Self { facts, tensors: GoldenTensors::read(&file) }
    }
}

/// The text that a file's metadata has under `golden`.
pub(crate) fn facts_of(file: &str) -> String {
    let bytes = bytes_of(file);
    let (_, header) =
        SafeTensors::read_metadata(&bytes).unwrap_or_else(|e| panic!("`{file}`: {e}"));
    let text = header.metadata().as_ref().and_then(|keys| keys.get("golden").cloned());
    text.unwrap_or_else(|| panic!("`{file}` has no metadata `golden`"))
}

fn bytes_of(file: &str) -> Vec<u8> {
    fs::read(path(file)).unwrap_or_else(|e| panic!("`tests/golden/{file}`: {e}"))
}
