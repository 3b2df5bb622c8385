//! What a request of the page may set, key by key.
//!
//! Numbers, switches and choices cannot name a file. Every key that takes any text is in
//! [`TEXT_KEYS`], with what the page may do with it; a test fails if one is missing. So nothing in a
//! request names a file or a folder other than those that are served, a dataset in `data/`, and
//! weights in Hugging Face's cache.

use std::path::{Path, PathBuf};

use fitgpt_commands::Failure;
use fitgpt_config::{Config, ConfigValue, InitFrom, Written};
use fitgpt_data::STORIES;
use fitgpt_run::pretrained;

use crate::words::serve as messages;

/// What a request may do with a key that takes any text.
#[cfg(test)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TextPower {
    /// It has no effect on what is read or written.
    Label,
    /// The name of a dataset in `data/`.
    Dataset,
    /// `scratch`, `resume`, a model's name in Hugging Face's cache, or a folder that is served.
    Weights,
    /// A prompt, but not one that is read from a file.
    Prompt,
    /// A run that the page starts is in a new folder below the first one that is served; a plan needs
    /// none.
    Folder,
}

/// Every key that takes any text.
#[cfg(test)]
const TEXT_KEYS: [(&str, TextPower); 7] = [
    ("out_dir", TextPower::Folder),
    ("init_from", TextPower::Weights),
    ("wandb_project", TextPower::Label),
    ("wandb_run_name", TextPower::Label),
    ("dataset", TextPower::Dataset),
    ("backend", TextPower::Label),
    ("start", TextPower::Prompt),
];

/// Refuses a request to read weights outside of the folders `roots`, which are served.
pub(super) fn check(written: &Written, roots: &[PathBuf]) -> Result<(), Failure> {
    let Some(ConfigValue::Str(name)) = written.get("init_from") else { return Ok(()) };
    let Some(InitFrom::Pretrained(name)) = InitFrom::parse(name) else { return Ok(()) };
    // A folder of that name would be read instead of the cache.
    let is_served = |path: &Path| match path.canonicalize() {
        Ok(path) => roots.iter().any(|root| path.starts_with(root)),
        Err(_) => true,
    };
    if pretrained::is_name(&name) && is_served(Path::new(&*name)) {
        return Ok(());
    }
    Err(Failure::new("init-from", messages::no_paths(name)))
}

/// The dataset of a config as the page may look it up: a name in `data/`.
pub(super) fn dataset(config: &Config) -> Option<String> {
    let name = config.dataset();
    let is_name = pretrained::is_name(name) && !name.contains('/');
    match name {
        STORIES => Some(name.to_owned()),
        _ => is_name.then(|| format!("data/{name}")),
    }
}

/// The keys of a run that the page starts, which could name files, as they were checked. They are
/// given on the command line, where they override the config.
pub(super) fn of_run(config: &Config) -> Result<Vec<String>, Failure> {
    let dataset = dataset(config)
        .ok_or_else(|| Failure::new("dataset", messages::no_dataset_paths(config.dataset())))?;
    if config.start().starts_with("FILE:") {
        return Err(Failure::new("start", messages::no_prompt_files(config.start())));
    }
    let init_from = config.pairs().into_iter().find_map(|(key, value)| match value {
        ConfigValue::Str(name) if key == "init_from" => Some(name),
        _ => None,
    });
    let init_from = init_from.expect("a key of the table, which is text");
    Ok(vec![
        format!("--dataset={dataset}"),
        format!("--start={}", config.start()),
        format!("--init_from={init_from}"),
    ])
}

#[cfg(test)]
mod tests {
    use fitgpt_config::KEYS;

    use super::*;

    fn config(keys: &[(&str, &str)]) -> Config {
        let mut written = Written::new();
        for (key, value) in keys {
            written.set(key, value).unwrap();
        }
        written.resolve().unwrap()
    }

    #[test]
    fn every_key_that_takes_any_text_is_listed() {
        let listed = TEXT_KEYS.map(|(key, _)| key);
        for key in KEYS {
            let mut written = Written::new();
            let is_text = written.set(key.name, "/etc/passwd").is_ok() && written.resolve().is_ok();
            assert_eq!(listed.contains(&key.name), is_text, "may the page set `{}`?", key.name);
        }
        let rule = |key| TEXT_KEYS.iter().find(|(name, _)| *name == key).unwrap().1;
        assert_eq!(rule("dataset"), TextPower::Dataset);
        assert_eq!(rule("init_from"), TextPower::Weights);
        assert_eq!(rule("start"), TextPower::Prompt);
        assert_eq!(rule("out_dir"), TextPower::Folder);
    }

    #[test]
    fn a_dataset_is_a_name_in_data() {
        let dataset = |name| super::dataset(&config(&[("dataset", name)]));
        assert_eq!(dataset("mine").as_deref(), Some("data/mine"));
        assert_eq!(dataset("stories").as_deref(), Some("stories"));
        for path in ["/etc", "../../etc", "a/b", "..", ".hidden", "~", "a\\b"] {
            assert_eq!(dataset(path), None, "{path}");
        }
    }

    #[test]
    fn weights_are_names_or_folders_that_are_served() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let allowed = |name: &str, roots: &[PathBuf]| {
            let mut written = Written::new();
            written.set("init_from", name).unwrap();
            check(&written, roots).is_ok()
        };
        for name in ["scratch", "resume", "gpt2", "openai-community/gpt2"] {
            assert!(allowed(name, &[]), "{name}");
        }
        // The tests run in the folder of the package, which has a folder `src`.
        assert!(!allowed("src", std::slice::from_ref(&root)));
        assert!(allowed("src", &[Path::new(".").canonicalize().unwrap()]));
        for path in ["/etc", "../x", "a/b/c", root.to_str().unwrap()] {
            assert!(!allowed(path, std::slice::from_ref(&root)), "{path}");
        }
    }

    #[test]
    fn a_run_of_the_page_reads_no_file_that_its_config_names() {
        assert!(of_run(&config(&[("dataset", "mine"), ("start", "Once")])).is_ok());
        assert!(of_run(&config(&[("dataset", "mine"), ("start", "FILE:/etc/passwd")])).is_err());
        assert!(of_run(&config(&[("dataset", "../mine")])).is_err());
    }
}
