//! Finds the runs below some folders. Links are not followed. The search of a large tree is limited,
//! and says so.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::id_of;

/// How deep folders are searched.
const MAX_DEPTH: usize = 4;
/// The most entries that are read, in all and of one folder: a folder of data has thousands.
const MAX_ENTRIES: usize = 200_000;
const MAX_ENTRIES_OF_A_FOLDER: usize = 2_000;
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

/// The runs below some folders, by name.
pub(super) struct FoundRuns {
    pub(super) runs: Vec<FoundRun>,
    /// Whether the search ended before it had seen every folder.
    pub(super) is_partial: bool,
}

/// The runs below `roots`. Folders are searched level by level, so that no folder hides a run that
/// is next to it.
pub(super) fn runs(roots: &[PathBuf]) -> FoundRuns {
    let mut found = Vec::new();
    let mut is_partial = false;
    let mut entries = 0;
    let mut level: Vec<(&PathBuf, PathBuf)> =
        roots.iter().map(|root| (root, root.clone())).collect();
    for depth in 0..=MAX_DEPTH {
        let mut next = Vec::new();
        for (root, folder) in level {
            let log = fs::symlink_metadata(folder.join("events.jsonl"));
            if log.is_ok_and(|log| log.is_file()) {
                is_partial |= found.len() == MAX_RUNS;
                if found.len() < MAX_RUNS {
                    let (id, name) = (id_of(&folder), name(root, &folder));
                    found.push(FoundRun { id, name, folder: folder.clone() });
                }
            }
            if depth < MAX_DEPTH {
                let below = folders(&folder, &mut entries, &mut is_partial);
                next.extend(below.map(|folder| (root, folder)));
            }
        }
        level = next;
    }
    found.sort_by(|a, b| a.name.cmp(&b.name).then_with(|| a.folder.cmp(&b.folder)));
    found.dedup_by(|a, b| a.folder == b.folder);
    FoundRuns { runs: found, is_partial }
}

/// The folders in a folder that may hold runs, while entries are left to read.
fn folders(
    folder: &Path,
    entries: &mut usize,
    is_partial: &mut bool,
) -> impl Iterator<Item = PathBuf> {
    let mut found = Vec::new();
    let names = fs::read_dir(folder).into_iter().flatten().flatten();
    for (index, entry) in names.enumerate() {
        if *entries == MAX_ENTRIES || index == MAX_ENTRIES_OF_A_FOLDER {
            *is_partial = true;
            break;
        }
        *entries += 1;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let is_other = name.starts_with('.') || matches!(&*name, "target" | "node_modules");
        // This is the type of the entry itself, so links to folders are skipped.
        if !is_other && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.push(entry.path());
        }
    }
    found.into_iter()
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
        let found = runs(&[root]);
        assert!(!found.is_partial);
        let names: Vec<_> = found.runs.into_iter().map(|run| run.name).collect();
        assert_eq!(names, ["a/b".replace('/', std::path::MAIN_SEPARATOR_STR), "c".to_owned()]);
    }
    #[test]
    fn a_large_folder_hides_no_run_next_to_it_and_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        for n in 0..3 {
            for file in 0..=MAX_ENTRIES_OF_A_FOLDER {
                let data = folder.path().join(format!("data{n}"));
                if file == 0 {
                    fs::create_dir(&data).unwrap();
                }
                fs::write(data.join(format!("{file}.txt")), "").unwrap();
            }
            let run = folder.path().join(format!("runs/out{n}"));
            fs::create_dir_all(&run).unwrap();
            fs::write(run.join("events.jsonl"), "").unwrap();
        }
        let found = runs(&[folder.path().to_owned()]);
        assert!(found.is_partial);
        assert_eq!(found.runs.len(), 3);
    }
}
