//! The folder of a run: whether a new run may begin in it, and what becomes of an old one.

use std::{fs::OpenOptions, path::Path, rc::Rc};

use fitgpt_checkpoint as checkpoint;
use fitgpt_checkpoint::{FolderContents, HeldFolder, Lock, Tensors, events, output};
use fitgpt_config::Config;
use fitgpt_files::{disk::Disk, os};
use fitgpt_model::job::Job;
use fitgpt_program::units::Bytes;
use fitgpt_run::train::new_run_id;
use fitgpt_say::Sentence;

use super::{Failure, begin::Start};
use crate::words::train as words;

/// What to do with a run that is already in the folder.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ExistingRun {
    /// It is in the way.
    Refuse,
    /// It is set aside, and removed after the first save.
    Replace,
}

/// Refuses a folder that has files of others with names that a run writes. Refuses to start a new
/// run in a folder that has one, unless it may be replaced.
pub fn check_new(start: &Start, folder: &Path, existing: ExistingRun) -> Result<(), Failure> {
    let contents = checkpoint::inspect(&Disk::real(), folder)?;
    if let FolderContents::Foreign(names) = &contents {
        let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
        let message = words::foreign_files(folder.display(), names.join(", "));
        return Err(Failure::new("checkpoint", message).hint(words::another_out_dir()));
    }
    if matches!(start, Start::Resume(..)) {
        return Ok(());
    }
    let has_run = contents == FolderContents::Run || checkpoint::nanogpt_file(folder).is_some();
    if existing == ExistingRun::Refuse && has_run {
        let failure = Failure::new("checkpoint", words::holds_a_checkpoint(folder.display()));
        return Err(failure.hint(words::resume_or_move(folder.display())));
    }
    Ok(())
}

/// Locks the run's folder, and checks everything that can be checked before hours are spent.
pub fn prepare(
    folder: &Path,
    svg: Option<&Path>,
    start: &Start,
    existing: ExistingRun,
    job: &Job,
    config: &Config,
) -> Result<Lock, Failure> {
    if let Some(path) = svg {
        output::check_not_of_run(path, folder)?;
        check_writable(path)?;
    }
    let lock = Lock::take(folder)?;
    checkpoint::recover(&Disk::real(), folder)?;
    // Again, because another run may have saved while this one was planned.
    check_new(start, folder, existing)?;
    check_disk(folder, existing, job, config)?;
    Ok(lock)
}

/// A run that has begun in its folder. When it is dropped, a run that it was to replace is put back,
/// unless the new one has saved; the folder must still be locked then.
pub struct BegunRun {
    /// The folder.
    pub held: Rc<HeldFolder>,
    /// Identifies the run.
    pub run_id: String,
    replaces: bool,
    note: fn(&Sentence),
}

impl Drop for BegunRun {
    fn drop(&mut self) {
        if !self.replaces {
            return;
        }
        let folder = self.held.path();
        match checkpoint::put_back(self.held.dir(), &self.run_id) {
            Ok(true) => (self.note)(&words::put_back(folder.display())),
            Ok(false) => {}
            // The next run in the folder tries again.
            Err(error) => (self.note)(&Sentence::about(&self.held.named(error))),
        }
    }
}

/// Begins or continues a run in `folder`: sets an old run aside, and marks the folder as the run's.
pub fn begin(
    folder: &Path,
    start: &Start,
    log: &Path,
    note: fn(&Sentence),
) -> Result<BegunRun, Failure> {
    let is_resumed = matches!(start, Start::Resume(..));
    let known = match start {
        Start::Resume(checkpoint, _) => checkpoint.run_id().map(str::to_owned),
        Start::Scratch | Start::Pretrained(..) => None,
    };
    let logged = if is_resumed { events::run_id(&Disk::real(), log)? } else { None };
    let run_id = known.or(logged).unwrap_or_else(new_run_id);
    let replaces =
        !is_resumed && checkpoint::inspect(&Disk::real(), folder)? == FolderContents::Run;
    let held = Rc::new(HeldFolder::of(folder, &run_id)?);
    let begun = BegunRun { held, run_id, replaces, note };
    if replaces {
        checkpoint::set_aside(&Disk::real(), begun.held.dir(), &begun.run_id)?;
    }
    checkpoint::begin(&Disk::real(), begun.held.dir(), &begun.run_id)?;
    Ok(begun)
}

/// Checks the disk for all checkpoints that will be kept, before hours are spent.
fn check_disk(
    folder: &Path,
    existing: ExistingRun,
    job: &Job,
    config: &Config,
) -> Result<(), Failure> {
    if config.eval_only() {
        return Ok(());
    }
    let tensors = Tensors::of(&job.model, &job.training.optimizer);
    // Those that are kept, the best one, and the next one while it is written.
    let count = u64::from(config.keep_checkpoints()).saturating_add(2);
    let one = checkpoint::bytes_needed(&tensors);
    let mut needed = count.saturating_mul(one);
    if !config.always_save_checkpoint() {
        needed += 2 * checkpoint::weights_bytes_needed(&tensors);
    }
    let present = checkpoint::bytes_present(folder)?;
    // A run that is replaced is removed only after the first save.
    let first = if existing == ExistingRun::Replace { one } else { 0 };
    let needed = Bytes::new(needed.saturating_sub(present).max(first));
    match os::disk_free(folder) {
        Some(free) if free < needed => {
            let message = words::disk_too_small(folder.display(), needed, free);
            Err(Failure::new("disk", message).hint(words::free_some_space()))
        }
        _ => Ok(()),
    }
}

/// Checks before the run, not after it, that a file can be written.
fn check_writable(path: &Path) -> Result<(), Failure> {
    let opened = OpenOptions::new().append(true).create(true).open(path);
    opened.map(|_| ()).map_err(|error| Failure::unwritable(path, &error))
}
