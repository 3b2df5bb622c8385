//! Reading a checkpoint.

use std::{
    io::Read,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use fitgpt_plan::family::Description;
use serde::de::DeserializeOwned;

use super::{
    CONFIG_FILE, CheckpointError, Result, STATE_FILE, commit,
    config::{Architecture, Described},
    disk::failed,
    layout,
    read::{self, TensorFile},
    shards::Shards,
    store::{Sink, Tensors},
};
use crate::attempt::Attempt;

/// A run beside us may be putting a save in place: three renames.
const ATTEMPTS: usize = 4;
const PAUSE: Duration = Duration::from_millis(20);

/// What to do where the file has more positions than the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Positions {
    /// Refuse.
    Exact,
    /// Take the first ones, as nanoGPT does for a `block_size` below the checkpoint's.
    Crop,
}

/// The folder that `sample` reads: the best weights where they were kept, else the last ones.
pub fn weights_dir(out_dir: &Path) -> PathBuf {
    let best = super::best_dir(out_dir);
    if commit::exists(&best) { best } else { out_dir.to_owned() }
}

/// Weights with their architecture, opened and checked to be of one save. The files stay the
/// ones that were opened, whatever is saved over them meanwhile.
#[derive(Debug)]
pub struct Weights {
    architecture: Architecture,
    description: Description,
    config_path: PathBuf,
    id: Option<String>,
    files: Shards,
}

impl Weights {
    /// Opens the weights in `dir`: ours, or a folder of `transformers`.
    pub fn open(dir: &Path) -> Result<Self> {
        patiently(|| Self::open_once(dir))
    }

    pub(super) fn open_once(dir: &Path) -> Result<Self> {
        let config_path = commit::locate(dir, CONFIG_FILE)?;
        let Described { architecture, description, save_id: id } = read_config(&config_path)?;
        let files = Shards::open(dir)?;
        // `transformers` keeps our words in a config that it writes again, but not in the
        // weights: a file without an id is somebody else's and as good as its shapes.
        if let Some(file_id) = files.text("save_id")
            && id.as_deref() != Some(file_id)
        {
            return Err(CheckpointError::Mixed {
                first: files.path().clone(),
                first_id: Some(file_id.to_owned()),
                second: config_path,
                second_id: id,
            });
        }
        Ok(Self { architecture, description, config_path, id, files })
    }

    /// What the weights are weights of.
    pub fn architecture(&self) -> &Architecture {
        &self.architecture
    }

    /// The same as keys of a config.
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// The save that they belong to; `None` for weights of another program.
    pub fn save_id(&self) -> Option<&str> {
        self.files.text("save_id")
    }

    /// Gives every parameter's values to `sink`. Nothing is given before all names, shapes and
    /// types have been found right.
    pub fn read(
        &mut self,
        tensors: &Tensors,
        positions: Positions,
        sink: &mut dyn Sink,
    ) -> Result<()> {
        self.files.read(tensors.naming, &layout::weights(tensors), positions, sink)
    }
}

/// Reads the `config.json` at `path`.
fn read_config(path: &Path) -> Result<Described> {
    let mut text = Vec::new();
    read::open(path)?.read_to_end(&mut text).map_err(failed(Attempt::Read, path))?;
    Architecture::from_json(path, &text)
}

/// What the `config.json` of a folder says; the weights need not be there.
pub fn describe(dir: &Path) -> Result<Description> {
    Ok(read_config(&commit::locate(dir, CONFIG_FILE)?)?.description)
}

/// A checkpoint to resume from: weights, optimizer states and the training loop's document.
#[derive(Debug)]
pub struct Checkpoint {
    weights: Weights,
    state: Shards,
}

impl Checkpoint {
    /// Opens the checkpoint in `dir` and checks that its three files are of one save.
    pub fn open(dir: &Path) -> Result<Self> {
        patiently(|| Self::open_once(dir))
    }

    pub(super) fn open_once(dir: &Path) -> Result<Self> {
        let weights = Weights::open_once(dir)?;
        let state = Shards::of(TensorFile::open(commit::locate(dir, STATE_FILE)?)?);
        let state_id = state.text("save_id").map(str::to_owned);
        let files = [
            (&weights.config_path, weights.id.clone()),
            (weights.files.path(), weights.save_id().map(str::to_owned)),
        ];
        for (path, id) in files {
            if id.is_none() || id != state_id {
                return Err(CheckpointError::Mixed {
                    first: path.clone(),
                    first_id: id,
                    second: state.path().clone(),
                    second_id: state_id,
                });
            }
        }
        Ok(Self { weights, state })
    }

    /// What the weights are weights of.
    pub fn architecture(&self) -> &Architecture {
        self.weights.architecture()
    }

    /// The save that the three files belong to.
    pub fn save_id(&self) -> &str {
        self.weights.save_id().expect("a checkpoint opens only with an id")
    }

    /// The document that was saved.
    pub fn document<T: DeserializeOwned>(&self) -> Result<T> {
        let text = self.state.text("fitgpt").unwrap_or_default();
        serde_json::from_str(text)
            .map_err(|source| CheckpointError::Json { path: self.state.path().clone(), source })
    }

    /// Gives the values of every parameter and its states to `sink`. Names, shapes and types of
    /// a file are all checked before its first value is given; its sum can only be checked after
    /// the last, so on an error what `sink` holds is worth nothing.
    pub fn read(&mut self, tensors: &Tensors, sink: &mut dyn Sink) -> Result<()> {
        self.weights.read(tensors, Positions::Exact, sink)?;
        self.state.read(tensors.naming, &layout::states(tensors), Positions::Exact, sink)
    }
}

/// Tries again where another process may have been in the middle of putting files in place.
fn patiently<T>(mut open: impl FnMut() -> Result<T>) -> Result<T> {
    let mut attempt = 1;
    loop {
        match open() {
            Err(CheckpointError::Mixed { .. } | CheckpointError::Missing { .. })
                if attempt < ATTEMPTS =>
            {
                attempt += 1;
                thread::sleep(PAUSE);
            }
            other => return other,
        }
    }
}
