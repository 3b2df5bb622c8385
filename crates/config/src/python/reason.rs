//! Why a text was refused: facts from closed sets, so that any language can phrase them.

/// Why a text was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Not Python.
    Expected {
        /// What was expected.
        expected: ExpectedToken,
        /// What was found.
        found: FoundToken,
    },
    /// Python outside the supported subset.
    Unsupported {
        /// The construct.
        what: Construct,
    },
    /// A line that starts with white space.
    Indented,
    /// A malformed number.
    BadNumber {
        /// As written.
        literal: String,
    },
    /// A string without closing quote.
    UnterminatedString,
    /// `\x`, `\u` or `\U` without a character's code.
    BadEscape,
    /// A string longer than the limit.
    TextTooLong {
        /// The limit.
        limit: usize,
    },
    /// Too many parentheses, signs or conditions inside each other.
    TooDeep {
        /// The limit.
        limit: u32,
    },
    /// A name that is neither a key nor assigned before.
    UnknownName {
        /// As written.
        name: String,
    },
    /// `/`, `//`, `%` by zero, or zero to a negative power.
    DivisionByZero,
    /// A number past 64 bits.
    Overflow,
    /// An operator that does not take these operands.
    Operands {
        /// The operator.
        operator: &'static str,
        /// Kind of the left value.
        left: ValueNoun,
        /// Kind of the right value.
        right: ValueNoun,
    },
    /// A function or a sign that does not take these arguments.
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
