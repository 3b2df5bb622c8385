//! PyTorch's memory snapshots: the owner of every live byte, the failed request, and the layout of
//! the unused memory.
//!
//! `torch.cuda.memory._dump_snapshot` writes a pickle of plain data. It is read as a stream and
//! nothing in it is executed. Traces are most of a large file; only their failures are kept.

use std::{collections::HashMap, io::Read};

use fitgpt_pickle::{Handle, Pickle, PickleError, PickleValue};

use crate::{
    diagnosis::AccountShare,
    parse::{Frame, Log, Message, PrintedSize},
};

/// The contents of a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Memory held by tensors.
    pub allocated_bytes: u64,
    /// Memory that PyTorch has reserved from the driver.
    pub reserved_bytes: u64,
    /// The largest free block.
    pub largest_piece_bytes: u64,
    /// Live bytes by the line of code that allocated them, largest first.
    pub owners: Vec<AccountShare>,
    /// The last request that failed.
    pub failure: Option<FailedRequest>,
}

/// A request that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedRequest {
    /// Size of the failed request.
    pub requested_bytes: u64,
    /// Free memory according to the driver.
    pub free_bytes: Option<u64>,
    frames: Vec<Frame>, // outermost first
}

/// Number of owners to name; the rest is one item.
const OWNERS: usize = 12;
/// Maximum number of frames to keep per traceback.
const FRAMES: usize = 256;

/// Why a file cannot be read as a snapshot.
#[derive(Debug)]
pub enum SnapshotError {
    /// It is not a plain pickle.
    Pickle(PickleError),
    /// It is a pickle of something else.
    NotASnapshot,
}

impl From<PickleError> for SnapshotError {
    fn from(error: PickleError) -> Self {
        Self::Pickle(error)
    }
}

impl Snapshot {
    /// Whether a file begins like a pickle of protocol 2 to 5.
    pub fn is_one(start: &[u8]) -> bool {
        matches!(start, [0x80, 2..=5, ..])
    }

    /// Reads a snapshot.
    pub fn read(reader: impl Read) -> Result<Self, SnapshotError> {
        let pickle = Pickle::read_some(reader, is_wanted)?;
        let PickleValue::Dict(root) = pickle.root() else {
            return Err(SnapshotError::NotASnapshot);
        };
        let Some(PickleValue::List(segments)) = pickle.get(root, "segments") else {
            return Err(SnapshotError::NotASnapshot);
        };
        let mut snapshot = Self::default();
        let mut owners: HashMap<String, u64> = HashMap::new();
        for segment in segments {
            snapshot.add(&pickle, *segment, &mut owners);
        }
        let mut owners: Vec<AccountShare> =
            owners.into_iter().map(|(name, bytes)| AccountShare { name, bytes }).collect();
        owners.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.name.cmp(&b.name)));
        let rest =
            owners.iter().skip(OWNERS).fold(0, |sum: u64, part| sum.saturating_add(part.bytes));
        owners.truncate(OWNERS);
        if rest > 0 {
            owners.push(AccountShare { name: "other".to_owned(), bytes: rest });
        }
        snapshot.owners = owners;
        if let Some(PickleValue::List(devices)) = pickle.get(root, "device_traces") {
            let traces = devices.iter().filter_map(|device| list(&pickle, *device));
            let mut entries = traces.flatten().filter_map(|entry| dict(&pickle, *entry));
            snapshot.failure = entries.rfind_failure(&pickle);
        }
        Ok(snapshot)
    }

    fn add(&mut self, pickle: &Pickle, segment: Handle, owners: &mut HashMap<String, u64>) {
        let Some(segment) = dict(pickle, segment) else { return };
        let size = bytes(pickle, segment, "total_size").unwrap_or(0);
        self.reserved_bytes = self.reserved_bytes.saturating_add(size);
        let Some(PickleValue::List(blocks)) = pickle.get(segment, "blocks") else { return };
        for block in blocks.iter().filter_map(|block| dict(pickle, *block)) {
            let size = bytes(pickle, block, "size").unwrap_or(0);
            let is_free = matches!(pickle.get(block, "state"), Some(PickleValue::Text("inactive")));
            if is_free {
                self.largest_piece_bytes = self.largest_piece_bytes.max(size);
                continue;
            }
            self.allocated_bytes = self.allocated_bytes.saturating_add(size);
            let owner = owners.entry(owner(pickle, block)).or_default();
            *owner = owner.saturating_add(size);
        }
    }

    /// The log that PyTorch would have printed.
    pub fn into_log(self) -> Log {
        let mut message = None;
        let mut frames = Vec::new();
        if let Some(failure) = &self.failure {
            let mut tried = Message::of_snapshot(failure.requested_bytes);
            let (held, taken) =
                (PrintedSize::exact(self.allocated_bytes), PrintedSize::exact(self.reserved_bytes));
            tried.free = failure.free_bytes.map(PrintedSize::exact);
            tried.allocated = Some(held);
            tried.reserved = Some(taken);
            tried.unallocated = Some(taken.minus(held));
            message = Some(tried);
            frames.clone_from(&failure.frames);
        }
        Log::of_snapshot(message, frames, self)
    }
}

/// Of traces only failures are kept. Segments, blocks and frames have no `action`.
fn is_wanted(pickle: &Pickle, pairs: &[[Handle; 2]]) -> bool {
    match pickle.get(pairs, "action") {
        Some(PickleValue::Text(action)) => action == "oom",
        _ => true,
    }
}

/// The last failure of a trace.
trait LastFailure<'a> {
    fn rfind_failure(&mut self, pickle: &Pickle) -> Option<FailedRequest>;
}

impl<'a, I: Iterator<Item = &'a [[Handle; 2]]>> LastFailure<'a> for I {
    fn rfind_failure(&mut self, pickle: &Pickle) -> Option<FailedRequest> {
        let failures = self
            .filter(|entry| matches!(pickle.get(entry, "action"), Some(PickleValue::Text("oom"))));
        let last = failures.last()?;
        let mut frames = frames(pickle, last);
        frames.reverse(); // snapshots list the innermost first
        Some(FailedRequest {
            requested_bytes: bytes(pickle, last, "size").unwrap_or(0),
            free_bytes: bytes(pickle, last, "device_free"),
            frames,
        })
    }
}

fn dict(pickle: &Pickle, handle: Handle) -> Option<&[[Handle; 2]]> {
    if let PickleValue::Dict(pairs) = pickle.value(handle) { Some(pairs) } else { None }
}

fn list(pickle: &Pickle, handle: Handle) -> Option<&[Handle]> {
    if let PickleValue::List(items) = pickle.value(handle) { Some(items) } else { None }
}

fn bytes(pickle: &Pickle, dict: &[[Handle; 2]], key: &str) -> Option<u64> {
    const LARGEST: u64 = 1 << 56;
    if let PickleValue::Int(value) = pickle.get(dict, key)? {
        return u64::try_from(value).ok().filter(|value| *value < LARGEST);
    }
    None
}

/// The frames of a block or an entry, the innermost first.
fn frames(pickle: &Pickle, dict: &[[Handle; 2]]) -> Vec<Frame> {
    let Some(PickleValue::List(frames)) = pickle.get(dict, "frames") else { return Vec::new() };
    let frames = frames.iter().take(FRAMES).filter_map(|frame| self::dict(pickle, *frame));
    let text = |frame, key| match pickle.get(frame, key) {
        Some(PickleValue::Text(text)) => {
            text.chars().filter(|c| !c.is_control()).take(300).collect()
        }
        _ => String::new(),
    };
    frames
        .map(|frame| {
            let line = bytes(pickle, frame, "line").and_then(|line| u32::try_from(line).ok());
            Frame::of_snapshot(text(frame, "filename"), line.unwrap_or(0), text(frame, "name"))
        })
        .collect()
}

/// The owner of a block: the innermost Python line outside PyTorch.
fn owner(pickle: &Pickle, block: &[[Handle; 2]]) -> String {
    let frames = frames(pickle, block);
    let is_library = |frame: &&Frame| {
        let file = frame.file.replace('\\', "/");
        let is_python = file.rsplit_once('.').is_some_and(|(_, end)| end == "py");
        !is_python || file.contains("/torch/") || file.starts_with("torch/")
    };
    let own = frames.iter().find(|frame| !is_library(frame)).or(frames.first());
    match own {
        Some(frame) => {
            let file = frame.file.rsplit(['/', '\\']).next().unwrap_or_default();
            format!("{file}:{} {}", frame.line, frame.function)
        }
        None => "unrecorded".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Cause, Certainty, Context, MemoryKind, diagnose};

    /// A pickle as Python writes one, protocol 2.
    enum Py<'a> {
        Int(i64),
        Text(&'a str),
        List(Vec<Py<'a>>),
        Dict(Vec<(&'a str, Py<'a>)>),
    }

    fn write(value: &Py<'_>, bytes: &mut Vec<u8>) {
        let text = |text: &str, bytes: &mut Vec<u8>| {
            bytes.push(b'X');
            bytes.extend((text.len() as u32).to_le_bytes());
            bytes.extend(text.as_bytes());
        };
        match value {
            Py::Int(value) => {
                bytes.extend([0x8a, 8]);
                bytes.extend(value.to_le_bytes());
            }
            Py::Text(value) => text(value, bytes),
            Py::List(items) => {
                bytes.extend(b"](");
                for item in items {
                    write(item, bytes);
                }
                bytes.push(b'e');
            }
            Py::Dict(pairs) => {
                bytes.extend(b"}(");
                for (key, value) in pairs {
                    text(key, bytes);
                    write(value, bytes);
                }
                bytes.push(b'u');
            }
        }
    }

    fn pickled(value: &Py<'_>) -> Vec<u8> {
        let mut bytes = vec![0x80, 2];
        write(value, &mut bytes);
        bytes.push(b'.');
        bytes
    }

    fn frame(file: &'static str, line: i64, name: &'static str) -> Py<'static> {
        Py::Dict(vec![
            ("filename", Py::Text(file)),
            ("line", Py::Int(line)),
            ("name", Py::Text(name)),
        ])
    }

    fn block(mib: i64, state: &'static str, line: i64) -> Py<'static> {
        let frames = vec![
            frame("CUDACachingAllocator.cpp", 0, "malloc"),
            frame("/lib/site-packages/torch/nn/functional.py", 7, "linear"),
            frame("/home/me/train.py", line, "forward"),
        ];
        Py::Dict(vec![
            ("size", Py::Int(mib << 20)),
            ("state", Py::Text(state)),
            ("frames", Py::List(frames)),
        ])
    }

    /// 5 GiB held, 3 GiB unused in pieces of at most 1, and 2 GiB asked for.
    fn example() -> Vec<u8> {
        let blocks = vec![
            block(4096, "active_allocated", 12),
            block(1024, "inactive", 0),
            block(1024, "active_allocated", 30),
            block(1024, "inactive", 0),
            block(1024, "inactive", 0),
        ];
        let segment =
            Py::Dict(vec![("total_size", Py::Int(8 << 30)), ("blocks", Py::List(blocks))]);
        let calm = Py::Dict(vec![("action", Py::Text("alloc")), ("size", Py::Int(512))]);
        let failed = Py::Dict(vec![
            ("action", Py::Text("oom")),
            ("size", Py::Int(2 << 30)),
            ("device_free", Py::Int(64 << 20)),
            ("frames", Py::List(vec![frame("/home/me/train.py", 40, "forward")])),
        ]);
        pickled(&Py::Dict(vec![
            ("segments", Py::List(vec![segment])),
            ("device_traces", Py::List(vec![Py::List(vec![calm, failed])])),
        ]))
    }

    #[test]
    fn every_live_byte_has_an_owner() {
        let snapshot = Snapshot::read(example().as_slice()).unwrap();
        assert_eq!(snapshot.allocated_bytes, 5 << 30);
        let owners: Vec<_> =
            snapshot.owners.iter().map(|p| (p.name.as_str(), p.bytes >> 30)).collect();
        assert_eq!(owners, [("train.py:12 forward", 4), ("train.py:30 forward", 1)]);
        assert_eq!(snapshot.failure.as_ref().unwrap().requested_bytes, 2 << 30);
    }

    #[test]
    fn fragmentation_is_measured() {
        let log = Snapshot::read(example().as_slice()).unwrap().into_log();
        let diagnosis = diagnose(&log, &Context::new());
        assert_eq!(diagnosis.kind, MemoryKind::GpuMemory);
        let found = diagnosis.findings.iter().find(|f| f.rule() == "fragmentation").unwrap();
        assert!(found.is_cause && found.certainty == Certainty::Certain);
        let Cause::Fragmentation { largest_piece_bytes, .. } = found.cause else {
            panic!("{found:?}")
        };
        assert_eq!(largest_piece_bytes, Some(1 << 30));
        let account = diagnosis.account.unwrap();
        assert_eq!((account.explained_bytes, account.held_bytes), (5 << 30, 5 << 30));
    }

    #[test]
    fn a_pickle_of_something_else_is_refused() {
        let other = pickled(&Py::Dict(vec![("vocab_size", Py::Int(65))]));
        assert!(matches!(Snapshot::read(other.as_slice()), Err(SnapshotError::NotASnapshot)));
        assert!(matches!(
            Snapshot::read(b"cos\nsystem\n.".as_slice()),
            Err(SnapshotError::Pickle(_))
        ));
        assert!(Snapshot::is_one(&example()));
        assert!(!Snapshot::is_one(b"Traceback"));
    }

    proptest! {
        /// Any byte may be changed, and the file may end anywhere.
        #[test]
        fn a_damaged_snapshot_is_read_or_refused(at in any::<prop::sample::Index>(), byte: u8, end in any::<prop::sample::Index>()) {
            let mut bytes = example();
            let index = at.index(bytes.len());
            bytes[index] = byte;
            bytes.truncate(end.index(bytes.len()) + 1);
            if let Ok(snapshot) = Snapshot::read(bytes.as_slice()) {
                let diagnosis = diagnose(&snapshot.into_log(), &Context::new());
                prop_assert!(serde_json::to_string(&diagnosis).is_ok());
            }
        }
    }
}
