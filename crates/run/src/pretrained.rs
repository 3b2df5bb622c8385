//! Weights to start from: a folder in the format of `transformers`, given by its path or by its
//! name on the hub, or nanoGPT's `ckpt.pt`.
//!
//! Nothing is downloaded here. A name is looked up in the cache of Hugging Face's tools; if it is
//! not there, the error names the flag that downloads it. A plan needs only `config.json`, or for a
//! published model its row in the table.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use fitgpt_checkpoint as checkpoint;
use fitgpt_checkpoint::{CONFIG_FILE, CheckpointError, INDEX_FILE, SAVED_FILE, SAVED_INDEX_FILE};
use fitgpt_config::InitFrom;
use fitgpt_files::disk::Disk;
use fitgpt_model::{
    family::{Description, FamilyError},
    published,
};
use fitgpt_prepare::hub::hub_cache;

/// There are no such weights on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingWeights {
    /// Every folder that was tried.
    pub looked_at: Vec<PathBuf>,
    /// The repository that could be downloaded, if a name was asked for and not a path.
    pub repository: Option<String>,
}

/// Why the model that `init_from` names is unknown.
#[derive(Debug)]
pub enum UnknownModel {
    /// No such folder, and no such name.
    Missing(MissingWeights),
    /// A folder whose model is not supported, or whose `config.json` is damaged.
    Folder(CheckpointError),
    /// A published model that is not supported.
    Published(FamilyError),
}

/// The model of some weights.
#[derive(Debug)]
pub struct DescribedWeights {
    /// Its keys.
    pub description: Description,
    /// The folder with the description, or the model's name in the table.
    pub place: String,
    /// Whether the description is complete. The table has only sizes.
    pub is_complete: bool,
}

/// The model of the weights that `init_from` names.
pub fn describe(init_from: &str) -> Result<DescribedWeights, UnknownModel> {
    let not_here = match find_with(init_from, has_config) {
        Ok(folder) => {
            let description = checkpoint::describe(&folder).map_err(UnknownModel::Folder)?;
            let place = folder.display().to_string();
            return Ok(DescribedWeights { description, place, is_complete: true });
        }
        Err(not_here) => not_here,
    };
    let row = published::named(init_from).ok_or(UnknownModel::Missing(not_here))?;
    let description = Description::of_published(row).map_err(UnknownModel::Published)?;
    // The table has everything of a GPT-2.
    let is_complete = InitFrom::is_nanogpt(init_from);
    Ok(DescribedWeights { description, place: row.id.to_owned(), is_complete })
}

/// The folder of the weights that `init_from` names, or nanoGPT's file.
pub fn find(init_from: &str) -> Result<PathBuf, MissingWeights> {
    find_with(init_from, is_whole)
}

fn find_with(init_from: &str, is_wanted: fn(&Path) -> bool) -> Result<PathBuf, MissingWeights> {
    let folder = PathBuf::from(init_from);
    if !InitFrom::is_nanogpt(init_from) && folder.is_file() {
        return Ok(folder);
    }
    let is_folder = !InitFrom::is_nanogpt(init_from) && folder.is_dir();
    if is_folder && is_wanted(&folder) {
        return Ok(folder);
    }
    if is_folder || !is_name(init_from) {
        return Err(MissingWeights { looked_at: vec![folder], repository: None });
    }
    let cache = hub_cache(&|name| env::var_os(name).map(PathBuf::from));
    find_published(init_from, &cache, is_wanted).map_err(|mut not_here| {
        if !InitFrom::is_nanogpt(init_from) {
            not_here.looked_at.insert(0, folder);
        }
        not_here
    })
}

/// Whether a text could be a name on the hub: `name` or `owner/name`.
pub fn is_name(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let mut parts = text.split('/');
    let all = |part: &str| !part.is_empty() && !part.starts_with('.') && part.chars().all(is_plain);
    parts.clone().count() <= 2 && parts.all(all)
}

/// The owner of GPT-2 on the hub.
const OWNER: &str = "openai-community";

/// The snapshot of `name` in a cache that its `main` refers to, else the newest complete one.
fn find_published(
    name: &str,
    cache: &Path,
    is_wanted: fn(&Path) -> bool,
) -> Result<PathBuf, MissingWeights> {
    let repositories = match name.split_once('/') {
        Some((owner, name)) => vec![format!("{owner}/{name}")],
        None => vec![format!("{OWNER}/{name}"), name.to_owned()],
    };
    let mut looked_at = Vec::new();
    for repository in &repositories {
        let repository = cache.join(format!("models--{}", repository.replace('/', "--")));
        let snapshots = repository.join("snapshots");
        let main = fs::read_to_string(repository.join("refs").join("main"));
        let main = main.ok().map(|commit| snapshots.join(commit.trim()));
        let mut others: Vec<_> = fs::read_dir(&snapshots)
            .into_iter()
            .flatten()
            .filter_map(|entry| Some(entry.ok()?.path()))
            .collect();
        others.sort_by_key(|path| fs::metadata(path).and_then(|m| m.modified()).ok());
        let mut all = main.into_iter().chain(others.into_iter().rev());
        if let Some(found) = all.find(|folder| is_wanted(folder)) {
            return Ok(found);
        }
        looked_at.push(snapshots);
    }
    Err(MissingWeights { looked_at, repository: repositories.into_iter().next() })
}

/// Whether a folder has a complete model: its description and its weights, in one file or several.
/// A snapshot may have only a tokenizer.
fn is_whole(folder: &Path) -> bool {
    let others = [INDEX_FILE, SAVED_FILE, SAVED_INDEX_FILE];
    let has_weights =
        checkpoint::exists(folder) || others.iter().any(|name| folder.join(name).is_file());
    has_config(folder) && has_weights || checkpoint::nanogpt_file(folder).is_some()
}

fn has_config(folder: &Path) -> bool {
    checkpoint::locate(&Disk::real(), folder, CONFIG_FILE).is_ok_and(|path| path.is_file())
        || checkpoint::nanogpt_file(folder).is_some()
}

#[cfg(test)]
mod tests {
    use fitgpt_checkpoint::MODEL_FILE;

    use super::*;

    fn model(folder: &Path) {
        fs::create_dir_all(folder).unwrap();
        fs::write(folder.join(CONFIG_FILE), "{}").unwrap();
        fs::write(folder.join(MODEL_FILE), "").unwrap();
    }

    #[test]
    fn the_cache_follows_the_variables_of_hugging_face() {
        let caches = |set: &'static [(&str, &str)]| {
            hub_cache(&|name| set.iter().find(|(n, _)| *n == name).map(|(_, v)| PathBuf::from(v)))
        };
        assert_eq!(caches(&[("HOME", "/h")]), Path::new("/h/.cache/huggingface/hub"));
        assert_eq!(
            caches(&[("XDG_CACHE_HOME", "/c"), ("HOME", "/h")]),
            Path::new("/c/huggingface/hub")
        );
        assert_eq!(caches(&[("HF_HOME", "/hf"), ("HOME", "/h")]), Path::new("/hf/hub"));
        assert_eq!(caches(&[("HF_HUB_CACHE", "/x"), ("HF_HOME", "/hf")]), Path::new("/x"));
        assert_eq!(
            caches(&[("HF_HOME", ""), ("HOME", "/h")]),
            Path::new("/h/.cache/huggingface/hub")
        );
    }

    #[test]
    fn a_name_is_found_under_either_owner_and_only_if_complete() {
        let cache = tempfile::tempdir().unwrap();
        let snapshots = cache.path().join("models--gpt2/snapshots");
        fs::create_dir_all(snapshots.join("aaa")).unwrap();
        let missing = find_published("gpt2", cache.path(), is_whole).unwrap_err();
        assert!(
            missing.looked_at.contains(&snapshots) && missing.repository.is_some(),
            "{missing:?}"
        );
        model(&snapshots.join("bbb"));
        assert_eq!(find_published("gpt2", cache.path(), is_whole).unwrap(), snapshots.join("bbb"));
        assert!(find_published("gpt2-xl", cache.path(), is_whole).is_err());
        let other = cache.path().join("models--openai-community--gpt2/snapshots/ccc");
        model(&other);
        assert_eq!(find_published("gpt2", cache.path(), is_whole).unwrap(), other);
    }

    #[test]
    fn the_snapshot_of_main_wins_over_others() {
        let cache = tempfile::tempdir().unwrap();
        let repository = cache.path().join("models--gpt2");
        for commit in ["aaa", "bbb", "ccc"] {
            model(&repository.join("snapshots").join(commit));
        }
        fs::create_dir_all(repository.join("refs")).unwrap();
        fs::write(repository.join("refs/main"), "bbb\n").unwrap();
        let found = find_published("gpt2", cache.path(), is_whole).unwrap();
        assert_eq!(found, repository.join("snapshots/bbb"));
    }

    #[test]
    fn a_name_with_an_owner_is_found_in_the_cache() {
        let cache = tempfile::tempdir().unwrap();
        let snapshot = cache.path().join("models--org--name.v1/snapshots/aaa");
        model(&snapshot);
        assert_eq!(find_published("org/name.v1", cache.path(), is_whole).unwrap(), snapshot);
        let missing = find_published("org/other", cache.path(), is_whole).unwrap_err();
        assert_eq!(missing.repository.as_deref(), Some("org/other"));
        assert!(is_name("meta-llama/Llama-3.2-1B") && is_name("out-tiny"));
        for path in ["./a", "a/b/c", "/a", "a/", "../a", "a\\b", ""] {
            assert!(!is_name(path), "{path}");
        }
    }
}
