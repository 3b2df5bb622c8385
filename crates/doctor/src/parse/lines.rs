//! From bytes to lines of bounded length, without the decoration that terminals, launchers and
//! forums add.

/// A longer line is split; no pattern is as long.
const LONGEST: usize = 4096;

/// Collects bytes into lines.
#[derive(Debug, Default)]
pub(super) struct LineSplitter {
    open: Vec<u8>,
    is_continued: bool,
}

impl LineSplitter {
    /// Takes some bytes and calls `line` with each complete line, and with whether it continues
    /// the previous piece of a long line.
    pub(super) fn push(&mut self, bytes: &[u8], mut line: impl FnMut(&str, bool)) {
        for &byte in bytes {
            match byte {
                b'\n' | b'\r' => self.end(&mut line),
                0 => {} // UTF-16 output of a Windows shell
                byte => {
                    self.open.push(byte);
                    if self.open.len() >= LONGEST {
                        self.hand_out(&mut line);
                        self.is_continued = true;
                    }
                }
            }
        }
    }

    /// Ends the last line.
    pub(super) fn finish(mut self, mut line: impl FnMut(&str, bool)) {
        self.end(&mut line);
    }

    fn end(&mut self, line: &mut impl FnMut(&str, bool)) {
        if !self.open.is_empty() {
            self.hand_out(line);
        }
        self.is_continued = false;
    }

    fn hand_out(&mut self, line: &mut impl FnMut(&str, bool)) {
        let text = String::from_utf8_lossy(&self.open);
        if text.contains('\u{1b}') {
            line(&without_escapes(&text), self.is_continued);
        } else {
            line(&text, self.is_continued);
        }
        self.open.clear();
    }
}

/// Removes colours and cursor movements.
fn without_escapes(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\u{1b}' {
            plain.push(c);
            continue;
        }
        match chars.next() {
            Some('[') => {
                let _ = chars.by_ref().find(|c| ('@'..='~').contains(c));
            }
            Some(']') => {
                let _ = chars.by_ref().find(|c| *c == '\u{7}' || *c == '\u{1b}');
            }
            _ => {}
        }
    }
    plain
}

/// A line without its decoration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PlainLine<'a> {
    pub(super) text: &'a str,
    /// The rank that wrote it, if the launcher prints one.
    pub(super) rank: Option<u32>,
}

/// Strips quote marks, boxes, rank prefixes and timestamps, in any nesting.
pub(super) fn plain(line: &str) -> PlainLine<'_> {
    let is_border = |c: char| matches!(c, '│' | '┃' | '║' | '▌' | '▏' | '╎' | '┆');
    let mut text = line.trim();
    let mut rank = None;
    loop {
        let before = text;
        text = text.trim_start_matches(is_border).trim_start();
        text = text.trim_end_matches(is_border).trim_end();
        for quote in ["> ", ">>", "| "] {
            text = text.strip_prefix(quote).map_or(text, str::trim_start);
        }
        if text == ">" || text == "|" {
            text = "";
        }
        if let Some((found, rest)) = worker(text) {
            rank = found.or(rank);
            text = rest.trim_start();
        }
        text = timestamp(text).map_or(text, str::trim_start);
        text = server(text).map_or(text, str::trim_start);
        if text == before {
            return PlainLine { text, rank };
        }
    }
}

/// `[rank0]:`, `[default3]:`, `[1,0]<stderr>:`, and `3:   File …` of Slurm.
fn worker(text: &str) -> Option<(Option<u32>, &str)> {
    if let Some((number, rest)) = text.split_once(':')
        && (1..=4).contains(&number.len())
        && number.bytes().all(|c| c.is_ascii_digit())
        // Any text may begin with a number: only lines of a traceback count.
        && (rest.starts_with("   ") || rest.contains("Traceback") || rest.contains("Error: "))
    {
        return Some((Some(number.parse().ok()?), rest));
    }
    let (name, rest) = text.strip_prefix('[')?.split_once(']')?;
    let number = name.strip_prefix("rank").or_else(|| name.strip_prefix("default"));
    if let Some(number) = number {
        return Some((Some(number.parse().ok()?), rest.strip_prefix(':').unwrap_or(rest)));
    }
    let rest = ["<stderr>:", "<stdout>:"].iter().find_map(|stream| rest.strip_prefix(stream))?;
    let (_, number) = name.split_once(',')?;
    Some((number.parse().ok(), rest))
}

/// `2024-05-01T12:00:00.0000000Z `, as CI systems print it.
fn timestamp(text: &str) -> Option<&str> {
    let (time, rest) = text.split_once(' ')?;
    let is_time = time.len() >= 20
        && time.ends_with('Z')
        && time.as_bytes()[10] == b'T'
        && time.bytes().all(|c| c.is_ascii_digit() || b"-:.TZ".contains(&c));
    is_time.then_some(rest)
}

/// `(EngineCore pid=42521) ERROR 06-09 14:01:52 [core.py:1136] `, as vLLM prints it.
fn server(text: &str) -> Option<&str> {
    if let Some((name, rest)) = text.strip_prefix('(').and_then(|text| text.split_once(") ")) {
        return (name.contains("pid=") && name.len() < 80).then_some(rest);
    }
    let rest = ["ERROR ", "INFO ", "WARNING "].iter().find_map(|level| text.strip_prefix(level))?;
    let (stamp, rest) = rest.split_once("] ")?;
    let (time, _) = stamp.split_once('[')?;
    let is_stamp = |c: char| c.is_ascii_digit() || matches!(c, '-' | ':' | '.' | ' ');
    (time.len() >= 10 && time.chars().all(is_stamp)).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(bytes: &[u8]) -> Vec<String> {
        let mut list = Vec::new();
        let mut lines = LineSplitter::default();
        lines.push(bytes, |line, _| list.push(line.to_owned()));
        lines.finish(|line, _| list.push(line.to_owned()));
        list
    }

    #[test]
    fn lines_end_at_cr_lf_and_the_end_of_input() {
        assert_eq!(lines(b"a\r\nb\rc\n\nd"), ["a", "b", "c", "d"]);
        assert_eq!(lines(b"o\0u\0t\0"), ["out"]);
    }

    #[test]
    fn a_long_line_is_split() {
        let pieces = lines(&[b'x'; 10_000]);
        assert_eq!(pieces.iter().map(String::len).collect::<Vec<_>>(), [4096, 4096, 1808]);
    }

    #[test]
    fn colours_are_removed() {
        assert_eq!(lines(b"\x1b[1;31mred\x1b[0m \x1b]0;title\x07end"), ["red end"]);
    }

    #[test]
    fn nested_decoration_is_stripped() {
        let table = [
            ("[rank3]:   File \"train.py\"", "File \"train.py\"", Some(3)),
            ("> > quoted", "quoted", None),
            ("│ boxed text   │", "boxed text", None),
            ("> [rank1]: both", "both", Some(1)),
            ("7:   File \"train.py\"", "File \"train.py\"", Some(7)),
            ("0: 384x640 2 persons", "0: 384x640 2 persons", None),
            ("[1,2]<stderr>:mpi", "mpi", Some(2)),
            ("2024-05-01T12:00:00.1234567Z checked", "checked", None),
            ("(Worker pid=7) ERROR 06-09 14:01:52 [core.py:9] x = 1", "x = 1", None),
            ("---> 12 loss.backward()", "---> 12 loss.backward()", None),
            ("[2023-01-01 10:00:00,000] kept", "[2023-01-01 10:00:00,000] kept", None),
        ];
        for (line, text, rank) in table {
            assert_eq!(plain(line), PlainLine { text, rank }, "{line}");
        }
    }
}
