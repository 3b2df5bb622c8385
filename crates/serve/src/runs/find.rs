//! Finds the runs below some folders. Links are not followed, and the search of a large tree is
//! limited.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::id_of;

/// How deep folders are searched.
const MAX_DEPTH: usize = 4;
/// The most entries that are read.
const MAX_ENTRIES: usize = 20_000;
const MAX_RUNS: usize = 300;

/// A folder with a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FoundRun {
    pub(super) id: String,
    /// Its name on the page: the path below the given folder.
    pub(super) name: String,
    pub(super) folder: PathBuf,
}

impl FoundRun {
    pub(super) fn log(&self) -> PathBuf {
        self.folder.join("events.jsonl")
    }
}

/// The runs below `roots`, by name.
pub(super) fn runs(roots: &[PathBuf]) -> Vec<FoundRun> {
    let mut search = RunSearch { found: Vec::new(), entries: 0 };
    for root in roots {
        search.visit(root, root, 0);
    }
    let mut found = search.found;
    found.sort_by(|a, b| a.name.cmp(&b.name).then_with(|| a.folder.cmp(&b.folder)));
    found.dedup_by(|a, b| a.folder == b.folder);
    found
}

struct RunSearch {
    found: Vec<FoundRun>,
    entries: usize,
}

impl RunSearch {
    fn visit(&mut self, root: &Path, folder: &Path, depth: usize) {
        let log = fs::symlink_metadata(folder.join("events.jsonl"));
        if log.is_ok_and(|log| log.is_file()) && self.found.len() < MAX_RUNS {
            self.found.push(FoundRun {
                id: id_of(folder),
                name: name(root, folder),
                folder: folder.to_owned(),
            });
        }
        if depth == MAX_DEPTH {
            return;
        }
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            self.entries += 1;
            if self.entries > MAX_ENTRIES {
                return;
            }
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let is_other = name.starts_with('.') || matches!(&*name, "target" | "node_modules");
            // This is the type of the entry itself, so links to folders are skipped.
            if !is_other && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                self.visit(root, &entry.path(), depth + 1);
            }
        }
    }
}

fn name(root: &Path, folder: &Path) -> String {
    let below = folder.strip_prefix(root).unwrap_or(folder);
    let shown = if below.as_os_str().is_empty() {
        folder.file_name().map_or_else(|| folder.to_path_buf(), PathBuf::from)
    } else {
        below.to_path_buf()
    };
    shown.to_string_lossy().chars().filter(|c| !c.is_control()).take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_found_below_and_links_are_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (root, outside) = (folder.path().join("root"), folder.path().join("outside"));
        for run in [root.join("a/b"), root.join("c"), root.join(".hidden"), outside.clone()] {
            fs::create_dir_all(&run).unwrap();
            fs::write(run.join("events.jsonl"), "").unwrap();
        }
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(&outside, root.join("link")).unwrap();
            fs::create_dir(root.join("d")).unwrap();
            let log = outside.join("events.jsonl");
            std::os::unix::fs::symlink(log, root.join("d/events.jsonl")).unwrap();
        }
        let names: Vec<_> = runs(&[root]).into_iter().map(|run| run.name).collect();
        assert_eq!(names, ["a/b".replace('/', std::path::MAIN_SEPARATOR_STR), "c".to_owned()]);
    }
}
