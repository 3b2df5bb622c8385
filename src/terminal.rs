//! The one file that writes to the terminal.
//!
//! Answers and nanoGPT's log lines go to stdout; the progress line, warnings and errors to
//! stderr. A reader that went away ends the program quietly: `fitgpt plan | head` is no error.

use std::io::{self, IsTerminal as _, Write as _};

use crate::words::names;

/// Prints to stdout.
pub(crate) fn out(text: &str) {
    let mut stdout = io::stdout().lock();
    let result = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    if result.is_err_and(|e| e.kind() == io::ErrorKind::BrokenPipe) {
        std::process::exit(0);
    }
}

/// Prints a line to stdout.
pub(crate) fn line(text: &str) {
    out(&format!("{text}\n"));
}

/// Prints to stderr. Where even that fails there is nobody left to tell.
pub(crate) fn err(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

/// Says something once, beside the answer.
pub(crate) fn note(text: &str) {
    err(&format!("{}{text}\n", names::note()));
}

/// Whether a person watches stderr, so that a line may be written over.
pub(crate) fn is_watched() -> bool {
    io::stderr().is_terminal()
}

/// Whether stdout goes to a terminal whose owner takes colour.
pub(crate) fn out_takes_colour() -> bool {
    io::stdout().is_terminal() && !is_colour_refused()
}

/// Whether stderr does.
pub(crate) fn err_takes_colour() -> bool {
    io::stderr().is_terminal() && !is_colour_refused()
}

/// As <https://no-color.org> asks.
fn is_colour_refused() -> bool {
    std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
}

/// Writes `text` over the progress line.
pub(crate) fn progress(text: &str) {
    err(&format!("\r\x1b[K{text}"));
}

/// Takes the progress line away.
pub(crate) fn clear_progress() {
    err("\r\x1b[K");
}

/// Whether a person watches stdout, so that a picture may be drawn over.
pub(crate) fn is_shown() -> bool {
    io::stdout().is_terminal()
}

/// Draws `text` over the `lines` lines of stdout above the cursor. A line that is too long is cut
/// by the terminal: one that wrapped would be two lines to go up.
pub(crate) fn redraw(lines: usize, text: &str) {
    let up = if lines > 0 { format!("\x1b[{lines}A") } else { String::new() };
    out(&format!("{up}\x1b[J\x1b[?7l{text}\x1b[?7h"));
}
