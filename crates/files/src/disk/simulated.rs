//! A simulated disk in memory that fails calls, tears and reorders writes, and loses unsynced data.
//!
//! A file has two contents: the one that processes see, and the one that survives a power failure.
//! The difference is a list of writes, of which a power failure keeps any subset, each possibly
//! torn. The same holds for names: a change reaches the disk when one of its folders is synced, or
//! before that in any order that keeps the order within each folder. A rename is atomic.
//!
//! Another process may move folders between two calls.
//!
//! All randomness comes from one seed, so a history can be repeated.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    io,
    path::{Component, Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use fitgpt_program::hash::{SPLITMIX_STEP, splitmix64};

use super::{Disk, FileKind, FileSystem, HeldPath, OpenMode, RawFile, not_a_file};
use crate::os::FileIdentity;

/// Linux's numbers; the standard library maps them to kinds on any Unix.
const EIO: i32 = 5;
const ENOSPC: i32 = 28;
const EINTR: i32 = 4;

/// The path of a node, whatever its names are.
const HELD: &str = "#node-";

/// The faults to inject, by the number of the call, counted from zero.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// The process or the machine ends before this call.
    pub crash_at: Option<u64>,
    /// This call fails: the disk is full, or it reports an error.
    pub fail_at: Option<u64>,
    /// How many of 1,000 calls are interrupted or transfer only a part of their bytes.
    pub disturbed: u64,
}

impl Faults {
    /// A crash, a failed call, both or neither, within about `calls` calls.
    pub fn random(chance: &mut SplitMix, calls: u64) -> Self {
        let one = |chance: &mut SplitMix| (chance.below(2) == 0).then(|| chance.below(calls));
        Self { crash_at: one(chance), fail_at: one(chance), disturbed: chance.below(100) }
    }
}

/// How many histories a test runs: `FITGPT_HISTORIES`, or 200.
pub fn histories() -> u64 {
    std::env::var("FITGPT_HISTORIES").map_or(200, |count| count.parse().expect("a number"))
}

/// What crashes: the process alone, or the whole machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// Everything that was written stays.
    Process,
    /// Unsynced data is kept in part.
    Machine,
}

impl Crash {
    /// One of the two, with equal chances.
    pub fn random(chance: &mut SplitMix) -> Self {
        if chance.below(2) == 0 { Self::Process } else { Self::Machine }
    }
}

/// A small generator: splitmix64.
#[derive(Clone, Debug)]
pub struct SplitMix(pub u64);

impl SplitMix {
    pub(crate) fn next(&mut self) -> u64 {
        let number = splitmix64(self.0);
        self.0 = self.0.wrapping_add(SPLITMIX_STEP);
        number
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }
}

#[derive(Clone, Debug)]
enum Node {
    Folder { now: FolderNames, kept: FolderNames },
    File { now: Vec<u8>, kept: Vec<u8>, unsynced: Vec<(usize, Vec<u8>)> },
}

type FolderNames = BTreeMap<OsString, usize>;

/// Names set or removed together.
#[derive(Clone, Debug)]
struct NameChange(Vec<(usize, OsString, Option<usize>)>);

impl NameChange {
    fn touches(&self, folders: &BTreeSet<usize>) -> bool {
        self.0.iter().any(|(folder, ..)| folders.contains(folder))
    }

    fn folders(&self) -> impl Iterator<Item = usize> {
        self.0.iter().map(|(folder, ..)| *folder)
    }
}

#[derive(Debug)]
struct State {
    nodes: Vec<Node>,
    unsynced: Vec<NameChange>,
    chance: SplitMix,
    faults: Faults,
    calls: u64,
    is_down: bool,
    has_links: bool,
    /// What another process does before a call: renames, each from and to.
    moves: Option<(u64, Vec<[PathBuf; 2]>)>,
}

/// The simulated file system.
#[derive(Clone, Debug)]
pub struct SimulatedFiles(Arc<Mutex<State>>);

impl SimulatedFiles {
    /// An empty disk.
    pub fn new(seed: u64) -> Self {
        let root = Node::Folder { now: FolderNames::new(), kept: FolderNames::new() };
        Self(Arc::new(Mutex::new(State {
            nodes: vec![root],
            unsynced: Vec::new(),
            chance: SplitMix(seed),
            faults: Faults::default(),
            calls: 0,
            is_down: false,
            has_links: true,
            moves: None,
        })))
    }

    /// Whether a file may have two names; some file systems have no hard links.
    pub fn set_links(&self, has_links: bool) {
        self.state().has_links = has_links;
    }

    /// The interface to these files.
    pub fn disk(&self) -> Disk {
        Disk::on(Arc::new(self.clone()))
    }

    /// Counts calls from zero again and makes these fail.
    pub fn set_faults(&self, faults: Faults) {
        let mut state = self.state();
        (state.faults, state.calls, state.is_down) = (faults, 0, false);
    }

    /// Counts calls from zero again. Before call `at`, another process moves `folder` to `away`, and
    /// `other` in its place.
    pub fn replace_folder_at(&self, at: u64, folder: &Path, away: &Path, other: &Path) {
        self.set_faults(Faults::default());
        let moves = [[folder, away], [other, folder]];
        self.state().moves = Some((at, moves.map(|pair| pair.map(Path::to_owned)).into()));
    }

    /// How many calls there were since the faults were set.
    pub fn calls(&self) -> u64 {
        self.state().calls
    }

    /// Whether the crash came.
    pub fn is_down(&self) -> bool {
        self.state().is_down
    }

    /// Starts again after a crash, without further faults.
    pub fn restart(&self, crash: Crash) {
        let mut state = self.state();
        if crash == Crash::Machine {
            state.lose_power();
        }
        (state.faults, state.calls, state.is_down) = (Faults::default(), 0, false);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One call, which a fault may prevent.
    fn call(&self) -> io::Result<MutexGuard<'_, State>> {
        let mut state = self.state();
        state.begin()?;
        Ok(state)
    }
}

impl State {
    fn begin(&mut self) -> io::Result<()> {
        let call = self.calls;
        self.calls += 1;
        if let Some((_, moves)) = self.moves.take_if(|(at, _)| *at == call) {
            for [from, to] in moves {
                self.rename(&from, &to)?;
            }
        }
        if self.is_down || self.faults.crash_at == Some(call) {
            self.is_down = true;
            return Err(io::Error::other("the machine is down"));
        }
        if self.faults.fail_at == Some(call) {
            let errno = if self.chance.below(2) == 0 { EIO } else { ENOSPC };
            return Err(io::Error::from_raw_os_error(errno));
        }
        if self.chance.below(1000) < self.faults.disturbed {
            return Err(io::Error::from_raw_os_error(EINTR));
        }
        Ok(())
    }

    fn find(&self, path: &Path) -> io::Result<usize> {
        let mut node = 0;
        for part in path.components() {
            if let Component::Normal(name) = part {
                let held = name.to_str().and_then(|name| name.strip_prefix(HELD)?.parse().ok());
                if let Some(held) = held {
                    node = held;
                    continue;
                }
                let Node::Folder { now, .. } = &self.nodes[node] else {
                    return Err(io::ErrorKind::NotADirectory.into());
                };
                node = *now.get(name).ok_or(io::ErrorKind::NotFound)?;
            }
        }
        Ok(node)
    }

    /// The folder that holds `path`, and the name in it.
    fn parent(&self, path: &Path) -> io::Result<(usize, OsString)> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
        let folder = self.find(path.parent().unwrap_or(Path::new("")))?;
        match self.nodes[folder] {
            Node::Folder { .. } => Ok((folder, name)),
            Node::File { .. } => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    fn change(&mut self, change: Vec<(usize, OsString, Option<usize>)>) {
        let change = NameChange(change);
        for (folder, name, node) in &change.0 {
            let Node::Folder { now, .. } = &mut self.nodes[*folder] else { unreachable!() };
            set(now, name, *node);
        }
        self.unsynced.push(change);
    }

    fn keep(&mut self, change: &NameChange) {
        for (folder, name, node) in &change.0 {
            let Node::Folder { kept, .. } = &mut self.nodes[*folder] else { unreachable!() };
            set(kept, name, *node);
        }
    }

    fn create(&mut self, path: &Path, node: Node) -> io::Result<usize> {
        let (folder, name) = self.parent(path)?;
        if self.find(path).is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.nodes.push(node);
        let id = self.nodes.len() - 1;
        self.change(vec![(folder, name, Some(id))]);
        Ok(id)
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let node = self.find(from)?;
        if let Ok(there) = self.find(to)
            && let Node::Folder { .. } = self.nodes[there]
        {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let ((from, old), (to, new)) = (self.parent(from)?, self.parent(to)?);
        self.change(vec![(from, old, None), (to, new, Some(node))]);
        Ok(())
    }

    fn remove(&mut self, path: &Path) -> io::Result<()> {
        let (folder, name) = self.parent(path)?;
        self.change(vec![(folder, name, None)]);
        Ok(())
    }

    /// Writes the name changes of `folder` to the disk, with those on which they depend.
    fn sync_names(&mut self, folder: usize) {
        let mut folders = BTreeSet::from([folder]);
        let mut is_synced = vec![false; self.unsynced.len()];
        for (index, change) in self.unsynced.iter().enumerate().rev() {
            if change.touches(&folders) {
                is_synced[index] = true;
                folders.extend(change.folders());
            }
        }
        let changes = std::mem::take(&mut self.unsynced);
        for (change, is_synced) in changes.into_iter().zip(is_synced) {
            if is_synced {
                self.keep(&change);
            } else {
                self.unsynced.push(change);
            }
        }
    }

    fn lose_power(&mut self) {
        let mut lost = BTreeSet::new();
        for change in std::mem::take(&mut self.unsynced) {
            if !change.touches(&lost) && self.chance.below(3) > 0 {
                self.keep(&change);
            } else {
                lost.extend(change.folders());
            }
        }
        let State { nodes, chance, .. } = self;
        for node in nodes {
            match node {
                Node::Folder { now, kept } => now.clone_from(kept),
                Node::File { now, kept, unsynced } => {
                    keep_some(kept, unsynced, chance);
                    now.clone_from(kept);
                }
            }
        }
    }
}

fn set(names: &mut FolderNames, name: &OsString, node: Option<usize>) {
    match node {
        Some(node) => _ = names.insert(name.clone(), node),
        None => _ = names.remove(name),
    }
}

/// Applies any subset of the writes, each possibly torn.
fn keep_some(kept: &mut Vec<u8>, writes: &mut Vec<(usize, Vec<u8>)>, chance: &mut SplitMix) {
    for (at, bytes) in writes.drain(..) {
        match chance.below(4) {
            0 => {}
            1 => write(kept, at, &bytes[..chance.below(bytes.len() as u64) as usize]),
            _ => write(kept, at, &bytes),
        }
    }
}

fn write(content: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    let end = at + bytes.len();
    if content.len() < end {
        content.resize(end, 0);
    }
    content[at..end].copy_from_slice(bytes);
}

impl FileSystem for SimulatedFiles {
    fn kind(&self, path: &Path) -> io::Result<FileKind> {
        let state = self.call()?;
        Ok(match &state.nodes[state.find(path)?] {
            Node::Folder { .. } => FileKind::Folder,
            Node::File { now, .. } => FileKind::File { bytes: now.len() as u64 },
        })
    }

    fn identity(&self, path: &Path) -> io::Result<FileIdentity> {
        let state = self.call()?;
        Ok(FileIdentity(0, state.find(path)? as u64))
    }

    fn hold(&self, path: &Path) -> io::Result<HeldPath> {
        let node = self.call()?.find(path)?;
        Ok(HeldPath { path: format!("{HELD}{node}").into(), _open: None })
    }

    fn list(&self, path: &Path) -> io::Result<Vec<OsString>> {
        let state = self.call()?;
        match &state.nodes[state.find(path)?] {
            Node::Folder { now, .. } => Ok(now.keys().cloned().collect()),
            Node::File { .. } => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    fn create_dirs(&self, path: &Path) -> io::Result<()> {
        let mut state = self.call()?;
        let folders: Vec<_> = path.ancestors().filter(|p| p.file_name().is_some()).collect();
        for folder in folders.into_iter().rev() {
            if state.find(folder).is_err() {
                state.create(
                    folder,
                    Node::Folder { now: FolderNames::new(), kept: FolderNames::new() },
                )?;
            }
        }
        Ok(())
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        let mut state = self.call()?;
        state.create(path, Node::Folder { now: FolderNames::new(), kept: FolderNames::new() })?;
        Ok(())
    }

    fn open(&self, path: &Path, access: OpenMode) -> io::Result<Box<dyn RawFile>> {
        let mut state = self.call()?;
        let found = state.find(path);
        let missing = matches!(&found, Err(error) if error.kind() == io::ErrorKind::NotFound);
        let node = match access {
            OpenMode::New if found.is_ok() => return Err(io::ErrorKind::AlreadyExists.into()),
            OpenMode::New | OpenMode::Append if missing => {
                let file = Node::File { now: Vec::new(), kept: Vec::new(), unsynced: Vec::new() };
                state.create(path, file)?
            }
            _ => found?,
        };
        match state.nodes[node] {
            Node::File { .. } => Ok(Box::new(SimulatedFile { files: self.clone(), node })),
            Node::Folder { .. } => Err(not_a_file()),
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.call()?.rename(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.call()?;
        if !state.has_links {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let node = state.find(from)?;
        if state.find(to).is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let (folder, name) = state.parent(to)?;
        state.change(vec![(folder, name, Some(node))]);
        Ok(())
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        let mut state = self.call()?;
        let node = state.find(path)?;
        match state.nodes[node] {
            Node::File { .. } => state.remove(path),
            Node::Folder { .. } => Err(io::ErrorKind::IsADirectory.into()),
        }
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        let mut state = self.call()?;
        let node = state.find(path)?;
        match &state.nodes[node] {
            Node::Folder { now, .. } if now.is_empty() => state.remove(path),
            Node::Folder { .. } => Err(io::ErrorKind::DirectoryNotEmpty.into()),
            Node::File { .. } => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        let mut state = self.call()?;
        let folder = state.find(path)?;
        state.sync_names(folder);
        Ok(())
    }
}

#[derive(Debug)]
struct SimulatedFile {
    files: SimulatedFiles,
    node: usize,
}

impl SimulatedFile {
    /// A write that fails or is interrupted may have written a part of its bytes.
    fn write(&self, bytes: &[u8], position: Option<u64>) -> io::Result<usize> {
        let mut state = self.files.state();
        let called = state.begin();
        let was_interrupted =
            called.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::Interrupted);
        let count = if called.is_ok() {
            bytes.len()
        } else {
            state.chance.below(bytes.len() as u64) as usize
        };
        let Node::File { now, unsynced, .. } = &mut state.nodes[self.node] else { unreachable!() };
        let at = position.map_or(now.len(), |position| position as usize);
        if count > 0 {
            write(now, at, &bytes[..count]);
            unsynced.push((at, bytes[..count].to_vec()));
        }
        match called {
            // A call that has written something returns how much instead of an interruption.
            Err(_) if was_interrupted && count > 0 => Ok(count),
            Err(error) => Err(error),
            Ok(()) => Ok(count),
        }
    }
}

impl RawFile for SimulatedFile {
    fn read_at(&self, bytes: &mut [u8], position: u64) -> io::Result<usize> {
        let mut state = self.files.call()?;
        let is_short = state.chance.below(1000) < state.faults.disturbed;
        let Node::File { now, .. } = &state.nodes[self.node] else { unreachable!() };
        let rest = now.get(position as usize..).unwrap_or_default();
        let mut count = rest.len().min(bytes.len());
        if is_short && count > 1 {
            count /= 2;
        }
        bytes[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    fn write_at(&mut self, bytes: &[u8], position: u64) -> io::Result<usize> {
        self.write(bytes, Some(position))
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write(bytes, None)
    }

    fn len(&self) -> io::Result<u64> {
        let state = self.files.call()?;
        let Node::File { now, .. } = &state.nodes[self.node] else { unreachable!() };
        Ok(now.len() as u64)
    }

    /// After an error the system drops what it could not write, as Linux does: syncing again
    /// succeeds, but the bytes are not on the disk.
    fn sync(&self) -> io::Result<()> {
        let mut state = self.files.state();
        let called = state.begin();
        let is_error = called.as_ref().is_err_and(|e| e.kind() != io::ErrorKind::Interrupted);
        let State { nodes, chance, is_down, .. } = &mut *state;
        let Node::File { kept, unsynced, .. } = &mut nodes[self.node] else { unreachable!() };
        if is_error && !*is_down {
            keep_some(kept, unsynced, chance);
        }
        called?;
        for (at, bytes) in unsynced.drain(..) {
            write(kept, at, &bytes);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> &Path {
        Path::new(text)
    }

    #[test]
    fn only_synced_data_is_certain_to_survive_a_power_failure() {
        let mut lost = 0;
        for seed in 0..100 {
            let files = SimulatedFiles::new(seed);
            let disk = files.disk();
            disk.create_dirs(path("out")).unwrap();
            disk.sync_dir(path("")).unwrap();
            let mut safe = disk.create(path("out/safe")).unwrap();
            safe.write_all_at(b"safe", 0).unwrap();
            safe.sync().unwrap();
            disk.sync_dir(path("out")).unwrap();
            let mut other = disk.create(path("out/other")).unwrap();
            other.write_all_at(b"other", 0).unwrap();
            files.restart(Crash::Machine);
            assert_eq!(disk.read(path("out/safe"), 10).unwrap(), b"safe");
            lost += u32::from(disk.read(path("out/other"), 10).is_ok_and(|b| b != b"other"));
            lost += u32::from(disk.kind(path("out/other")).unwrap().is_none());
        }
        assert!((20..100).contains(&lost), "{lost}");
    }

    #[test]
    fn an_interrupted_call_is_repeated_and_a_short_one_completed() {
        let files = SimulatedFiles::new(7);
        files.set_faults(Faults { disturbed: 400, ..Faults::default() });
        let disk = files.disk();
        disk.create_dirs(path("out")).unwrap();
        let mut file = disk.create(path("out/a")).unwrap();
        file.write_all_at(&[7; 1000], 0).unwrap();
        file.sync().unwrap();
        assert_eq!(disk.read(path("out/a"), 1000).unwrap(), [7; 1000]);
    }

    #[test]
    fn a_full_disk_fails_one_call_and_a_crash_all_later_ones() {
        let files = SimulatedFiles::new(1);
        let disk = files.disk();
        files.set_faults(Faults { fail_at: Some(1), ..Faults::default() });
        disk.create_dir(path("a")).unwrap();
        assert!(disk.create_dir(path("b")).is_err());
        disk.create_dir(path("c")).unwrap();
        files.set_faults(Faults { crash_at: Some(0), ..Faults::default() });
        assert!(disk.create_dir(path("d")).is_err() && disk.create_dir(path("e")).is_err());
        assert!(files.is_down() && files.calls() == 2);
        files.restart(Crash::Process);
        assert!(disk.is_folder(path("c")).unwrap() && !disk.is_folder(path("d")).unwrap());
    }
}
