//! Downloads a model from the hub to the cache: the files that planning, training or sampling need.

use super::{DownloadProgress, Hub, HubError, RemoteFile, Repo, RepoKind};

/// The files that describe a model.
const DESCRIPTION: &[&str] = &["config.json", "generation_config.json"];

/// The files of its tokenizer.
const TOKENIZER: &[&str] = &[
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "vocab.json",
    "merges.txt",
    "added_tokens.json",
];

const INDEX: &str = "model.safetensors.index.json";
const WEIGHTS: &str = "model.safetensors";

/// Which part of a model to download.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelPart {
    /// Its description, which is enough for a plan.
    Description,
    /// All of it.
    Weights,
}

/// Downloads the model `id` at its branch `main`.
pub fn download_model(
    hub: &Hub,
    id: &str,
    part: ModelPart,
    progress: &mut dyn FnMut(DownloadProgress<'_>),
    stop: &dyn Fn() -> bool,
) -> Result<(), HubError> {
    let repo = Repo { kind: RepoKind::Model, id: id.to_owned(), revision: "main".to_owned() };
    let snapshot = hub.list(&repo, "", stop)?;
    let named = |name: &str| snapshot.files.iter().find(|file| file.path == name);
    let mut wanted: Vec<&RemoteFile> = DESCRIPTION.iter().filter_map(|name| named(name)).collect();
    if named(DESCRIPTION[0]).is_none() {
        let what = DESCRIPTION[0].to_owned();
        return Err(HubError::NotFound { repo: id.to_owned(), what });
    }
    if part == ModelPart::Weights {
        wanted.extend(TOKENIZER.iter().filter_map(|name| named(name)));
        wanted.extend(weights(&snapshot.files, id)?);
    }
    for file in wanted {
        hub.fetch(&snapshot, file, progress, stop)?;
    }
    Ok(())
}

/// One file of safetensors, or an index and its parts.
fn weights<'a>(files: &'a [RemoteFile], id: &str) -> Result<Vec<&'a RemoteFile>, HubError> {
    if let Some(whole) = files.iter().find(|file| file.path == WEIGHTS) {
        return Ok(vec![whole]);
    }
    let is_part = |file: &&RemoteFile| {
        let is_shard = file
            .path
            .strip_prefix("model-")
            .is_some_and(|rest| rest.ends_with(".safetensors") && !rest.contains('/'));
        file.path == INDEX || is_shard
    };
    let parts: Vec<_> = files.iter().filter(is_part).collect();
    if parts.iter().any(|file| file.path == INDEX) && parts.len() > 1 {
        return Ok(parts);
    }
    Err(HubError::NotFound { repo: id.to_owned(), what: WEIGHTS.to_owned() })
}
