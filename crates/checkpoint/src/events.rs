//! `events.jsonl`: what happened in a run, one JSON object per line.
//!
//! The terminal, tests and other people's scripts read the same lines. Each line is written with
//! one call, after the event; a crash can truncate only the last line. JSON has no NaN and no
//! infinity: such a number is written as `null` and read back as NaN.

use std::{
    io::{BufWriter, Write},
    path::{Path, PathBuf},
    rc::Rc,
};

use fitgpt_files::{
    attempt::Attempt,
    disk::{self, Disk, DiskError, DiskFile, DiskWriter, FileKind},
};
use serde::Deserialize;

pub use super::event::{Event, EventError, each};
use super::{
    event::{LineEnd, each_line},
    tensorboard::TensorBoard,
};
use crate::HeldFolder;

/// Writes events, one line each.
#[derive(Debug)]
pub struct EventLog {
    path: PathBuf,
    file: DiskFile,
    line: Vec<u8>, // kept, so that a step allocates nothing
    board: Option<TensorBoard>,
    /// The run's folder; nothing is written if it is no longer the run's.
    held: Option<Rc<HeldFolder>>,
}

impl EventLog {
    /// A log for a new run; replaces an earlier one.
    pub fn create(disk: &Disk, path: &Path) -> Result<Self, EventError> {
        if disk.kind(path)?.is_some_and(|kind| !matches!(kind, FileKind::File { .. })) {
            return Err(DiskError::of(Attempt::Create, path)(disk::not_a_file()).into());
        }
        disk.remove_file(path)?;
        let file = disk.create(path)?;
        disk.sync_dir(disk::parent_of(path))?;
        Ok(Self::of(path, file))
    }

    fn of(path: &Path, file: DiskFile) -> Self {
        Self { path: path.to_owned(), file, line: Vec::new(), board: None, held: None }
    }

    /// The log of a run that continues at `next_step`, without the lines after it.
    pub fn resume(disk: &Disk, path: &Path, next_step: u64) -> Result<(Self, LogCut), EventError> {
        let cut = cut_back(disk, path, next_step)?;
        let file = disk.append(path)?;
        Ok((Self::of(path, file), cut))
    }

    /// Checks before every line that `held` is still the run's folder.
    #[must_use]
    pub fn within(self, held: Rc<HeldFolder>) -> Self {
        Self { held: Some(held), ..self }
    }

    /// Copies the lines to a new log at `path`, also if this one was moved or deleted, and continues
    /// there.
    pub fn copy_to(&self, disk: &Disk, path: &Path) -> Result<Self, EventError> {
        let mut copy = Self::create(disk, path)?;
        let mut chunk = vec![0; 64 << 10];
        let mut position = 0;
        loop {
            let count = self.file.read_at(&mut chunk, position)?;
            if count == 0 {
                return Ok(copy);
            }
            copy.file.append_all(&chunk[..count])?;
            position += count as u64;
        }
    }

    /// Writes a file for TensorBoard too, in `out_dir`.
    pub fn with_tensorboard(self, out_dir: &Path) -> Result<Self, EventError> {
        let board = Some(TensorBoard::create(out_dir, &self.path)?);
        Ok(Self { board, ..self })
    }

    /// Appends one line.
    pub fn write(&mut self, event: &Event) -> Result<(), EventError> {
        self.line.clear();
        serde_json::to_writer(&mut self.line, event)
            .map_err(|source| EventError::Json { path: self.path.clone(), source })?;
        self.line.push(b'\n');
        if let Some(held) = &self.held {
            held.check_path().map_err(EventError::Folder)?;
        }
        self.file.append_all(&self.line)?;
        self.board.as_mut().map_or(Ok(()), |board| board.write(event))
    }

    /// Waits until the lines are on the disk.
    pub fn sync(&self) -> Result<(), EventError> {
        Ok(self.file.sync()?)
    }
}

/// What [`cut_back`] did, in lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogCut {
    /// Lines kept.
    pub n_kept: u64,
    /// Lines dropped because their steps will be run again.
    pub n_dropped: u64,
    /// Lines dropped because they were truncated by a crash or are not events.
    pub n_unreadable: u64,
}

/// The fields of an event that determine whether it is kept.
#[derive(Deserialize)]
struct EventHead {
    event: String,
    step: u64,
    run_id: Option<String>,
}

impl EventHead {
    /// Whether it happened before a checkpoint that continues at `next_step`.
    ///
    /// Steps, evaluations and samples at `next_step` happen after it and will happen again: an
    /// evaluation follows the save of its step. Plans, checkpoints and ends carry the step that
    /// comes next.
    fn is_before(&self, next_step: u64) -> bool {
        match self.event.as_str() {
            "step" | "evaluation" | "sample" => self.step < next_step,
            _ => self.step <= next_step,
        }
    }
}

/// Drops the lines of the log at `path` that were written after the checkpoint that continues at
/// `next_step`, and lines that a crash truncated. Does nothing if there is no log.
///
/// The new log is written next to the old one and renamed over it: a crash leaves one of them.
fn cut_back(disk: &Disk, path: &Path, next_step: u64) -> Result<LogCut, EventError> {
    let from = match disk.kind(path)? {
        None => return Ok(LogCut::default()),
        Some(FileKind::File { .. }) => disk.open(path)?,
        Some(_) => return Err(DiskError::of(Attempt::Open, path)(disk::not_a_file()).into()),
    };
    let draft = path.with_extension("jsonl.cut");
    disk.remove_file(&draft)?; // left by an interrupted cut
    let mut out = BufWriter::new(disk.create(&draft)?.into_writer());
    let cut = copy_before(next_step, &from, &mut out).and_then(|cut| {
        out.flush().map_err(DiskError::of(Attempt::Write, &draft))?;
        out.get_ref().file().sync()?;
        disk.rename(&draft, path)?;
        disk.sync_dir(disk::parent_of(path))?;
        Ok(cut)
    });
    cut.map_err(|error| {
        // Report the first error; the next cut removes a draft that is left.
        let _ = disk.remove_file(&draft);
        EventError::Io { action: Attempt::Truncate, path: path.to_owned(), source: error.source }
    })
}

/// The id of the run whose log is at `path`; `None` if there is no log, or if an earlier version
/// wrote it.
pub fn run_id(disk: &Disk, path: &Path) -> Result<Option<String>, EventError> {
    if disk.kind(path)?.is_none() {
        return Ok(None);
    }
    let mut found = None;
    each_line(&disk.open(path)?, |line, _| {
        // Most lines are steps, which have no run id: do not parse them.
        if found.is_none() && line.windows(8).any(|window| window == b"\"run_id\"") {
            found = serde_json::from_slice::<EventHead>(line).ok().and_then(|head| head.run_id);
        }
        Ok(())
    })?;
    Ok(found)
}

/// The steps of the log at `path`, in its order.
#[cfg(test)]
pub(crate) fn steps(disk: &Disk, path: &Path) -> Result<Vec<u64>, EventError> {
    let mut steps = Vec::new();
    each_line(&disk.open(path)?, |line, _| {
        if let Ok(Event::Step { step, .. }) = serde_json::from_slice(line) {
            steps.push(step);
        }
        Ok(())
    })?;
    Ok(steps)
}

/// Copies the lines that are kept.
fn copy_before(
    next_step: u64,
    from: &DiskFile,
    to: &mut BufWriter<DiskWriter>,
) -> Result<LogCut, DiskError> {
    let mut cut = LogCut::default();
    each_line(from, |line, end| {
        let head = serde_json::from_slice::<EventHead>(line).ok();
        match head.filter(|_| end == LineEnd::Newline) {
            None => cut.n_unreadable += 1,
            Some(head) if head.is_before(next_step) => {
                to.write_all(line)
                    .and_then(|()| to.write_all(b"\n"))
                    .map_err(DiskError::of(Attempt::Write, from.path()))?;
                cut.n_kept += 1;
            }
            Some(_) => cut.n_dropped += 1,
        }
        Ok(())
    })?;
    Ok(cut)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::{Value, json};

    use super::*;

    fn step(step: u64) -> Event {
        Event::Step {
            step,
            loss: 2.5,
            lr: 6e-4,
            grad_norm: 1.0,
            ms: 12.5,
            tokens_per_s: 1e5,
            loss_scale: None,
            skipped: false,
            wait_ms: None,
        }
    }

    fn evaluation(step: u64) -> Event {
        let (train_loss, val_loss) = (2.5, 2.625);
        Event::Evaluation { step, train_loss, val_loss, train_loss_se: 0.125, val_loss_se: 0.25 }
    }

    fn checkpoint(step: u64) -> Event {
        let (save_id, path) = ("00000001-0123456789ab".to_owned(), "out".to_owned());
        Event::Checkpoint { step, save_id, path }
    }

    fn plan(step: u64) -> Event {
        let run_id = Some("0123456789abcdef".to_owned());
        Event::Plan { step, run_id, plan: json!({ "fits": true }) }
    }

    fn end(step: u64) -> Event {
        Event::End { step, reason: "interrupted".to_owned(), seconds: 1.5 }
    }

    fn read(path: &Path) -> Vec<Event> {
        let text = fs::read_to_string(path).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn events_have_the_keys_that_scripts_read() {
        let line = |event: &Event| serde_json::to_value(event).unwrap();
        assert_eq!(
            line(&step(3)),
            json!({ "event": "step", "step": 3, "loss": 2.5, "lr": 6e-4, "grad_norm": 1.0,
                "ms": 12.5, "tokens_per_s": 1e5 })
        );
        assert_eq!(
            line(&evaluation(4)),
            json!({ "event": "evaluation", "step": 4, "train_loss": 2.5, "val_loss": 2.625,
                "train_loss_se": 0.125, "val_loss_se": 0.25 })
        );
        assert_eq!(
            line(&checkpoint(4)),
            json!({ "event": "checkpoint", "step": 4, "save_id": "00000001-0123456789ab",
                "path": "out" })
        );
        assert_eq!(
            line(&end(5)),
            json!({ "event": "end", "step": 5, "reason": "interrupted", "seconds": 1.5 })
        );
        assert_eq!(
            line(&plan(0)),
            json!({ "event": "plan", "step": 0, "run_id": "0123456789abcdef",
                "plan": { "fits": true } })
        );
    }

    #[test]
    fn a_loss_that_is_not_finite_is_null_and_is_read_back_as_nan() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("events.jsonl");
        let mut log = EventLog::create(&Disk::real(), &path).unwrap();
        for wild in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let Event::Step { step, lr, ms, tokens_per_s, .. } = step(1) else { unreachable!() };
            let loss_scale = Some(65536.0);
            let (loss, grad_norm, skipped) = (wild, wild, true);
            log.write(&Event::Step {
                step,
                loss,
                lr,
                grad_norm,
                ms,
                tokens_per_s,
                loss_scale,
                skipped,
                wait_ms: None,
            })
            .unwrap();
        }
        for line in fs::read_to_string(&path).unwrap().lines() {
            let value: Value = serde_json::from_str(line).unwrap();
            assert_eq!((&value["loss"], &value["grad_norm"]), (&Value::Null, &Value::Null));
            assert_eq!((&value["skipped"], &value["loss_scale"]), (&json!(true), &json!(65536.0)));
        }
        for event in read(&path) {
            let Event::Step { loss, .. } = event else { panic!("{event:?}") };
            assert!(loss.is_nan());
        }
    }

    #[test]
    fn a_resumed_log_keeps_what_came_before_the_checkpoint() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("events.jsonl");
        let mut log = EventLog::create(&Disk::real(), &path).unwrap();
        let before = [
            plan(0),
            evaluation(0),
            step(0),
            step(1),
            checkpoint(2),
            evaluation(2),
            step(2),
            step(3),
            checkpoint(4),
        ];
        let after = [evaluation(4), step(4), step(5), checkpoint(6), end(6)];
        for event in before.iter().chain(&after) {
            log.write(event).unwrap();
        }
        drop(log);
        let (mut log, cut) = EventLog::resume(&Disk::real(), &path, 4).unwrap();
        assert_eq!(cut, LogCut { n_kept: 9, n_dropped: 5, n_unreadable: 0 });
        assert_eq!(read(&path), before);
        log.write(&plan(4)).unwrap();
        assert_eq!(read(&path).last(), Some(&plan(4)));
        assert_eq!(read(&path).len(), before.len() + 1);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no copy stays");
    }

    #[test]
    fn a_truncated_line_is_dropped_wherever_it_ends() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("events.jsonl");
        let mut log = EventLog::create(&Disk::real(), &path).unwrap();
        log.write(&step(0)).unwrap();
        let whole = fs::read(&path).unwrap();
        for torn in 1..whole.len() {
            fs::write(&path, [&whole[..], &whole[..torn]].concat()).unwrap();
            let cut = cut_back(&Disk::real(), &path, 9).unwrap();
            assert_eq!(cut, LogCut { n_kept: 1, n_dropped: 0, n_unreadable: 1 }, "at {torn}");
            assert_eq!(fs::read(&path).unwrap(), whole);
        }
    }

    #[test]
    fn a_missing_log_starts_at_the_resume() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("events.jsonl");
        assert_eq!(cut_back(&Disk::real(), &path, 3).unwrap(), LogCut::default());
        assert!(!path.exists());
        let (mut log, _) = EventLog::resume(&Disk::real(), &path, 3).unwrap();
        log.write(&step(3)).unwrap();
        assert_eq!(read(&path), [step(3)]);
    }

    #[test]
    fn a_log_has_the_id_of_its_run_except_in_earlier_versions() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("events.jsonl");
        assert_eq!(run_id(&Disk::real(), &path).unwrap(), None);
        let mut log = EventLog::create(&Disk::real(), &path).unwrap();
        log.write(&step(0)).unwrap();
        assert_eq!(run_id(&Disk::real(), &path).unwrap(), None);
        log.write(&plan(1)).unwrap();
        assert_eq!(run_id(&Disk::real(), &path).unwrap().as_deref(), Some("0123456789abcdef"));
    }

    #[test]
    fn a_line_without_end_is_not_kept_in_memory() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("events.jsonl");
        let mut log = EventLog::create(&Disk::real(), &path).unwrap();
        log.write(&step(0)).unwrap();
        let whole = fs::read(&path).unwrap();
        fs::write(
            &path,
            [&whole[..], &vec![b'x'; 2 * crate::event::MAX_LINE_BYTES], b"\n", &whole].concat(),
        )
        .unwrap();
        let mut seen = Vec::new();
        each(&path, |event| seen.push(event)).unwrap();
        assert_eq!(seen, [step(0), step(0)]);
        let cut = cut_back(&Disk::real(), &path, 9).unwrap();
        assert_eq!(cut, LogCut { n_kept: 2, n_dropped: 0, n_unreadable: 1 });
    }

    #[cfg(unix)]
    #[test]
    fn a_log_that_is_a_link_is_refused_and_its_target_is_untouched() {
        let dir = tempfile::tempdir().unwrap();
        let (target, path) = (dir.path().join("target"), dir.path().join("events.jsonl"));
        fs::write(&target, "precious").unwrap();
        std::os::unix::fs::symlink(&target, &path).unwrap();
        assert!(
            EventLog::create(&Disk::real(), &path).is_err()
                && EventLog::resume(&Disk::real(), &path, 3).is_err()
        );
        assert_eq!(fs::read(&target).unwrap(), b"precious");
    }

    #[test]
    fn a_log_that_cannot_be_made_is_an_error_with_its_path() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("nowhere").join("events.jsonl");
        let message = EventLog::create(&Disk::real(), &path).unwrap_err().to_string();
        assert!(message.contains("nowhere"), "{message}");
    }
}
