//! nanoGPT's `ckpt.pt`: one file saved by PyTorch with weights, AdamW's moments, position and
//! config.
//!
//! ```text
//! model          [_orig_mod.]transformer.h.0.attn.c_attn.weight …   (out, in), biases only if used
//! optimizer      state {0: {step, exp_avg, exp_avg_sq}, …}, param_groups [{params: [0, …]}, …]
//! model_args     n_layer, n_head, n_embd, block_size, bias, vocab_size, dropout
//! iter_num, best_val_loss, config
//! ```
//!
//! The optimizer numbers its parameters by group: first those that decay, in the model's order,
//! then the rest. The tied head occurs once, as the embedding.
//!
//! It is read in place: the zip's directory and the pickle give the position of each tensor's
//! bytes, and values are copied to the arena 4 MiB at a time, so that no second copy of the weights
//! exists. Files from before PyTorch 1.6 and tensors that are not contiguous are refused. The
//! generator's state is in no `ckpt.pt`: data and dropout continue from our own counters.
//!
//! Promise: a run of nanoGPT continues here with PyTorch's losses, and ours continues there; through
//! `ckpt.pt` and back no bit changes. Test: `tests/runs/nanogpt.rs`, `tests/nanogpt/check.py`.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

use fitgpt_config::ConfigValue;
use fitgpt_files::{
    disk::Disk,
    pytorch::{OptimizerFault, SavedError, SavedFile, SavedTensor},
};
use fitgpt_pickle::{Handle, PickleValue};
use serde_json::json;

use super::{
    CheckpointError, INDEX_FILE, Result,
    config::{Architecture, ConfigContents},
    folder,
    read::{self, TensorFile},
    shards::{SAVED_FILE, SAVED_INDEX_FILE, WeightFiles},
    stamp::NanoGptStamp,
};

/// The name that nanoGPT gives its checkpoints.
pub const NANOGPT_FILE: &str = "ckpt.pt";

/// The run of ours that a file was exported from. nanoGPT ignores it and does not write it.
pub(super) const RUN_ID_KEY: &str = "fitgpt_run_id";

/// The prefix of names in a compiled model.
const COMPILED: &str = "_orig_mod.";

/// The run of a `ckpt.pt`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NanoGptRun {
    /// The step that comes next.
    pub step: u64,
    /// Updates that the optimizer has made.
    pub updates: u64,
    /// The least validation loss so far.
    pub best_val_loss: Option<f64>,
    /// The config; values other than strings, numbers and booleans are left out.
    pub config: Vec<(String, ConfigValue)>,
}

impl NanoGptRun {
    /// The dataset that the config names.
    pub fn dataset(&self) -> Option<&str> {
        self.config.iter().find_map(|(key, value)| match value {
            ConfigValue::Str(name) if key == "dataset" => Some(name.as_ref()),
            _ => None,
        })
    }
}

/// The nanoGPT checkpoint that `path` refers to: the file itself, or the `ckpt.pt` of a folder that
/// has no other weights.
pub fn nanogpt_file(path: &Path) -> Option<PathBuf> {
    if path.is_file() {
        return Some(path.to_owned());
    }
    let others = [INDEX_FILE, SAVED_FILE, SAVED_INDEX_FILE];
    let has_others = folder::exists(path) || others.iter().any(|name| path.join(name).is_file());
    let file = path.join(NANOGPT_FILE);
    (!has_others && file.is_file()).then_some(file)
}

/// A `ckpt.pt` whose pickle has been read.
pub(super) struct NanoGpt {
    pub(super) path: PathBuf,
    pub(super) described: ConfigContents,
    pub(super) weights: WeightFiles,
    /// `None` if the file has no optimizer. Empty before its first update.
    pub(super) states: Option<WeightFiles>,
    pub(super) run: NanoGptRun,
    pub(super) stamp: NanoGptStamp,
}

impl NanoGpt {
    /// Reads everything but the values.
    pub(super) fn open(disk: &Disk, path: &Path) -> Result<Self> {
        let of_path = |source| CheckpointError::Saved { path: path.to_owned(), source };
        let file = read::open(disk, path)?;
        let stamp = NanoGptStamp::of(&file)?;
        let saved = SavedFile::read(file).map_err(of_path)?;
        let weights = weights(&saved).map_err(of_path)?;
        let described = describe(path, &saved, &weights)?;
        let layers = described.architecture.model.layers;
        if weights.len() < layers as usize {
            let (path, tensors) = (path.to_owned(), weights.len());
            return Err(CheckpointError::TooFewTensors { path, tensors, layers });
        }
        let optimizer = optimizer(&saved, &described.architecture).map_err(of_path)?;
        let updates = optimizer.as_ref().map_or(0, |(updates, _)| *updates);
        let run = run(&saved, updates).map_err(of_path)?;
        let exported_from = match saved.pickle().get(saved.root().map_err(of_path)?, RUN_ID_KEY) {
            Some(PickleValue::Text(run_id)) => Some(run_id.to_owned()),
            _ => None,
        };
        let states = match optimizer {
            None => None,
            Some((_, states)) => {
                let file = read::open(disk, path)?;
                Some(WeightFiles::of(TensorFile::of_saved(path.to_owned(), file, states)))
            }
        };
        let weights = TensorFile::of_saved(path.to_owned(), saved.into_file(), weights);
        Ok(Self {
            path: path.to_owned(),
            described,
            weights: WeightFiles::of(weights),
            states,
            stamp: stamp.with(run.step, exported_from),
            run,
        })
    }
}

/// A value of the file's dict that is a dict itself; `None` if there is no such key.
fn dict<'a>(
    saved: &'a SavedFile,
    key: &str,
) -> std::result::Result<Option<&'a [[Handle; 2]]>, SavedError> {
    match saved.pickle().get(saved.root()?, key) {
        None => Ok(None),
        Some(PickleValue::Dict(pairs)) => Ok(Some(pairs)),
        Some(_) => Err(SavedError::WrongType { key: key.to_owned(), expected: "a dict" }),
    }
}

fn required<'a>(
    saved: &'a SavedFile,
    key: &str,
) -> std::result::Result<&'a [[Handle; 2]], SavedError> {
    dict(saved, key)?.ok_or_else(|| SavedError::NoKey { key: key.to_owned() })
}

/// The model's tensors, without a compiled model's prefix.
fn weights(saved: &SavedFile) -> std::result::Result<Vec<(String, SavedTensor)>, SavedError> {
    let mut tensors = saved.tensors(required(saved, "model")?)?;
    for (name, _) in &mut tensors {
        if let Some(bare) = name.strip_prefix(COMPILED) {
            *name = bare.to_owned();
        }
    }
    Ok(tensors)
}

/// The model of `model_args`, read with the rules of a `config.json`.
fn describe(
    path: &Path,
    saved: &SavedFile,
    weights: &[(String, SavedTensor)],
) -> Result<ConfigContents> {
    let of_path = |source| CheckpointError::Saved { path: path.to_owned(), source };
    let arguments = required(saved, "model_args").map_err(of_path)?;
    let get = |key| saved.pickle().get(arguments, key);
    let size = |key| match get(key) {
        Some(PickleValue::Int(size)) => Some(size),
        _ => None,
    };
    let bias = match get("bias") {
        Some(PickleValue::Bool(bias)) => bias,
        // Earlier versions of nanoGPT always had biases, and no such key.
        _ => weights.iter().any(|(name, _)| name == "transformer.ln_f.bias"),
    };
    let dropout = match get("dropout") {
        Some(PickleValue::Float(dropout)) => dropout,
        _ => 0.0,
    };
    let document = json!({
        "model_type": "gpt2", "activation_function": "gelu", "resid_pdrop": dropout,
        "n_layer": size("n_layer"), "n_head": size("n_head"), "n_embd": size("n_embd"),
        "n_positions": size("block_size"), "vocab_size": size("vocab_size"),
        "fitgpt": { "bias": bias },
    });
    Architecture::from_json(path, document.to_string().as_bytes())
}

/// How many updates the optimizer has made, and its moments by the names that our own files use.
type Moments = (u64, Vec<(String, SavedTensor)>);

fn optimizer(
    saved: &SavedFile,
    architecture: &Architecture,
) -> std::result::Result<Option<Moments>, SavedError> {
    let Some(optimizer) = dict(saved, "optimizer")? else { return Ok(None) };
    let pickle = saved.pickle();
    let wrong = |key: &str, expected| SavedError::WrongType { key: key.to_owned(), expected };
    let Some(PickleValue::List(groups)) = pickle.get(optimizer, "param_groups") else {
        return Err(wrong("optimizer.param_groups", "a list"));
    };
    let Some(PickleValue::Dict(states)) = pickle.get(optimizer, "state") else {
        return Err(wrong("optimizer.state", "a dict"));
    };
    let parameters = architecture.model.parameters();
    let group = |decays| parameters.iter().filter(move |p| p.decays() == decays);
    let mut found = Vec::new();
    let mut names = HashMap::new();
    for (n, members) in groups.iter().enumerate() {
        let members = match pickle.value(*members) {
            PickleValue::Dict(pairs) => pickle.get(pairs, "params"),
            _ => None,
        };
        let Some(PickleValue::List(members)) = members else {
            return Err(wrong("optimizer.param_groups", "a list of dicts with `params`"));
        };
        found.push(members.len());
        for (member, parameter) in members.iter().zip(group(n == 0)) {
            if let PickleValue::Int(index) = pickle.value(*member) {
                names.insert(index, &parameter.name);
            }
        }
    }
    let expected = [group(true).count(), group(false).count()];
    if found != expected {
        let fault = OptimizerFault::Groups { expected, found };
        return Err(SavedError::Optimizer(fault));
    }
    let mut updates = None;
    let mut moments = Vec::with_capacity(2 * parameters.len());
    for [index, state] in states {
        let name = match pickle.value(*index) {
            PickleValue::Int(index) => names.get(&index),
            _ => None,
        };
        let (Some(name), PickleValue::Dict(state)) = (name, pickle.value(*state)) else {
            return Err(wrong("optimizer.state", "a dict of dicts by number"));
        };
        for [key, value] in state {
            let PickleValue::Text(key) = pickle.value(*key) else {
                return Err(wrong("optimizer.state", "a dict of dicts with names"));
            };
            let state_name = format!("{key}.{name}");
            match key {
                "step" => {
                    let number = saved.number(&state_name, *value)?;
                    let step = number.filter(|step| step.fract() == 0.0 && *step >= 0.0);
                    let step = step.ok_or_else(|| wrong(&state_name, "a whole number"))? as u64;
                    if *updates.get_or_insert(step) != step {
                        return Err(SavedError::Optimizer(OptimizerFault::Steps));
                    }
                }
                "exp_avg" | "exp_avg_sq" => {
                    let tensor = saved.tensor(&state_name, *value)?;
                    let tensor = tensor.ok_or_else(|| wrong(&state_name, "a tensor"))?;
                    moments.push((state_name, tensor));
                }
                other => {
                    let fault = OptimizerFault::State { name: other.to_owned() };
                    return Err(SavedError::Optimizer(fault));
                }
            }
        }
    }
    Ok(Some((updates.unwrap_or(0), moments)))
}

/// Position and config.
fn run(saved: &SavedFile, updates: u64) -> std::result::Result<NanoGptRun, SavedError> {
    let (root, pickle) = (saved.root()?, saved.pickle());
    let number = |key: &str| match pickle.get_handle(root, key) {
        Some(value) => saved.number(key, value),
        None => Ok(None),
    };
    let step = number("iter_num")?.unwrap_or(0.0);
    if step < 0.0 || step.fract() != 0.0 {
        let (key, expected) = ("iter_num".to_owned(), "a whole number");
        return Err(SavedError::WrongType { key, expected });
    }
    // nanoGPT's initial value is a billion.
    let best_val_loss = number("best_val_loss")?.filter(|loss| loss.is_finite() && *loss < 1e9);
    let mut config = Vec::new();
    for [key, value] in dict(saved, "config")?.unwrap_or_default() {
        let PickleValue::Text(key) = pickle.value(*key) else { continue };
        let value = match pickle.value(*value) {
            PickleValue::Int(value) => value.into(),
            PickleValue::Float(value) => value.into(),
            PickleValue::Bool(value) => value.into(),
            PickleValue::Text(value) => value.into(),
            _ => continue,
        };
        config.push((key.to_owned(), value));
    }
    Ok(NanoGptRun { step: step as u64, updates, best_val_loss, config })
}
