//! The syntax tree of a config file: assignments of expressions.
//!
//! Operators of one level form one flat chain, so a tree is only as deep as the text's
//! nesting, which is bounded: evaluating and dropping it cannot exhaust the stack.

use super::{PythonError, TextPosition};
use crate::value::ConfigValue;

/// One `name = expression`, or `first = second = expression`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Assignment {
    /// In the order of the text.
    pub(crate) targets: Vec<(String, TextPosition)>,
    /// For `name += expression`, this holds `name + expression`.
    pub(crate) value: Expr,
    /// Where the text of the expression begins (including white space before it) and ends, in
    /// bytes counted from the end of the file.
    pub(crate) bytes_after: [usize; 2],
}

/// An expression and the position of its operator or first token.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Expr {
    pub(super) position: TextPosition,
    pub(super) kind: ExprKind,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum ExprKind {
    Value(ConfigValue),
    Name(String),
    Sign {
        sign: &'static str,
        of: Box<Expr>,
    },
    Not(Box<Expr>),
    /// Left to right: `first op value op value`. Sums and products.
    Chain {
        first: Box<Expr>,
        rest: Vec<Link>,
    },
    Power {
        base: Box<Expr>,
        exponent: Box<Expr>,
    },
    /// Each neighbouring pair: `a < b < c`.
    Compare {
        first: Box<Expr>,
        rest: Vec<Link>,
    },
    All(Vec<Expr>),
    Any(Vec<Expr>),
    If {
        then: Box<Expr>,
        condition: Box<Expr>,
        otherwise: Box<Expr>,
    },
    Call {
        function: PythonFunction,
        arguments: Vec<Expr>,
    },
    /// An f-string.
    Format(Vec<FormatPart>),
    /// An expression that the parser refused, in an assignment to a label.
    Unknown {
        error: Box<PythonError>,
        names: Vec<String>,
    },
}

/// A piece of an f-string.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum FormatPart {
    Text(String),
    /// `{value:spec}`
    Field {
        value: Expr,
        spec: String,
    },
}

/// An operator and its right operand.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Link {
    pub(super) position: TextPosition,
    pub(super) op: &'static str,
    pub(super) right: Expr,
}

/// The supported functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PythonFunction {
    Int,
    Float,
    Str,
    Min,
    Max,
    Round,
    Abs,
    JoinPath,
    Time,
    CudaIsAvailable,
    Bf16IsSupported,
}

impl PythonFunction {
    pub(super) const ALL: [Self; 11] = [
        Self::Int,
        Self::Float,
        Self::Str,
        Self::Min,
        Self::Max,
        Self::Round,
        Self::Abs,
        Self::JoinPath,
        Self::Time,
        Self::CudaIsAvailable,
        Self::Bf16IsSupported,
    ];

    pub(super) fn path(self) -> &'static str {
        match self {
            Self::Int => "int",
            Self::Float => "float",
            Self::Str => "str",
            Self::Min => "min",
            Self::Max => "max",
            Self::Round => "round",
            Self::Abs => "abs",
            Self::JoinPath => "os.path.join",
            Self::Time => "time.time",
            Self::CudaIsAvailable => "torch.cuda.is_available",
            Self::Bf16IsSupported => "torch.cuda.is_bf16_supported",
        }
    }
}

impl Expr {
    /// Calls `visit` with every name that is read, also in branches not taken.
    pub(crate) fn for_each_name<'a>(&'a self, visit: &mut impl FnMut(&'a str)) {
        match &self.kind {
            ExprKind::Value(_) => {}
            ExprKind::Name(name) => visit(name),
            ExprKind::Sign { of, .. } | ExprKind::Not(of) => of.for_each_name(visit),
            ExprKind::Chain { first, rest } | ExprKind::Compare { first, rest } => {
                first.for_each_name(visit);
                for link in rest {
                    link.right.for_each_name(visit);
                }
            }
            ExprKind::Power { base, exponent } => {
                base.for_each_name(visit);
                exponent.for_each_name(visit);
            }
            ExprKind::All(parts)
            | ExprKind::Any(parts)
            | ExprKind::Call { arguments: parts, .. } => {
                for part in parts {
                    part.for_each_name(visit);
                }
            }
            ExprKind::Format(parts) => {
                for part in parts {
                    if let FormatPart::Field { value, .. } = part {
                        value.for_each_name(visit);
                    }
                }
            }
            ExprKind::Unknown { names, .. } => names.iter().for_each(|name| visit(name)),
            ExprKind::If { then, condition, otherwise } => {
                for part in [then, condition, otherwise] {
                    part.for_each_name(visit);
                }
            }
        }
    }
}
