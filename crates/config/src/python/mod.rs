//! Reads the Python that nanoGPT's configs use, without executing it.
//!
//! Supported: assignments of literals, f-strings, arithmetic, comparisons, conditional expressions,
//! earlier names and a handful of functions. A list, an `if` statement or a call of any other
//! function is refused with line, column and a reason: guessing would risk a wrong batch size. Only
//! labels (`out_dir`, `wandb_run_name`) may have any expression; if it is not supported, the label
//! stays unset.
//!
//! Any text gives a value or a [`Reason`]: nesting is bounded, whole numbers stay
//! in 64 bits, strings below [`TEXT_LIMIT`].

mod format;
mod reason;
mod words;
mod cursor;
mod string;
mod lexer;
mod syntax;
mod eval;
mod parser;

pub use self::reason::{Construct, ExpectedToken, FoundToken, GivenArguments, Reason, ValueNoun};
pub(super) use self::{
    eval::Scope,
    parser::{is_free, parse_expression, parse_file},
    syntax::Assignment,
};

/// How deep parentheses, signs and conditions may nest.
const DEPTH_LIMIT: u32 = 64;

/// The longest string, in bytes: a short file can double a string sixty times.
const TEXT_LIMIT: usize = 1 << 16;

/// Facts about the machine that a config file may use. The caller supplies them.
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
pub(super) struct TextPosition {
    pub(super) line: u32,
    pub(super) column: u32,
}

/// A reason and its position. The caller adds the file's name.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PythonError {
    pub(super) position: TextPosition,
    pub(super) reason: Reason,
}

#[cfg(test)]
mod tests;
