//! TensorBoard's event files: the numbers of `events.jsonl` as curves.
//!
//! ```text
//! a record: length u64 · its masked CRC · an `Event` as protobuf · its masked CRC
//! ```
//!
//! A run has one file in `out_dir/tensorboard`. A resumed run writes it again from the log, which
//! was cut back to the checkpoint, so that the file has every step once. Its first events make a
//! running TensorBoard drop what it has read.
//!
//! The format's alternative, a second file that supersedes steps of the first, would leave those
//! steps in it. The records are written by hand, because the crates for them are not maintained.
//! W&B's offline format is an internal protobuf of its client, so it is not written.
//!
//! Promise: TensorBoard reads the numbers of the log, each once, also of a resumed run. Test:
//! `tests/tensorboard/check.py`, `tests/runs/outputs.rs`.

use std::{
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use fitgpt_files::disk::{Disk, DiskFile};

use super::event::{self, Event, EventError};

/// The end of our file names; TensorBoard looks for `tfevents` in them.
const SUFFIX: &str = ".fitgpt";

/// The folder of the files, in `out_dir`.
pub(crate) fn folder(out_dir: &Path) -> PathBuf {
    out_dir.join("tensorboard")
}

/// An event file.
#[derive(Debug)]
pub(crate) struct TensorBoard {
    file: DiskFile,
    /// Kept, so that a step allocates nothing.
    record: Vec<u8>,
}

impl TensorBoard {
    /// Writes the file of the run in `out_dir` from its log at `log`. Files of earlier parts of the
    /// run are removed.
    pub(crate) fn create(out_dir: &Path, log: &Path) -> Result<Self, EventError> {
        let (disk, folder) = (Disk::real(), folder(out_dir));
        disk.create_dirs(&folder)?;
        let mut taken = 0; // the name must sort after those of earlier files
        for name in disk.list(&folder)? {
            let name = name.to_string_lossy().into_owned();
            if name.starts_with(PREFIX) && name.ends_with(SUFFIX) {
                let seconds = name[PREFIX.len()..name.len() - SUFFIX.len()].parse();
                taken = seconds.unwrap_or(0).max(taken);
                disk.remove_file(&folder.join(name))?;
            }
        }
        let now = now();
        let seconds = (now as u64).max(taken + 1);
        let path = folder.join(format!("{PREFIX}{seconds:010}{SUFFIX}"));
        disk.remove_file(&path)?;
        let mut board = Self { file: disk.append(&path)?, record: Vec::new() };

        let mut steps_ms = 0.0;
        if log.is_file() {
            event::each(log, |event| {
                if let Event::Step { ms, .. } = event {
                    steps_ms += ms;
                }
            })?;
        }
        // The log has no times, only durations: assume that the last step ended now.
        let mut time = now - steps_ms / 1e3;
        board.put(|event| {
            event.double(1, time);
            event.bytes(3, b"brain.Event:2");
        })?;
        board.put(|event| {
            event.double(1, time);
            event.message(7, |session| session.number(1, 1)); // SessionLog: START, at step 0
        })?;
        let mut first_error = None;
        if log.is_file() {
            event::each(log, |event| {
                if let Event::Step { ms, .. } = event {
                    time += ms / 1e3;
                }
                if first_error.is_none() {
                    first_error = board.write_at(&event, time).err();
                }
            })?;
        }
        first_error.map_or(Ok(board), Err)
    }

    /// Appends an event, if it has numbers.
    pub(crate) fn write(&mut self, event: &Event) -> Result<(), EventError> {
        self.write_at(event, now())
    }

    fn write_at(&mut self, event: &Event, time: f64) -> Result<(), EventError> {
        match *event {
            Event::Step { step, loss, lr, grad_norm, tokens_per_s, .. } => self.scalars(
                step,
                time,
                &[
                    ("step/loss", loss),
                    ("step/grad_norm", grad_norm),
                    ("lr", lr),
                    ("tokens_per_s", tokens_per_s),
                ],
            ),
            Event::Evaluation { step, train_loss, val_loss, .. } => {
                self.scalars(step, time, &[("train/loss", train_loss), ("val/loss", val_loss)])
            }
            Event::Plan { .. }
            | Event::Sample { .. }
            | Event::Checkpoint { .. }
            | Event::End { .. } => Ok(()),
        }
    }

    fn scalars(&mut self, step: u64, time: f64, values: &[(&str, f64)]) -> Result<(), EventError> {
        self.put(|event| {
            event.double(1, time);
            event.number(2, step);
            event.message(5, |summary| {
                for (tag, value) in values {
                    summary.message(1, |it| {
                        it.bytes(1, tag.as_bytes());
                        it.float(2, *value as f32);
                    });
                }
            });
        })
    }

    /// Appends one record.
    fn put(&mut self, fill: impl FnOnce(&mut ProtobufMessage<'_>)) -> Result<(), EventError> {
        self.record.clear();
        self.record.resize(HEADER_BYTES, 0);
        fill(&mut ProtobufMessage(&mut self.record));
        let length = ((self.record.len() - HEADER_BYTES) as u64).to_le_bytes();
        self.record[..8].copy_from_slice(&length);
        self.record[8..HEADER_BYTES].copy_from_slice(&masked_crc(&length).to_le_bytes());
        let crc = masked_crc(&self.record[HEADER_BYTES..]);
        self.record.extend(crc.to_le_bytes());
        Ok(self.file.append_all(&self.record)?)
    }
}

const PREFIX: &str = "events.out.tfevents.";
/// A length and its checksum.
const HEADER_BYTES: usize = 12;

/// Seconds since 1970.
fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

/// A protobuf message that is appended to some bytes.
struct ProtobufMessage<'a>(&'a mut Vec<u8>);

impl ProtobufMessage<'_> {
    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    /// A field's number and the wire type of its value.
    fn tag(&mut self, field: u64, form: u64) {
        self.varint(field << 3 | form);
    }

    fn number(&mut self, field: u64, value: u64) {
        self.tag(field, 0);
        self.varint(value);
    }

    fn double(&mut self, field: u64, value: f64) {
        self.tag(field, 1);
        self.0.extend(value.to_le_bytes());
    }

    fn float(&mut self, field: u64, value: f32) {
        self.tag(field, 5);
        self.0.extend(value.to_le_bytes());
    }

    fn bytes(&mut self, field: u64, value: &[u8]) {
        self.tag(field, 2);
        self.varint(value.len() as u64);
        self.0.extend(value);
    }

    /// A nested message of less than 16 KiB: its length is always encoded in two bytes.
    fn message(&mut self, field: u64, fill: impl FnOnce(&mut ProtobufMessage<'_>)) {
        self.tag(field, 2);
        let start = self.0.len();
        self.0.extend([0; 2]);
        fill(&mut ProtobufMessage(self.0));
        let length = self.0.len() - start - 2;
        assert!(length < 1 << 14, "a message of a few numbers is short");
        self.0[start] = length as u8 | 0x80;
        self.0[start + 1] = (length >> 7) as u8;
    }
}

/// CRC-32C of `bytes`, masked as TFRecord requires, because the CRC of data that contains CRCs is
/// weak.
fn masked_crc(bytes: &[u8]) -> u32 {
    let crc = crc32c(bytes);
    crc.rotate_right(15).wrapping_add(0xA282_EAD8)
}

/// Castagnoli's polynomial, bit by bit: records are about a hundred bytes.
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            if crc & 1 == 1 { crc >> 1 ^ 0x82F6_3B78 } else { crc >> 1 }
        })
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_checksum_is_castagnolis() {
        // RFC 3720, appendix B.4.
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8A91_36AA);
        assert_eq!(crc32c(&[0xFF; 32]), 0x62A8_AB43);
    }

    fn step(step: u64, loss: f64) -> Event {
        Event::Step {
            step,
            loss,
            lr: 1e-3,
            grad_norm: 1.0,
            ms: 10.0,
            tokens_per_s: 100.0,
            loss_scale: None,
            skipped: false,
            wait_ms: None,
        }
    }

    /// The payloads of all records of the only file; checksums must be right.
    fn records(out_dir: &Path) -> Vec<Vec<u8>> {
        let files: Vec<_> = fs::read_dir(folder(out_dir)).unwrap().collect();
        assert_eq!(files.len(), 1, "{files:?}");
        let bytes = fs::read(files[0].as_ref().unwrap().path()).unwrap();
        let mut rest = &bytes[..];
        let mut records = Vec::new();
        while !rest.is_empty() {
            let length = u64::from_le_bytes(rest[..8].try_into().unwrap());
            assert_eq!(rest[8..12], masked_crc(&rest[..8]).to_le_bytes());
            let end = 12 + length as usize;
            assert_eq!(rest[end..end + 4], masked_crc(&rest[12..end]).to_le_bytes());
            records.push(rest[12..end].to_vec());
            rest = &rest[end + 4..];
        }
        records
    }

    #[test]
    fn a_resumed_run_has_every_step_once() {
        let out_dir = tempfile::tempdir().unwrap();
        let log = out_dir.path().join("events.jsonl");
        let lines = |losses: &[f64]| {
            let lines = (0..).zip(losses).map(|(n, loss)| step(n, *loss));
            let lines = lines.map(|event| serde_json::to_string(&event).unwrap() + "\n");
            fs::write(&log, lines.collect::<String>()).unwrap();
        };
        let mut board = TensorBoard::create(out_dir.path(), &log).unwrap();
        for n in 0..3 {
            board.write(&step(n, 4.0)).unwrap();
        }
        assert_eq!(records(out_dir.path()).len(), 2 + 3);
        drop(board);
        lines(&[4.0, 3.5]);
        let mut board = TensorBoard::create(out_dir.path(), &log).unwrap();
        board.write(&step(2, 3.0)).unwrap();
        let records = records(out_dir.path());
        assert_eq!(records.len(), 2 + 3);
        let has = |record: &[u8], value: f32| {
            record.windows(4).any(|window| window == value.to_le_bytes())
        };
        for (record, loss) in records[2..].iter().zip([4.0, 3.5, 3.0]) {
            assert!(has(record, loss), "{loss}");
        }
    }
}
