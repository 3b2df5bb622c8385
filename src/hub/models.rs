//! A model from the hub into the cache: what planning, training or sampling needs of it.

use super::{DownloadProgress, Hub, HubError, RemoteFile, Repo, RepoKind};

/// What a model is next to its weights.
const DESCRIPTION: &[&str] = &["config.json", "generation_config.json"];

/// How its text and tokens turn into each other.
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

/// How much of a model is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelPart {
    /// What a plan needs: its description.
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
