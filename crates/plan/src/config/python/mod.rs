//! Python as nanoGPT's configs use it, read and never executed.
//!
//! Assignments of literals, arithmetic, comparisons, conditional expressions, earlier names
//! and a handful of functions. A list, an `if` statement or a call of anything else is
//! refused with its line, its column and a reason: guessing what a program would have done
//! is how a run gets the wrong batch size.
//!
//! Any text whatsoever ends in a value or a [`Reason`]: nesting is bounded, whole numbers stay
//! in 64 bits, strings below [`TEXT_LIMIT`].

mod eval;
mod lexer;
mod parser;
mod reason;
mod string;
mod syntax;

pub use self::reason::{Construct, ExpectedToken, FoundToken, GivenArguments, Reason, ValueNoun};
pub(super) use self::{
    eval::Scope,
    parser::{parse_expression, parse_file},
    syntax::Assignment,
};

/// How deep parentheses, signs and conditions may nest.
const DEPTH_LIMIT: u32 = 64;

/// The longest string, in bytes. Doubling a string sixty times is a short file.
const TEXT_LIMIT: usize = 1 << 16;

/// What a config file may ask of the machine. The caller knows; this room does no I/O.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MachineFacts {
    /// `time.time()`.
    pub now_seconds: f64,
    /// `torch.cuda.is_available()`.
    pub cuda_is_available: bool,
    /// `torch.cuda.is_bf16_supported()`.
    pub bf16_is_supported: bool,
}

/// Line and column of a token, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Position {
    pub(super) line: u32,
    pub(super) column: u32,
}

/// A reason and where it arose. The caller knows the file's name.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PythonError {
    pub(super) spot: Position,
    pub(super) reason: Reason,
}

#[cfg(test)]
mod tests;
