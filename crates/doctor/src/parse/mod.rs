//! Parsing a log: any bytes, of any length, in constant memory. Of a long log, [`gate`] decides what
//! is read.
//!
//! [`Reader`] takes the bytes in chunks; [`Log`] is the result. Each line is stripped of
//! decoration ([`lines`]) and then parsed twice: as a line, for traceback frames and the output
//! of the training script, and as part of one text without white space, for messages that a
//! terminal has wrapped.
//!
//! No input panics, and memory use does not grow with the length of the log.
//!
//! Promise: any bytes are a log and end in a diagnosis. Test: `crates/doctor/tests/fuzz.rs`;
//! properties in `crates/doctor/src/parse/tests.rs` and `crates/doctor/src/rules/tests.rs`.

mod gate;
mod lines;
mod size;
mod squeezed;
mod frames;
mod phrases;
mod clues;
mod message;
mod notes;
mod progress;
mod prose;
mod situation;
mod hardware;
mod method;
mod command;
mod restated;
mod claims;
mod bare;
mod numbered;
mod setup;
mod snapshot;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

pub(crate) use self::size::allocator_request;
pub use self::{
    clues::{Clue, Clues},
    frames::Frame,
    message::{Element, Message, PrintedShape, Wording},
    notes::HarmlessLine,
    progress::NanoGptOutput,
    setup::{CardProcess, LoggedOptimizer, Setup},
    size::PrintedSize,
    snapshot::{Segment, SegmentPart, Snapshot, SnapshotError},
};
pub(crate) use self::{command::QuotedCommand, method::TrainedPart, situation::Topic};
use crate::{claim::Claim, facts::MemoryKind};

use self::{
    claims::Advised,
    frames::Frames,
    gate::Gate,
    lines::{LineSplitter, plain},
    restated::{Restated, drop_contradictions},
    squeezed::{Offset, Squeezed},
};

/// Maximum number of messages and shapes to keep; a log may repeat one a thousand times.
const MOST: usize = 256;
/// Maximum distance between the shape that generated code prints and the error message.
const NEAR: Offset = 16 * 1024;

/// Parses a log incrementally.
#[derive(Debug, Default)]
pub struct Reader {
    gate: Gate,
    lines: LineSplitter,
    body: LogBuilder,
}

/// Collects what the lines of a log contain.
#[derive(Debug, Default)]
struct LogBuilder {
    squeezed: Squeezed,
    frames: Frames,
    progress: NanoGptOutput,
    setup: Setup,
    restated: Restated,
    advised: Advised,
    lines: u64,
    found: Matches,
    ranks: VecDeque<(Offset, Option<u32>)>, // offsets at which the writing rank changes
    last: String,                           // line
    above: VecDeque<(Offset, String)>,      // lines above messages, with the message's offset
    workers: u32,
    mentions_error: bool,
}

/// Words of a line that mentions a failure.
const FAILURES: &[&str] = &[
    "error",
    "fault",
    "dumped",
    "fail",
    "unable to",
    "crash",
    "exception",
    "non-zero exit",
    "报错",
    "错误",
    "失败",
    "エラー",
    "失敗",
    "fehler",
];

#[derive(Debug, Default)]
struct Matches {
    messages: VecDeque<Message>,
    shapes: VecDeque<(Offset, PrintedShape)>,
    largest: Option<PrintedShape>, // buffer of a compiled program
    notes: Vec<HarmlessLine>,
    clues: Clues,
}

/// A parsed log.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Log {
    /// The message of the failure.
    pub message: Option<Message>,
    /// The log has Triton's `out of resource` line, but that is not the failure.
    pub(crate) has_harmless_triton_error: bool,
    /// The shape that the message or generated code was about to allocate, or XLA's largest buffer.
    pub shape: Option<PrintedShape>,
    /// The traceback of the failure, outermost frame first.
    pub frames: Vec<Frame>,
    /// The last line of the last traceback, if it is not about memory.
    pub(crate) other_error: Option<String>,
    /// A line mentions that something failed.
    pub(crate) mentions_error: bool,
    /// The line above the message.
    pub(crate) line_before: Option<String>,
    /// The output of the training script.
    pub progress: NanoGptOutput,
    /// Harmless lines that look like causes.
    pub notes: Vec<HarmlessLine>,
    /// Ranks that wrote this log; 0 if no line names a rank.
    pub workers: u32,
    /// Keywords that identify the program.
    pub clues: Clues,
    /// Model, batch size and other settings in the log.
    pub setup: Setup,
    /// Whether some of the message's figures come from a user's words.
    pub(crate) is_restated: bool,
    /// What the text recommends, if it is advice.
    pub(crate) advised: Advised,
    /// The memory snapshot, if the input was one instead of a text.
    pub(crate) snapshot: Option<Snapshot>,
}

impl Log {
    /// A log made from a memory snapshot.
    pub(crate) fn of_snapshot(
        message: Option<Message>,
        frames: Vec<Frame>,
        snapshot: Snapshot,
    ) -> Self {
        let mut log = Self { message, frames, snapshot: Some(snapshot), ..Self::default() };
        let text = |frame: &Frame| (frame.file.clone() + " " + &frame.squeezed()).to_lowercase();
        log.clues = Clues::of_squeezed(&log.frames.iter().map(text).collect::<String>());
        log
    }

    /// The claims of a text that is advice rather than a log: no program reports a failure in it.
    pub(crate) fn advice(&self) -> &[Claim] {
        const PROGRAM: u8 = 5;
        let is_reported = self
            .message
            .as_ref()
            .is_some_and(|m| m.weight() >= PROGRAM && m.requested.is_some() && m.total.is_some());
        if is_reported || self.frames.len() >= 3 { &[] } else { self.advised.claims() }
    }

    /// Number of ranks, as far as the log shows.
    pub(crate) fn world(&self) -> u64 {
        let ranks = self.workers.max(self.progress.workers);
        u64::from(ranks).max(self.setup.world.unwrap_or(1)).max(1)
    }

    /// Reads a whole log.
    pub fn read(bytes: &[u8]) -> Self {
        let mut reader = Reader::default();
        reader.push(bytes);
        reader.finish()
    }
}

impl Reader {
    /// Takes the next bytes of the log.
    pub fn push(&mut self, bytes: &[u8]) {
        let Self { gate, lines, body } = self;
        gate.push(bytes, |piece| {
            if piece.is_after_gap {
                body.gap();
            }
            lines.push(piece.bytes, |line, is_continued| body.line(line, is_continued));
        });
    }

    /// Ends the log.
    pub fn finish(self) -> Log {
        let Self { gate, mut lines, mut body } = self;
        gate.finish(|piece| {
            if piece.is_after_gap {
                body.gap();
            }
            lines.push(piece.bytes, |line, is_continued| body.line(line, is_continued));
        });
        lines.finish(|line, is_continued| body.line(line, is_continued));
        body.finish()
    }
}

impl LogBuilder {
    fn line(&mut self, line: &str, is_continued: bool) {
        let plain = plain(line);
        let (text, rank) = if is_continued { (line, None) } else { (plain.text, plain.rank) };
        if text.is_empty() {
            return;
        }
        let at = self.squeezed.end();
        if ["ut of memory", "OutOfMemory", "ut-of-memory"].iter().any(|w| text.contains(w)) {
            self.above.push_back((at, std::mem::take(&mut self.last)));
            if self.above.len() > MOST {
                self.above.pop_front();
            }
        }
        text.clone_into(&mut self.last);
        if self.ranks.back().is_none_or(|(_, last)| *last != rank) {
            self.ranks.push_back((at, rank));
            if self.ranks.len() > MOST * 16 {
                self.ranks.pop_front();
            }
        }
        self.workers = self.workers.max(rank.map_or(0, |rank| rank.saturating_add(1)));
        if !is_continued {
            self.frames.push(text, at, rank);
            self.progress.push(text, at);
            let lower = text.to_lowercase();
            self.lines += 1;
            self.mentions_error |= FAILURES.iter().any(|word| lower.contains(word));
            self.advised.push(text, &lower);
            self.setup.push(text, &lower);
            if restated::may_concern(&lower) {
                self.restated.push(&lower, self.lines);
            }
            if let Some(message) = bare::of_line(text, at) {
                self.found.message(message);
            }
        }
        let found = &mut self.found;
        self.squeezed.push(text, |passage| found.search(passage));
    }

    /// Text was skipped: what follows is not next to what came before.
    fn gap(&mut self) {
        const LINES: u64 = 1000;
        self.lines += LINES;
        let found = &mut self.found;
        self.squeezed.gap(|passage| found.search(passage));
    }

    fn finish(self) -> Log {
        let Self {
            squeezed,
            frames,
            progress,
            setup,
            restated,
            advised,
            mut found,
            ranks,
            above,
            workers,
            mentions_error,
            ..
        } = self;
        squeezed.finish(|passage| found.search(passage));
        let Matches { messages, shapes, largest, notes, clues } = found;
        let mut message = failure(&messages).or_else(|| described(&setup));
        let is_restated = message.as_mut().is_some_and(|message| {
            let is_restated = restated.complete(message);
            let is_exact = matches!(message.wording, Wording::Torch1 | Wording::Torch2);
            drop_contradictions(message, is_exact);
            // The labels are those of PyTorch's messages about a card.
            if is_restated && message.memory == MemoryKind::Unknown {
                message.memory = MemoryKind::GpuMemory;
            }
            is_restated
        });
        let at = message.as_ref().map_or(Offset::MAX, |m| m.at);
        let rank = ranks.iter().rev().find(|(start, _)| *start <= at).and_then(|(_, rank)| *rank);
        let other_error = frames.last_error();
        let frames = frames.around(at, rank);
        let line_before =
            above.into_iter().rev().find(|(start, _)| *start <= at).map(|(_, line)| line);
        // A failed page-locked allocation in host memory is reported as a CUDA error.
        let is_pinned = frames.last().is_some_and(|f| f.squeezed().contains("pin_memory"))
            || line_before.as_ref().is_some_and(|line| line.contains("pin_memory("));
        if let Some(message) = message.as_mut().filter(|m| is_pinned && m.requested.is_none()) {
            message.memory = MemoryKind::HostMemory;
        }
        let shape = message.as_ref().and_then(|message| {
            let near = shapes.iter().rev().find(|(place, _)| *place < at && at - *place < NEAR);
            // The shape belongs to the message only if the sizes agree.
            let shape = message.shape.clone().or_else(|| near.map(|(_, shape)| shape.clone()))?;
            let Some(requested) = message.requested else {
                return message.shape.clone();
            };
            let bytes = shape.bytes()?;
            let agrees = requested.admits(bytes) || requested.admits(allocator_request(bytes));
            agrees.then_some(shape)
        });
        let is_xla = message.as_ref().is_some_and(|message| message.wording == Wording::Jax);
        let shape = shape.or(largest.filter(|_| is_xla));
        let is_triton = |m: &Message| m.wording == Wording::Triton;
        let has_harmless_triton_error =
            messages.iter().any(is_triton) && !message.as_ref().is_some_and(is_triton);
        Log {
            message,
            has_harmless_triton_error,
            shape,
            frames,
            other_error,
            mentions_error,
            line_before,
            progress,
            notes,
            workers,
            clues,
            setup,
            is_restated,
            advised,
            snapshot: None,
        }
    }
}

impl Matches {
    fn search(&mut self, passage: squeezed::Passage<'_>) {
        numbered::messages(passage, |message| self.message(message));
        bare::messages(passage, |message| self.message(message));
        numbered::made(passage, |at, shape| {
            self.shapes.push_back((at, shape));
            if self.shapes.len() > MOST {
                self.shapes.pop_front();
            }
        });
        numbered::largest(passage, |shape| {
            self.largest.get_or_insert(shape);
        });
        for line in notes::lines(passage) {
            if !self.notes.contains(&line) {
                self.notes.push(line);
            }
        }
        self.clues.look(passage);
    }

    /// Keeps a message. If there are too many, drops the oldest of the least informative.
    fn message(&mut self, message: Message) {
        self.messages.push_back(message);
        if self.messages.len() > MOST {
            let least = self.messages.iter().map(Message::weight).min();
            let index = self.messages.iter().position(|m| Some(m.weight()) == least);
            self.messages.remove(index.unwrap_or(0));
        }
    }
}

/// Memory that grows, or that Windows lends, described by a user without any message.
fn described(setup: &Setup) -> Option<Message> {
    let topics = &setup.situation.topics;
    if [Topic::SharedMemory, Topic::Slow].iter().all(|topic| topics.contains(topic)) {
        return Some(Message::new(0, Wording::Word, MemoryKind::GpuMemory));
    }
    setup.situation.grows.map(|memory| Message::new(0, Wording::Grows, memory))
}

/// The message of the failure, with the exact numbers of the line before it.
fn failure(messages: &VecDeque<Message>) -> Option<Message> {
    let telling = |m: &&Message| {
        let is_known = m.memory != MemoryKind::Unknown;
        (m.weight(), m.requested.is_some(), m.wording != Wording::TorchExact, is_known, m.at)
    };
    let best = messages.iter().max_by_key(telling)?;
    let mut message = best.clone();
    // The same failure is often repeated in short form after its traceback.
    let is_fuller = |m: &&Message| m.requested == message.requested && m.total.is_some();
    if message.total.is_none()
        && message.requested.is_some()
        && let Some(fuller) = messages.iter().rev().find(is_fuller)
    {
        message = Message { at: message.at, ..fuller.clone() };
    }
    // XLA says in several sentences what it needs and what the chip has.
    if message.wording == Wording::Jax && message.total.is_none() {
        let mut same = messages.iter().rev().filter(|m| m.wording == Wording::Jax);
        message.total = same.find_map(|m| m.total);
    }
    if matches!(message.wording, Wording::Torch2 | Wording::Torch1 | Wording::TorchBare) {
        let exact = messages.iter().rev().find(|m| {
            let requested = m.requested.map_or(0, |size| size.bytes);
            m.wording == Wording::TorchExact
                && m.at < message.at
                && message.requested.is_some_and(|size| size.admits(requested))
        });
        if let Some(exact) = exact {
            message.requested = exact.requested;
            message.free = exact.free.or(message.free);
            message.total = exact.total.or(message.total);
        }
    }
    Some(message)
}
