//! Evaluates expressions with Python's arithmetic, in 64 bits.

use std::cmp::Ordering;

use super::{
    Construct, GivenArguments, MachineFacts, PythonError, Reason, TEXT_LIMIT, ValueNoun, format,
    syntax::{Expr, ExprKind, FormatPart, Link, PythonFunction},
};
use crate::value::ConfigValue;

/// What an expression can see.
pub(crate) struct Scope<'a> {
    /// The value of a name.
    pub(crate) names: &'a dyn Fn(&str) -> Option<ConfigValue>,
    /// Facts about the machine; `None` for overrides on the command line.
    pub(crate) facts: Option<&'a MachineFacts>,
}

impl Expr {
    /// The value, or why there is none.
    pub(crate) fn evaluate(&self, scope: &Scope<'_>) -> Result<ConfigValue, PythonError> {
        let refuse = |reason| PythonError { position: self.position, reason };
        match &self.kind {
            ExprKind::Value(value) => Ok(value.clone()),
            ExprKind::Name(name) => (scope.names)(name)
                .ok_or_else(|| refuse(Reason::UnknownName { name: name.clone() })),
            ExprKind::Sign { sign, of } => signed(sign, &of.evaluate(scope)?).map_err(refuse),
            ExprKind::Not(of) => Ok((!is_true(&of.evaluate(scope)?)).into()),
            ExprKind::Chain { first, rest } => {
                let mut value = first.evaluate(scope)?;
                for Link { position, op, right } in rest {
                    let right = right.evaluate(scope)?;
                    value = binary(op, &value, &right)
                        .map_err(|reason| PythonError { position: *position, reason })?;
                }
                Ok(value)
            }
            ExprKind::Power { base, exponent } => {
                power(&base.evaluate(scope)?, &exponent.evaluate(scope)?).map_err(refuse)
            }
            ExprKind::Compare { first, rest } => {
                let mut left = first.evaluate(scope)?;
                for Link { position, op, right } in rest {
                    let right = right.evaluate(scope)?;
                    let holds = compare(op, &left, &right)
                        .map_err(|reason| PythonError { position: *position, reason })?;
                    if !holds {
                        return Ok(false.into());
                    }
                    left = right;
                }
                Ok(true.into())
            }
            ExprKind::All(parts) => first_that(parts, scope, |value| !is_true(value)),
            ExprKind::Any(parts) => first_that(parts, scope, is_true),
            ExprKind::If { then, condition, otherwise } => {
                let branch = if is_true(&condition.evaluate(scope)?) { then } else { otherwise };
                branch.evaluate(scope)
            }
            ExprKind::Call { function, arguments } => {
                let values: Vec<ConfigValue> =
                    arguments.iter().map(|a| a.evaluate(scope)).collect::<Result<_, _>>()?;
                call(*function, &values, scope.facts).map_err(refuse)
            }
            ExprKind::Format(parts) => {
                let mut text = String::new();
                for part in parts {
                    match part {
                        FormatPart::Text(part) => text.push_str(part),
                        FormatPart::Field { value, spec } => {
                            let value =
                                value.evaluate(scope).map_err(|error| refuse(error.reason))?;
                            let formatted = format::formatted(&value, spec);
                            let unsupported = Reason::Unsupported { what: Construct::FString };
                            text.push_str(&formatted.ok_or_else(|| refuse(unsupported))?);
                        }
                    }
                    if text.len() > TEXT_LIMIT {
                        return Err(refuse(Reason::TextTooLong { limit: TEXT_LIMIT }));
                    }
                }
                Ok(text.into())
            }
            ExprKind::Unknown { error, .. } => Err((**error).clone()),
        }
    }
}

/// `and` and `or` return the operand that decided the result.
fn first_that(
    parts: &[Expr],
    scope: &Scope<'_>,
    decides: impl Fn(&ConfigValue) -> bool,
) -> Result<ConfigValue, PythonError> {
    let mut value = ConfigValue::None;
    for part in parts {
        value = part.evaluate(scope)?;
        if decides(&value) {
            break;
        }
    }
    Ok(value)
}

fn is_true(value: &ConfigValue) -> bool {
    match value {
        ConfigValue::None => false,
        ConfigValue::Bool(value) => *value,
        ConfigValue::Int(value) => *value != 0,
        ConfigValue::Float(value) => *value != 0.0,
        ConfigValue::Str(value) => !value.is_empty(),
    }
}

/// Two numbers, converted as Python does: `True` counts as 1, and an int paired with a float becomes
/// a float.
enum Pair {
    Ints(i64, i64),
    Floats(f64, f64),
}

fn pair(left: &ConfigValue, right: &ConfigValue) -> Option<Pair> {
    match (whole(left), whole(right)) {
        (Some(left), Some(right)) => Some(Pair::Ints(left, right)),
        _ => Some(Pair::Floats(real(left)?, real(right)?)),
    }
}

fn whole(value: &ConfigValue) -> Option<i64> {
    match value {
        ConfigValue::Bool(value) => Some((*value).into()),
        ConfigValue::Int(value) => Some(*value),
        ConfigValue::None | ConfigValue::Float(_) | ConfigValue::Str(_) => None,
    }
}

fn real(value: &ConfigValue) -> Option<f64> {
    if let ConfigValue::Float(value) = value {
        return Some(*value);
    }
    whole(value).map(|value| value as f64)
}

fn signed(sign: &'static str, value: &ConfigValue) -> Result<ConfigValue, Reason> {
    let is_minus = sign == "-";
    match (whole(value), value) {
        (Some(value), _) if is_minus => {
            value.checked_neg().map(ConfigValue::Int).ok_or(Reason::Overflow)
        }
        (Some(value), _) => Ok(value.into()),
        (None, ConfigValue::Float(value)) => Ok(if is_minus { -value } else { *value }.into()),
        (None, other) => {
            Err(Reason::Argument { function: sign, given: GivenArguments::One(other.noun()) })
        }
    }
}

fn binary(
    op: &'static str,
    left: &ConfigValue,
    right: &ConfigValue,
) -> Result<ConfigValue, Reason> {
    if let ("+", ConfigValue::Str(left), ConfigValue::Str(right)) = (op, left, right) {
        if left.len() + right.len() > TEXT_LIMIT {
            return Err(Reason::TextTooLong { limit: TEXT_LIMIT });
        }
        return Ok(format!("{left}{right}").into());
    }
    let operands = || Reason::Operands { operator: op, left: left.noun(), right: right.noun() };
    let pair = pair(left, right).ok_or_else(operands)?;
    let is_by_zero = match pair {
        Pair::Ints(_, right) => right == 0,
        Pair::Floats(_, right) => right == 0.0,
    };
    if is_by_zero && matches!(op, "/" | "//" | "%") {
        return Err(Reason::DivisionByZero);
    }
    match (op, pair) {
        ("/", Pair::Ints(left, right)) => Ok((left as f64 / right as f64).into()),
        (_, Pair::Ints(left, right)) => match op {
            "+" => left.checked_add(right),
            "-" => left.checked_sub(right),
            "*" => left.checked_mul(right),
            "//" => floor_div(left, right),
            "%" => floor_div(left, right).map(|q| left.wrapping_sub(q.wrapping_mul(right))),
            _ => return Err(operands()),
        }
        .map(ConfigValue::Int)
        .ok_or(Reason::Overflow),
        (_, Pair::Floats(left, right)) => Ok(match op {
            "+" => left + right,
            "-" => left - right,
            "*" => left * right,
            "/" => left / right,
            "//" => (left / right).floor(),
            "%" => floor_rem(left, right),
            _ => return Err(operands()),
        }
        .into()),
    }
}

/// Rounds towards minus infinity, as Python does. `None` for `i64::MIN // -1`.
fn floor_div(left: i64, right: i64) -> Option<i64> {
    let quotient = left.checked_div(right)?;
    let is_inexact = left.checked_rem(right)? != 0;
    Some(if is_inexact && (left < 0) != (right < 0) { quotient - 1 } else { quotient })
}

/// The remainder with the divisor's sign.
fn floor_rem(left: f64, right: f64) -> f64 {
    let remainder = left % right;
    if remainder != 0.0 && (remainder < 0.0) != (right < 0.0) {
        remainder + right
    } else {
        remainder
    }
}

fn power(base: &ConfigValue, exponent: &ConfigValue) -> Result<ConfigValue, Reason> {
    let operands =
        || Reason::Operands { operator: "**", left: base.noun(), right: exponent.noun() };
    let (base, exponent) = match pair(base, exponent).ok_or_else(operands)? {
        Pair::Ints(base, exponent) if exponent >= 0 => {
            // No other base has a power above 63 that fits 64 bits.
            let exponent = match base {
                0 | 1 => exponent.min(1),
                -1 => exponent % 2,
                _ => exponent,
            };
            let exponent = u32::try_from(exponent).map_err(|_| Reason::Overflow)?;
            return base.checked_pow(exponent).map(ConfigValue::Int).ok_or(Reason::Overflow);
        }
        Pair::Ints(base, exponent) => (base as f64, exponent as f64),
        Pair::Floats(base, exponent) => (base, exponent),
    };
    if base == 0.0 && exponent < 0.0 {
        return Err(Reason::DivisionByZero);
    }
    if base < 0.0 && base.is_finite() && exponent.is_finite() && exponent.fract() != 0.0 {
        let given = GivenArguments::NegativeBase;
        return Err(Reason::Argument { function: "**", given });
    }
    let result = base.powf(exponent);
    if result.is_infinite() && base.is_finite() && exponent.is_finite() {
        return Err(Reason::Overflow);
    }
    Ok(result.into())
}

fn compare(op: &'static str, left: &ConfigValue, right: &ConfigValue) -> Result<bool, Reason> {
    let order = match (left, right) {
        (ConfigValue::Str(left), ConfigValue::Str(right)) => Some(left.cmp(right)),
        _ => match pair(left, right) {
            Some(Pair::Ints(left, right)) => Some(left.cmp(&right)),
            Some(Pair::Floats(left, right)) => left.partial_cmp(&right),
            None => {
                // Values of different kinds are unequal and not ordered.
                let is_equal = *left == ConfigValue::None && *right == ConfigValue::None;
                return match op {
                    "==" => Ok(is_equal),
                    "!=" => Ok(!is_equal),
                    operator => {
                        let (left, right) = (left.noun(), right.noun());
                        Err(Reason::Operands { operator, left, right })
                    }
                };
            }
        },
    };
    Ok(match op {
        "==" => order == Some(Ordering::Equal),
        "!=" => order != Some(Ordering::Equal),
        "<" => order == Some(Ordering::Less),
        ">" => order == Some(Ordering::Greater),
        "<=" => matches!(order, Some(Ordering::Less | Ordering::Equal)),
        _ => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
    })
}

fn call(
    function: PythonFunction,
    values: &[ConfigValue],
    facts: Option<&MachineFacts>,
) -> Result<ConfigValue, Reason> {
    let given = || Reason::Argument {
        function: function.path(),
        given: match values {
            [] => GivenArguments::Nothing,
            [only] => GivenArguments::One(only.noun()),
            several => GivenArguments::Several(several.len()),
        },
    };
    match (function, values) {
        (PythonFunction::Int, [value]) => to_int(value)?.ok_or_else(given).map(ConfigValue::Int),
        (PythonFunction::Float, [value]) => {
            to_float(value).ok_or_else(given).map(ConfigValue::Float)
        }
        (PythonFunction::Str, [value]) => Ok(format::text(value).into()),
        (PythonFunction::JoinPath, [_, ..]) => {
            let mut path = String::new();
            for value in values {
                let ConfigValue::Str(part) = value else { return Err(given()) };
                if part.starts_with('/') {
                    path.clear();
                } else if !path.is_empty() && !path.ends_with('/') {
                    path.push('/');
                }
                path.push_str(part);
                if path.len() > TEXT_LIMIT {
                    return Err(Reason::TextTooLong { limit: TEXT_LIMIT });
                }
            }
            Ok(path.into())
        }
        (PythonFunction::Abs, [value]) => match (whole(value), real(value)) {
            (Some(value), _) => value.checked_abs().map(ConfigValue::Int).ok_or(Reason::Overflow),
            (None, Some(value)) => Ok(value.abs().into()),
            (None, None) => Err(given()),
        },
        (PythonFunction::Min, [first, rest @ ..]) if !rest.is_empty() => extreme("<", first, rest),
        (PythonFunction::Max, [first, rest @ ..]) if !rest.is_empty() => extreme(">", first, rest),
        (PythonFunction::Round, [value]) => match (whole(value), real(value)) {
            (Some(value), _) => Ok(value.into()),
            (None, Some(value)) => float_to_int(value.round_ties_even()).map(ConfigValue::Int),
            (None, None) => Err(given()),
        },
        (PythonFunction::Round, [value, ConfigValue::Int(digits)]) => {
            // Rust rounds the exact decimal value to even when it prints, which is Python's rule.
            let digits = usize::try_from(*digits).ok().filter(|d| *d <= 400).ok_or_else(given)?;
            match (whole(value), real(value)) {
                (Some(value), _) => Ok(value.into()),
                (None, Some(value)) => {
                    let rounded = format!("{value:.digits$}").parse();
                    rounded.map(ConfigValue::Float).map_err(|_| given())
                }
                (None, None) => Err(given()),
            }
        }
        (PythonFunction::Time, []) => {
            facts.map(|f| f.now_seconds.into()).ok_or_else(on_command_line)
        }
        (PythonFunction::CudaIsAvailable, []) => {
            facts.map(|f| f.cuda_is_available.into()).ok_or_else(on_command_line)
        }
        (PythonFunction::Bf16IsSupported, []) => {
            facts.map(|f| f.bf16_is_supported.into()).ok_or_else(on_command_line)
        }
        _ => Err(given()),
    }
}

fn on_command_line() -> Reason {
    Reason::Unsupported { what: Construct::Machine }
}

fn extreme(
    op: &'static str,
    first: &ConfigValue,
    rest: &[ConfigValue],
) -> Result<ConfigValue, Reason> {
    let mut best = first;
    for value in rest {
        if compare(op, value, best)? {
            best = value;
        }
    }
    Ok(best.clone())
}

/// `None` if Python raises for the value; an error if the result overflows 64 bits.
fn to_int(value: &ConfigValue) -> Result<Option<i64>, Reason> {
    match value {
        ConfigValue::Float(value) if value.is_finite() => float_to_int(value.trunc()).map(Some),
        ConfigValue::Str(text) => Ok(without_underscores(text).and_then(|text| text.parse().ok())),
        ConfigValue::None | ConfigValue::Bool(_) | ConfigValue::Int(_) | ConfigValue::Float(_) => {
            Ok(whole(value))
        }
    }
}

fn to_float(value: &ConfigValue) -> Option<f64> {
    if let ConfigValue::Str(text) = value {
        return without_underscores(text)?.parse().ok();
    }
    real(value)
}

/// A number's text without the underscores between its digits.
fn without_underscores(text: &str) -> Option<String> {
    let text = text.trim();
    let bytes = text.as_bytes();
    let is_digit = |i: Option<usize>| i.and_then(|i| bytes.get(i)).is_some_and(u8::is_ascii_digit);
    let is_allowed = |(i, b): (usize, &u8)| {
        *b != b'_' || (is_digit(i.checked_sub(1)) && is_digit(i.checked_add(1)))
    };
    bytes.iter().enumerate().all(is_allowed).then(|| text.replace('_', ""))
}

fn float_to_int(value: f64) -> Result<i64, Reason> {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0; // 2^63
    if (-LIMIT..LIMIT).contains(&value) { Ok(value as i64) } else { Err(Reason::Overflow) }
}

impl ConfigValue {
    /// The noun that errors use for this kind.
    fn noun(&self) -> ValueNoun {
        match self {
            Self::None => ValueNoun::None,
            Self::Bool(_) => ValueNoun::Bool,
            Self::Int(_) => ValueNoun::Int,
            Self::Float(_) => ValueNoun::Float,
            Self::Str(_) => ValueNoun::Str,
        }
    }
}
