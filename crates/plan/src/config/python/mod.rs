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
mod string;
mod syntax;

use thiserror::Error;

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
pub struct Facts {
    /// `time.time()`.
    pub now_seconds: f64,
    /// `torch.cuda.is_available()`.
    pub cuda_is_available: bool,
    /// `torch.cuda.is_bf16_supported()`.
    pub bf16_is_supported: bool,
}

/// Line and column of a token, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Spot {
    pub(super) line: u32,
    pub(super) column: u32,
}

/// A reason and where it arose. The caller knows the file's name.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Refusal {
    pub(super) spot: Spot,
    pub(super) reason: Reason,
}

/// Why a text was not read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Reason {
    /// Not Python.
    #[error("expected {expected}, found `{found}`")]
    Expected {
        /// What could have stood here.
        expected: &'static str,
        /// What stands here.
        found: String,
    },
    /// Python, and more of it than is read here.
    #[error("{what} is not read here: a config holds assignments of simple expressions")]
    Unsupported {
        /// What was seen.
        what: String,
    },
    /// A line that starts with white space.
    #[error("unexpected indentation")]
    Indented,
    /// A number's literal with something wrong inside.
    #[error("not a number: `{literal}`")]
    BadNumber {
        /// As written.
        literal: String,
    },
    /// A string without its closing quote.
    #[error("the string does not end")]
    UnterminatedString,
    /// `\x`, `\u` or `\U` without a character's code.
    #[error("the escape does not name a character")]
    BadEscape,
    /// A string grew past any use.
    #[error("the string is longer than {limit} bytes")]
    TextTooLong {
        /// The most that is read.
        limit: usize,
    },
    /// Too many parentheses, signs or conditions inside each other.
    #[error("nested deeper than {limit} levels")]
    TooDeep {
        /// The most that is read.
        limit: u32,
    },
    /// A name that is neither a key nor assigned before.
    #[error("nothing is called `{name}` here")]
    UnknownName {
        /// As written.
        name: String,
    },
    /// `/`, `//`, `%` by zero, or zero to a negative power.
    #[error("division by zero")]
    DivisionByZero,
    /// A number past 64 bits.
    #[error("the number leaves 64 bits")]
    Overflow,
    /// An operator between values that it does not join.
    #[error("`{operator}` does not join {left} and {right}")]
    Operands {
        /// The operator.
        operator: &'static str,
        /// Kind of the left value.
        left: &'static str,
        /// Kind of the right value.
        right: &'static str,
    },
    /// A function or a sign that does not take what it was given.
    #[error("`{function}` does not take {given}")]
    Argument {
        /// The function, or a sign.
        function: &'static str,
        /// What it was given.
        given: String,
    },
}

impl Reason {
    /// The reason's name in JSON.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Unsupported { .. } => "unsupported-python",
            Self::TooDeep { .. } | Self::TextTooLong { .. } => "python-limit",
            Self::UnknownName { .. } => "unknown-name",
            Self::DivisionByZero | Self::Overflow => "arithmetic",
            Self::Operands { .. } | Self::Argument { .. } => "wrong-operand",
            Self::Expected { .. }
            | Self::Indented
            | Self::BadNumber { .. }
            | Self::UnterminatedString
            | Self::BadEscape => "python-syntax",
        }
    }
}

#[cfg(test)]
mod tests;
