//! Crashes and errors at every file operation of a save and of the recovery after it.

use std::{collections::BTreeSet, path::Path};

use fitgpt_files::{
    attempt::Attempt,
    disk::simulated::{Crash, Faults, SimulatedFiles},
};

use super::{
    super::{
        best_dir,
        commit::{recover_one, roll_back},
        folder::recover,
        load::weights_dir,
        save::save_weights,
    },
    *,
};

const OUT: &str = "out";

fn out() -> &'static Path {
    Path::new(OUT)
}

/// Keeps the last two.
const TWO: Retention = Retention { last: 2, best_step: None };

/// A disk with version 1 saved, or an empty one.
fn disk_with(version: Option<u32>, seed: u64) -> SimulatedFiles {
    let files = SimulatedFiles::new(seed);
    if let Some(version) = version {
        save_version_on(&files.disk(), out(), &tiny(true), version, TWO).unwrap();
    }
    files
}

fn version_on(files: &SimulatedFiles, dir: &Path) -> Option<u32> {
    match read_version_on(&files.disk(), dir, &tiny(true)) {
        Ok(version) => Some(version),
        Err(CheckpointError::Missing { .. }) => None,
        Err(error) => panic!("{error}"),
    }
}

fn names_in(disk: &Disk, dir: &Path) -> BTreeSet<String> {
    disk.list(dir).unwrap().into_iter().map(|name| name.into_string().unwrap()).collect()
}

fn whole() -> BTreeSet<String> {
    ["model.safetensors", "config.json", "state.safetensors", "manifest.json"]
        .map(str::to_owned)
        .into()
}

/// Saves version 2 with a crash before every call in turn; `after` checks what is left.
fn at_every_call(old: Option<u32>, crash: Crash, mut after: impl FnMut(&SimulatedFiles)) {
    for at in 0.. {
        let files = disk_with(old, at);
        files.set_faults(Faults { crash_at: Some(at), ..Faults::default() });
        let saved = save_version_on(&files.disk(), out(), &tiny(true), 2, TWO);
        if !files.is_down() {
            saved.unwrap();
            files.restart(Crash::Process);
            assert!(at > 40, "a save has more calls than {at}");
            assert_eq!(version_on(&files, out()), Some(2));
            return;
        }
        files.restart(crash);
        after(&files);
    }
}

#[test]
fn a_crash_at_any_call_leaves_the_old_or_the_new_checkpoint() {
    for crash in [Crash::Process, Crash::Machine] {
        let mut versions = BTreeSet::new();
        at_every_call(Some(1), crash, |files| {
            let before = version_on(files, out()); // as a reader sees it
            recover(&files.disk(), out()).unwrap();
            let version = version_on(files, out());
            assert_eq!(version, before);
            let names = names_in(&files.disk(), out());
            assert!(names.is_superset(&whole()), "{names:?}");
            assert!(names.iter().all(|name| !name.starts_with('.')), "{names:?}");
            if version == Some(2) {
                let kept = out().join("checkpoints/step-00000001");
                let kept_names = names_in(&files.disk(), &out().join("checkpoints"));
                assert_eq!(version_on(files, &kept), Some(1), "{crash:?} {names:?} {kept_names:?}");
            }
            versions.insert(version);
        });
        assert_eq!(versions, [Some(1), Some(2)].into());
    }
}

#[test]
fn a_crash_in_the_first_save_leaves_nothing_or_all_of_it() {
    for crash in [Crash::Process, Crash::Machine] {
        let mut versions = BTreeSet::new();
        at_every_call(None, crash, |files| {
            recover(&files.disk(), out()).unwrap();
            let version = version_on(files, out());
            let names = names_in(&files.disk(), out());
            assert_eq!(names.is_empty(), version.is_none(), "{names:?}");
            versions.insert(version);
        });
        assert_eq!(versions, [None, Some(2)].into());
    }
}

#[test]
fn a_crash_in_the_recovery_is_recovered_from() {
    at_every_call(Some(1), Crash::Machine, |files| {
        let version = version_on(files, out());
        for at in 0.. {
            files.set_faults(Faults { crash_at: Some(at), ..Faults::default() });
            let recovered = recover_one(&files.disk(), out());
            let crash = if at % 3 == 0 { Crash::Process } else { Crash::Machine };
            files.restart(crash);
            assert_eq!(version_on(files, out()), version);
            match recovered {
                Ok(()) => break,
                Err(error) => assert!(at < 500, "{error}"),
            }
        }
        recover_one(&files.disk(), out()).unwrap();
        assert!(names_in(&files.disk(), out()).iter().all(|name| !name.starts_with('.')));
    });
}

#[test]
fn a_call_that_fails_is_an_error_and_nothing_is_lost() {
    for at in 0.. {
        let files = disk_with(Some(1), at);
        files.set_faults(Faults { fail_at: Some(at), disturbed: 30, ..Faults::default() });
        let saved = save_version_on(&files.disk(), out(), &tiny(true), 2, TWO);
        let is_over = files.calls() <= at;
        files.restart(Crash::Process);
        let version = version_on(&files, out());
        if saved.is_ok() {
            assert_eq!(version, Some(2), "call {at}");
        }
        assert!(matches!(version, Some(1 | 2)), "call {at}: {version:?}");
        save_version_on(&files.disk(), out(), &tiny(true), 3, TWO).unwrap();
        assert_eq!(version_on(&files, out()), Some(3), "call {at}");
        files.restart(Crash::Machine);
        assert_eq!(version_on(&files, out()), Some(3), "call {at}");
        recover(&files.disk(), out()).unwrap();
        let names = names_in(&files.disk(), out());
        assert!(names.iter().all(|name| !name.starts_with('.')), "call {at}: {names:?}");
        if is_over {
            return;
        }
    }
}

#[test]
fn an_error_names_what_was_tried_on_which_file() {
    let files = disk_with(None, 1);
    let error = (0..).find_map(|at| {
        files.set_faults(Faults { fail_at: Some(at), ..Faults::default() });
        match save_version_on(&files.disk(), out(), &tiny(true), 1, TWO) {
            Err(CheckpointError::Io { action: Attempt::Write, path, .. }) => Some(path),
            _ => None,
        }
    });
    assert!(error.unwrap().ends_with("model.safetensors"));
}

/// The versions in `checkpoints/`.
fn kept(disk: &Disk) -> Vec<u32> {
    let folder = out().join("checkpoints");
    let names = names_in(disk, &folder);
    names
        .iter()
        .map(|name| read_version_on(disk, &folder.join(name), &tiny(true)).unwrap())
        .collect()
}

#[test]
fn the_last_ones_and_the_best_one_are_kept_whole() {
    let files = SimulatedFiles::new(1);
    let disk = files.disk();
    for version in 1..=7 {
        let keep = Retention { last: 3, best_step: (version > 2).then_some(2) };
        save_version_on(&disk, out(), &tiny(true), version, keep).unwrap();
    }
    assert_eq!(version_on(&files, out()), Some(7));
    assert_eq!(kept(&disk), [2, 5, 6]);
    // A better one: the old best one is removed.
    save_version_on(&disk, out(), &tiny(true), 8, Retention { last: 1, best_step: Some(7) })
        .unwrap();
    assert_eq!((version_on(&files, out()), kept(&disk)), (Some(8), vec![7]));
}

#[test]
fn a_useless_checkpoint_is_rolled_back_to_the_one_before_at_every_crash() {
    for at in 0.. {
        let files = disk_with(Some(1), at);
        let disk = files.disk();
        save_version_on(&disk, out(), &tiny(true), 2, TWO).unwrap();
        files.set_faults(Faults { crash_at: Some(at), ..Faults::default() });
        let rolled = roll_back(&disk, out());
        let is_over = !files.is_down();
        files.restart(Crash::Machine);
        recover(&disk, out()).unwrap();
        let version = version_on(&files, out());
        assert!(matches!(version, Some(1 | 2)), "call {at}: {version:?}");
        if is_over {
            assert_eq!((rolled.unwrap(), version), (Some(1), Some(1)));
            // The next save follows it.
            save_version_on(&disk, out(), &tiny(true), 3, TWO).unwrap();
            assert_eq!((version_on(&files, out()), kept(&disk)), (Some(3), vec![1]));
            return;
        }
    }
}

#[test]
fn checkpoints_of_another_run_and_files_of_others_stay() {
    let files = SimulatedFiles::new(1);
    let disk = files.disk();
    let folder = out().join("checkpoints");
    for version in 1..=3 {
        save_version_on(&disk, out(), &tiny(true), version, TWO).unwrap();
    }
    disk.create_dirs(&folder.join("step-mine")).unwrap();
    disk.create(&folder.join("step-00000002/README.md")).unwrap();
    save_version_on(&disk, out(), &tiny(true), 4, TWO).unwrap();
    assert!(disk.is_file(&folder.join("step-00000002/README.md")).unwrap());
    assert!(!disk.is_file(&folder.join("step-00000002/model.safetensors")).unwrap());
    assert!(disk.is_folder(&folder.join("step-mine")).unwrap());
    assert_eq!(version_on(&files, &folder.join("step-00000003")), Some(3));
}

#[test]
fn the_newest_of_several_committed_saves_wins_at_every_crash_of_the_recovery() {
    // Two folders that a crash in an earlier version's recovery may have left, the first of them
    // half in place.
    let prepare = |files: &SimulatedFiles| {
        let disk = files.disk();
        for version in [1, 2, 3] {
            let dir = Path::new(OUT).join(version.to_string());
            save_version_on(&disk, &dir, &tiny(true), version, TWO).unwrap();
        }
        let ids = ["00000002-00000000000b", "00000003-00000000000c"];
        let out = out().join("1");
        for (version, id) in [("2", ids[0]), ("3", ids[1])] {
            let saved = out.join(format!(".saved-{id}"));
            disk.rename(&Path::new(OUT).join(version), &saved).unwrap();
        }
        let half = out.join(format!(".saved-{}", ids[0]));
        disk.rename(&half.join("model.safetensors"), &out.join("model.safetensors")).unwrap();
        for folder in [Path::new(OUT), &out, &half] {
            disk.sync_dir(folder).unwrap();
        }
        out
    };
    for at in 0.. {
        let files = SimulatedFiles::new(at);
        let out = prepare(&files);
        assert_eq!(version_on(&files, &out), Some(3));
        files.set_faults(Faults { crash_at: Some(at), ..Faults::default() });
        let is_done = recover_one(&files.disk(), &out).is_ok();
        files.restart(Crash::Machine);
        assert_eq!(version_on(&files, &out), Some(3), "call {at}");
        recover_one(&files.disk(), &out).unwrap();
        assert_eq!(version_on(&files, &out), Some(3), "call {at}");
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
    let contents = contents(&architecture, tensors, 1);
    save_version(out_dir, &architecture, 2);
    assert_eq!(weights_dir(out_dir), out_dir);

    let mut best = Memory::version(tensors, Which::Weights, 1);
    let id = save_weights(&best_dir(out_dir), contents, &mut best).unwrap();
    let chosen = weights_dir(out_dir);
    assert_eq!(chosen, best_dir(out_dir));
    assert_eq!(Weights::open(&chosen).unwrap().save_id(), Some(&*id.to_string()));
    let read = read_weights(&chosen, tensors, PositionRows::Exact).unwrap();
    assert_eq!(read.bytes, best.bytes);
    assert_eq!(read_version(out_dir, &architecture).unwrap(), 2);
}

#[test]
fn values_that_are_not_finite_are_not_committed() {
    for wild in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        for name in ["h.0.mlp.c_fc.weight", "wpe.weight", "exp_avg.wte.weight"] {
            let files = disk_with(Some(1), 3);
            let architecture = tiny(true);
            let tensors = &tensors_of(&architecture);
            let mut memory = Memory::version(tensors, Which::All, 2);
            let bytes = memory.bytes.get_mut(name).unwrap();
            bytes[8..12].copy_from_slice(&wild.to_ne_bytes());
            let contents = contents(&architecture, tensors, 2);
            let error = save(&files.disk(), out(), contents, &2, &mut memory).unwrap_err();
            match error {
                CheckpointError::NotFinite { tensor } => assert_eq!(tensor, name),
                other => panic!("{other:?}"),
            }
            assert_eq!(version_on(&files, out()), Some(1));
            assert_eq!(names_in(&files.disk(), out()), whole());
        }
    }
}
