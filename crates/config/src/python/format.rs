//! The text of a value, plain and in the fields of f-strings.

use crate::value::ConfigValue;

/// What Python's `str` returns.
pub(super) fn text(value: &ConfigValue) -> String {
    if let ConfigValue::Str(text) = value { text.clone().into_owned() } else { value.to_string() }
}

/// A value in the field of an f-string; `None` if the specification is not supported. Supported:
/// an empty one, and the forms `d`, `04d`, `.2f` and `.1e`.
pub(super) fn formatted(value: &ConfigValue, spec: &str) -> Option<String> {
    if spec.is_empty() {
        return Some(text(value));
    }
    let kind = spec.chars().next_back()?;
    let number = &spec[..spec.len() - kind.len_utf8()];
    match (kind, value) {
        ('d', ConfigValue::Int(value)) => {
            let width = width(number)?;
            // Like Python, Rust puts the zeros after the sign.
            let is_padded = number.starts_with('0');
            Some(if is_padded { format!("{value:0width$}") } else { format!("{value:width$}") })
        }
        ('f' | 'e', ConfigValue::Int(_) | ConfigValue::Float(_)) => {
            let digits = width(number.strip_prefix('.')?)?;
            let value = match value {
                ConfigValue::Float(value) => *value,
                ConfigValue::Int(value) => *value as f64,
                ConfigValue::None | ConfigValue::Bool(_) | ConfigValue::Str(_) => return None,
            };
            if !value.is_finite() {
                return None;
            }
            if kind == 'f' {
                return Some(format!("{value:.digits$}"));
            }
            let text = format!("{value:.digits$e}");
            let (mantissa, exponent) = text.split_once('e')?;
            let exponent: i32 = exponent.parse().ok()?;
            let sign = if exponent < 0 { '-' } else { '+' };
            Some(format!("{mantissa}e{sign}{:02}", exponent.unsigned_abs()))
        }
        _ => None,
    }
}

/// A number of at most two digits; 0 if the text is empty.
fn width(text: &str) -> Option<usize> {
    if text.is_empty() {
        return Some(0);
    }
    let is_number = text.len() <= 2 && text.bytes().all(|b| b.is_ascii_digit());
    if is_number { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_formatted_as_in_python() {
        // Each right side was printed by Python.
        let cases: [(ConfigValue, &str, &str); 10] = [
            ("a b".into(), "", "a b"),
            (12_i64.into(), "", "12"),
            (true.into(), "", "True"),
            (6e-4.into(), "", "0.0006"),
            (6e-5.into(), "", "6e-05"),
            (6e-4.into(), ".0e", "6e-04"),
            (1234.5.into(), ".2f", "1234.50"),
            (12_i64.into(), "05d", "00012"),
            (12_i64.into(), "d", "12"),
            ((-3_i64).into(), "05d", "-0003"),
        ];
        for (value, spec, expected) in cases {
            assert_eq!(formatted(&value, spec).as_deref(), Some(expected), "{value}:{spec}");
        }
        for spec in ["x", ">10", ",", ".2%", "99999d", ".f3"] {
            assert_eq!(formatted(&12_i64.into(), spec), None, "{spec}");
        }
    }
}
