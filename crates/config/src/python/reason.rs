//! Why a text was refused: facts from closed sets, so that any language can phrase them.

use std::fmt;

use thiserror::Error;

/// Why a text was refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Reason {
    /// Not Python.
    #[error("expected {expected}, found `{found}`")]
    Expected {
        /// What was expected.
        expected: ExpectedToken,
        /// What was found.
        found: FoundToken,
    },
    /// Python outside the supported subset.
    #[error("{what} is not supported: a config may contain only assignments of simple expressions")]
    Unsupported {
        /// The construct.
        what: Construct,
    },
    /// A line that starts with white space.
    #[error("unexpected indentation")]
    Indented,
    /// A malformed number.
    #[error("not a number: `{literal}`")]
    BadNumber {
        /// As written.
        literal: String,
    },
    /// A string without closing quote.
    #[error("unterminated string")]
    UnterminatedString,
    /// `\x`, `\u` or `\U` without a character's code.
    #[error("invalid escape sequence")]
    BadEscape,
    /// A string longer than the limit.
    #[error("the string is longer than {limit} bytes")]
    TextTooLong {
        /// The limit.
        limit: usize,
    },
    /// Too many parentheses, signs or conditions inside each other.
    #[error("nested deeper than {limit} levels")]
    TooDeep {
        /// The limit.
        limit: u32,
    },
    /// A name that is neither a key nor assigned before.
    #[error("unknown name `{name}`")]
    UnknownName {
        /// As written.
        name: String,
    },
    /// `/`, `//`, `%` by zero, or zero to a negative power.
    #[error("division by zero")]
    DivisionByZero,
    /// A number past 64 bits.
    #[error("the number overflows 64 bits")]
    Overflow,
    /// An operator that does not take these operands.
    #[error("`{operator}` does not take {left} and {right}")]
    Operands {
        /// The operator.
        operator: &'static str,
        /// Kind of the left value.
        left: ValueNoun,
        /// Kind of the right value.
        right: ValueNoun,
    },
    /// A function or a sign that does not take these arguments.
    #[error("`{function}` does not take {given}")]
    Argument {
        /// The function, or a sign.
        function: &'static str,
        /// What it was given.
        given: GivenArguments,
    },
}

impl Reason {
    /// The reason's name in JSON.
    pub(crate) fn kind(&self) -> &'static str {
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

/// What the parser expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpectedToken {
    /// A literal, a name, a call.
    Value,
    /// Anything that has a value.
    Expression,
    /// Only one expression.
    OneExpression,
    /// The end of the line.
    EndOfLine,
    /// The end of the line after a backslash.
    EndAfterBackslash,
    /// The line that a backslash continues.
    LineAfterBackslash,
    /// The target of an assignment.
    NameBeforeEquals,
    /// `x +=`.
    NameAndOperator,
    /// `+=`, `-=` and so on.
    Operator,
    /// A name.
    Name,
    /// The rest of `a.b`.
    NameAfterDot,
    /// This text: `)`, `else`.
    Text(&'static str),
}

impl fmt::Display for ExpectedToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Value => "a value",
            Self::Expression => "an expression",
            Self::OneExpression => "one expression",
            Self::EndOfLine => "the end of the line",
            Self::EndAfterBackslash => "a line break after `\\`",
            Self::LineAfterBackslash => "a line after `\\`",
            Self::NameBeforeEquals => "a name before `=`",
            Self::NameAndOperator => "a name and an operator",
            Self::Operator => "an operator",
            Self::Name => "a name",
            Self::NameAfterDot => "a name after `.`",
            Self::Text(text) => return write!(f, "`{text}`"),
        })
    }
}

/// What the parser found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FoundToken {
    /// A token, as written.
    Text(String),
    /// The line ends.
    EndOfLine,
    /// The text ends.
    EndOfFile,
}

impl fmt::Display for FoundToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Text(text) => text,
            Self::EndOfLine => "end of line",
            Self::EndOfFile => "end of file",
        })
    }
}

/// Python outside the supported subset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Construct {
    /// `for`, `def`, …
    Statement(String),
    /// `x: int`.
    Annotation,
    /// `a, b = …`.
    TupleAssignment,
    /// A value that is not assigned.
    Unassigned,
    /// `1, 2`.
    Tuple,
    /// `.x` after a value.
    Attribute,
    /// `a.b`.
    AttributePath(String),
    /// `x[0]`.
    Index,
    /// `(…)` after a value.
    Call,
    /// `a.b(…)`.
    CallOf(String),
    /// `<<`, `in`, …
    Operator(String),
    /// `for` inside an expression.
    Comprehension,
    /// `lambda`.
    Lambda,
    /// `[…]`.
    List,
    /// `{…}`.
    DictOrSet,
    /// `~`, `...`.
    Sign(&'static str),
    /// `f(x=1)`.
    ArgumentByName,
    /// `b'…'`.
    Bytes,
    /// A string prefix that Python does not have.
    StringPrefix,
    /// `f'{x}'`.
    FString,
    /// `\N{…}`.
    CharacterByName,
    /// `time.time()` and the like outside a config file.
    Machine,
}

impl fmt::Display for Construct {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Statement(word) => return write!(f, "a `{word}` statement"),
            Self::Annotation => "an annotation",
            Self::TupleAssignment => "an assignment to a tuple",
            Self::Unassigned => "an expression without an assignment",
            Self::Tuple => "a tuple",
            Self::Attribute => "an attribute",
            Self::AttributePath(path) => return write!(f, "the attribute `{path}`"),
            Self::Index => "an index",
            Self::Call => "a call",
            Self::CallOf(path) => return write!(f, "the call `{path}(…)`"),
            Self::Operator(operator) => return write!(f, "the operator `{operator}`"),
            Self::Comprehension => "a comprehension",
            Self::Lambda => "a lambda",
            Self::List => "a list",
            Self::DictOrSet => "a dict or a set",
            Self::Sign(sign) => return write!(f, "`{sign}`"),
            Self::ArgumentByName => "a keyword argument",
            Self::Bytes => "a bytes literal",
            Self::StringPrefix => "a string with this prefix",
            Self::FString => "an f-string with placeholders",
            Self::CharacterByName => "a named character",
            Self::Machine => "a query about the machine outside a config file",
        })
    }
}

/// A kind of value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueNoun {
    /// `None`.
    None,
    /// `True` or `False`.
    Bool,
    /// A whole number.
    Int,
    /// A number with a point.
    Float,
    /// A string.
    Str,
}

impl fmt::Display for ValueNoun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "None",
            Self::Bool => "a bool",
            Self::Int => "an int",
            Self::Float => "a float",
            Self::Str => "a string",
        })
    }
}

/// What a function was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GivenArguments {
    /// No value.
    Nothing,
    /// One.
    One(ValueNoun),
    /// This many.
    Several(usize),
    /// `(-2) ** 0.5`, which is not real.
    NegativeBase,
}

impl fmt::Display for GivenArguments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("an empty argument list"),
            Self::One(noun) => noun.fmt(f),
            Self::Several(count) => write!(f, "{count} arguments"),
            Self::NegativeBase => f.write_str("a negative base with a fractional exponent"),
        }
    }
}
