//! Reading a checkpoint.

use std::{
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use fitgpt_config::ResumeFrom;
use fitgpt_files::{disk::Disk, pytorch::SavedError};
use fitgpt_model::family::Description;
use serde::de::DeserializeOwned;

use super::{
    CONFIG_FILE, CheckpointError, MANIFEST_FILE, MODEL_FILE, Result, STATE_FILE, commit,
    config::{Architecture, ConfigContents, MAX_CONFIG_BYTES},
    folder,
    layout::{self, PositionRows},
    manifest::Manifest,
    nanogpt::{self, NanoGpt, NanoGptRun},
    origin::{self, ChosenCheckpoint},
    read::TensorFile,
    set_aside,
    shards::WeightFiles,
    stamp::NanoGptStamp,
    store::{TensorSink, Tensors},
};

/// How often to retry while another process may be moving a save into place, which takes a few
/// renames.
const ATTEMPTS: usize = 4;
const PAUSE: Duration = Duration::from_millis(20);

/// The folder that `sample` reads: the best weights if they were kept, else the last ones.
pub fn weights_dir(out_dir: &Path) -> PathBuf {
    let (disk, best) = (Disk::real(), commit::best_dir(out_dir));
    if folder::exists(&best) && !set_aside::is_replaced(&disk, out_dir, &best).unwrap_or(false) {
        return best;
    }
    // A run that was set aside has its tokenizer with it.
    let aside = set_aside::current(&disk, out_dir).ok().flatten();
    let whole = aside.filter(|aside| aside.join(MODEL_FILE).is_file());
    whole.unwrap_or_else(|| out_dir.to_owned())
}

/// Whether a run can be resumed from `path`: it has our own state, or nanoGPT's optimizer.
pub fn has_state(path: &Path) -> bool {
    match nanogpt::nanogpt_file(path) {
        Some(file) => NanoGpt::open(&Disk::real(), &file).is_ok_and(|it| it.states.is_some()),
        None => folder::locate(&Disk::real(), path, STATE_FILE).is_ok_and(|path| path.is_file()),
    }
}

/// Weights with their architecture, opened and checked to be from one save. The opened files are
/// used even if a save replaces them in the meantime.
#[derive(Debug)]
pub struct Weights {
    architecture: Architecture,
    description: Description,
    config_path: PathBuf,
    id: Option<String>,
    files: WeightFiles,
    layout: Layout,
    /// The run of nanoGPT's `ckpt.pt`; `None` for other files.
    nanogpt: Option<NanoGptRun>,
    /// `None` if an earlier version or another program wrote the files.
    manifest: Option<Manifest>,
}

/// The layout of matrices and biases in the files.
#[derive(Clone, Copy, Debug)]
enum Layout {
    HuggingFace,
    NanoGpt,
}

impl Weights {
    /// Opens the weights in a folder of ours or of `transformers`, or nanoGPT's: the file at
    /// `path`, or the `ckpt.pt` in a folder without other weights.
    pub fn open(path: &Path) -> Result<Self> {
        match nanogpt::nanogpt_file(path) {
            Some(file) => Ok(Self::of_nanogpt(NanoGpt::open(&Disk::real(), &file)?).0),
            None => with_retries(|| Self::open_once(&Disk::real(), path)),
        }
    }

    /// The weights of a `ckpt.pt`, and its optimizer's states.
    fn of_nanogpt(opened: NanoGpt) -> (Self, Option<WeightFiles>) {
        let NanoGpt { path, described, weights, states, run, .. } = opened;
        let ConfigContents { architecture, description, .. } = described;
        let weights = Self {
            architecture,
            description,
            config_path: path,
            id: None,
            files: weights,
            layout: Layout::NanoGpt,
            nanogpt: Some(run),
            manifest: None,
        };
        (weights, states)
    }

    /// The run of nanoGPT's `ckpt.pt`; `None` for other files.
    pub fn nanogpt(&self) -> Option<&NanoGptRun> {
        self.nanogpt.as_ref()
    }

    pub(super) fn open_once(disk: &Disk, dir: &Path) -> Result<Self> {
        let manifest = folder::manifest_of(disk, dir)?;
        let config_path = folder::locate(disk, dir, CONFIG_FILE)?;
        let text = config_text(disk, &config_path)?;
        let described = Architecture::from_json(&config_path, &text);
        let files = WeightFiles::open(disk, dir)?;
        // The manifest does not cover weights that another program has put in the folder, nor those
        // of an earlier version, which had none.
        let is_covered = |it: &Manifest| it.is_saved() && files.text("save_id").is_some();
        let manifest = manifest.filter(is_covered);
        if let Some(manifest) = &manifest {
            check_listed(manifest, dir, &files, &config_path, &text)?;
        }
        let ConfigContents { architecture, description, save_id: id } = described?;
        // `transformers` keeps our keys in a config that it rewrites, but not in the weights: a
        // file without an id comes from another program, and only its shapes are checked.
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
        // Planning for layers that do not exist could take minutes.
        let (tensors, layers) = (files.tensor_count(), architecture.model.layers);
        if tensors < layers as usize {
            let path = files.path().clone();
            return Err(CheckpointError::TooFewTensors { path, tensors, layers });
        }
        let layout = Layout::HuggingFace;
        Ok(Self {
            architecture,
            description,
            config_path,
            id,
            files,
            layout,
            nanogpt: None,
            manifest,
        })
    }

    /// The model of the weights.
    pub fn architecture(&self) -> &Architecture {
        &self.architecture
    }

    /// The model as keys of a config.
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// The save that they belong to; `None` for weights of another program.
    pub fn save_id(&self) -> Option<&str> {
        self.files.text("save_id")
    }

    /// Passes every parameter's values to `sink`, after all names, shapes and types have been
    /// checked.
    pub fn read(
        &mut self,
        tensors: &Tensors,
        positions: PositionRows,
        sink: &mut dyn TensorSink,
    ) -> Result<()> {
        let parts = match self.layout {
            Layout::HuggingFace => layout::weights(tensors),
            Layout::NanoGpt => layout::nanogpt_weights(tensors),
        };
        self.files.read(tensors.naming, &parts, positions, sink)
    }
}

/// Reads the `config.json` at `path`.
fn read_config(disk: &Disk, path: &Path) -> Result<ConfigContents> {
    Architecture::from_json(path, &config_text(disk, path)?)
}

fn config_text(disk: &Disk, path: &Path) -> Result<Vec<u8>> {
    disk.read(path, MAX_CONFIG_BYTES).map_err(|error| {
        if error.is_not_found() {
            CheckpointError::Missing { path: path.to_owned() }
        } else {
            error.into()
        }
    })
}

/// Checks the weights and the text of `config.json` against the manifest of their folder.
fn check_listed(
    manifest: &Manifest,
    dir: &Path,
    weights: &WeightFiles,
    config_path: &Path,
    config: &[u8],
) -> Result<()> {
    let mixed = |path: &Path, id: Option<String>| CheckpointError::Mixed {
        first: path.to_owned(),
        first_id: id,
        second: dir.join(MANIFEST_FILE),
        second_id: Some(manifest.save_id.clone()),
    };
    let weights_id = weights.text("save_id");
    if weights_id != Some(&manifest.save_id) {
        return Err(mixed(weights.path(), weights_id.map(str::to_owned)));
    }
    // A config of another save may be in the process of being replaced; a changed config of this
    // save is damaged.
    let config_id = Architecture::save_id(config).map(|id| id.to_string());
    if config_id.is_some() && config_id.as_ref() != Some(&manifest.save_id) {
        return Err(mixed(config_path, config_id));
    }
    manifest.check_text(CONFIG_FILE, config_path, config)?;
    weights.check_listed(manifest, MODEL_FILE)
}

/// The description in the `config.json` of a folder, which may lack the weights, or in its
/// `ckpt.pt`.
pub fn describe(dir: &Path) -> Result<Description> {
    let disk = Disk::real();
    let has_config = || Ok::<_, CheckpointError>(disk.kind(&dir.join(CONFIG_FILE))?.is_some());
    if let Some(file) = nanogpt::nanogpt_file(dir)
        && !has_config()?
    {
        return Ok(NanoGpt::open(&disk, &file)?.described.description);
    }
    Ok(read_config(&disk, &folder::locate(&disk, dir, CONFIG_FILE)?)?.description)
}

/// A checkpoint to resume from: weights, optimizer states and the training loop's document.
#[derive(Debug)]
pub struct Checkpoint {
    weights: Weights,
    /// `None` if the optimizer has made no update.
    state: Option<WeightFiles>,
    /// The `ckpt.pt` in its folder, if there is one.
    nanogpt_stamp: Option<NanoGptStamp>,
}

impl Checkpoint {
    /// Opens the checkpoint in `dir` that `from` means.
    pub fn choose(dir: &Path, from: Option<ResumeFrom>) -> Result<Self> {
        let ChosenCheckpoint { path, nanogpt } = origin::choose(dir, from)?;
        // What is read later is what was looked at: opening nanoGPT's file identifies it again.
        let opened = Self::open(&path)?;
        Ok(Self { nanogpt_stamp: opened.nanogpt_stamp.or(nanogpt), ..opened })
    }

    /// Opens the checkpoint in `dir` and checks that its files are from one save. If the folder has
    /// only nanoGPT's `ckpt.pt`, opens that.
    pub fn open(dir: &Path) -> Result<Self> {
        match nanogpt::nanogpt_file(dir) {
            Some(file) => Self::open_nanogpt(&Disk::real(), &file),
            None => with_retries(|| Self::open_once(&Disk::real(), dir)),
        }
    }

    fn open_nanogpt(disk: &Disk, file: &Path) -> Result<Self> {
        let opened = NanoGpt::open(disk, file)?;
        let is_updated = opened.run.updates > 0;
        let nanogpt_stamp = Some(opened.stamp.clone());
        let (weights, states) = Weights::of_nanogpt(opened);
        let no_optimizer = || CheckpointError::Saved {
            path: file.to_owned(),
            source: SavedError::NoKey { key: "optimizer".to_owned() },
        };
        let states = states.ok_or_else(no_optimizer)?;
        Ok(Self { weights, state: Some(states).filter(|_| is_updated), nanogpt_stamp })
    }

    pub(super) fn open_once(disk: &Disk, dir: &Path) -> Result<Self> {
        let weights = Weights::open_once(disk, dir)?;
        let state_path = folder::locate(disk, dir, STATE_FILE)?;
        let state = WeightFiles::of(TensorFile::open(disk, state_path)?);
        if let Some(manifest) = &weights.manifest
            && state.text("save_id") == Some(&manifest.save_id)
        {
            state.check_listed(manifest, STATE_FILE)?;
        }
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
        Ok(Self { weights, state: Some(state), nanogpt_stamp: None })
    }

    /// The model of the weights.
    pub fn architecture(&self) -> &Architecture {
        self.weights.architecture()
    }

    /// The save that the files belong to; `None` for nanoGPT's.
    pub fn save_id(&self) -> Option<&str> {
        self.weights.save_id()
    }

    /// The run of nanoGPT's `ckpt.pt`; `None` for our own.
    pub fn nanogpt(&self) -> Option<&NanoGptRun> {
        self.weights.nanogpt()
    }

    /// Identifies the `ckpt.pt` that it is, or that is next to it; `None` if there is none.
    pub fn nanogpt_stamp(&self) -> Option<&NanoGptStamp> {
        self.nanogpt_stamp.as_ref()
    }

    /// The model as keys of a config.
    pub fn description(&self) -> &Description {
        self.weights.description()
    }

    /// The run that saved it; `None` for a checkpoint of an earlier version.
    pub fn run_id(&self) -> Option<&str> {
        self.weights.manifest.as_ref().map(|manifest| manifest.run_id.as_str())
    }

    /// The document that was saved. nanoGPT's `ckpt.pt` has none.
    pub fn document<T: DeserializeOwned>(&self) -> Result<T> {
        let state = self.state.as_ref().unwrap_or(&self.weights.files);
        let text = state.text("fitgpt").unwrap_or_default();
        serde_json::from_str(text)
            .map_err(|source| CheckpointError::Json { path: state.path().clone(), source })
    }

    /// Passes the values of every parameter and its states to `sink`. Names, shapes and types of a
    /// file are checked before its first value is passed. Its checksum can only be checked after
    /// the last one, so discard the contents of `sink` on an error. States that no update has
    /// touched are zero and are not passed.
    pub fn read(&mut self, tensors: &Tensors, sink: &mut dyn TensorSink) -> Result<()> {
        self.weights.read(tensors, PositionRows::Exact, sink)?;
        let Some(state) = &mut self.state else { return Ok(()) };
        state.read(tensors.naming, &layout::states(tensors), PositionRows::Exact, sink)
    }
}

/// Retries if another process may have been moving files into place.
fn with_retries<T>(mut open: impl FnMut() -> Result<T>) -> Result<T> {
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
