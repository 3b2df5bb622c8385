//! Writing a checkpoint.

use std::{collections::BTreeMap, path::Path};

use fitgpt_files::disk::{Disk, DraftName, FileKind};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::{
    CONFIG_FILE, CheckpointError, FILES, MANIFEST_FILE, MODEL_FILE, Result, STATE_FILE,
    commit::{self, best_dir},
    config::Architecture,
    held::HeldFolder,
    id::SaveId,
    layout::{self, PositionRows},
    load::Weights,
    manifest::{Manifest, ManifestFile, Retention, write_text},
    set_aside,
    stamp::NanoGptStamp,
    store::{TensorSource, Tensors},
    write,
};

/// Space for `config.json`, the manifest, the state's document and the folder.
const DOCUMENTS_BYTES: u64 = 1 << 20;

/// The contents of a save.
#[derive(Clone, Copy, Debug)]
pub struct Contents<'a> {
    /// The contents of `config.json`.
    pub architecture: &'a Architecture,
    /// The tensors.
    pub tensors: &'a Tensors,
    /// The fields of `manifest.json`.
    pub label: Label<'a>,
    /// The run's folder; nothing is saved if it is no longer the run's.
    pub held: Option<&'a HeldFolder>,
}

/// Identifies a checkpoint of a run.
#[derive(Clone, Copy, Debug)]
pub struct Label<'a> {
    /// The run; its log has the same id.
    pub run_id: &'a str,
    /// The step that comes next.
    pub step: u64,
    /// Which checkpoints of the run are kept.
    pub keep: Retention,
    /// A number that is the same for equal trainings and differs for others.
    pub fingerprint: u64,
    /// The `ckpt.pt` in the run's folder, as it was when the run began.
    pub nanogpt: Option<&'a NanoGptStamp>,
}

/// Saves weights, optimizer states and `document` as the checkpoint of `dir`, and keeps earlier
/// ones according to the label. Only for the holder of the folder's [`super::Lock`].
///
/// The document must survive a round trip through JSON, which has no NaN and no infinity.
pub fn save<T: Serialize + DeserializeOwned>(
    disk: &Disk,
    dir: &Path,
    contents: Contents<'_>,
    document: &T,
    source: &mut dyn TensorSource,
) -> Result<SaveId> {
    let document = text_that_reads_back(document)?;
    let Contents { held, label, .. } = contents;
    let id = commit::commit(
        disk,
        dir,
        || check(held),
        label.fingerprint,
        |folder, id| {
            let mut files = write_weights(disk, folder, id, contents, source)?;
            let metadata = BTreeMap::from([("save_id", id.to_string()), ("fitgpt", document)]);
            let parts = layout::states(contents.tensors);
            let state = write::write(disk, &folder.join(STATE_FILE), &parts, metadata, source)?;
            files.insert(STATE_FILE.to_owned(), state);
            write_manifest(disk, folder, id, label, files)
        },
    )?;
    // The first save of a run that replaces another: that one is no longer needed.
    set_aside::resolve(disk, dir)?;
    Ok(id)
}

/// Saves only weights, in a separate folder: [`best_dir`].
pub fn save_weights(
    dir: &Path,
    contents: Contents<'_>,
    source: &mut dyn TensorSource,
) -> Result<SaveId> {
    let disk = Disk::real();
    let Contents { held, label, .. } = contents;
    commit::commit(
        &disk,
        dir,
        || check(held),
        label.fingerprint,
        |folder, id| {
            let files = write_weights(&disk, folder, id, contents, source)?;
            write_manifest(&disk, folder, id, label, files)
        },
    )
}

/// Whether a folder is still the run's, if there is one to check.
fn check(held: Option<&HeldFolder>) -> Result<()> {
    held.map_or(Ok(()), HeldFolder::check)
}

/// Writes `weights` as `model.safetensors` and `config.json` of the folder `dir`, in Hugging Face's
/// layout, each atomically. Returns the number of tensors and the length of their file.
pub fn copy_weights(
    weights: &mut Weights,
    architecture: &Architecture,
    dir: &Path,
) -> Result<(usize, u64)> {
    let disk = Disk::real();
    disk.create_dirs(dir)?;
    let id = SaveId::after(None, 0);
    let metadata = BTreeMap::from([("format", "pt".to_owned()), ("save_id", id.to_string())]);
    let tensors = Tensors::weights_of(&architecture.model);
    let parts = layout::weights(&tensors);
    let paths = [MODEL_FILE, CONFIG_FILE].map(|name| dir.join(name));
    let (model, config) = (DraftName::of(&paths[0])?, DraftName::of(&paths[1])?);
    let mut file = write::PushedFile::create(&disk, model.path(), &parts, metadata)?;
    weights.read(&tensors, PositionRows::Exact, &mut file)?;
    let bytes = file.finish()?;
    write_text(&disk, config.path(), &architecture.to_json(id))?;
    // A manifest of an earlier save would not match the new files.
    disk.remove_file(&dir.join(MANIFEST_FILE))?;
    model.publish(&disk)?;
    config.publish(&disk)?;
    Ok((parts.len(), bytes))
}

/// The bytes of one checkpoint on the disk, rounded up by less than two MiB.
pub fn bytes_needed(tensors: &Tensors) -> u64 {
    weights_bytes_needed(tensors) + write::file_bytes(&layout::states(tensors), DOCUMENTS_BYTES)
}

/// The bytes of the weights on the disk.
pub fn weights_bytes_needed(tensors: &Tensors) -> u64 {
    write::file_bytes(&layout::weights(tensors), DOCUMENTS_BYTES)
}

/// The bytes of the checkpoints that are in `out_dir` now.
pub fn bytes_present(out_dir: &Path) -> Result<u64> {
    let disk = Disk::real();
    let kept = commit::kept_checkpoints(&disk, out_dir)?.into_iter().map(|(_, folder)| folder);
    let mut sum = 0;
    for folder in kept.chain([out_dir.to_owned(), best_dir(out_dir)]) {
        for name in FILES {
            if let Some(FileKind::File { bytes }) = disk.kind(&folder.join(name))? {
                sum += bytes;
            }
        }
    }
    Ok(sum)
}

/// Writes `model.safetensors` and `config.json` into `folder`.
fn write_weights(
    disk: &Disk,
    folder: &Path,
    id: SaveId,
    contents: Contents<'_>,
    source: &mut dyn TensorSource,
) -> Result<BTreeMap<String, ManifestFile>> {
    // `transformers` requires the format.
    let metadata = BTreeMap::from([("format", "pt".to_owned()), ("save_id", id.to_string())]);
    let parts = layout::weights(contents.tensors);
    let model = write::write(disk, &folder.join(MODEL_FILE), &parts, metadata, source)?;
    let config = write_text(disk, &folder.join(CONFIG_FILE), &contents.architecture.to_json(id))?;
    Ok([(MODEL_FILE, model), (CONFIG_FILE, config)].map(|(name, f)| (name.to_owned(), f)).into())
}

/// Writes `manifest.json` into `folder`.
fn write_manifest(
    disk: &Disk,
    folder: &Path,
    id: SaveId,
    label: Label<'_>,
    files: BTreeMap<String, ManifestFile>,
) -> Result<()> {
    let Label { run_id, step, keep, nanogpt, .. } = label;
    let manifest = Manifest::new(id, run_id, step, keep, files, nanogpt);
    write_text(disk, &folder.join(MANIFEST_FILE), &manifest.to_json())?;
    Ok(())
}

/// `document` as JSON, checked to be readable now, while the run still has it in memory.
fn text_that_reads_back<T: Serialize + DeserializeOwned>(document: &T) -> Result<String> {
    let failed = |source| CheckpointError::Document { source };
    let written = serde_json::to_string(document).map_err(failed)?;
    let back: T = serde_json::from_str(&written).map_err(failed)?;
    let back = serde_json::to_value(&back).map_err(failed)?;
    // Compared as values: the order of a hash map's keys may differ between serialisations.
    let sent = serde_json::from_str(&written).map_err(failed)?;
    match difference(&sent, &back) {
        None => Ok(written),
        Some((place, written, back)) => Err(CheckpointError::DocumentChanged {
            place,
            written: written.to_string(),
            back: back.to_string(),
        }),
    }
}

/// The first difference of two documents as a JSON pointer, and the two values.
fn difference<'a>(a: &'a Value, b: &'a Value) -> Option<(String, &'a Value, &'a Value)> {
    let below = |key: &str, a, b| {
        let (place, a, b) = difference(a, b)?;
        Some((format!("/{key}{place}"), a, b))
    };
    match (a, b) {
        _ if a == b => None,
        (Value::Object(x), Value::Object(y)) if x.keys().eq(y.keys()) => {
            x.iter().find_map(|(key, a)| below(key, a, &y[key]))
        }
        (Value::Array(x), Value::Array(y)) if x.len() == y.len() => {
            let mut pairs = x.iter().zip(y).enumerate();
            pairs.find_map(|(index, (a, b))| below(&index.to_string(), a, b))
        }
        _ => Some((String::new(), a, b)),
    }
}
