//! Publishes a dataset atomically.
//!
//! ```text
//! .preparing-<id>/   the new files, written and synced
//! .prepared-<id>/    the same folder, renamed: this publishes the dataset
//! .placing-<id>/     renamed again, after the old files are removed
//! train.bin, …       the new files, moved to their names; `train.bin` last
//! ```
//!
//! The steps after the first rename are completed at once, or by the next `prepare` after a crash.
//! Until then our readers find the files in these folders ([`locate`]). Another program that reads
//! the folder sees the old dataset, the new one, or none, but never a mix: `train.bin` is the first
//! file that is removed and the last one that is moved.

use std::{
    collections::BTreeMap,
    hash::{BuildHasher as _, Hasher as _, RandomState},
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use fitgpt_files::disk::{Disk, DiskError};

const PREPARING: &str = ".preparing-";
const PREPARED: &str = ".prepared-";
const PLACING: &str = ".placing-";

/// Files that belong to a dataset, those of the training split first.
const FILES: [&str; 8] = [
    "train.bin",
    "train.u32.bin",
    "val.bin",
    "val.u32.bin",
    "meta.pkl",
    "tokenizer.json",
    "tokenizer_config.json",
    "generation_config.json",
];

/// The journal of a preparation, which is never published.
pub const JOURNAL: &str = "journal.json";

/// The name of a shard of a dataset: `train_000001.bin`.
pub fn shard_name(split: &str, index: u64) -> String {
    format!("{split}_{index:06}.bin")
}

/// Whether a file of this name is a shard that [`shard_name`] names.
pub fn is_shard_name(name: &str) -> bool {
    let index = name.strip_prefix("train_").or_else(|| name.strip_prefix("val_"));
    index
        .and_then(|index| index.strip_suffix(".bin"))
        .is_some_and(|index| index.len() >= 6 && index.bytes().all(|byte| byte.is_ascii_digit()))
}

type Result<T> = std::result::Result<T, DiskError>;

/// The path of the file `name` of the dataset in `folder`, whether or not it exists.
pub(crate) fn locate(disk: &Disk, folder: &Path, name: &str) -> Result<PathBuf> {
    if let Some((staged, _)) = committed(disk, folder)?.pop() {
        let path = staged.join(name);
        if disk.is_file(&path)? {
            return Ok(path);
        }
        // The staged dataset is complete: a file of this name in `folder` belongs to the old one.
        if is_named(&staged, PREPARED) && FILES.contains(&name) {
            return Ok(path);
        }
    }
    Ok(folder.join(name))
}

/// Every file of the dataset in `folder`, staged or not, by name, including files that do not
/// belong to it.
pub(crate) fn files(disk: &Disk, folder: &Path) -> Result<BTreeMap<String, PathBuf>> {
    let mut folders = vec![folder.to_owned()];
    if let Some((staged, _)) = committed(disk, folder)?.pop() {
        if is_named(&staged, PREPARED) {
            folders.clear();
        }
        folders.push(staged);
    }
    let mut files = BTreeMap::new();
    for folder in folders {
        for name in disk.list(&folder)? {
            let path = folder.join(&name);
            if let Ok(name) = name.into_string() {
                files.insert(name, path);
            }
        }
    }
    Ok(files)
}

/// A new folder in `folder` for the files of a dataset.
pub fn stage(disk: &Disk, folder: &Path) -> Result<PathBuf> {
    stage_as(disk, folder, new_id())
}

fn stage_as(disk: &Disk, folder: &Path, id: u64) -> Result<PathBuf> {
    let staged = folder.join(format!("{PREPARING}{id:016x}"));
    disk.create_dir(&staged)?;
    Ok(staged)
}

/// Publishes the files in `staged`, all written and synced, as the dataset of `folder`.
pub fn commit(disk: &Disk, folder: &Path, staged: &Path) -> Result<()> {
    disk.sync_dir(staged)?;
    let prepared = renamed(staged, PREPARING, PREPARED);
    disk.rename(staged, &prepared)?;
    disk.sync_dir(folder)?;
    complete(disk, folder, prepared)
}

/// Completes what a crash interrupted, and removes files that were never published. Only for
/// the holder of the folder's lock.
#[cfg(test)]
pub(crate) fn recover(disk: &Disk, folder: &Path) -> Result<()> {
    complete_pending(disk, folder)?;
    for abandoned in abandoned(disk, folder)? {
        discard(disk, &abandoned)?;
    }
    Ok(())
}

/// Folders of files that were never published.
pub fn abandoned(disk: &Disk, folder: &Path) -> Result<Vec<PathBuf>> {
    folders(disk, folder, PREPARING)
}

/// Whether a crash interrupted the publication of a dataset.
pub fn is_pending(disk: &Disk, folder: &Path) -> Result<bool> {
    Ok(!committed(disk, folder)?.is_empty())
}

/// Completes what a crash interrupted. Only for the holder of the folder's lock.
pub fn complete_pending(disk: &Disk, folder: &Path) -> Result<()> {
    let mut all = committed(disk, folder)?;
    if let Some((newest, _)) = all.pop() {
        for (older, _) in all {
            discard(disk, &older)?;
        }
        complete(disk, folder, newest)?;
    }
    Ok(())
}

/// Removes a folder of staged files, which are all ours.
pub fn discard(disk: &Disk, staged: &Path) -> Result<()> {
    for name in disk.list(staged)? {
        let path = staged.join(name);
        if disk.is_file(&path)? {
            disk.remove_file(&path)?;
        }
    }
    disk.remove_empty_dir(staged)
}

fn complete(disk: &Disk, folder: &Path, staged: PathBuf) -> Result<()> {
    let placing = if is_named(&staged, PREPARED) {
        for name in FILES {
            disk.remove_file(&folder.join(name))?;
        }
        let mut shards = disk.list(folder)?;
        shards.retain(|name| name.to_str().is_some_and(is_shard_name)); // `train` before `val`
        for name in shards {
            disk.remove_file(&folder.join(name))?;
        }
        let placing = renamed(&staged, PREPARED, PLACING);
        disk.rename(&staged, &placing)?;
        placing
    } else {
        staged
    };
    let mut names = disk.list(&placing)?;
    names.sort_by_key(|name| name.to_str().is_some_and(|name| name.starts_with("train")));
    for name in names {
        if name == JOURNAL {
            disk.remove_file(&placing.join(&name))?;
        } else if disk.is_file(&placing.join(&name))? {
            disk.rename(&placing.join(&name), &folder.join(&name))?;
        }
    }
    disk.sync_dir(folder)?;
    disk.remove_empty_dir(&placing)
}

/// Published datasets whose files are not in place yet, the newest last.
fn committed(disk: &Disk, folder: &Path) -> Result<Vec<(PathBuf, &'static str)>> {
    let mut all = Vec::new();
    for prefix in [PREPARED, PLACING] {
        all.extend(folders(disk, folder, prefix)?.into_iter().map(|path| (path, prefix)));
    }
    // Sorted by id; later ids are greater.
    all.sort_by_key(|(path, prefix)| renamed(path, prefix, ""));
    Ok(all)
}

/// The folders in `folder` that are named `prefix` and 16 hexadecimal digits.
fn folders(disk: &Disk, folder: &Path, prefix: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for name in disk.list(folder)? {
        let is_ours = name
            .to_str()
            .and_then(|name| name.strip_prefix(prefix))
            .is_some_and(|id| id.len() == 16 && id.bytes().all(|byte| byte.is_ascii_hexdigit()));
        if is_ours && disk.is_folder(&folder.join(&name))? {
            found.push(folder.join(&name));
        }
    }
    Ok(found)
}

fn is_named(path: &Path, prefix: &str) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(prefix))
}

fn renamed(path: &Path, from: &str, to: &str) -> PathBuf {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    path.with_file_name(name.replacen(from, to, 1))
}

/// A unique number, even among processes with the same process id in different containers: the time
/// in milliseconds and 20 random bits. Later ones are greater.
fn new_id() -> u64 {
    let mut hasher = RandomState::new().build_hasher();
    hasher.write_u32(std::process::id());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (now.as_millis() as u64) << 20 | hasher.finish() >> 44
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use fitgpt_files::disk::simulated::{Crash, Faults, SimulatedFiles, SplitMix};

    use super::*;

    const DATA: &str = "data";

    /// Every file of version `n` contains `n`; odd versions have a vocabulary.
    fn publish(disk: &Disk, version: u8) -> Result<()> {
        let folder = Path::new(DATA);
        disk.create_dirs(folder)?;
        recover(disk, folder)?;
        let staged = stage_as(disk, folder, version.into())?;
        let mut names = vec!["train.bin", "val.bin"];
        if version % 2 == 1 {
            names.push("meta.pkl");
        }
        for name in names {
            let mut file = disk.create(&staged.join(name))?;
            file.write_all_at(&[version; 300], 0)?;
            file.sync()?;
        }
        commit(disk, folder, &staged)
    }

    /// The version that a reader finds, after a check that no file belongs to another version.
    fn version(disk: &Disk) -> Option<u8> {
        let read = |name| {
            let path = locate(disk, Path::new(DATA), name).unwrap();
            disk.kind(&path).unwrap().map(|_| {
                let content = disk.read(&path, 1000).unwrap();
                assert_eq!(content, vec![content[0]; 300], "{name}");
                content[0]
            })
        };
        let train = read("train.bin")?;
        assert_eq!(read("val.bin"), Some(train));
        assert_eq!(read("meta.pkl"), (train % 2 == 1).then_some(train));
        Some(train)
    }

    #[test]
    fn a_crash_at_any_call_leaves_the_old_or_the_new_dataset() {
        let mut seen = BTreeSet::new();
        for at in 0.. {
            let files = SimulatedFiles::new(at);
            let disk = files.disk();
            publish(&disk, 1).unwrap();
            files.set_faults(Faults { crash_at: Some(at), ..Faults::default() });
            let published = publish(&disk, 2);
            let is_over = !files.is_down();
            files.restart(if at % 2 == 0 { Crash::Machine } else { Crash::Process });
            let before = version(&disk);
            seen.insert(before);
            if published.is_ok() {
                assert_eq!(before, Some(2));
            }
            recover(&disk, Path::new(DATA)).unwrap();
            assert_eq!(version(&disk), before);
            let names = disk.list(Path::new(DATA)).unwrap();
            assert!(names.iter().all(|name| !name.to_str().unwrap().starts_with('.')));
            if is_over {
                break;
            }
        }
        assert_eq!(seen, [Some(1), Some(2)].into());
    }

    /// Runs `FITGPT_HISTORIES` histories; `scripts/histories` runs 10,000.
    #[test]
    fn no_history_of_crashes_and_errors_loses_a_published_dataset() {
        let count = fitgpt_files::disk::simulated::histories();
        for seed in 0..count {
            let files = SimulatedFiles::new(seed);
            let disk = files.disk();
            let mut chance = SplitMix(seed ^ 0xDA7A);
            let mut acknowledged = None;
            for attempt in 1..=8 {
                let faults = Faults::random(&mut chance, 60);
                files.set_faults(faults);
                let published = publish(&disk, attempt);
                files.restart(Crash::random(&mut chance));
                let found = version(&disk);
                // What is found now must stay, even if the process did not learn that it was
                // published.
                recover(&disk, Path::new(DATA)).unwrap();
                assert_eq!(version(&disk), found, "seed {seed}");
                if published.is_ok() {
                    acknowledged = Some(attempt);
                }
                // The acknowledged version, or a later one that was not acknowledged.
                assert!(found >= acknowledged, "seed {seed}: {found:?} after {acknowledged:?}");
                acknowledged = found;
            }
        }
    }

    #[cfg(unix)]
    #[test]
    fn links_and_other_folders_are_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, theirs) = (dir.path().join("data"), dir.path().join("theirs"));
        for path in [&folder, &theirs] {
            std::fs::create_dir(path).unwrap();
        }
        std::fs::write(theirs.join("train.bin"), "precious").unwrap();
        for prefix in [PREPARING, PREPARED, PLACING] {
            let link = folder.join(format!("{prefix}0123456789abcdef"));
            std::os::unix::fs::symlink(&theirs, link).unwrap();
        }
        std::fs::create_dir(folder.join(".preparing-mine")).unwrap();
        recover(&Disk::real(), &folder).unwrap();
        assert_eq!(std::fs::read(theirs.join("train.bin")).unwrap(), b"precious");
        assert!(folder.join(".preparing-mine").exists());
    }
}
