//! The world ends after every single step of a save, and of the recovery after it.

use std::{
    cell::RefCell,
    collections::BTreeSet,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use super::{
    super::{
        best_dir,
        commit::{exists, recover, recover_one},
        disk::Disk,
        load::weights_dir,
        save::{save_on, save_weights},
    },
    *,
};
use crate::attempt::Attempt;

/// What ends at the step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ends {
    /// The process, or the machine: no later step happens either.
    World,
    /// That step alone: a full disk, say. Later steps work.
    Step,
}

/// Lets `at` steps happen and then fails.
#[derive(Debug)]
pub(in super::super) struct Crash {
    ends: Ends,
    at: usize,
    steps: usize,
    has_failed: bool,
    /// What a machine that loses power forgets.
    unsynced: BTreeSet<PathBuf>,
}

impl Crash {
    fn disk(ends: Ends, at: usize) -> Disk {
        let crash = Self { ends, at, steps: 0, has_failed: false, unsynced: BTreeSet::new() };
        Disk { crash: Some(RefCell::new(crash)) }
    }

    pub(in super::super) fn before(&mut self, action: Attempt, path: &Path) -> io::Result<()> {
        let step = self.steps;
        self.steps += 1;
        if step == self.at || (step > self.at && self.ends == Ends::World) {
            self.has_failed = true;
            return Err(io::ErrorKind::StorageFull.into());
        }
        match action {
            Attempt::Write => _ = self.unsynced.insert(path.to_owned()),
            Attempt::Sync => _ = self.unsynced.remove(path),
            _ => {}
        }
        Ok(())
    }

    pub(in super::super) fn is_next(&mut self, path: &Path) -> bool {
        let is_next = self.steps == self.at;
        if is_next {
            self.unsynced.insert(path.to_owned());
        }
        is_next
    }

    pub(in super::super) fn renamed(&mut self, from: &Path, to: &Path) {
        let moved =
            |path: PathBuf| path.strip_prefix(from).map_or(path.clone(), |rest| to.join(rest));
        self.unsynced = std::mem::take(&mut self.unsynced).into_iter().map(moved).collect();
    }

    /// The power fails: whatever was written and not synced is gone.
    fn lose_power(disk: &Disk) {
        for path in &disk.crash.as_ref().unwrap().borrow().unsynced {
            if path.exists() {
                File::create(path).unwrap();
            }
        }
    }
}

fn has_failed(disk: &Disk) -> bool {
    disk.crash.as_ref().unwrap().borrow().has_failed
}

/// Saves version `version`, on a disk that fails.
fn save_on_version(disk: &Disk, dir: &Path, version: u32) -> Result<SaveId, CheckpointError> {
    let architecture = tiny(true);
    let tensors = &tensors_of(&architecture);
    let mut memory = Memory::version(tensors, Which::All, version);
    let contents = Contents { architecture: &architecture, tensors };
    save_on(disk, dir, contents, &version, &mut memory)
}

fn names_in(dir: &Path) -> BTreeSet<String> {
    let names = fs::read_dir(dir).unwrap();
    names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn whole() -> BTreeSet<String> {
    ["model.safetensors", "config.json", "state.safetensors"].map(str::to_owned).into()
}

/// Runs `save` with a crash at every step until one run has none; `after` judges what is left.
fn at_every_step(ends: Ends, has_old: bool, mut after: impl FnMut(&Disk, &Path)) {
    for at in 0.. {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        if has_old {
            save_version(dir, &tiny(true), 1);
        }
        let disk = Crash::disk(ends, at);
        let saved = save_on_version(&disk, dir, 2);
        assert_eq!(saved.is_err(), has_failed(&disk), "step {at}");
        if !has_failed(&disk) {
            assert!(at > 30, "a save has more steps than {at}");
            assert_eq!(read_version(dir, &tiny(true)).unwrap(), 2);
            assert_eq!(names_in(dir), whole());
            return;
        }
        after(&disk, dir);
    }
}

#[test]
fn a_crash_at_any_step_leaves_the_old_or_the_new_checkpoint() {
    let mut versions = Vec::new();
    at_every_step(Ends::World, true, |disk, dir| {
        Crash::lose_power(disk);
        let before = read_version(dir, &tiny(true)).unwrap(); // as one who only reads sees it
        recover(dir).unwrap();
        let version = read_version(dir, &tiny(true)).unwrap();
        assert_eq!(version, before);
        assert_eq!(names_in(dir), whole());
        versions.push(version);
    });
    assert!(versions.is_sorted(), "one step decides: {versions:?}");
    assert!(versions.contains(&1) && versions.contains(&2), "{versions:?}");
}

#[test]
fn a_crash_in_the_first_save_leaves_nothing_or_all_of_it() {
    let mut versions = Vec::new();
    at_every_step(Ends::World, false, |disk, dir| {
        Crash::lose_power(disk);
        recover(dir).unwrap();
        versions.push(if exists(dir) { read_version(dir, &tiny(true)).unwrap() } else { 0 });
        assert_eq!(names_in(dir).is_empty(), versions.last() == Some(&0));
    });
    assert!(versions.is_sorted(), "one step decides: {versions:?}");
    assert!(versions.contains(&0) && versions.contains(&2), "{versions:?}");
}

#[test]
fn a_crash_in_the_recovery_is_recovered_from() {
    at_every_step(Ends::World, true, |disk, dir| {
        Crash::lose_power(disk);
        let version = read_version(dir, &tiny(true)).unwrap();
        let mut at = 0;
        loop {
            // Each turn goes on from what the last one left, one step further at most.
            let disk = Crash::disk(Ends::World, at);
            let recovered = recover_one(&disk, dir);
            assert_eq!(read_version(dir, &tiny(true)).unwrap(), version);
            if recovered.is_ok() {
                break;
            }
            at = if at == 2 { 1 } else { at + 1 };
        }
        assert_eq!(names_in(dir), whole());
    });
}

#[test]
fn a_step_that_fails_is_an_error_with_a_path_and_nothing_is_lost_or_left() {
    at_every_step(Ends::Step, true, |_, dir| {
        let version = read_version(dir, &tiny(true)).unwrap();
        if version == 1 {
            assert_eq!(names_in(dir), whole());
        }
        save_version(dir, &tiny(true), 3);
        assert_eq!(read_version(dir, &tiny(true)).unwrap(), 3);
        assert_eq!(names_in(dir), whole());
    });
    let dir = tempfile::tempdir().unwrap();
    let error = save_on_version(&Crash::disk(Ends::Step, 5), dir.path(), 1).unwrap_err();
    match error {
        CheckpointError::Io { action, path, .. } => {
            assert_eq!(action, Attempt::Write);
            assert!(path.ends_with("model.safetensors"), "{}", path.display());
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn of_several_committed_saves_the_newest_wins_at_every_crash_of_the_recovery() {
    // Two folders that a crash in an older recovery may have left: the first half in place.
    let prepare = |dir: &Path| {
        for version in [1, 2, 3] {
            save_version(&dir.join(version.to_string()), &tiny(true), version);
        }
        let ids = ["00000001-00000000000a", "00000002-00000000000b", "00000003-00000000000c"];
        let out = dir.join("1");
        for (version, id) in [("2", ids[1]), ("3", ids[2])] {
            let saved = out.join(format!(".saved-{id}"));
            fs::rename(dir.join(version), &saved).unwrap();
        }
        let half = out.join(format!(".saved-{}", ids[1]));
        fs::rename(half.join("model.safetensors"), out.join("model.safetensors")).unwrap();
        out
    };
    for at in 0.. {
        let dir = tempfile::tempdir().unwrap();
        let out = prepare(dir.path());
        assert_eq!(read_version(&out, &tiny(true)).unwrap(), 3);
        let disk = Crash::disk(Ends::World, at);
        let is_done = recover_one(&disk, &out).is_ok();
        assert_eq!(read_version(&out, &tiny(true)).unwrap(), 3, "step {at}");
        recover(&out).unwrap();
        assert_eq!(read_version(&out, &tiny(true)).unwrap(), 3, "step {at}");
        assert_eq!(names_in(&out), whole());
        if is_done {
            assert!(at > 5);
            return;
        }
    }
}

#[test]
fn best_weights_are_committed_in_their_own_folder_and_preferred() {
    let dir = tempfile::tempdir().unwrap();
    let out_dir = dir.path();
    let architecture = tiny(true);
    let tensors = &tensors_of(&architecture);
    let contents = Contents { architecture: &architecture, tensors };
    save_version(out_dir, &architecture, 2);
    assert_eq!(weights_dir(out_dir), out_dir);

    let mut best = Memory::version(tensors, Which::Weights, 1);
    let id = save_weights(&best_dir(out_dir), contents, &mut best).unwrap();
    let chosen = weights_dir(out_dir);
    assert_eq!(chosen, best_dir(out_dir));
    assert_eq!(Weights::open(&chosen).unwrap().save_id(), Some(&*id.to_string()));
    let read = read_weights(&chosen, tensors, Positions::Exact).unwrap();
    assert_eq!(read.bytes, best.bytes);
    assert_eq!(read_version(out_dir, &architecture).unwrap(), 2);

    // A crash after the commit: found before and after the recovery.
    let saved = best_dir(out_dir).join(format!(".saved-{id}"));
    fs::create_dir(&saved).unwrap();
    for name in ["model.safetensors", "config.json"] {
        fs::rename(best_dir(out_dir).join(name), saved.join(name)).unwrap();
    }
    for _ in 0..2 {
        assert_eq!(weights_dir(out_dir), best_dir(out_dir));
        let read = read_weights(&best_dir(out_dir), tensors, Positions::Exact).unwrap();
        assert_eq!(read.bytes, best.bytes);
        recover(out_dir).unwrap();
    }
    assert!(!saved.exists());

    super::super::forget_best(out_dir).unwrap();
    super::super::forget_best(out_dir).unwrap();
    assert_eq!(weights_dir(out_dir), out_dir);
}
