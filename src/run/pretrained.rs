//! Weights to begin from: a folder of `transformers`, by its path or by GPT-2's name.
//!
//! Nothing is downloaded. A name is looked for where Hugging Face's own tools keep what they
//! fetched, so that weights which are on the machine are found and others are asked for.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use crate::checkpoint::{CONFIG_FILE, MODEL_FILE};

/// There are no such weights on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotHere {
    /// Every folder that was tried.
    pub looked_at: Vec<PathBuf>,
    /// Whether a name was asked for, which can be downloaded, and not a path.
    pub is_published: bool,
}

/// The folder of the weights that `init_from` names.
pub fn find(init_from: &str) -> Result<PathBuf, NotHere> {
    if init_from.contains(['/', '\\']) {
        let folder = PathBuf::from(init_from);
        return if is_whole(&folder) {
            Ok(folder)
        } else {
            Err(NotHere { looked_at: vec![folder], is_published: false })
        };
    }
    find_published(init_from, &caches(&|name| env::var_os(name).map(PathBuf::from)))
}

/// Where Hugging Face's tools keep what they fetched: the first that is set decides.
fn caches(variable: &dyn Fn(&str) -> Option<PathBuf>) -> PathBuf {
    let set = |name| variable(name).filter(|path| !path.as_os_str().is_empty());
    let home = || set("HOME").or_else(|| set("USERPROFILE")).unwrap_or_default();
    let cache = || set("XDG_CACHE_HOME").unwrap_or_else(|| home().join(".cache"));
    set("HF_HUB_CACHE").unwrap_or_else(|| {
        set("HF_HOME").unwrap_or_else(|| cache().join("huggingface")).join("hub")
    })
}

/// The newest whole snapshot of `name` in a cache, or the one that its `main` is at.
fn find_published(name: &str, cache: &Path) -> Result<PathBuf, NotHere> {
    let mut looked_at = Vec::new();
    for repository in [format!("models--openai-community--{name}"), format!("models--{name}")] {
        let repository = cache.join(repository);
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
        if let Some(found) = all.find(|folder| is_whole(folder)) {
            return Ok(found);
        }
        looked_at.push(snapshots);
    }
    Err(NotHere { looked_at, is_published: true })
}

/// Whether a folder holds both files of a model. A snapshot may hold a tokenizer alone.
fn is_whole(folder: &Path) -> bool {
    [CONFIG_FILE, MODEL_FILE].iter().all(|name| folder.join(name).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(folder: &Path) {
        fs::create_dir_all(folder).unwrap();
        fs::write(folder.join(CONFIG_FILE), "{}").unwrap();
        fs::write(folder.join(MODEL_FILE), "").unwrap();
    }

    #[test]
    fn a_cache_is_where_the_variables_of_hugging_face_say() {
        let caches = |set: &'static [(&str, &str)]| {
            caches(&|name| set.iter().find(|(n, _)| *n == name).map(|(_, v)| PathBuf::from(v)))
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
    fn a_name_is_found_under_either_of_its_owners_and_only_whole() {
        let cache = tempfile::tempdir().unwrap();
        let snapshots = cache.path().join("models--gpt2/snapshots");
        fs::create_dir_all(snapshots.join("aaa")).unwrap();
        let missing = find_published("gpt2", cache.path()).unwrap_err();
        assert!(missing.looked_at.contains(&snapshots) && missing.is_published, "{missing:?}");
        model(&snapshots.join("bbb"));
        assert_eq!(find_published("gpt2", cache.path()).unwrap(), snapshots.join("bbb"));
        assert!(find_published("gpt2-xl", cache.path()).is_err());
        let other = cache.path().join("models--openai-community--gpt2/snapshots/ccc");
        model(&other);
        assert_eq!(find_published("gpt2", cache.path()).unwrap(), other);
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
        let found = find_published("gpt2", cache.path()).unwrap();
        assert_eq!(found, repository.join("snapshots/bbb"));
    }
}
