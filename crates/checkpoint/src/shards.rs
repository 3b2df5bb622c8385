//! The weights of a folder: one file, or several that an index lists.
//!
//! ```text
//! model.safetensors.index.json   {"weight_map": {"lm_head.weight": "model-00002-of-00002.safetensors", …}}
//! ```
//!
//! Folders of earlier years have `pytorch_model.bin` and `pytorch_model.bin.index.json` instead.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Component, Path, PathBuf},
};

use fitgpt_files::disk::Disk;
use fitgpt_model::Naming;
use serde::Deserialize;

use super::{
    CheckpointError, MODEL_FILE, Result, folder,
    layout::{self, FileTensor, PositionRows, Values},
    manifest::Manifest,
    read::{MatchedTensor, TensorFile},
    store::TensorSink,
};

/// The index that lists which file has which tensor.
pub const INDEX_FILE: &str = "model.safetensors.index.json";

/// The weights as saved by PyTorch.
pub const SAVED_FILE: &str = "pytorch_model.bin";
/// The index of several files saved by PyTorch.
pub const SAVED_INDEX_FILE: &str = "pytorch_model.bin.index.json";

/// More than any index: that of a model with 10,000 layers has about 10 MB.
const MAX_INDEX_BYTES: u64 = 64 << 20;

/// The part of an index that is read.
#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

/// The files that together have the tensors of a model.
#[derive(Debug)]
pub(super) struct WeightFiles {
    files: Vec<TensorFile>,
}

impl WeightFiles {
    /// Opens `model.safetensors` of `dir`, else the files in the folder's index, else the same for
    /// files saved by PyTorch.
    pub(super) fn open(disk: &Disk, dir: &Path) -> Result<Self> {
        let whole = folder::locate(disk, dir, MODEL_FILE)?;
        let is_there = |name: &str| Ok::<_, CheckpointError>(disk.kind(&dir.join(name))?.is_some());
        if disk.kind(&whole)?.is_some() {
            return Ok(Self::of(TensorFile::open(disk, whole)?));
        }
        if is_there(INDEX_FILE)? {
            return Self::listed(disk, dir, INDEX_FILE, TensorFile::open);
        }
        if is_there(SAVED_FILE)? {
            return Ok(Self::of(TensorFile::open_saved(disk, dir.join(SAVED_FILE))?));
        }
        if is_there(SAVED_INDEX_FILE)? {
            return Self::listed(disk, dir, SAVED_INDEX_FILE, TensorFile::open_saved);
        }
        Err(CheckpointError::Missing { path: whole })
    }

    /// Opens the files that the index `index` of `dir` lists.
    fn listed(
        disk: &Disk,
        dir: &Path,
        index: &str,
        open: fn(&Disk, PathBuf) -> Result<TensorFile>,
    ) -> Result<Self> {
        let index = dir.join(index);
        let text = disk.read(&index, MAX_INDEX_BYTES)?;
        let Index { weight_map } = serde_json::from_slice(&text)
            .map_err(|source| CheckpointError::Json { path: index.clone(), source })?;
        let names: BTreeSet<_> = weight_map.values().collect();
        if names.is_empty() {
            return Err(CheckpointError::Missing { path: dir.join(MODEL_FILE) });
        }
        let mut files = Vec::with_capacity(names.len());
        for name in names {
            if !is_file_name(name) {
                return Err(CheckpointError::ShardName { path: index, name: name.clone() });
            }
            files.push(open(disk, dir.join(name))?);
        }
        for (tensor, name) in &weight_map {
            let file = files.iter().find(|file| file.path.ends_with(name));
            if file.is_none_or(|file| !file.header.tensors.contains_key(tensor)) {
                let (path, tensor) = (dir.join(name), tensor.clone());
                return Err(CheckpointError::NotInShard { path, tensor, index });
            }
        }
        Ok(Self { files })
    }

    /// One file with all tensors.
    pub(super) fn of(file: TensorFile) -> Self {
        Self { files: vec![file] }
    }

    /// The first file.
    fn first(&self) -> &TensorFile {
        &self.files[0]
    }

    /// How many tensors the files have.
    pub(super) fn tensor_count(&self) -> usize {
        self.files.iter().map(|file| file.header.tensors.len()).sum()
    }

    /// The path for errors.
    pub(super) fn path(&self) -> &PathBuf {
        &self.first().path
    }

    /// A text of the metadata. Only our own files, which are never sharded, have any.
    pub(super) fn text(&self, key: &str) -> Option<&str> {
        self.first().header.text(key)
    }

    /// Checks the length and the stated checksum of the one file against `manifest`. Whether the
    /// values have that checksum is checked when they are read.
    pub(super) fn check_listed(&self, manifest: &Manifest, name: &str) -> Result<()> {
        let TensorFile { path, header, .. } = self.first();
        let bytes = header.data_start + header.data_bytes;
        manifest.check(name, path, bytes, header.text("sum").unwrap_or_default())
    }

    /// Passes the values of `parts` to `sink` after checking every name, shape and type.
    pub(super) fn read(
        &mut self,
        naming: &Naming,
        parts: &[FileTensor<'_>],
        positions: PositionRows,
        sink: &mut dyn TensorSink,
    ) -> Result<()> {
        let found = self.find(naming, parts, positions)?;
        for (file, found) in self.files.iter_mut().zip(found) {
            file.read(found, sink)?;
        }
        Ok(())
    }

    /// Every part, grouped by file; an error if one is missing or does not match, or if there are
    /// tensors that the model does not have.
    fn find<'a, 'b>(
        &self,
        naming: &Naming,
        parts: &'b [FileTensor<'a>],
        positions: PositionRows,
    ) -> Result<Vec<Vec<MatchedTensor<'a, 'b>>>> {
        let mut unknown = BTreeMap::new();
        for (index, file) in self.files.iter().enumerate() {
            for (name, info) in &file.header.tensors {
                if unknown.insert(name.clone(), (index, info)).is_some() {
                    let (path, tensor) = (file.path.clone(), name.clone());
                    return Err(CheckpointError::StoredTwice { path, tensor });
                }
            }
        }
        let mut found: Vec<_> = self.files.iter().map(|_| Vec::new()).collect();
        for part in parts {
            let mut names = [Some(&part.name), part.bare_name.as_ref()].into_iter().flatten();
            let Some((name, (index, info))) = names.find_map(|name| unknown.remove_entry(name))
            else {
                if matches!(part.values, Values::Zero) {
                    continue;
                }
                let (tensor, expected) = (part.name.clone(), part.shape.clone());
                let path = self.path().clone();
                return Err(CheckpointError::MissingTensor { path, tensor, expected });
            };
            let path = &self.files[index].path;
            found[index].push(MatchedTensor::new(part, &name, info, positions, path)?);
        }
        let left = unknown.into_iter().find(|(name, _)| !layout::is_spare(naming, name));
        if let Some((tensor, (index, info))) = left {
            let (path, found) = (self.files[index].path.clone(), info.shape.clone());
            return Err(CheckpointError::UnknownTensor { path, tensor, found });
        }
        Ok(found)
    }
}

/// Whether an index may name such a file: only files directly in the folder are allowed.
fn is_file_name(name: &str) -> bool {
    let mut parts = Path::new(name).components();
    matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None))
        && !name.contains(['/', '\\'])
}
