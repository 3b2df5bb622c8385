//! The innermost frames of a traceback.

use crate::parse::{Frame, Log};

/// Number of frames to consider: the op, the layers around it and their caller.
const NEAR: usize = 4;

/// The innermost frames with source code, innermost first.
pub(crate) fn innermost(log: &Log) -> impl Iterator<Item = (&Frame, String)> {
    let frames = log.frames.iter().rev().filter(|frame| !frame.code.is_empty());
    frames.take(NEAR).map(|frame| (frame, squeeze(&frame.code)))
}

/// The innermost line of code that contains one of `words`, as printed.
pub(crate) fn line_with(log: &Log, words: &[&str]) -> Option<String> {
    const LONGEST: usize = 160;
    let holds = |(_, code): &(&Frame, String)| words.iter().any(|word| code.contains(word));
    // If the frame was cut off, the line above the message is the innermost.
    let above = log.line_before.as_deref().map(str::trim);
    let above = above.filter(|line| words.iter().any(|word| squeeze(line).contains(word)));
    let line = above.or_else(|| innermost(log).find(holds).map(|(frame, _)| frame.code.trim()));
    line.map(|line| line.chars().filter(|c| !c.is_control()).take(LONGEST).collect())
}

/// Whether the file, function or code of any frame contains one of `words`.
pub(crate) fn holds(log: &Log, words: &[&str]) -> bool {
    let above = log.line_before.as_deref().map(squeeze).into_iter();
    let frames =
        log.frames.iter().map(|frame| squeeze(&frame.file) + " " + &squeeze(&frame.squeezed()));
    frames.chain(above).any(|text| words.iter().any(|word| text.contains(word)))
}

fn squeeze(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace()).flat_map(char::to_lowercase).collect()
}
