//! Whole checkpoints of tiny models: round trips, crashes, damage.

mod crash;
mod damage;
mod foreign;
mod round_trip;

pub(super) use self::crash::Crash;

use std::{collections::BTreeMap, path::Path};

use fitgpt_plan::config::Gelu;

use super::{
    Architecture, Checkpoint, CheckpointError, Entry, Kind, Model, Piece, Positions, SaveId, Sink,
    Source, StoreError, Weights, save,
};

/// Values in memory, by kind and name.
#[derive(Debug, Default, PartialEq)]
struct Memory {
    values: BTreeMap<(Kind, String), Vec<f32>>,
    /// The longest piece that was asked for.
    max_piece: usize,
}

const KINDS: [Kind; 3] = [Kind::Parameter, Kind::ExpAvg, Kind::ExpAvgSq];

impl Memory {
    /// Room for `entries`, every value NaN.
    fn empty(entries: &[Entry], kinds: &[Kind]) -> Self {
        let slot =
            |kind, entry: &Entry| ((kind, entry.name.clone()), vec![f32::NAN; entry.count()]);
        let values =
            kinds.iter().flat_map(|&kind| entries.iter().map(move |entry| slot(kind, entry)));
        Self { values: values.collect(), max_piece: 0 }
    }

    /// Values that differ in every place, kind and version.
    fn version(entries: &[Entry], kinds: &[Kind], version: u32) -> Self {
        let mut memory = Self::empty(entries, kinds);
        let values = memory.values.values_mut().flatten();
        for (value, k) in values.zip(version * 1_000_000..) {
            *value = k as f32 * 0.25;
        }
        memory
    }

    fn slice(&mut self, piece: Piece<'_>, count: usize) -> Result<&mut [f32], StoreError> {
        self.max_piece = self.max_piece.max(count);
        let values = self.values.get_mut(&(piece.kind, piece.entry.name.clone()));
        let values = values.ok_or("no such tensor")?;
        Ok(values.get_mut(piece.start..piece.start + count).ok_or("outside of the tensor")?)
    }
}

impl Source for Memory {
    fn read(&mut self, piece: Piece<'_>, out: &mut [f32]) -> Result<(), StoreError> {
        out.copy_from_slice(self.slice(piece, out.len())?);
        Ok(())
    }
}

impl Sink for Memory {
    fn write(&mut self, piece: Piece<'_>, values: &[f32]) -> Result<(), StoreError> {
        self.slice(piece, values.len())?.copy_from_slice(values);
        Ok(())
    }
}

/// One layer, four channels.
fn tiny(bias: bool) -> Architecture {
    Architecture {
        n_layer: 1,
        n_head: 2,
        n_embd: 4,
        block_size: 6,
        vocab_size: 11,
        bias,
        dropout: 0.0,
        gelu: Gelu::Exact,
        tokenizer: None,
    }
}

/// The parameters of a model, nanoGPT's layout.
fn entries_of(model: &Architecture) -> Vec<Entry> {
    let channels = model.n_embd;
    let mut entries = vec![
        Entry::new("wte.weight", &[model.vocab_size, channels]),
        Entry::new("wpe.weight", &[model.block_size, channels]),
    ];
    let mut push = |name: String, shape: &[usize]| {
        entries.push(Entry::new(format!("{name}.weight"), shape));
        if model.bias {
            entries.push(Entry::new(format!("{name}.bias"), &shape[..1]));
        }
    };
    for layer in 0..model.n_layer {
        push(format!("h.{layer}.ln_1"), &[channels]);
        push(format!("h.{layer}.attn.c_attn"), &[3 * channels, channels]);
        push(format!("h.{layer}.attn.c_proj"), &[channels, channels]);
        push(format!("h.{layer}.ln_2"), &[channels]);
        push(format!("h.{layer}.mlp.c_fc"), &[4 * channels, channels]);
        push(format!("h.{layer}.mlp.c_proj"), &[channels, 4 * channels]);
    }
    push("ln_f".to_owned(), &[channels]);
    entries
}

/// Saves version `version` of the model, with the version as its document.
fn save_version(dir: &Path, architecture: &Architecture, version: u32) -> SaveId {
    let entries = entries_of(architecture);
    let mut memory = Memory::version(&entries, &KINDS, version);
    save(dir, Model { architecture, entries: &entries }, &version, &mut memory).unwrap()
}

/// Which version the checkpoint in `dir` is, having read all of it and found every value right.
fn read_version(dir: &Path, architecture: &Architecture) -> Result<u32, CheckpointError> {
    let mut checkpoint = Checkpoint::open(dir)?;
    assert_eq!(checkpoint.architecture(), architecture);
    let version = checkpoint.document()?;
    let entries = entries_of(architecture);
    let mut memory = Memory::empty(&entries, &KINDS);
    checkpoint.read(&entries, &mut memory)?;
    assert_eq!(memory.values, Memory::version(&entries, &KINDS, version).values);
    Ok(version)
}

/// The weights in `dir`, read for `entries`.
fn read_weights(
    dir: &Path,
    entries: &[Entry],
    positions: Positions,
) -> Result<Memory, CheckpointError> {
    let mut memory = Memory::empty(entries, &[Kind::Parameter]);
    Weights::open(dir)?.read(entries, positions, &mut memory)?;
    Ok(memory)
}
