//! PyTorch's memory snapshots: the owner of every live byte, the failed request, and the layout of
//! the unused memory.
//!
//! `torch.cuda.memory._dump_snapshot` writes a pickle of plain data. It is read as a stream and
//! nothing in it is executed. Traces are most of a large file; only their failures are kept.

use std::{cmp::Reverse, collections::HashMap, io::Read};

use fitgpt_pickle::{Handle, Pickle, PickleError, PickleValue};
use serde::Serialize;

use super::{Log, frames::Frame, message::Message, size::PrintedSize};
use crate::facts::{AccountShare, ShareName};

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
    /// The largest segments, in the order of their size.
    pub segments: Vec<Segment>,
}

/// Memory that PyTorch got from the driver in one piece.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Segment {
    /// Its size.
    pub bytes: u64,
    /// What it holds, in the order of addresses. Neighbours of one owner are one part.
    pub parts: Vec<SegmentPart>,
}

/// A part of a segment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SegmentPart {
    /// Its size.
    pub bytes: u64,
    /// The line of code that allocated it; `None` if it is free.
    pub owner: Option<String>,
}

/// Number of segments to keep.
const SEGMENTS: usize = 64;
/// Number of parts to keep of a segment; the rest is left out.
const PARTS: usize = 400;

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
        Self::read_within(reader, usize::MAX)
    }

    /// Reads a snapshot of at most so many lists and dicts.
    pub fn read_within(reader: impl Read, containers: usize) -> Result<Self, SnapshotError> {
        let pickle = Pickle::read_within(reader, containers, is_wanted)?;
        let PickleValue::Dict(root) = pickle.root() else {
            return Err(SnapshotError::NotASnapshot);
        };
        let Some(PickleValue::List(segments)) = pickle.get(root, "segments") else {
            return Err(SnapshotError::NotASnapshot);
        };
        let failure = match pickle.get(root, "device_traces") {
            Some(PickleValue::List(devices)) => last_failure(&pickle, devices),
            _ => None,
        };
        // Only the card that failed counts; without a failure, all cards do.
        let device = failure.as_ref().map(|(device, _)| *device);
        let mut snapshot = Self { failure: failure.map(|(_, failed)| failed), ..Self::default() };
        let mut owners: HashMap<String, u64> = HashMap::new();
        for segment in segments.iter().filter_map(|segment| dict(&pickle, *segment)) {
            let own = bytes(&pickle, segment, "device");
            if device.is_none() || own.is_none() || own == device {
                snapshot.add(&pickle, segment, &mut owners);
            }
        }
        let mut owners: Vec<_> = owners.into_iter().collect();
        owners.sort_by(|(a, a_bytes), (b, b_bytes)| b_bytes.cmp(a_bytes).then_with(|| a.cmp(b)));
        let owner = |(name, bytes)| AccountShare { name: ShareName::Tensor(name), bytes };
        let mut owners: Vec<AccountShare> = owners.into_iter().map(owner).collect();
        let rest =
            owners.iter().skip(OWNERS).fold(0, |sum: u64, part| sum.saturating_add(part.bytes));
        owners.truncate(OWNERS);
        if rest > 0 {
            owners.push(AccountShare { name: ShareName::Other, bytes: rest });
        }
        snapshot.owners = owners;
        snapshot.segments.sort_by_key(|segment| Reverse(segment.bytes));
        snapshot.segments.truncate(SEGMENTS);
        Ok(snapshot)
    }

    fn add(&mut self, pickle: &Pickle, segment: &[[Handle; 2]], owners: &mut HashMap<String, u64>) {
        let size = bytes(pickle, segment, "total_size").unwrap_or(0);
        self.reserved_bytes = self.reserved_bytes.saturating_add(size);
        let Some(PickleValue::List(blocks)) = pickle.get(segment, "blocks") else { return };
        let mut parts: Vec<SegmentPart> = Vec::new();
        for block in blocks.iter().filter_map(|block| dict(pickle, *block)) {
            let size = bytes(pickle, block, "size").unwrap_or(0);
            let is_free = matches!(pickle.get(block, "state"), Some(PickleValue::Text("inactive")));
            if is_free {
                self.largest_piece_bytes = self.largest_piece_bytes.max(size);
                add_part(&mut parts, size, None);
                continue;
            }
            self.allocated_bytes = self.allocated_bytes.saturating_add(size);
            let name = owner(pickle, block);
            add_part(&mut parts, size, Some(&name));
            let owner = owners.entry(name).or_default();
            *owner = owner.saturating_add(size);
        }
        // Snapshots of large runs have thousands of segments: only the largest are drawn.
        if self.segments.len() >= 2 * SEGMENTS {
            self.segments.sort_by_key(|segment| Reverse(segment.bytes));
            self.segments.truncate(SEGMENTS);
        }
        self.segments.push(Segment { bytes: size, parts });
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

/// Adds a block to the parts of its segment.
fn add_part(parts: &mut Vec<SegmentPart>, bytes: u64, owner: Option<&str>) {
    let has_room = parts.len() < PARTS;
    match parts.last_mut() {
        Some(last) if last.owner.as_deref() == owner => {
            last.bytes = last.bytes.saturating_add(bytes);
        }
        _ if has_room => parts.push(SegmentPart { bytes, owner: owner.map(str::to_owned) }),
        _ => {}
    }
}

/// Of traces only failures are kept. Segments, blocks and frames have no `action`.
fn is_wanted(pickle: &Pickle, pairs: &[[Handle; 2]]) -> bool {
    match pickle.get(pairs, "action") {
        Some(PickleValue::Text(action)) => action == "oom",
        _ => true,
    }
}

/// The last failure and the card on which it happened: traces are listed by card.
fn last_failure(pickle: &Pickle, devices: &[Handle]) -> Option<(u64, FailedRequest)> {
    let traces =
        (0..).zip(devices).filter_map(|(device, trace)| Some((device, list(pickle, *trace)?)));
    let entries = traces.flat_map(|(device, trace)| trace.iter().map(move |entry| (device, entry)));
    let entries = entries.filter_map(|(device, entry)| Some((device, dict(pickle, *entry)?)));
    let failures = entries
        .filter(|(_, entry)| matches!(pickle.get(entry, "action"), Some(PickleValue::Text("oom"))));
    let (device, last) =
        failures.max_by_key(|(_, entry)| bytes(pickle, entry, "time_us").unwrap_or(0))?;
    let mut frames = frames(pickle, last);
    frames.reverse(); // snapshots list the innermost first
    let failed = FailedRequest {
        requested_bytes: bytes(pickle, last, "size").unwrap_or(0),
        free_bytes: bytes(pickle, last, "device_free"),
        frames,
    };
    Some((device, failed))
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
        Bool,
        Text(&'a str),
        Pair(i64, i64),
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
            Py::Bool => bytes.push(0x89),
            Py::Pair(a, b) => {
                write(&Py::Int(*a), bytes);
                write(&Py::Int(*b), bytes);
                bytes.push(0x86);
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
    fn a_segment_lists_its_parts_in_the_order_of_addresses() {
        let snapshot = Snapshot::read(example().as_slice()).unwrap();
        let [segment] = &snapshot.segments[..] else { panic!("{:?}", snapshot.segments) };
        let parts: Vec<_> =
            segment.parts.iter().map(|part| (part.owner.as_deref(), part.bytes >> 30)).collect();
        let [first, second] = ["train.py:12 forward", "train.py:30 forward"].map(Some);
        assert_eq!(parts, [(first, 4), (None, 1), (second, 1), (None, 2)]);
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

    /// A segment with every field that PyTorch 2 writes.
    fn segment(device: i64, blocks: Vec<Py<'static>>) -> Py<'static> {
        Py::Dict(vec![
            ("device", Py::Int(device)),
            ("address", Py::Int(0x7f00_0000_0000)),
            ("total_size", Py::Int(8 << 30)),
            ("allocated_size", Py::Int(5 << 30)),
            ("active_size", Py::Int(5 << 30)),
            ("requested_size", Py::Int(5 << 30)),
            ("stream", Py::Int(0)),
            ("segment_type", Py::Text("large")),
            ("segment_pool_id", Py::Pair(0, 0)),
            ("is_expandable", Py::Bool),
            ("frames", Py::List(Vec::new())),
            ("blocks", Py::List(blocks)),
        ])
    }

    fn entry(action: &'static str, gib: i64, time_us: i64) -> Py<'static> {
        Py::Dict(vec![
            ("action", Py::Text(action)),
            ("size", Py::Int(gib << 30)),
            ("stream", Py::Int(0)),
            ("time_us", Py::Int(time_us)),
            ("compile_context", Py::Text("N/A")),
            ("user_metadata", Py::Text("")),
            ("pool_id", Py::Pair(0, 0)),
            (if action == "oom" { "device_free" } else { "addr" }, Py::Int(64 << 20)),
            ("frames", Py::List(vec![frame("/home/me/train.py", 40, "forward")])),
        ])
    }

    #[test]
    fn only_the_card_that_failed_last_counts() {
        let segments = vec![
            segment(0, vec![block(7168, "active_allocated", 1)]),
            segment(1, vec![block(2048, "active_allocated", 2), block(512, "inactive", 0)]),
            segment(1, vec![block(1024, "active_awaiting_free", 3)]),
        ];
        let traces = vec![
            Py::List(vec![
                entry("segment_alloc", 1, 5),
                entry("oom", 9, 10),
                entry("snapshot", 0, 11),
            ]),
            Py::List(vec![
                entry("alloc", 1, 12),
                entry("oom", 3, 20),
                entry("free_completed", 1, 21),
            ]),
        ];
        let settings = Py::Dict(vec![
            ("PYTORCH_CUDA_ALLOC_CONF", Py::Text("expandable_segments:False")),
            ("garbage_collection_threshold", Py::Int(0)),
        ]);
        let annotation = Py::Dict(vec![
            ("stage", Py::Text("START")),
            ("name", Py::Text("step")),
            ("device", Py::Int(1)),
            ("time_us", Py::Int(3)),
        ]);
        let bytes = pickled(&Py::Dict(vec![
            ("segments", Py::List(segments)),
            ("device_traces", Py::List(traces)),
            ("allocator_settings", settings),
            ("external_annotations", Py::List(vec![annotation])),
        ]));
        let snapshot = Snapshot::read(bytes.as_slice()).unwrap();
        assert_eq!(snapshot.failure.as_ref().unwrap().requested_bytes, 3 << 30);
        assert_eq!((snapshot.allocated_bytes, snapshot.reserved_bytes), (3 << 30, 16 << 30));
        assert_eq!(snapshot.largest_piece_bytes, 512 << 20);
    }

    #[test]
    fn a_snapshot_is_not_asked_for_again() {
        // One allocation of 7 GiB and a request of a script that says nothing.
        let failure = Py::Dict(vec![
            ("action", Py::Text("oom")),
            ("size", Py::Int(9 << 30)),
            ("frames", Py::List(vec![frame("/home/me/x.py", 4, "run")])),
        ]);
        let segments = vec![segment(0, vec![block(7168, "active_allocated", 1)])];
        let bytes = pickled(&Py::Dict(vec![
            ("segments", Py::List(segments)),
            ("device_traces", Py::List(vec![Py::List(vec![failure])])),
        ]));
        let log = Snapshot::read(bytes.as_slice()).unwrap().into_log();
        let diagnosis = diagnose(&log, &Context::new());
        let is_sure = |f: &crate::Finding| f.is_cause && f.certainty > Certainty::Unknown;
        assert!(!diagnosis.findings.iter().any(is_sure), "{diagnosis:#?}");
        assert!(diagnosis.advice.iter().all(|advice| advice.id != crate::Remedy::RecordSnapshot));
        assert_ne!(diagnosis.do_next.question, Some(crate::Question::Snapshot));
        assert!(diagnosis.do_next.question.is_some() || diagnosis.do_next.command.is_some());
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
