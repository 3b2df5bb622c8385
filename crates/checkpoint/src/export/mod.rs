//! Exports models for other programs.
//!
//! Converts weights from a folder of ours, Hugging Face's or nanoGPT's to a GGUF file for
//! llama.cpp, a `ckpt.pt` for nanoGPT, or a folder for `transformers`. At most one tensor is in
//! memory at a time. Files are written atomically.

mod folder;
pub mod gguf;
mod names;
mod nanogpt;
mod words;
#[cfg(test)]
mod tests;
mod vocabulary;

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate as checkpoint;
use crate::{
    Architecture, CheckpointError, PositionRows, StoreError, TensorPiece, TensorSink, Tensors,
    Weights,
};
use fitgpt_config::{ConfigError, Family};
use fitgpt_files::{
    attempt::Attempt,
    disk::{Disk, DiskError, DraftName},
};
use fitgpt_model::{MlpKind, Model};
use fitgpt_program::{Gelu, Rope, RopeScaling};

use self::gguf::{GgufFile, GgufTensor, GgufType, GgufValue};
pub use self::{folder::to_folder, nanogpt::to_nanogpt};
use crate::output::{self, OutputError, Replace};

/// Why nothing was exported.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The weights cannot be read.
    Checkpoint {
        /// Why.
        #[from]
        source: CheckpointError,
    },
    /// The path must not be written to.
    Output(#[from] OutputError),
    /// The operating system refused.
    Io {
        /// What was tried.
        action: Attempt,
        /// On which file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A tokenizer that GGUF cannot express.
    NoTokenizer {
        /// Which folder.
        folder: PathBuf,
        /// What the tokenizer is.
        kind: TokenizerGap,
    },
    /// nanoGPT's model is a GPT-2.
    Family {
        /// The model's.
        family: Family,
    },
    /// nanoGPT's optimizer is AdamW.
    Optimizer {
        /// The run's.
        name: &'static str,
    },
    /// The config of the checkpoint does not resolve.
    Config(#[from] ConfigError),
    /// Rotary positions that llama.cpp supports for Llama alone.
    RopeScaling,
}

impl From<DiskError> for ExportError {
    fn from(DiskError { action, path, source }: DiskError) -> Self {
        Self::Io { action, path, source }
    }
}

/// Why GGUF cannot express a tokenizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenizerGap {
    /// Characters of several bytes.
    Characters,
    /// A `tokenizer.json` whose rules have no name in llama.cpp.
    Json,
    /// More tokens than the model has.
    TooLarge,
}

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exported {
    /// How many tensors the file has.
    pub n_tensors: usize,
    /// How long it is.
    pub bytes: u64,
    /// Whether the other program computes a different GELU from the one the model was trained with:
    /// llama.cpp's GPT-2 approximates it, nanoGPT's does not.
    pub has_other_gelu: bool,
}

/// Writes the weights in `folder` to `out` as GGUF.
pub fn to_gguf(
    folder: &Path,
    out: &Path,
    dtype: GgufType,
    overwrite: bool,
) -> Result<Exported, ExportError> {
    check_file(folder, out, "gguf", overwrite)?;
    let folder = checkpoint::weights_dir(folder);
    let mut weights = Weights::open(&folder)?;
    let architecture = weights.architecture().clone();
    let model = architecture.model;
    let metadata = metadata(&folder, &architecture, dtype)?;
    let tensors = Tensors::weights_of(&model);
    let mut described = described(&tensors, dtype);
    let divisors = rope_divisors(&model);
    if let Some(divisors) = &divisors {
        let (name, shape) = (ROPE_DIVISORS.to_owned(), vec![divisors.len()]);
        described.push(GgufTensor { name, shape, dtype: GgufType::F32 });
    }
    let n_tensors = described.len();

    let failed = |action, source| ExportError::Io { action, path: out.to_owned(), source };
    let draft = DraftName::of(out)?;
    let file = GgufFile::create(draft.path(), &metadata, described)
        .map_err(|source| failed(Attempt::Write, source))?;
    let mut sink = GgufSink { model, tensors: &tensors, file, values: Vec::new(), filled: 0 };
    weights.read(&tensors, PositionRows::Exact, &mut sink)?;
    if let Some(divisors) = &divisors {
        let written = sink.file.write(ROPE_DIVISORS, divisors);
        written.map_err(|source| failed(Attempt::Write, source))?;
    }
    sink.file.finish().map_err(|source| failed(Attempt::Sync, source))?;
    let bytes = fs::metadata(draft.path()).map_err(|source| failed(Attempt::Read, source))?.len();
    draft.publish(&Disk::real())?;
    let has_other_gelu = model.mlp == MlpKind::Gelu(Gelu::Exact);
    Ok(Exported { n_tensors, bytes, has_other_gelu })
}

/// Refuses a path that must not be written to. Every file in the folder that is exported counts as
/// an input, except earlier exports, which end in `extension`.
fn check_file(
    folder: &Path,
    out: &Path,
    extension: &str,
    overwrite: bool,
) -> Result<(), OutputError> {
    let replace = if overwrite { Replace::Any } else { Replace::Nothing };
    let mut inputs: Vec<_> = checkpoint::nanogpt_file(folder).into_iter().collect();
    for folder in [folder.to_owned(), checkpoint::best_dir(folder)] {
        let files = fs::read_dir(&folder).into_iter().flatten().flatten().map(|file| file.path());
        inputs.extend(files.filter(|file| file.extension().is_none_or(|it| it != extension)));
    }
    let inputs: Vec<_> = inputs.iter().map(PathBuf::as_path).collect();
    output::check_file(out, &inputs, replace)
}

/// All tensors of the file. llama.cpp's GPT-2 always has biases; if the model has none, they are
/// zero.
fn described(tensors: &Tensors, dtype: GgufType) -> Vec<GgufTensor> {
    let naming = tensors.naming;
    let mut described = Vec::new();
    let mut add = |parameter: &str, shape: &[usize]| {
        if let Some(name) = names::tensor(naming, parameter) {
            let dtype = dtype.of_tensor(&name, shape);
            described.push(GgufTensor { name, shape: shape.to_vec(), dtype });
        }
    };
    for entry in &tensors.weights {
        add(&entry.parameter, &entry.shape);
        let Some(stem) = entry.parameter.strip_suffix(".weight") else { continue };
        let is_table = [naming.embedding, naming.positions, naming.head].contains(&stem);
        let bias = format!("{stem}.bias");
        let has_bias = tensors.weights.iter().any(|other| other.parameter == bias);
        if naming.files_have_all_biases && !is_table && !has_bias {
            add(&bias, &entry.shape[..1]);
        }
    }
    described
}

/// Collects tensors one after the other and writes each when it is complete.
struct GgufSink<'a> {
    model: Model,
    tensors: &'a Tensors,
    file: GgufFile,
    values: Vec<f32>,
    filled: usize,
}

impl TensorSink for GgufSink<'_> {
    fn write(&mut self, piece: TensorPiece<'_>, bytes: &[u8]) -> Result<(), StoreError> {
        if self.filled == 0 {
            self.values.clear();
            self.values.resize(piece.entry.count(), 0.0);
        }
        let (numbers, _) = bytes.as_chunks::<4>();
        let start = piece.start / 4;
        for (value, bytes) in self.values[start..].iter_mut().zip(numbers) {
            *value = f32::from_le_bytes(*bytes);
        }
        self.filled += numbers.len();
        if self.filled == piece.entry.count() {
            self.filled = 0;
            if let Some(name) = names::tensor(self.tensors.naming, &piece.entry.parameter) {
                let values = std::mem::take(&mut self.values);
                self.values = names::reorder(&self.model, &name, values);
                self.file.write(&name, &self.values)?;
            }
        }
        Ok(())
    }
}

/// The tensor of [`rope_divisors`].
const ROPE_DIVISORS: &str = "rope_freqs.weight";

/// The divisors that llama.cpp applies to the frequency of each pair of channels, if the model
/// scales them as Llama 3 does.
fn rope_divisors(model: &Model) -> Option<Vec<f32>> {
    let rope = model.rope()?;
    let is_read = names::architecture(model.family) == "llama";
    if !is_read || !matches!(rope.scaling, RopeScaling::Llama3 { .. }) {
        return None;
    }
    let scaled = rope.frequencies(model.head_channels);
    let plain = Rope::new(rope.theta.get()).frequencies(model.head_channels);
    Some(plain.iter().zip(&scaled).map(|(plain, scaled)| (plain / scaled) as f32).collect())
}

fn metadata(
    folder: &Path,
    architecture: &Architecture,
    dtype: GgufType,
) -> Result<Vec<(String, GgufValue)>, ExportError> {
    let model = &architecture.model;
    let name = names::architecture(model.family);
    let mut all = vec![
        ("general.architecture".to_owned(), GgufValue::Text(name.to_owned())),
        ("general.file_type".to_owned(), GgufValue::Count(dtype.file_type())),
    ];
    let mut add = |key: &str, value| all.push((format!("{name}.{key}"), value));
    add("vocab_size", GgufValue::Count(model.vocab));
    add("context_length", GgufValue::Count(model.block));
    add("embedding_length", GgufValue::Count(model.channels));
    add("block_count", GgufValue::Count(model.layers));
    add("feed_forward_length", GgufValue::Count(model.mlp_channels));
    add("attention.head_count", GgufValue::Count(model.heads));
    let epsilon = GgufValue::Real(model.norm_epsilon.get() as f32);
    if model.family == Family::Gpt2 {
        add("attention.layer_norm_epsilon", epsilon);
    } else {
        add("attention.layer_norm_rms_epsilon", epsilon);
        add("attention.head_count_kv", GgufValue::Count(model.kv_heads));
        add("attention.key_length", GgufValue::Count(model.head_channels));
        add("attention.value_length", GgufValue::Count(model.head_channels));
        add("rope.dimension_count", GgufValue::Count(model.head_channels));
    }
    if let Some(rope) = model.rope() {
        add("rope.freq_base", GgufValue::Real(rope.theta.get() as f32));
        match rope.scaling {
            RopeScaling::None => {}
            RopeScaling::Linear { factor } => {
                add("rope.scaling.type", GgufValue::Text("linear".to_owned()));
                add("rope.scaling.factor", GgufValue::Real(factor.get() as f32));
            }
            // They are stored in a tensor, which llama.cpp reads for the `llama` architecture
            // alone.
            RopeScaling::Llama3 { .. } if rope_divisors(model).is_some() => {}
            RopeScaling::Llama3 { .. } => return Err(ExportError::RopeScaling),
        }
    }
    all.extend(vocabulary::metadata(folder, architecture)?);
    Ok(all)
}
