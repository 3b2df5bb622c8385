//! What is read of a long log: its beginning, its end, and everything around words of trouble.
//!
//! A log of a gigabyte is a few thousand forms of lines, repeated. Each line of the first megabyte is
//! read. After that one automaton looks for words of trouble, at the speed of memory, and only the
//! lines around them are read. Words that occur in every line of progress (`memory=12GB`) count only
//! the first times that a line of that form has them. The last lines are always read.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hasher as _},
    sync::LazyLock,
};

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

/// Everything up to here is read.
const HEAD: u64 = 1 << 20;
/// The end of a log that is always read, and the most that is kept.
const TAIL: usize = 64 << 10;
/// Read before a word of trouble.
const BEFORE: usize = 4 << 10;
/// Read after a word of trouble.
const AFTER: usize = 16 << 10;
/// How often a line of the same form opens the gate.
const OFTEN: u8 = 8;
/// Forms of lines to remember.
const FORMS: usize = 1 << 14;
/// How often any word opens the gate. A log with more trouble than this repeats itself in other
/// words, and from then on only the words of a failure count.
const MANY: u32 = 512;

/// Words of trouble. A line without any of them says nothing about a failure.
const TROUBLE: &[&str] = &[
    "memory",
    "out_of",
    "oom",
    "alloc",
    "traceback",
    "error",
    "killed",
    "signal",
    "exit",
    "nccl warn",
    "hbm",
    "vram",
    "assert",
    "显存",
    "内存",
    "記憶體",
    "メモリ",
    "speicher",
];

/// Words of a failure.
const FAILURE: &[&str] = &[
    "out of memory",
    "outofmemory",
    "out_of_memory",
    "traceback",
    "oom-kill",
    "killed",
    "显存不足",
];

static AUTOMATON: LazyLock<AhoCorasick> = LazyLock::new(|| automaton(TROUBLE));
static OF_FAILURES: LazyLock<AhoCorasick> = LazyLock::new(|| automaton(FAILURE));

fn automaton(words: &[&str]) -> AhoCorasick {
    AhoCorasick::builder()
        .kind(Some(AhoCorasickKind::DFA))
        .ascii_case_insensitive(true)
        .match_kind(MatchKind::Standard)
        .build(words)
        .expect("the words are few and short")
}

/// A piece of a log that is read, and whether text before it was skipped.
pub(super) struct Piece<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) is_after_gap: bool,
}

/// Decides which bytes are read.
#[derive(Debug, Default)]
pub(super) struct Gate {
    taken: u64,
    held: Vec<u8>, // skipped so far, the last bytes only
    open: usize,   // bytes still to be read
    has_gap: bool,
    forms: HashMap<u64, u8>,
    opened: u32, // so often
}

impl Gate {
    /// Takes the next bytes of a log, and hands out those to read.
    pub(super) fn push(&mut self, bytes: &[u8], mut read: impl FnMut(Piece<'_>)) {
        let head = usize::try_from(HEAD.saturating_sub(self.taken)).unwrap_or(usize::MAX);
        let (head, rest) = bytes.split_at(head.min(bytes.len()));
        self.taken = self.taken.saturating_add(bytes.len() as u64);
        if !head.is_empty() {
            read(Piece { bytes: head, is_after_gap: false });
        }
        if rest.is_empty() {
            return;
        }
        let mut text = std::mem::take(&mut self.held);
        text.extend_from_slice(rest);
        let mut at = self.hand_out(&text, 0, &mut read);
        while let Some(found) = self.trouble(&text, at) {
            let start = line_start(&text, found.saturating_sub(BEFORE).max(at));
            self.has_gap |= start > at;
            self.open = found - start + AFTER;
            at = self.hand_out(&text, start, &mut read);
        }
        let keep = line_start(&text, text.len().saturating_sub(TAIL).max(at));
        self.has_gap |= keep > at;
        text.drain(..keep);
        self.held = text;
    }

    /// Ends the log: its last lines are read.
    pub(super) fn finish(self, mut read: impl FnMut(Piece<'_>)) {
        if !self.held.is_empty() {
            read(Piece { bytes: &self.held, is_after_gap: self.has_gap });
        }
    }

    /// Hands out the bytes from `at` on for which the gate is open, and returns their end.
    fn hand_out(&mut self, text: &[u8], at: usize, read: &mut impl FnMut(Piece<'_>)) -> usize {
        let end = at.saturating_add(self.open).min(text.len());
        if end > at {
            // A whole line, unless the text ends in it.
            let rest = &text[end..];
            let line = rest.iter().position(|byte| *byte == b'\n').map_or(rest.len(), |n| n + 1);
            let stop = if line > AFTER { end } else { end + line };
            read(Piece { bytes: &text[at..stop], is_after_gap: self.has_gap });
            self.has_gap = false;
            self.open = (self.open + at).saturating_sub(stop);
            return stop;
        }
        at
    }

    /// The next word of trouble in a line whose form is not known too well.
    fn trouble(&mut self, text: &[u8], from: usize) -> Option<usize> {
        let mut at = from;
        loop {
            let automaton = if self.opened < MANY { &AUTOMATON } else { &OF_FAILURES };
            let found = automaton.find(text.get(at..)?)?;
            let start = at + found.start();
            let begin = line_start(text, start);
            let rest = &text[start..];
            let end = start + rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
            if self.forms.len() >= FORMS {
                self.forms.clear();
            }
            let seen = self.forms.entry(form(&text[begin..end])).or_insert(0);
            if *seen < OFTEN {
                *seen += 1;
                self.opened = self.opened.saturating_add(1);
                return Some(start);
            }
            at = end;
        }
    }
}

/// The start of the line that contains `at`.
fn line_start(text: &[u8], at: usize) -> usize {
    /// A longer line has no start worth finding.
    const LONGEST: usize = 4096;
    let least = at.saturating_sub(LONGEST);
    let before = &text[least..at.min(text.len())];
    before.iter().rposition(|byte| *byte == b'\n').map_or(least, |n| least + n + 1)
}

/// The form of a line: its letters, without numbers.
fn form(line: &[u8]) -> u64 {
    const MOST: usize = 256;
    let mut hasher = DefaultHasher::new();
    let letters = line.iter().take(MOST).filter(|c| c.is_ascii_alphabetic() || **c >= 0x80);
    letters.for_each(|c| hasher.write_u8(*c));
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is read of a log in pieces of `size`, with `~` for each gap.
    fn read(log: &[u8], size: usize) -> Vec<u8> {
        let mut gate = Gate::default();
        let mut all = Vec::new();
        let mut take = |piece: Piece<'_>| {
            if piece.is_after_gap {
                all.push(b'~');
            }
            all.extend_from_slice(piece.bytes);
        };
        log.chunks(size).for_each(|chunk| gate.push(chunk, &mut take));
        gate.finish(&mut take);
        all
    }

    fn progress(megabytes: usize) -> Vec<u8> {
        let lines = (0..).map(|n: u64| format!("iter {n}: loss 2.{n}, used 12.{n} GB\n"));
        let mut log = Vec::new();
        for line in lines {
            log.extend(line.bytes());
            if log.len() >= megabytes << 20 {
                return log;
            }
        }
        log
    }

    #[test]
    fn a_short_log_is_read_whole() {
        let log = progress(1);
        for size in [7, 4096, 1 << 20] {
            assert_eq!(read(&log[..1 << 20], size), log[..1 << 20], "{size}");
        }
    }

    /// A line of a form of its own for every number.
    fn trouble_of(number: usize) -> String {
        let letter = |n: usize| char::from(b'a' + (n % 26) as u8);
        let word: String = [number, number / 26, number / 676].map(letter).iter().collect();
        format!("{word}: error in memory of {word}\n{}", "x\n".repeat(1000))
    }

    #[test]
    fn of_a_log_full_of_trouble_a_bounded_part_and_the_failure_are_read() {
        let mut log = progress(2);
        for number in 0..17_000 {
            log.extend(trouble_of(number).bytes());
            if number == 12_000 {
                log.extend(b"torch.OutOfMemoryError: CUDA out of memory. Tried\n");
            }
        }
        log.extend(progress(1));
        let all = read(&log, 1 << 16);
        assert!(all.len() < 14 << 20 && log.len() > 30 << 20, "{} of {}", all.len(), log.len());
        let has = |words: &[u8]| all.windows(words.len()).any(|window| window == words);
        assert!(has(b"OutOfMemoryError"));
    }

    #[test]
    fn of_a_long_log_the_ends_and_the_trouble_are_read() {
        let message = b"Traceback (most recent call last):\nOutOfMemoryError: tried 2 GiB\n";
        let mut log = progress(3);
        log.extend_from_slice(message);
        log.extend(progress(3));
        log.extend_from_slice(b"the last line\n");
        for size in [1000, 1 << 16] {
            let read = read(&log, size);
            let holds = |words: &[u8]| read.windows(words.len()).any(|part| part == words);
            assert!(holds(message), "{size}");
            assert!(read.starts_with(b"iter 0:") && read.ends_with(b"the last line\n"), "{size}");
            assert!(read.len() < 3 << 19, "{size}: {}", read.len());
            assert!(holds(b"~iter"), "{size}");
        }
    }

    #[test]
    fn a_word_of_every_line_does_not_keep_the_gate_open() {
        let line = |n: u64| format!("step {n}, memory {n} GiB\n");
        let log: Vec<u8> = (0..400_000).flat_map(|n| line(n).into_bytes()).collect();
        assert!(read(&log, 1 << 16).len() < 2 << 20);
    }
}
