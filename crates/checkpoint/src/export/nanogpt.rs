//! Exports nanoGPT's `ckpt.pt`, which its `sample.py` and `train.py --init_from=resume` read.
//!
//! The file has the weights and, from a checkpoint of AdamW, its moments. A folder with weights
//! only becomes a run at iteration 0 with an empty optimizer.

use std::{collections::HashMap, path::Path};

use fitgpt_config::{Config, ConfigValue, Family, Key, OptimizerChoice, Written};
use fitgpt_files::{
    disk::{Disk, DraftName},
    pytorch::{ArchiveWriter, PickleWriter},
};
use fitgpt_model::{MlpKind, Model, optimizer::Optimizer};
use fitgpt_program::Gelu;

use super::{ExportError, Exported};
use crate::{
    Checkpoint, Document, PositionRows, StoreError, TensorPiece, TensorSink, Tensors, Weights,
    has_state, nanogpt::RUN_ID_KEY,
};

/// nanoGPT's value before its first evaluation.
const NO_LOSS: f64 = 1e9;
/// Fixed in nanoGPT.
const EPSILON: f64 = 1e-8;

/// Writes the checkpoint or the weights in `folder` to `out`.
pub fn to_nanogpt(folder: &Path, out: &Path, overwrite: bool) -> Result<Exported, ExportError> {
    super::check_file(folder, out, "pt", overwrite)?;
    if has_state(folder) {
        let mut checkpoint = Checkpoint::open(folder)?;
        let document = match checkpoint.nanogpt() {
            Some(run) => Document::of_nanogpt(run, checkpoint.description()),
            None => checkpoint.document()?,
        };
        let source = format!("the checkpoint in {}", folder.display());
        let config = Written::from_pairs(&source, document.config.clone())?.resolve()?;
        let model = checkpoint.architecture().model;
        check_family(&model)?;
        if config.optimizer() != OptimizerChoice::AdamW {
            return Err(ExportError::Optimizer { name: config.optimizer().name() });
        }
        let tensors = Tensors::of(&model, &Optimizer::of(&config));
        let (dropout, run_id) = (checkpoint.architecture().dropout, checkpoint.run_id());
        let run_id = run_id.map(str::to_owned);
        let run = RunFacts { document: &document, config: &config, run_id: run_id.as_deref() };
        write(
            out,
            &model,
            dropout,
            &tensors,
            Some(run),
            |sink| Ok(checkpoint.read(&tensors, sink)?),
        )
    } else {
        let mut weights = Weights::open(folder)?;
        let (model, dropout) = (weights.architecture().model, weights.architecture().dropout);
        check_family(&model)?;
        let tensors = Tensors::weights_of(&model);
        write(out, &model, dropout, &tensors, None, |sink| {
            Ok(weights.read(&tensors, PositionRows::Exact, sink)?)
        })
    }
}

fn check_family(model: &Model) -> Result<(), ExportError> {
    match model.family {
        Family::Gpt2 => Ok(()),
        family => Err(ExportError::Family { family }),
    }
}

/// The run's position and its config.
#[derive(Clone, Copy)]
struct RunFacts<'a> {
    document: &'a Document,
    config: &'a Config,
    /// `None` if it is nanoGPT's, or of an earlier version.
    run_id: Option<&'a str>,
}

/// The storage of each tensor, and the sizes of all storages.
#[derive(Default)]
struct Storages {
    sizes: Vec<u64>,
    of: HashMap<(String, Option<&'static str>), usize>,
    /// Storages for the number of updates, one for every parameter: in `torch` they are not shared.
    steps: Vec<usize>,
}

impl Storages {
    fn new(tensors: &Tensors, updates: u64) -> Self {
        let mut storages = Self::default();
        // Before the first update `torch` has no states.
        let states = if updates > 0 { &tensors.states[..] } else { &[] };
        for entry in tensors.weights.iter().chain(states) {
            let key = (entry.parameter.clone(), entry.state);
            storages.of.insert(key, storages.sizes.len());
            storages.sizes.push(4 * entry.count() as u64);
        }
        if updates > 0 {
            for _ in &tensors.weights {
                storages.steps.push(storages.sizes.len());
                storages.sizes.push(4);
            }
        }
        storages
    }
}

/// Writes the file; `read` gives all values to a sink.
fn write(
    out: &Path,
    model: &Model,
    dropout: f64,
    tensors: &Tensors,
    run: Option<RunFacts<'_>>,
    read: impl FnOnce(&mut dyn TensorSink) -> Result<(), ExportError>,
) -> Result<Exported, ExportError> {
    let updates = run.map_or(0, |run| run.document.position.updates);
    let storages = Storages::new(tensors, updates);
    let pickle = pickle(model, dropout, tensors, &storages, run);
    let (disk, draft) = (Disk::real(), DraftName::of(out)?);
    let archive = ArchiveWriter::create(draft.create(&disk)?, &pickle, &storages.sizes)?;
    let mut sink = ArchiveSink { archive, storages };
    for index in sink.storages.steps.clone() {
        sink.archive.write(index, &(updates as f32).to_le_bytes())?;
    }
    read(&mut sink)?;
    let n_tensors = sink.storages.sizes.len();
    let bytes = sink.archive.finish()?;
    draft.publish(&disk)?;
    let has_other_gelu = model.mlp != MlpKind::Gelu(Gelu::Exact);
    Ok(Exported { n_tensors, bytes, has_other_gelu })
}

/// Writes each tensor into its storage.
struct ArchiveSink {
    archive: ArchiveWriter,
    storages: Storages,
}

impl TensorSink for ArchiveSink {
    fn write(&mut self, piece: TensorPiece<'_>, bytes: &[u8]) -> Result<(), StoreError> {
        let key = (piece.entry.parameter.clone(), piece.entry.state);
        // Before the first update the states are zero and not stored.
        let Some(&index) = self.storages.of.get(&key) else { return Ok(()) };
        assert_eq!(self.archive.written(index), piece.start as u64, "pieces come in order");
        if cfg!(target_endian = "big") {
            let mut bytes = bytes.to_vec();
            bytes.chunks_exact_mut(4).for_each(<[u8]>::reverse);
            return Ok(self.archive.write(index, &bytes)?);
        }
        Ok(self.archive.write(index, bytes)?)
    }
}

/// The pickle of the whole checkpoint.
fn pickle(
    model: &Model,
    dropout: f64,
    tensors: &Tensors,
    storages: &Storages,
    run: Option<RunFacts<'_>>,
) -> Vec<u8> {
    let mut pickle = PickleWriter::default();
    pickle.dict(|it| {
        it.text("model");
        it.ordered_dict(|it| {
            for entry in &tensors.weights {
                it.text(&format!("transformer.{}", entry.parameter));
                it.tensor(storages.of[&(entry.parameter.clone(), None)], &entry.shape);
            }
            // The head shares the embedding's storage.
            let table = &tensors.weights[0];
            it.text("lm_head.weight");
            it.tensor(storages.of[&(table.parameter.clone(), None)], &table.shape);
        });
        it.text("optimizer");
        it.dict(|it| optimizer(it, model, tensors, storages, run));
        it.text("model_args");
        it.dict(|it| {
            for (key, size) in [
                ("n_layer", model.layers),
                ("n_head", model.heads),
                ("n_embd", model.channels),
                ("block_size", model.block),
                ("vocab_size", model.vocab),
            ] {
                it.text(key);
                it.int(size.into());
            }
            it.text("bias");
            it.bool(model.biases.norm);
            it.text("dropout");
            it.float(dropout);
        });
        let position = run.map(|run| &run.document.position);
        it.text("iter_num");
        it.int(position.map_or(0, |position| position.step as i64));
        it.text("best_val_loss");
        it.float(position.and_then(|position| position.best_val_loss).unwrap_or(NO_LOSS));
        it.text("config");
        it.dict(|it| {
            let Some(run) = run else { return };
            for (key, value) in run.config.pairs() {
                if Key::find(key).is_some_and(Key::is_nanogpt) {
                    it.text(key);
                    config_value(it, key, &value);
                }
            }
        });
        if let Some(run_id) = run.and_then(|run| run.run_id) {
            it.text(RUN_ID_KEY);
            it.text(run_id);
        }
    });
    pickle.finish()
}

fn config_value(it: &mut PickleWriter, key: &str, value: &ConfigValue) {
    match value {
        // nanoGPT has no such device; this is its default.
        ConfigValue::Str(text) if key == "device" && text == "auto" => it.text("cuda"),
        ConfigValue::Str(text) => it.text(text),
        ConfigValue::Int(number) => it.int(*number),
        ConfigValue::Float(number) => it.float(*number),
        ConfigValue::Bool(flag) => it.bool(*flag),
        ConfigValue::None => it.none(),
    }
}

/// AdamW's state in the layout of `torch.optim`: parameters with weight decay first, then the
/// others.
fn optimizer(
    it: &mut PickleWriter,
    model: &Model,
    tensors: &Tensors,
    storages: &Storages,
    run: Option<RunFacts<'_>>,
) {
    let parameters = model.parameters();
    let is_decaying = |index: &usize| parameters[*index].decays();
    let (decaying, others): (Vec<_>, Vec<_>) = (0..parameters.len()).partition(is_decaying);
    it.text("state");
    it.dict(|it| {
        for (number, index) in decaying.iter().chain(&others).enumerate() {
            // There is no state before the first update.
            let Some(step) = storages.steps.get(*index) else { break };
            let entry = &tensors.weights[*index];
            it.int(number as i64);
            it.dict(|it| {
                it.text("step");
                it.tensor(*step, &[]);
                for state in ["exp_avg", "exp_avg_sq"] {
                    it.text(state);
                    let key = (entry.parameter.clone(), Some(state));
                    it.tensor(storages.of[&key], &entry.shape);
                }
            });
        }
    });
    it.text("param_groups");
    let [lr, weight_decay, beta1, beta2] = run.map_or([6e-4, 0.1, 0.9, 0.95], |run| {
        let config = run.config;
        [config.learning_rate(), config.weight_decay(), config.beta1(), config.beta2()]
    });
    it.list(|it| {
        let ranges = [0..decaying.len(), decaying.len()..parameters.len()];
        for (numbers, decay) in ranges.into_iter().zip([weight_decay, 0.0]) {
            it.dict(|it| {
                let numbers_of = [("lr", lr), ("eps", EPSILON), ("weight_decay", decay)];
                for (key, value) in numbers_of {
                    it.text(key);
                    it.float(value);
                }
                it.text("betas");
                it.tuple(|it| [beta1, beta2].into_iter().for_each(|beta| it.float(beta)));
                for key in ["amsgrad", "maximize", "capturable", "differentiable"] {
                    it.text(key);
                    it.bool(false);
                }
                for key in ["foreach", "fused"] {
                    it.text(key);
                    it.none();
                }
                it.text("decoupled_weight_decay");
                it.bool(true);
                it.text("params");
                it.list(|it| numbers.for_each(|number| it.int(number as i64)));
            });
        }
    });
}
