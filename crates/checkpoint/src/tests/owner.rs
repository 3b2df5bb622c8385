//! Whose folder it is, runs that replace others, and folders that move while a run has them.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use fitgpt_files::disk::simulated::{Crash, Faults, SimulatedFiles};

use super::{
    super::{
        CONFIG_FILE, HeldFolder, LOG_FILE, MANIFEST_FILE, MODEL_FILE,
        folder::{begin, recover},
        held::new_folder_next_to,
        ownership::{FolderContents, inspect},
        set_aside::set_aside,
    },
    *,
};

const OLD: &str = "0000000000000001";
const NEW: &str = "0000000000000002";

fn out() -> &'static Path {
    Path::new("out")
}

fn write(disk: &Disk, path: &Path, text: &str) {
    disk.create_dirs(path.parent().unwrap()).unwrap();
    disk.remove_file(path).unwrap();
    let mut file = disk.create(path).unwrap();
    file.write_all_at(text.as_bytes(), 0).unwrap();
    file.sync().unwrap();
    disk.sync_dir(path.parent().unwrap()).unwrap();
}

/// Saves a version as the run `run_id`, in a folder that it holds.
fn save_as(
    disk: &Disk,
    (run_id, dir): (&str, &Path),
    version: u32,
    held: Option<&HeldFolder>,
) -> Result<SaveId, CheckpointError> {
    let architecture = tiny(true);
    let tensors = &tensors_of(&architecture);
    let mut memory = Memory::version(tensors, Which::All, version);
    let mut contents = Contents { held, ..contents(&architecture, tensors, version) };
    contents.label.run_id = run_id;
    contents.label.keep = Retention { last: 2, best_step: None };
    save(disk, dir, contents, &version, &mut memory)
}

/// Every file below `dir` with its content.
fn files(disk: &Disk, dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut all = BTreeMap::new();
    for name in disk.list(dir).unwrap() {
        let path = dir.join(name);
        if disk.is_folder(&path).unwrap() {
            all.extend(files(disk, &path));
        } else {
            all.insert(path.display().to_string(), disk.read(&path, 1 << 20).unwrap());
        }
    }
    all
}

/// An old run with a kept checkpoint, a log, a tokenizer, and a file of the user.
fn disk_with_a_run(seed: u64) -> SimulatedFiles {
    let simulated = SimulatedFiles::new(seed);
    let disk = simulated.disk();
    disk.create_dirs(out()).unwrap();
    begin(&disk, out(), OLD).unwrap();
    write(&disk, &out().join(LOG_FILE), "old log");
    write(&disk, &out().join("tokenizer.json"), "old tokenizer");
    for version in [1, 2] {
        save_as(&disk, (OLD, out()), version, None).unwrap();
    }
    save_as(&disk, (OLD, &out().join("best")), 2, None).unwrap();
    write(&disk, &out().join("best/notes.txt"), "mine");
    write(&disk, &out().join("checkpoints/notes.txt"), "mine");
    write(&disk, &out().join("README.md"), "mine, too");
    simulated
}

/// A new run that replaces the one in the folder, up to its first save.
fn replace(disk: &Disk) -> Result<(), CheckpointError> {
    recover(disk, out())?;
    set_aside(disk, out(), NEW)?;
    begin(disk, out(), NEW)?;
    for (name, text) in [("tokenizer.json", "new tokenizer"), (LOG_FILE, "new log")] {
        let mut file = disk.create(&out().join(name))?;
        file.write_all_at(text.as_bytes(), 0)?;
        file.sync()?;
    }
    save_as(disk, (NEW, out()), 7, None)?;
    Ok(())
}

#[test]
fn a_folder_is_ours_only_if_our_manifest_says_so() {
    let simulated = SimulatedFiles::new(1);
    let disk = simulated.disk();
    let inspect = || inspect(&disk, out()).unwrap();
    assert_eq!(inspect(), FolderContents::Free);
    disk.create_dirs(out()).unwrap();
    write(&disk, &out().join("ckpt.pt"), "nanoGPT's");
    write(&disk, &out().join("model-00001-of-00002.safetensors"), "theirs");
    write(&disk, &out().join("notes.txt"), "mine");
    assert_eq!(inspect(), FolderContents::Free);
    for name in [
        "config.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "generation_config.json",
        "manifest.json",
        "state.safetensors",
        "model.safetensors",
        "events.jsonl",
        "best",
        "checkpoints",
        ".tokenizer.json.part",
        ".lock",
    ] {
        write(&disk, &out().join(name), r#"{"name": "their web page"}"#);
        assert_eq!(inspect(), FolderContents::Foreign(vec![name.to_owned()]));
        disk.remove_file(&out().join(name)).unwrap();
    }
    begin(&disk, out(), OLD).unwrap();
    assert_eq!(inspect(), FolderContents::Begun);
    write(&disk, &out().join("tokenizer.json"), "ours");
    assert_eq!(inspect(), FolderContents::Begun);
    save_as(&disk, (OLD, out()), 1, None).unwrap();
    assert_eq!(inspect(), FolderContents::Run);
}

#[test]
fn a_log_of_ours_without_a_manifest_was_left_by_an_earlier_version() {
    let simulated = SimulatedFiles::new(1);
    let disk = simulated.disk();
    write(&disk, &out().join(LOG_FILE), "");
    assert_eq!(inspect(&disk, out()).unwrap(), FolderContents::Begun);
    write(&disk, &out().join(LOG_FILE), "{\"event\":\"plan\",\"step\":0,\"plan\":null}\n");
    write(&disk, &out().join("tokenizer.json"), "ours");
    assert_eq!(inspect(&disk, out()).unwrap(), FolderContents::Begun);
    write(&disk, &out().join(CONFIG_FILE), "theirs");
    let theirs = FolderContents::Foreign(vec![CONFIG_FILE.to_owned()]);
    assert_eq!(inspect(&disk, out()).unwrap(), theirs);
}

#[test]
fn a_run_stays_a_run_whichever_of_its_files_are_taken_away() {
    let names = ["config.json", "model.safetensors", "state.safetensors", "manifest.json"];
    for taken in 0..1 << names.len() {
        let disk = disk_with_a_run(taken).disk();
        for name in ["tokenizer.json", LOG_FILE] {
            disk.remove_file(&out().join(name)).unwrap();
        }
        for (bit, name) in names.iter().enumerate() {
            if taken & 1 << bit != 0 {
                disk.remove_file(&out().join(name)).unwrap();
            }
        }
        let found = inspect(&disk, out()).unwrap();
        assert!(matches!(found, FolderContents::Run | FolderContents::Foreign(_)), "{taken:b}");
    }
}

#[test]
fn best_weights_of_others_are_foreign_even_in_a_run() {
    let disk = disk_with_a_run(1).disk();
    for name in [MODEL_FILE, CONFIG_FILE] {
        write(&disk, &out().join("best").join(name), "theirs");
    }
    let found = inspect(&disk, out()).unwrap();
    assert_eq!(found, FolderContents::Foreign(vec!["best/model.safetensors".to_owned()]));
}

#[test]
fn a_manifest_without_files_is_neither_kept_nor_read() {
    let simulated = SimulatedFiles::new(1);
    let disk = simulated.disk();
    disk.create_dirs(out()).unwrap();
    begin(&disk, out(), OLD).unwrap();
    assert!(matches!(
        read_version_on(&disk, out(), &tiny(true)),
        Err(CheckpointError::Missing { .. })
    ));
    save_as(&disk, (OLD, out()), 1, None).unwrap();
    assert!(!disk.is_folder(&out().join("checkpoints")).unwrap());
    assert_eq!(read_version_on(&disk, out(), &tiny(true)).unwrap(), 1);
}

#[test]
fn a_replaced_run_is_removed_after_the_first_save_and_the_users_files_stay() {
    let disk = disk_with_a_run(1).disk();
    replace(&disk).unwrap();
    assert_eq!(read_version_on(&disk, out(), &tiny(true)).unwrap(), 7);
    let names: BTreeSet<_> = files(&disk, out()).into_keys().collect();
    let expected = [
        "out/README.md",
        "out/best/notes.txt",
        "out/checkpoints/notes.txt",
        "out/config.json",
        "out/events.jsonl",
        "out/manifest.json",
        "out/model.safetensors",
        "out/state.safetensors",
        "out/tokenizer.json",
    ];
    assert_eq!(names, expected.map(str::to_owned).into());
}

#[test]
fn a_crash_while_a_run_is_replaced_leaves_one_of_the_two_complete() {
    for crash in [Crash::Process, Crash::Machine] {
        let mut versions = BTreeSet::new();
        for at in 0.. {
            let simulated = disk_with_a_run(at);
            let disk = simulated.disk();
            let before = files(&disk, out());
            simulated.set_faults(Faults { crash_at: Some(at), ..Faults::default() });
            let replaced = replace(&disk);
            if !simulated.is_down() {
                replaced.unwrap();
                assert!(at > 60, "a replacement has more calls than {at}");
                break;
            }
            simulated.restart(crash);
            // As a reader sees it, and as the next run does.
            let version = read_version_on(&disk, out(), &tiny(true)).unwrap();
            assert_eq!(inspect(&disk, out()).unwrap(), FolderContents::Run, "call {at}");
            recover(&disk, out()).unwrap();
            assert_eq!(read_version_on(&disk, out(), &tiny(true)).unwrap(), version, "call {at}");
            if version == 2 {
                let now = files(&disk, out());
                let names = |files: &BTreeMap<_, _>| files.keys().cloned().collect::<Vec<_>>();
                assert_eq!(names(&now), names(&before), "{crash:?} before call {at}");
                assert!(now == before, "{crash:?} before call {at}");
            } else {
                assert_eq!(version, 7);
                let manifest = disk.read(&out().join(MANIFEST_FILE), 1 << 20).unwrap();
                assert!(String::from_utf8(manifest).unwrap().contains(NEW));
                assert!(
                    disk.list(out())
                        .unwrap()
                        .iter()
                        .all(|name| { !name.to_str().unwrap().starts_with('.') })
                );
                for folder in ["checkpoints", "best"] {
                    assert_eq!(disk.list(&out().join(folder)).unwrap(), ["notes.txt"]);
                }
            }
            versions.insert(version);
        }
        assert_eq!(versions, [2, 7].into());
    }
}

#[test]
fn a_crash_while_a_run_is_put_back_or_removed_is_recovered_from() {
    for stop in (0..).step_by(7) {
        let simulated = disk_with_a_run(stop);
        let disk = simulated.disk();
        simulated.set_faults(Faults { crash_at: Some(stop), ..Faults::default() });
        let _ = replace(&disk);
        if !simulated.is_down() {
            return;
        }
        simulated.restart(Crash::Machine);
        let version = read_version_on(&disk, out(), &tiny(true)).unwrap();
        for at in 0.. {
            simulated.set_faults(Faults { crash_at: Some(at), ..Faults::default() });
            let recovered = recover(&disk, out());
            simulated.restart(if at % 3 == 0 { Crash::Process } else { Crash::Machine });
            let now = read_version_on(&disk, out(), &tiny(true)).unwrap();
            assert_eq!(now, version, "calls {stop} and {at}");
            match recovered {
                Ok(()) => break,
                Err(error) => assert!(at < 500, "{error}"),
            }
        }
    }
}

#[test]
fn a_call_that_fails_while_a_run_is_replaced_loses_nothing() {
    for at in 0.. {
        let simulated = disk_with_a_run(at);
        let disk = simulated.disk();
        simulated.set_faults(Faults { fail_at: Some(at), disturbed: 30, ..Faults::default() });
        let replaced = replace(&disk);
        let is_over = simulated.calls() <= at;
        simulated.restart(Crash::Process);
        recover(&disk, out()).unwrap();
        let version = read_version_on(&disk, out(), &tiny(true)).unwrap();
        assert!(version == 7 || replaced.is_err() && version == 2, "call {at}: {version}");
        if is_over {
            return;
        }
    }
}

#[test]
fn a_run_never_writes_into_the_folder_that_took_its_path() {
    // Moved before each call of a save in turn; another run has the path from then on.
    for at in 0.. {
        let simulated = SimulatedFiles::new(at);
        let disk = simulated.disk();
        disk.create_dirs(out()).unwrap();
        begin(&disk, out(), OLD).unwrap();
        let held = HeldFolder::on(&disk, out(), OLD).unwrap();
        save_as(&disk, (OLD, out()), 1, Some(&held)).unwrap();
        let other = Path::new("other");
        disk.create_dirs(other).unwrap();
        begin(&disk, other, NEW).unwrap();
        save_as(&disk, (NEW, other), 2, None).unwrap();
        let theirs: Vec<_> = files(&disk, other).into_values().collect();

        simulated.replace_folder_at(at, out(), Path::new("moved"), other);
        let saved = save_as(&disk, (OLD, held.dir()), 3, Some(&held));
        let is_over = simulated.calls() <= at;
        simulated.set_faults(Faults::default());
        if is_over {
            saved.unwrap();
            return;
        }
        let now: Vec<_> = files(&disk, out()).into_values().collect();
        assert!(now == theirs, "call {at}: {:?}", files(&disk, out()).into_keys());
        recover(&disk, Path::new("moved")).unwrap();
        let version = read_version_on(&disk, Path::new("moved"), &tiny(true)).unwrap();
        assert_eq!(version, if saved.is_ok() { 3 } else { 1 }, "call {at}: {saved:?}");
        let lost = held.check().unwrap_err();
        assert!(matches!(lost, CheckpointError::FolderLost { .. }), "call {at}: {lost}");
        // The state is saved under a new name.
        let next = new_folder_next_to(&disk, out(), OLD).unwrap();
        assert_eq!(next, Path::new("out-0000000000000001"));
        save_as(&disk, (OLD, &next), 3, None).unwrap();
        assert_eq!(read_version_on(&disk, &next, &tiny(true)).unwrap(), 3);
    }
}

#[test]
fn a_folder_that_was_emptied_for_another_run_is_lost() {
    let simulated = SimulatedFiles::new(1);
    let disk = simulated.disk();
    disk.create_dirs(out()).unwrap();
    begin(&disk, out(), OLD).unwrap();
    let held = HeldFolder::on(&disk, out(), OLD).unwrap();
    held.check().unwrap();
    disk.remove_file(&out().join(MANIFEST_FILE)).unwrap();
    held.check().unwrap();
    begin(&disk, out(), NEW).unwrap();
    held.check_path().unwrap();
    assert!(matches!(held.check(), Err(CheckpointError::FolderLost { .. })));
    assert!(save_as(&disk, (OLD, out()), 1, Some(&held)).is_err());
    assert_eq!(files(&disk, out()).len(), 1);
}
