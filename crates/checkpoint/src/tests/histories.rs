//! Random histories of a run, by seed: crashes, full disks and errors, with resumes in between.

use std::{collections::BTreeMap, path::Path};

use fitgpt_files::disk::simulated::{Crash, Faults, SimulatedFiles, SplitMix, histories};

use super::{super::folder::recover, *};
use crate::events::{Event, EventLog, run_id, steps};

const OUT: &str = "out";
const KEEP: Retention = Retention { last: 2, best_step: None };

/// What was acknowledged to a run and therefore must exist.
#[derive(Default)]
struct Acknowledged {
    /// The last version whose save returned.
    saved: Option<u32>,
    /// For each saved version of this history, the version before it.
    before: BTreeMap<u32, u32>,
}

/// Runs until something fails: five steps, a save, five steps, …
fn session(disk: &Disk, known: &mut Acknowledged) -> Result<(), Box<dyn std::error::Error>> {
    let (out, log) = (Path::new(OUT), Path::new("out/events.jsonl"));
    disk.create_dirs(out)?;
    recover(disk, out)?;
    let start = match read_version_on(disk, out, &tiny(true)) {
        Ok(version) => Some(version),
        Err(CheckpointError::Missing { .. }) => None,
        Err(error) => return Err(error.into()),
    };
    let mut events = match start {
        Some(version) => EventLog::resume(disk, log, version.into())?.0,
        None => EventLog::create(disk, log)?,
    };
    let mut version = start.unwrap_or(0);
    if start.is_none() {
        let run_id = Some("0123456789abcdef".to_owned());
        events.write(&Event::Plan { step: 0, run_id, plan: json!(null) })?;
    }
    for _ in 0..3 {
        for step in version..version + 5 {
            events.write(&step_event(step.into()))?;
        }
        events.sync()?;
        let previous = (version > 0).then_some(version);
        version += 5;
        let saved = save_version_on(disk, out, &tiny(true), version, KEEP);
        if let Some(previous) = previous {
            known.before.insert(version, previous);
        }
        saved?;
        known.saved = Some(version);
    }
    Ok(())
}

fn step_event(step: u64) -> Event {
    Event::Step {
        step,
        loss: 1.0,
        lr: 1.0,
        grad_norm: 1.0,
        ms: 1.0,
        tokens_per_s: 1.0,
        loss_scale: None,
        skipped: false,
        wait_ms: None,
    }
}

/// Runs `FITGPT_HISTORIES` histories; `scripts/histories` runs 10,000.
#[test]
fn no_history_of_crashes_and_errors_loses_what_was_saved() {
    let out = Path::new(OUT);
    // 3930: a sync failed after a kept checkpoint was renamed, followed by a power failure.
    for seed in (0..histories()).chain([3930]) {
        let files = SimulatedFiles::new(seed);
        files.set_links(seed % 3 > 0);
        let disk = files.disk();
        let mut chance = SplitMix(seed ^ 0x0DD);
        let mut known = Acknowledged::default();
        for _ in 0..4 {
            files.set_faults(Faults::random(&mut chance, 400));
            let _ = session(&disk, &mut known);
            files.restart(Crash::random(&mut chance));

            // As a reader sees it, and as a resume does.
            let found = read_version_on(&disk, out, &tiny(true));
            let found = match found {
                Ok(version) => Some(version),
                Err(CheckpointError::Missing { .. }) => None,
                Err(error) => panic!("seed {seed}: {error}"),
            };
            assert!(found >= known.saved, "seed {seed}: {found:?} of {:?}", known.saved);
            recover(&disk, out).unwrap();
            let again = read_version_on(&disk, out, &tiny(true)).ok();
            assert_eq!(again, found, "seed {seed}");
            known.saved = found;

            let Some(version) = found else { continue };
            let log = Path::new("out/events.jsonl");
            let steps = steps(&disk, log).unwrap();
            let expected: Vec<u64> = (0..version.into()).collect();
            assert_eq!(steps[..expected.len()], expected, "seed {seed}");
            assert_eq!(run_id(&disk, log).unwrap().as_deref(), Some("0123456789abcdef"));
            if let Some(previous) = known.before.get(&version) {
                let kept = out.join(format!("checkpoints/step-{previous:08}"));
                let kept = read_version_on(&disk, &kept, &tiny(true));
                let all = disk.list(&out.join("checkpoints"));
                assert!(
                    kept.as_ref().is_ok_and(|kept| kept == previous),
                    "seed {seed}: {version} is there, {previous} is not: {kept:?} {all:?}"
                );
            }
        }
    }
}
