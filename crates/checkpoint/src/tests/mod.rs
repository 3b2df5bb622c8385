//! Whole checkpoints of tiny models: round trips, crashes, damage.

mod crash;
mod damage;
mod foreign;
mod histories;
mod owner;
mod round_trip;

use std::{collections::BTreeMap, path::Path};

use fitgpt_config::{Family, Written};
use fitgpt_files::disk::Disk;
use fitgpt_model::{Biases, Model, family::gpt2::Gpt2Sizes};
use fitgpt_program::{Gelu, units::DType};
use serde_json::{Map, json};

use super::{
    Architecture, Checkpoint, CheckpointError, Contents, Label, PositionRows, Retention, SaveId,
    StoreError, TensorEntry, TensorPiece, TensorSink, TensorSource, Tensors, Weights, save,
};

/// Bytes in memory, by name.
#[derive(Debug, Default, PartialEq)]
struct Memory {
    bytes: BTreeMap<String, Vec<u8>>,
    /// The longest piece that was requested.
    max_piece: usize,
}

/// Which tensors.
#[derive(Clone, Copy, PartialEq)]
enum Which {
    Weights,
    All,
}

impl Memory {
    /// Space for the tensors, every byte set, which is NaN in a float.
    fn empty(tensors: &Tensors, which: Which) -> Self {
        let states = if which == Which::All { &tensors.states[..] } else { &[] };
        let slot = |entry: &TensorEntry| (entry.name(), vec![0xFF; entry.count() * entry.width()]);
        Self { bytes: tensors.weights.iter().chain(states).map(slot).collect(), max_piece: 0 }
    }

    /// Values that differ for every element, tensor and version.
    fn version(tensors: &Tensors, which: Which, version: u32) -> Self {
        let mut memory = Self::empty(tensors, which);
        let mut values = version * 1_000_000..;
        for entry in tensors.weights.iter().chain(&tensors.states) {
            let Some(bytes) = memory.bytes.get_mut(&entry.name()) else { continue };
            for (out, value) in bytes.chunks_mut(entry.width()).zip(&mut values) {
                let value = value as f32 * 0.25;
                match entry.dtype {
                    DType::F32 => out.copy_from_slice(&value.to_ne_bytes()),
                    _ => out.copy_from_slice(&value.to_bits().to_ne_bytes()[..out.len()]),
                }
            }
        }
        memory
    }

    /// The values of a float32 tensor.
    fn floats(&self, name: &str) -> Vec<f32> {
        let bytes = self.bytes[name].chunks_exact(4);
        bytes.map(|bytes| f32::from_ne_bytes(bytes.try_into().unwrap())).collect()
    }

    fn slice(&mut self, piece: TensorPiece<'_>, count: usize) -> Result<&mut [u8], StoreError> {
        self.max_piece = self.max_piece.max(count);
        let bytes = self
            .bytes
            .get_mut(&piece.entry.name())
            .ok_or_else(|| std::io::Error::other("no such tensor"))?;
        Ok(bytes
            .get_mut(piece.start..piece.start + count)
            .ok_or_else(|| std::io::Error::other("outside of the tensor"))?)
    }
}

impl TensorSource for Memory {
    fn read(&mut self, piece: TensorPiece<'_>, out: &mut [u8]) -> Result<(), StoreError> {
        out.copy_from_slice(self.slice(piece, out.len())?);
        Ok(())
    }
}

impl TensorSink for Memory {
    fn write(&mut self, piece: TensorPiece<'_>, bytes: &[u8]) -> Result<(), StoreError> {
        self.slice(piece, bytes.len())?.copy_from_slice(bytes);
        Ok(())
    }
}

/// One layer, four channels.
fn tiny(has_bias: bool) -> Architecture {
    let gelu = Gelu::Exact;
    let sizes = Gpt2Sizes { layers: 1, heads: 2, channels: 4, vocab: 11, block: 6, has_bias, gelu };
    architecture(sizes.model())
}

/// Two layers of another family, its head not tied.
fn tiny_llama() -> Architecture {
    let mut written = Written::new();
    for (key, value) in [
        ("family", "qwen2"),
        ("n_layer", "2"),
        ("n_head", "4"),
        ("n_kv_head", "2"),
        ("n_embd", "8"),
        ("ffn_dim", "12"),
        ("block_size", "6"),
        ("tie_embeddings", "False"),
    ] {
        written.set(key, value).unwrap();
    }
    architecture(Model::new(&written.resolve().unwrap(), 11))
}

fn architecture(model: Model) -> Architecture {
    let nothing = |key: &str| (key.to_owned(), json!(null));
    let special_tokens = Map::from_iter(["bos_token_id", "eos_token_id"].map(nothing));
    Architecture { model, dropout: 0.0, tokenizer: None, special_tokens }
}

/// The tensors of a model that Adam trains, plus a state of bytes for every matrix.
fn tensors_of(architecture: &Architecture) -> Tensors {
    let mut tensors = Tensors::weights_of(&architecture.model);
    for weights in &tensors.weights {
        for state in ["exp_avg", "exp_avg_sq"] {
            tensors.states.push(TensorEntry { state: Some(state), ..weights.clone() });
        }
        if weights.shape.len() == 2 {
            let (state, dtype, shape) = (Some("codes"), DType::U8, vec![weights.count() - 1]);
            tensors.states.push(TensorEntry { state, shape, dtype, ..weights.clone() });
        }
    }
    tensors
}

/// The contents of version `version`; only the last checkpoint is kept.
fn contents<'a>(
    architecture: &'a Architecture,
    tensors: &'a Tensors,
    version: u32,
) -> Contents<'a> {
    let (run_id, step) = ("0123456789abcdef", version.into());
    let fingerprint = version.into();
    let label = Label { run_id, step, keep: Retention::ONE, fingerprint, nanogpt: None };
    Contents { architecture, tensors, label, held: None }
}

/// Saves version `version` of the model, with the version as its document.
fn save_version(dir: &Path, architecture: &Architecture, version: u32) -> SaveId {
    save_version_on(&Disk::real(), dir, architecture, version, Retention::ONE).unwrap()
}

/// [`save_version`] on `disk`, with other checkpoints to keep.
fn save_version_on(
    disk: &Disk,
    dir: &Path,
    architecture: &Architecture,
    version: u32,
    keep: Retention,
) -> Result<SaveId, CheckpointError> {
    let tensors = &tensors_of(architecture);
    let mut memory = Memory::version(tensors, Which::All, version);
    let mut contents = contents(architecture, tensors, version);
    contents.label.keep = keep;
    save(disk, dir, contents, &version, &mut memory)
}

/// The version of the checkpoint in `dir`, after checking every value.
fn read_version(dir: &Path, architecture: &Architecture) -> Result<u32, CheckpointError> {
    read_version_on(&Disk::real(), dir, architecture)
}

/// [`read_version`] on `disk`.
fn read_version_on(
    disk: &Disk,
    dir: &Path,
    architecture: &Architecture,
) -> Result<u32, CheckpointError> {
    let mut checkpoint = Checkpoint::open_once(disk, dir)?;
    assert_eq!(checkpoint.architecture(), architecture);
    let version = checkpoint.document()?;
    let tensors = tensors_of(architecture);
    let mut memory = Memory::empty(&tensors, Which::All);
    checkpoint.read(&tensors, &mut memory)?;
    assert_eq!(memory.bytes, Memory::version(&tensors, Which::All, version).bytes);
    Ok(version)
}

/// The weights in `dir`, read for `tensors`.
fn read_weights(
    dir: &Path,
    tensors: &Tensors,
    positions: PositionRows,
) -> Result<Memory, CheckpointError> {
    let mut memory = Memory::empty(tensors, Which::Weights);
    Weights::open(dir)?.read(tensors, positions, &mut memory)?;
    Ok(memory)
}
