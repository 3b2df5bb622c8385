//! What the innermost frames of a traceback were doing.

use crate::parse::{Frame, Log};

/// Frames from the inside that are looked at: the op, the layer around it, and its caller.
const NEAR: usize = 4;

/// The innermost frames that show code, the innermost first.
pub(crate) fn innermost(log: &Log) -> impl Iterator<Item = (&Frame, String)> {
    let frames = log.frames.iter().rev().filter(|frame| !frame.code.is_empty());
    frames.take(NEAR).map(|frame| (frame, squeeze(&frame.code)))
}

/// The first of the innermost lines that holds one of `words`, as printed.
pub(crate) fn line_with(log: &Log, words: &[&str]) -> Option<String> {
    const LONGEST: usize = 160;
    let holds = |(_, code): &(&Frame, String)| words.iter().any(|word| code.contains(word));
    // A line right above the message, whose frame was cut away, is the innermost.
    let above = log.line_before.as_deref().map(str::trim);
    let above = above.filter(|line| words.iter().any(|word| squeeze(line).contains(word)));
    let line = above.or_else(|| innermost(log).find(holds).map(|(frame, _)| frame.code.trim()));
    line.map(|line| line.chars().filter(|c| !c.is_control()).take(LONGEST).collect())
}

/// Whether any frame holds one of `words` in its file, function or code.
pub(crate) fn holds(log: &Log, words: &[&str]) -> bool {
    let above = log.line_before.as_deref().map(squeeze).into_iter();
    let frames =
        log.frames.iter().map(|frame| squeeze(&frame.file) + " " + &squeeze(&frame.squeezed()));
    frames.chain(above).any(|text| words.iter().any(|word| text.contains(word)))
}

fn squeeze(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace()).flat_map(char::to_lowercase).collect()
}
