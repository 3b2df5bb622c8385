//! Memory figures that a user restates: `Free: 12 MiB`, a bullet, a row or a column of a table, a
//! sentence, in several languages.
//!
//! A figure counts only next to a label. Figures that contradict each other are dropped: free memory
//! cannot be larger than the card.

use super::{message::Message, size::PrintedSize};

/// What a figure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quantity {
    Requested,
    Total,
    Free,
    Allocated,
    Reserved,
    Unallocated,
    Process,
    Other,
}

use Quantity::{Allocated, Free, Other, Process, Requested, Reserved, Total, Unallocated};

/// Labels in lower case. Where two overlap, the longer one counts.
const LABELS: &[(&str, Quantity)] = &[
    // English.
    ("tried to allocate", Requested),
    ("tries to allocate", Requested),
    ("trying to allocate", Requested),
    ("attempted to allocate", Requested),
    ("attempting to allocate", Requested),
    ("failed to allocate", Requested),
    ("wanted to allocate", Requested),
    ("wants to allocate", Requested),
    ("allocation of", Requested),
    ("allocation size", Requested),
    ("failed allocation", Requested),
    ("requested", Requested),
    ("requesting", Requested),
    ("request size", Requested),
    ("request", Requested),
    ("asked for", Requested),
    ("wanted", Requested),
    ("total capacity", Total),
    ("total memory", Total),
    ("total gpu memory", Total),
    ("total vram", Total),
    ("memory total", Total),
    ("gpu capacity", Total),
    ("capacity", Total),
    ("in total", Total),
    ("total", Total),
    ("card has", Total),
    ("card size", Total),
    ("already allocated", Allocated),
    ("currently allocated", Allocated),
    ("allocated by pytorch", Allocated),
    ("pytorch allocated", Allocated),
    ("pytorch has allocated", Allocated),
    ("allocated memory", Allocated),
    ("memory allocated", Allocated),
    ("allocated", Allocated),
    ("in use by pytorch", Allocated),
    ("held by tensors", Allocated),
    ("reserved in total by pytorch", Reserved),
    ("reserved in total", Reserved),
    ("reserved by pytorch", Reserved),
    ("reserved memory", Reserved),
    ("memory reserved", Reserved),
    ("reserved", Reserved),
    ("reserved but unallocated", Unallocated),
    ("reserved by pytorch but unallocated", Unallocated),
    ("unallocated", Unallocated),
    ("free memory", Free),
    ("memory free", Free),
    ("free", Free),
    ("available", Free),
    ("remaining", Free),
    ("this process has", Process),
    ("this process uses", Process),
    ("in use by this process", Process),
    ("used by this process", Process),
    ("my process uses", Process),
    ("my process has", Process),
    ("process memory", Process),
    ("process uses", Process),
    ("other processes", Other),
    ("other process", Other),
    ("another process", Other),
    // Chinese.
    ("尝试分配", Requested),
    ("试图分配", Requested),
    ("请求分配", Requested),
    ("申请分配", Requested),
    ("申请", Requested),
    ("需要分配", Requested),
    ("上分配", Requested),
    ("无法分配", Requested),
    ("总容量", Total),
    ("总显存", Total),
    ("显存总量", Total),
    ("总共", Total),
    ("总计", Total),
    ("已分配", Allocated),
    ("已经分配", Allocated),
    ("已预留", Reserved),
    ("预留", Reserved),
    ("保留", Reserved),
    ("空闲", Free),
    ("剩余", Free),
    ("可用", Free),
    ("本进程", Process),
    ("其他进程", Other),
    // Japanese.
    ("割り当てようとした", Requested),
    ("割り当てようと", Requested),
    ("確保しようと", Requested),
    ("要求", Requested),
    ("総容量", Total),
    ("全容量", Total),
    ("合計容量", Total),
    ("合計", Total),
    ("割り当て済み", Allocated),
    ("確保済み", Allocated),
    ("予約済み", Reserved),
    ("予約", Reserved),
    ("空き", Free),
    ("残り", Free),
    ("このプロセス", Process),
    ("他のプロセス", Other),
    // German.
    ("angefordert", Requested),
    ("anforderung", Requested),
    ("gesamtkapazität", Total),
    ("kapazität", Total),
    ("insgesamt", Total),
    ("gesamt", Total),
    ("bereits belegt", Allocated),
    ("zugewiesen", Allocated),
    ("belegt", Allocated),
    ("reserviert", Reserved),
    ("frei", Free),
    ("verfügbar", Free),
    ("dieser prozess", Process),
    ("andere prozesse", Other),
];

/// Lines within which figures belong together.
const NEAR: u64 = 15;
/// Bytes between a label and its figure.
const GLUE: usize = 28;

/// The figures of one place in a log.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Restated {
    requested: Option<PrintedSize>,
    total: Option<PrintedSize>,
    free: Option<PrintedSize>,
    allocated: Option<PrintedSize>,
    reserved: Option<PrintedSize>,
    unallocated: Option<PrintedSize>,
    process: Option<PrintedSize>,
    other: Option<PrintedSize>,
    line: u64,                                     // of the last figure
    header: Option<(u64, Vec<(usize, Quantity)>)>, // the labels of a table's columns, with its line
}

impl Restated {
    /// Reads a line; `lower` is in lower case.
    pub(super) fn push(&mut self, lower: &str, number: u64) {
        let figures = figures(lower);
        let labels = labels(lower);
        let is_table = lower.contains('|') || lower.contains('\t');
        if figures.is_empty() {
            if is_table && labels.len() >= 2 {
                let columns =
                    labels.iter().map(|label| (column(lower, label.start), label.quantity));
                self.header = Some((number, columns.collect()));
            }
            return;
        }
        let mut found: Vec<(Quantity, PrintedSize)> = Vec::new();
        if labels.is_empty() && is_table {
            if let Some((above, columns)) = &self.header
                && number - above <= 3
            {
                for figure in &figures {
                    let own = column(lower, figure.start);
                    let quantity = columns.iter().find(|(at, _)| *at == own);
                    found.extend(quantity.map(|(_, quantity)| (*quantity, figure.size)));
                }
            }
        } else {
            found = labelled(lower, &figures, &labels);
        }
        if found.is_empty() {
            return;
        }
        if number - self.line > NEAR {
            let header = self.header.take();
            *self = Self { header, ..Self::default() };
        }
        self.line = number;
        for (quantity, size) in found {
            *self.place(quantity) = Some(size);
        }
    }

    fn place(&mut self, quantity: Quantity) -> &mut Option<PrintedSize> {
        match quantity {
            Requested => &mut self.requested,
            Total => &mut self.total,
            Free => &mut self.free,
            Allocated => &mut self.allocated,
            Reserved => &mut self.reserved,
            Unallocated => &mut self.unallocated,
            Process => &mut self.process,
            Other => &mut self.other,
        }
    }

    /// Whether there are enough figures for a message: one alone may be about anything.
    fn is_message(&self) -> bool {
        let rest = [self.total, self.free, self.allocated, self.reserved, self.process];
        let count = rest.iter().flatten().count() + usize::from(self.requested.is_some());
        count >= 2
    }

    /// Adds the figures to a message that lacks them. Returns whether any was added.
    pub(super) fn complete(&self, message: &mut Message) -> bool {
        let is_another = match (message.requested, self.requested) {
            (Some(own), Some(restated)) => {
                !own.admits(restated.bytes) && !restated.admits(own.bytes)
            }
            _ => false,
        };
        let is_complete = message.total.is_some() && message.free.is_some();
        if !self.is_message() || is_another || is_complete {
            return false;
        }
        let before = message.clone();
        message.requested = message.requested.or(self.requested);
        message.total = message.total.or(self.total);
        message.free = message.free.or(self.free);
        message.allocated = message.allocated.or(self.allocated);
        message.reserved = message.reserved.or(self.reserved);
        message.unallocated = message.unallocated.or(self.unallocated);
        message.process = message.process.or(self.process);
        message.theirs = message.theirs.or(self.other);
        *message != before
    }
}

/// Drops figures of a message that contradict others.
pub(super) fn drop_contradictions(message: &mut Message, is_exact_wording: bool) {
    let Some(total) = message.total else { return };
    let is_larger = |size: Option<PrintedSize>| {
        size.is_some_and(|size| size.low > total.high.saturating_add(total.high / 50))
    };
    if is_larger(message.free) {
        message.free = None;
    }
    // PyTorch itself prints more than the card has if the driver moved memory to the host.
    if !is_exact_wording {
        for size in [&mut message.allocated, &mut message.reserved, &mut message.process] {
            if is_larger(*size) {
                *size = None;
            }
        }
        if let (Some(reserved), Some(allocated)) = (message.reserved, message.allocated)
            && allocated.low > reserved.high
        {
            message.reserved = None;
        }
        let sum = |a: Option<PrintedSize>, b: Option<PrintedSize>| Some(a?.plus(b?));
        if is_larger(sum(message.free, message.allocated)) {
            message.free = None;
        }
    }
    if is_larger(message.unallocated) {
        message.unallocated = None;
    }
}

struct Figure {
    start: usize,
    end: usize,
    size: PrintedSize,
}

struct Label {
    start: usize,
    end: usize,
    quantity: Quantity,
}

/// The figure that each label of a line belongs to.
fn labelled(text: &str, figures: &[Figure], labels: &[Label]) -> Vec<(Quantity, PrintedSize)> {
    let mut taken = vec![false; labels.len()];
    let mut list = Vec::new();
    for (index, figure) in figures.iter().enumerate() {
        let previous_end = index.checked_sub(1).map_or(0, |i| figures[i].end);
        let next_start = figures.get(index + 1).map_or(text.len(), |next| next.start);
        let after = labels.iter().position(|label| {
            label.start >= figure.end
                && label.end <= next_start
                && is_glue(&text[figure.end..label.start], false)
        });
        let before = labels.iter().rposition(|label| {
            label.end <= figure.start
                && label.start >= previous_end
                && is_glue(&text[label.end..figure.start], true)
        });
        let is_key =
            |label: usize| text[labels[label].end..figure.start].contains([':', '=', '|', '：']);
        let best = match (before.filter(|i| !taken[*i]), after.filter(|i| !taken[*i])) {
            (Some(before), Some(after)) => {
                let gap_before = figure.start - labels[before].end;
                let gap_after = labels[after].start - figure.end;
                if is_key(before) || gap_before <= gap_after { before } else { after }
            }
            (Some(label), None) | (None, Some(label)) => label,
            (None, None) => continue,
        };
        taken[best] = true;
        list.push((labels[best].quantity, figure.size));
    }
    list
}

/// Whether the text between a label and its figure only connects them. Another clause begins after
/// a comma or a full stop.
fn is_glue(text: &str, is_key_first: bool) -> bool {
    let ends: &[char] = if is_key_first {
        &[';', '。', '；']
    } else {
        &[';', ',', '.', ':', '，', '。', '；', '、', '|', '(']
    };
    text.len() <= GLUE && !text.contains(ends)
}

/// The column of a table, counted in separators.
fn column(text: &str, at: usize) -> usize {
    text[..at].bytes().filter(|c| matches!(c, b'|' | b'\t')).count()
}

/// All labels of a text. Of overlapping ones the longest counts.
fn labels(text: &str) -> Vec<Label> {
    let mut all: Vec<Label> = Vec::new();
    for (words, quantity) in LABELS {
        for (start, _) in text.match_indices(words) {
            let end = start + words.len();
            let is_latin = words.is_ascii();
            let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
            if is_latin && (text[..start].ends_with(is_part) || text[end..].starts_with(is_part)) {
                continue;
            }
            all.push(Label { start, end, quantity: *quantity });
        }
    }
    all.sort_by_key(|label| (label.start, std::cmp::Reverse(label.end)));
    let mut kept: Vec<Label> = Vec::new();
    for label in all {
        match kept.last_mut() {
            Some(last) if label.start < last.end => {
                if label.end - label.start > last.end - last.start {
                    *last = label;
                }
            }
            _ => kept.push(label),
        }
    }
    kept
}

/// All sizes of a text: `24 GiB`, `22.4GiB`, `310 MB`.
fn figures(text: &str) -> Vec<Figure> {
    const MOST: usize = 16;
    let mut list = Vec::new();
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() && list.len() < MOST {
        if !bytes[at].is_ascii_digit() {
            at += 1;
            continue;
        }
        let start = at;
        while at < bytes.len() && (bytes[at].is_ascii_digit() || matches!(bytes[at], b'.' | b',')) {
            at += 1;
        }
        let number = text[start..at].trim_end_matches(['.', ',']);
        let rest = text[start + number.len()..].trim_start_matches(' ');
        let unit_start = text.len() - rest.len();
        let unit = rest.bytes().take_while(u8::is_ascii_alphabetic).count();
        let is_word =
            text[..start].ends_with(|c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.'));
        if is_word || unit_start - (start + number.len()) > 1 {
            continue;
        }
        let unit = match &rest[..unit] {
            unit @ ("kib" | "mib" | "gib" | "tib" | "kb" | "mb" | "gb" | "tb" | "bytes") => unit,
            "byte" => "bytes",
            "" if rest.starts_with("字节") || rest.starts_with("バイト") => "bytes",
            _ => continue,
        };
        // `2,048 MiB` is grouped; `1,5 GiB` has a German decimal comma.
        let number = match number.split_once(',') {
            Some((_, group)) if group.len() == 3 || group.contains(',') => number.replace(',', ""),
            Some((whole, fraction)) => format!("{whole}.{fraction}"),
            None => number.to_owned(),
        };
        if let Some((size, _)) = PrintedSize::at_start(&format!("{number}{unit}")) {
            let end = (unit_start + unit.len()).min(text.len());
            let end = (end..=text.len()).find(|i| text.is_char_boundary(*i)).unwrap_or(text.len());
            list.push(Figure { start, end, size });
            at = end.max(at);
        }
    }
    list
}

/// Whether a line may have a figure or a label of this reader; cheaper than reading it.
pub(super) fn may_concern(lower: &str) -> bool {
    const UNITS: [&str; 4] = ["ib", "gb", "mb", "bytes"];
    UNITS.iter().any(|unit| lower.contains(unit)) || lower.contains('|')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{facts::MemoryKind, parse::message::Wording};

    const GIB: u64 = 1 << 30;

    /// Requested, total, free, allocated in MiB.
    fn read(text: &str) -> [Option<u64>; 4] {
        let mut restated = Restated::default();
        for (number, line) in (0..).zip(text.lines()) {
            restated.push(&line.trim().to_lowercase(), number);
        }
        let of = |size: Option<PrintedSize>| size.map(|size| size.bytes >> 20);
        [of(restated.requested), of(restated.total), of(restated.free), of(restated.allocated)]
    }

    #[test]
    fn figures_are_read_in_any_order_form_and_language() {
        let expected = [Some(512), Some(24 * 1024), Some(100), Some(22 * 1024)];
        for text in [
            "- Free: 100 MiB\n- Tried to allocate: 512 MiB\n- Total capacity = 24 GiB\n- Allocated: 22 GiB",
            "requested 512MiB, 24GiB total, 22GiB already allocated, 100MiB free",
            "| requested | 512 MiB |\n|---|---|\n| total capacity | 24.0 GiB |\n| free | 100 MiB |\n| allocated | 22 GiB |",
            "| total | allocated | free | requested |\n|--|--|--|--|\n| 24 GiB | 22 GiB | 100 MiB | 512 MiB |",
            "It tried to allocate 512 MiB. The card has 24 GiB, of which 22 GiB are allocated and 100 MiB are free.",
            "尝试分配 512MiB，总容量 24GiB，已分配 22GiB，剩余 100MiB",
            "総容量 24 GiB、割り当て済み 22 GiB、空き 100 MiB、要求 512 MiB",
            "angefordert: 512 MiB; Kapazität: 24,0 GiB; bereits belegt: 22 GiB; frei: 100 MiB",
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
    }

    #[test]
    fn a_figure_without_a_label_is_nothing() {
        assert_eq!(read("the dataset has 40 GB and my disk 2 TB"), [None; 4]);
        assert_eq!(read("a checkpoint of 13 GiB; downloading 3 GB"), [None; 4]);
        assert_eq!(read("feel free to ask; iteration 24 of 100"), [None; 4]);
    }

    #[test]
    fn figures_far_apart_are_two_messages() {
        let text = format!("free: 1 GiB\n{}requested: 2 GiB", "x\n".repeat(40));
        assert_eq!(read(&text), [Some(2048), None, None, None]);
    }

    #[test]
    fn a_contradicting_figure_is_dropped() {
        let mut message = Message::new(0, Wording::Word, MemoryKind::GpuMemory);
        message.total = Some(PrintedSize::exact(8 * GIB));
        message.free = Some(PrintedSize::exact(24 * GIB));
        message.allocated = Some(PrintedSize::exact(7 * GIB));
        drop_contradictions(&mut message, false);
        assert_eq!((message.free, message.allocated.is_some()), (None, true));
        message.free = Some(PrintedSize::exact(6 * GIB));
        drop_contradictions(&mut message, false);
        assert_eq!(message.free, None);
    }
}
