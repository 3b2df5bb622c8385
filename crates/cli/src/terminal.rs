//! The only file that writes to the terminal.
//!
//! Answers and nanoGPT's log lines go to stdout; the progress line, warnings and errors to stderr.
//! Paths, flags and tensor names are not trusted: control characters in them are printed as escapes
//! like `\x1b`, so that they cannot control the terminal.
//!
//! If the reader of stdout goes away, the program stops without a message: `fitgpt plan | head` is
//! not an error. `train` continues without output instead. Any other failed write is an error.
//!
//! Promise: a terminal that does not support escape sequences gets none; machine-readable output is
//! valid and does not depend on the language. Test: `tests/runs/terminals.rs`,
//! `tests/runs/languages.rs`.

use std::{
    borrow::Cow,
    io::{self, IsTerminal as _, Write as _},
    sync::atomic::{AtomicBool, AtomicU8, Ordering},
};

use serde::Serialize;

use crate::words::names;

/// What happens when stdout cannot be written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stdout {
    /// The program ends.
    Needed = 0,
    /// The command continues: its work matters more than its output.
    Dispensable = 1,
    /// The pipe is closed; nothing is printed.
    Closed = 2,
    /// A write failed for another reason; nothing is printed, and the exit code will be 2.
    Failed = 3,
}

static STDOUT: AtomicU8 = AtomicU8::new(Stdout::Needed as u8);

fn stdout_is(state: Stdout) -> bool {
    STDOUT.load(Ordering::Relaxed) == state as u8
}

/// Whether only errors are printed: of several ranks, only the root prints.
static IS_QUIET: AtomicBool = AtomicBool::new(false);

/// From here on nothing but errors is printed.
pub(crate) fn only_errors() {
    IS_QUIET.store(true, Ordering::Relaxed);
}

fn is_quiet() -> bool {
    IS_QUIET.load(Ordering::Relaxed)
}

/// From here on the program continues if stdout cannot be written.
pub(crate) fn continue_without_stdout() {
    STDOUT.store(Stdout::Dispensable as u8, Ordering::Relaxed);
}

/// Whether output was lost for a reason other than a closed pipe.
pub(crate) fn has_lost_output() -> bool {
    stdout_is(Stdout::Failed)
}

/// Prints to stdout.
pub(crate) fn out(text: &str) {
    write_out(&printable(text));
}

/// Prints text that a model has generated. It reaches a file or a pipe byte for byte.
pub(crate) fn out_generated(text: &str) {
    if io::stdout().is_terminal() { out(text) } else { write_out(text) }
}

/// Prints help in colour, unless colours are turned off.
pub(crate) fn out_styled(text: &clap::builder::StyledStr) {
    if is_shown() && !is_colour_refused() {
        write_out(&text.ansi().to_string());
    } else {
        out(&text.to_string());
    }
}

fn write_out(text: &str) {
    if stdout_is(Stdout::Closed) || stdout_is(Stdout::Failed) || is_quiet() {
        return;
    }
    let mut stdout = io::stdout().lock();
    let Err(error) = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) else {
        return;
    };
    let is_closed = error.kind() == io::ErrorKind::BrokenPipe;
    if !is_closed {
        err(&format!("{}stdout: {error}\n", names::error()));
    }
    if stdout_is(Stdout::Needed) {
        std::process::exit(if is_closed { 0 } else { 2 });
    }
    let state = if is_closed { Stdout::Closed } else { Stdout::Failed };
    STDOUT.store(state as u8, Ordering::Relaxed);
}

/// Prints a line to stdout.
pub(crate) fn line(text: &str) {
    out(&format!("{text}\n"));
}

/// Prints a JSON document in one line.
pub(crate) fn json(document: &impl Serialize) {
    let text = serde_json::to_string(document).expect("a document is plain data");
    write_out(&(escaped(&text, json_escape).into_owned() + "\n"));
}

/// Prints a JSON document for people to read, too.
pub(crate) fn json_pretty(document: &impl Serialize) {
    let text = serde_json::to_string_pretty(document).expect("a document is plain data");
    write_out(&(escaped(&text, json_escape).into_owned() + "\n"));
}

/// Prints to stderr. A failure cannot be reported anywhere and is ignored.
pub(crate) fn err(text: &str) {
    write_err(&printable(text));
}

fn write_err(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

/// Prints a note to stderr.
pub(crate) fn note(text: &str) {
    if is_quiet() {
        return;
    }
    err(&format!("{}{text}\n", names::note()));
}

/// `text` with control characters as escapes, except newlines and tabs.
fn printable(text: &str) -> Cow<'_, str> {
    escaped(text, |c| match c {
        '\r' => "\\r".to_owned(),
        c if (c as u32) < 256 => format!("\\x{:02x}", c as u32),
        c => format!("\\u{{{:x}}}", c as u32),
    })
}

/// JSON's own escape: the document stays valid and says the same. No such character needs two.
fn json_escape(c: char) -> String {
    format!("\\u{:04x}", c as u32)
}

/// `text` with `escape` of each character that could control a terminal.
fn escaped(text: &str, escape: impl Fn(char) -> String) -> Cow<'_, str> {
    if !text.contains(is_wild) {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_wild(c) {
            clean.push_str(&escape(c));
        } else {
            clean.push(c);
        }
    }
    Cow::Owned(clean)
}

fn is_wild(c: char) -> bool {
    let is_plain = c == '\n' || c == '\t';
    // Marks that change the direction of text can make one path look like another.
    let is_direction = matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    (c.is_control() && !is_plain) || is_direction
}

/// Whether stderr is a terminal, so that a line can be overwritten.
pub(crate) fn is_watched() -> bool {
    io::stderr().is_terminal() && takes_escapes()
}

/// Whether stdout is a terminal, so that a picture can be redrawn.
pub(crate) fn is_shown() -> bool {
    io::stdout().is_terminal() && takes_escapes()
}

/// Some terminals, such as an editor's, print escape sequences instead of interpreting them.
fn takes_escapes() -> bool {
    std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// As <https://no-color.org> asks.
fn is_colour_refused() -> bool {
    std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
}

/// Replaces the progress line with `text`.
pub(crate) fn progress(text: &str) {
    write_err(&format!("\r\x1b[K{}", printable(text)));
}

/// Removes the progress line.
pub(crate) fn clear_progress() {
    write_err("\r\x1b[K");
}

/// Draws `text` over the `lines` lines of stdout above the cursor. The terminal truncates a line
/// that is too long: a wrapped line would count as two.
pub(crate) fn redraw(lines: usize, text: &str) {
    let up = if lines > 0 { format!("\x1b[{lines}A") } else { String::new() };
    write_out(&format!("{up}\x1b[J\x1b[?7l{}\x1b[?7h", printable(text)));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn control_characters_are_printed_as_escapes() {
        assert_eq!(printable("a\tb\nc é 字"), "a\tb\nc é 字");
        assert_eq!(printable("\x1b[31mred\x07\r"), "\\x1b[31mred\\x07\\r");
        assert_eq!(printable("\u{9b}2J \u{7f}"), "\\x9b2J \\x7f");
        assert_eq!(printable("a\u{202e}txt.exe"), "a\\u{202e}txt.exe");
    }

    proptest! {
        #[test]
        fn any_text_in_a_document_is_valid_json_and_controls_no_terminal(text in any::<String>()) {
            let document = serde_json::json!({ "text": text, &text: ["\u{9b}\u{7f}\u{202e}"] });
            let printed = escaped(&document.to_string(), json_escape).into_owned();
            prop_assert!(!printed.contains(is_wild));
            prop_assert_eq!(serde_json::from_str::<serde_json::Value>(&printed).unwrap(), document);
        }
    }
}
