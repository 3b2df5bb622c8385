//! Writing a checkpoint.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::{
    CONFIG_FILE, CheckpointError, MODEL_FILE, Result, STATE_FILE, commit,
    config::Architecture,
    disk::{Disk, failed},
    id::SaveId,
    layout,
    store::{Source, Tensors},
    write,
};
use crate::attempt::Attempt;

/// Room for `config.json`, the state's document and the folder, in [`bytes_needed`].
const DOCUMENTS_BYTES: u64 = 1 << 20;

/// What is saved.
#[derive(Clone, Copy, Debug)]
pub struct Contents<'a> {
    /// What goes into `config.json`.
    pub architecture: &'a Architecture,
    /// The tensors.
    pub tensors: &'a Tensors,
}

/// Saves weights, optimizer states and `document` as the checkpoint of `dir`, in place of the one that is
/// there. For the holder of the folder's [`super::Lock`].
///
/// The document must come back from JSON as it went in; JSON has no NaN and no infinity.
pub fn save<T: Serialize + DeserializeOwned>(
    dir: &Path,
    contents: Contents<'_>,
    document: &T,
    source: &mut dyn Source,
) -> Result<SaveId> {
    save_on(&Disk::default(), dir, contents, document, source)
}

/// Saves weights alone, in a folder that holds nothing else: [`best_dir`].
pub fn save_weights(dir: &Path, contents: Contents<'_>, source: &mut dyn Source) -> Result<SaveId> {
    let disk = Disk::default();
    commit::commit(&disk, dir, |folder, id| write_weights(&disk, folder, id, contents, source))
}

/// [`save`], on a disk that may fail.
pub(super) fn save_on<T: Serialize + DeserializeOwned>(
    disk: &Disk,
    dir: &Path,
    contents: Contents<'_>,
    document: &T,
    source: &mut dyn Source,
) -> Result<SaveId> {
    let document = text_that_reads_back(document)?;
    commit::commit(disk, dir, |folder, id| {
        write_weights(disk, folder, id, contents, source)?;
        let metadata = BTreeMap::from([("save_id", id.to_string()), ("fitgpt", document)]);
        let parts = layout::states(contents.tensors);
        write::write(disk, &folder.join(STATE_FILE), &parts, metadata, source)
    })
}

/// The folder of the best weights, beside the last ones in `out_dir`.
pub fn best_dir(out_dir: &Path) -> PathBuf {
    out_dir.join("best")
}

/// Removes the best weights of an earlier run, which a new one in the same folder would
/// otherwise be sampled by. For a run that starts from nothing.
pub fn forget_best(out_dir: &Path) -> Result<()> {
    let dir = best_dir(out_dir);
    match fs::remove_dir_all(&dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other.map_err(failed(Attempt::Remove, &dir)),
    }
}

/// The bytes that a [`save`] needs on the disk beside the files that are there, rounded up by
/// less than two MiB.
pub fn bytes_needed(tensors: &Tensors) -> u64 {
    weights_bytes_needed(tensors) + write::file_bytes(&layout::states(tensors), DOCUMENTS_BYTES)
}

/// The bytes that a [`save_weights`] needs on the disk beside the files that are there.
pub fn weights_bytes_needed(tensors: &Tensors) -> u64 {
    write::file_bytes(&layout::weights(tensors), DOCUMENTS_BYTES)
}

/// Writes `model.safetensors` and `config.json` into `folder`.
fn write_weights(
    disk: &Disk,
    folder: &Path,
    id: SaveId,
    contents: Contents<'_>,
    source: &mut dyn Source,
) -> Result<()> {
    // `transformers` asks for the format.
    let metadata = BTreeMap::from([("format", "pt".to_owned()), ("save_id", id.to_string())]);
    let parts = layout::weights(contents.tensors);
    write::write(disk, &folder.join(MODEL_FILE), &parts, metadata, source)?;

    let path = folder.join(CONFIG_FILE);
    let mut file = disk.create(&path)?;
    disk.write(&mut file, &path, 0, contents.architecture.to_json(id).as_bytes())?;
    disk.sync(&file, &path)
}

/// `document` as JSON. A state that can be written and not read is found out now, while the run
/// that holds it is alive.
fn text_that_reads_back<T: Serialize + DeserializeOwned>(document: &T) -> Result<String> {
    let failed = |source| CheckpointError::Document { source };
    let written = serde_json::to_string(document).map_err(failed)?;
    let back: T = serde_json::from_str(&written).map_err(failed)?;
    let back = serde_json::to_value(&back).map_err(failed)?;
    // As values: the keys of a hash map come in another order every time.
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

/// Where two documents first differ, as a JSON pointer, and what stands there.
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
